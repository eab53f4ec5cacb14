import pytest

from inferometer.base.errors import UsageError
from inferometer.base.slo import parse_slo
from inferometer.scenario.spec import checked_scenario

STEPS = {"plan": {"prompt": "x"}}


def scenario(task, **more):
    return checked_scenario({"server": "h:1", "classes": {"c": {"model": "m", "task": task, **more}}}, "it")


@pytest.mark.parametrize(
    ("task", "more", "words"),
    [
        ({}, {}, "classes.c.task: needs either steps or replay"),
        ({"steps": STEPS, "replay": "f"}, {}, "needs either steps or replay"),
        ({"steps": STEPS, "answers": "recorded"}, {}, "answers requires replay"),
        ({"steps": STEPS}, {"sessions": 4}, "has task and sessions; give only one of them"),
        ({"steps": STEPS}, {"flow": [{"call": "m"}]}, "has task and flow"),
        ({"steps": {"a b": {"prompt": "x"}}}, {}, "steps.a b"),
        ({"steps": {"a": {"max-tokens": 3}}}, {}, "steps.a.prompt: required, unless"),
        ({"python": "f.py:f"}, {}, "python requires steps"),
        ({"python": "f.py", "steps": {"a": {}}}, {}, "task.python: 'f.py' is not a function"),
        ({"python": "f.py:f", "steps": {"a": {"prompt": "x"}}}, {}, "steps.a.prompt: set by the function"),
        ({"python": "f.py:f", "steps": {"a": {"for": "b"}}}, {}, "steps.a.for: set by the function"),
        (
            {"steps": {"a": {"prompt": "x", "pause": "soon"}}},
            {},
            "steps.a.pause: 'soon' is not a pause; write 300ms",
        ),
        ({"steps": {"a": {"prompt": "x", "pause": "uniform(3s, 1s)"}}}, {}, r"write uniform\(1s, 3s\)"),
        (
            {"steps": {"a": {"prompt": "x", "pause": "lognormal(1s, 9)"}}},
            {},
            "'9' in 'lognormal.*' is not a spread",
        ),
        ({"steps": {"a": {"prompt": "x", "pause": []}}}, {}, "list of recorded times is empty"),
        ({"steps": {"a": {"prompt": "x", "pause": "-1s"}}}, {}, "is not a pause"),
        ({"steps": {"a": {"promt": "x"}}}, {}, "steps.a.promt is not a known key; did you mean 'prompt'?"),
        (
            {"steps": {"a": {"prompt": "{{b}}"}, "b": {"prompt": "{{a}}"}}},
            {},
            "waits for itself: a -> b -> a",
        ),
        (
            {"steps": {"a": {"prompt": "{{plam}}"}, "plan": {"prompt": "x", "after": ["b", "z"]}}},
            {},
            "it has 3 mistakes: .*did you mean 'plan'.*after.0.*after.1",
        ),
    ],
)
def test_mistakes_are_reported_with_their_place(task, more, words):
    with pytest.raises(UsageError, match=words):
        scenario(task, **more)


def test_mistakes_in_values_and_in_the_graph_are_listed_together():
    steps = {
        "plan": {"promt": "x"},
        "a": {"prompt": "{{plam}}", "repeat": 0},
        "b": {"prompt": "x", "after": "q"},
    }
    with pytest.raises(UsageError) as caught:
        scenario({"steps": steps})
    said = str(caught.value)
    for words in ("plan.promt is not a known key", "a.repeat", "{{plam}} is not a step", "'q' is not a step"):
        assert words in said


@pytest.mark.parametrize(
    ("written", "kind", "first"),
    [
        ("300ms", "fixed", 3e8),
        (2, "fixed", 2e9),
        ("uniform(1s, 3s)", "uniform", 1e9),
        ("exponential(2s)", "exponential", 2e9),
        ("lognormal(2s, 0.5)", "lognormal", 2e9),
        ([1, "200ms"], "recorded", 0),
    ],
)
def test_pauses_are_read_and_written(written, kind, first):
    found = scenario({"steps": {"a": {"prompt": "x", "pause": written}}})
    pause = found.classes["c"].task.steps["a"].pause
    assert (pause.kind, pause.first) == (kind, first)
    again = checked_scenario(found.model_dump(mode="json", by_alias=True, exclude_defaults=True), "it")
    assert again.classes["c"].task == found.classes["c"].task


def test_an_slo_on_tasks_needs_tasks():
    term = parse_slo("task p95<30s, ttft p99<1s", has_tasks=True).terms[0]
    assert (term.label, term.limit, term.percentile) == ("task p95", 30e9, 95)
    assert parse_slo("task<30s", has_tasks=True).terms[0].label == "task"
    with pytest.raises(UsageError, match="limits the time of a task, but this load has no tasks"):
        parse_slo("task p95<30s")
