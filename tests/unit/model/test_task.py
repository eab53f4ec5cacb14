import pytest

from inferometer.base.drawn_times import DrawnTime
from inferometer.base.units import NS_PER_MS
from inferometer.model.task import Answers, Place, Retry, TaskStep, expanded, mistakes
from tests.support.task_graphs import PAUSES, calls_of, random_steps

MS = NS_PER_MS


def said(*steps):
    return [f"{where}: {words}" for where, words in mistakes(steps)]


def test_a_fan_out_is_joined_by_the_step_that_waits_for_it():
    graph = expanded(
        (
            TaskStep("plan", "plan {{data}}"),
            TaskStep("search", "{{copy}}: {{plan}}", repeat=3),
            TaskStep("read", "read {{search}}", each="search", turns=2),
            TaskStep("answer", "{{read}}", context="plan"),
        )
    )
    after = [node.after for node in graph.nodes]
    assert after == [(), (0,), (0,), (0,), (1,), (4,), (2,), (6,), (3,), (8,), (0, 5, 7, 9)]
    assert [node.turn for node in graph.nodes] == [1, 2, 2, 2, 3, 4, 3, 4, 3, 4, 5]
    assert [node.context for node in graph.nodes] == [-1] * 5 + [4, -1, 6, -1, 8, 0]
    assert graph.nodes[0].messages[0].parts == ("plan ", Place("data"))
    assert graph.nodes[2].messages[0].parts == ("2", ": ", Answers((0,)))
    assert graph.nodes[-1].messages[0].parts == (Answers((5, 7, 9)),)
    assert graph.roots == (0,)
    assert graph.followers[0] == (1, 2, 3, 10)


def test_steps_may_be_written_in_any_order():
    steps = (TaskStep("last", "{{first}}"), TaskStep("first", "x"))
    graph = expanded(steps)
    assert [(node.kind, node.after) for node in graph.nodes] == [(1, ()), (0, (0,))]


def test_a_limit_of_turns_removes_later_calls():
    steps = (
        TaskStep("loop", "go on", turns=5),
        TaskStep("end", "{{loop}}"),
        TaskStep("other", "x", repeat=2),
    )
    graph = expanded(steps, most_turns=3)
    assert [node.turn for node in graph.nodes] == [1, 2, 3, 1, 1]
    assert graph.is_cut
    assert not expanded(steps, most_turns=6).is_cut
    assert expanded(steps, most_turns=6) == expanded(steps)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (
            (TaskStep("a", "{{plam}}"), TaskStep("plan", "x")),
            ["a.prompt: {{plam}} is not a step; did you mean 'plan'?"],
        ),
        ((TaskStep("a", "x", after=("a",)),), ["a.after: 'a' is the step itself"]),
        ((TaskStep("a", "{{}}"),), ["a.prompt: {{}} is not a step; the steps are a"]),
        (
            (TaskStep("a", "x", after=("b", "zzz")), TaskStep("b", "{{dat}}", each="qqq")),
            [
                "a.after.1: 'zzz' is not a step; the steps are a, b",
                "b.for: 'qqq' is not a step; the steps are a, b",
                "b.prompt: {{dat}} is not a step; did you mean 'data'?",
            ],
        ),
        ((TaskStep("data", "x"),), ["data: 'data' is reserved for templates; give the step another name"]),
        (
            (
                TaskStep("x", "x"),
                TaskStep("a", "{{c}}"),
                TaskStep("b", "x", after=("a",)),
                TaskStep("c", "x", each="b"),
            ),
            ["a: 'a' waits for itself: a -> c -> b -> a"],
        ),
        (
            (TaskStep("a", "x", repeat=4), TaskStep("b", "x", context="a")),
            ["b.continue: 'a' has 4 copies here, and a call continues one conversation; add for: a"],
        ),
        (
            (TaskStep("a", "x", repeat=100), TaskStep("b", "x", each="a", repeat=100)),
            ["b: the task has more than 4,096 calls, of which 'b' makes 10,000"],
        ),
    ],
)
def test_all_mistakes_are_found(steps, words):
    assert said(*steps) == words


def test_random_steps_expand_to_graphs_that_are_sorted():
    for seed in range(30):
        steps = random_steps(seed)
        graph = expanded(steps)
        assert len(graph.nodes) == calls_of(steps)
        for number, node in enumerate(graph.nodes):
            assert all(earlier < number for earlier in node.after)
            assert node.context == -1 or node.context in node.after
            assert node.turn == 1 + max((graph.nodes[each].turn for each in node.after), default=0)


@pytest.mark.parametrize("pause", PAUSES)
def test_pauses_depend_on_task_and_node_alone(pause):
    drawn = [pause.draw_ns(1, task, node) for task in range(200) for node in range(5)]
    again = [pause.draw_ns(1, task, node) for task in range(199, -1, -1) for node in range(4, -1, -1)]
    assert drawn == again[::-1]
    assert min(drawn) >= 0
    mean = sum(drawn) / len(drawn)
    known = {"fixed": pause.first, "uniform": 3.5 * MS, "exponential": 3 * MS, "lognormal": 3.4 * MS}
    wanted = known.get(pause.kind, 8 / 3 * MS)
    assert mean == pytest.approx(wanted, rel=0.15)
    assert (len(set(drawn)) > 900) == (pause.kind in ("uniform", "exponential", "lognormal"))


def test_waits_before_retries_grow():
    retry = Retry(4, 100, 3.0)
    assert [retry.wait_after_ns(attempt) for attempt in (1, 2, 3)] == [100, 300, 900]
    assert DrawnTime().draw_ns(0, 0, 0) == 0
