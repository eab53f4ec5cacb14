"""Recordings of tasks: which calls wait for which, and what they carry."""

import json

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_MS, NS_PER_S
from inferometer.dataset.task_recordings import RecordingRules, read_recording
from inferometer.dataset.tokens import WordCounter


def read(document, **rules):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_recording("it.json", data, RecordingRules(WordCounter(), **rules))


def texts(node):
    return [(message.role, *message.parts) for message in node.messages]


def lines(*rows):
    return "\n".join(map(json.dumps, rows)).encode()


CHAT = {
    "id": "one",
    "conversations": [
        {"from": "system", "value": "be brief"},
        {"from": "human", "value": "hello"},
        {"from": "gpt", "value": "hi there friend"},
        {"from": "human", "value": "bye"},
    ],
}


@pytest.mark.parametrize("answers", ["live", "recorded"])
def test_a_conversation_is_a_chain_of_calls(answers):
    found = read([CHAT, {"messages": [{"role": "assistant", "content": "nothing asked"}]}], answers=answers)
    (graph,) = found.graphs
    first, second = graph.nodes
    assert (texts(first), texts(second)) == ([("user", "hello")], [("user", "bye")])
    assert (first.context, second.context, second.after, second.turn) == (-1, 0, (0,), 2)
    assert (first.system, second.system, first.max_tokens, second.max_tokens) == (
        "be brief",
        "be brief",
        3,
        0,
    )
    assert first.answer == (None if answers == "live" else "hi there friend")
    assert second.answer is None
    assert (graph.name, found.kinds) == ("one", ("turn",))
    assert f"carry {answers} answers" in found.findings[0]


@pytest.mark.parametrize(
    ("lengths", "chosen", "added"),
    [("auto", "cumulative", [10, 5]), ("delta", "delta", [10, 20]), ("cumulative", "cumulative", [10, 5])],
)
def test_the_input_lengths_of_sessions_are_cumulative_or_not(lengths, chosen, added):
    rows = [
        {"session_id": "a", "input_length": 10, "output_length": 5, "timestamp": 0},
        {"session_id": "b", "input_length": 7, "output_length": 1},
        {"session_id": "a", "input_length": 20, "output_length": 2, "delay": 250},
    ]
    found = read(lines(*rows), lengths=lengths, answers="recorded")
    first, other = found.graphs
    assert [len(node.messages[0].parts[0].split()) for node in first.nodes] == added
    assert [len(node.answer.split()) for node in first.nodes] == [5, 2]
    assert [node.max_tokens for node in first.nodes] == [5, 2]
    assert first.nodes[1].pause.first == 250 * NS_PER_MS
    assert len(other.nodes) == 1
    assert any(f"({chosen})" in finding for finding in found.findings)


def test_sessions_that_do_not_grow_are_taken_as_deltas():
    rows = [{"session_id": 1, "input_length": 10, "output_length": 5}] * 2
    assert any("(delta)" in finding for finding in read(lines(*rows)).findings)
    with pytest.raises(
        UsageError, match=r"turn 2 has 10 tokens, but the context before it has 15.*turn-lengths: delta"
    ):
        read(lines(*rows), lengths="cumulative")


ASKED = {"role": "user", "content": "hello"}
TOLD = {"role": "assistant", "content": "hi there friend"}
MORE = {"role": "user", "content": "bye"}
SYSTEM = {"role": "system", "content": "be brief"}


@pytest.mark.parametrize("mode", ["history", "delta"])
@pytest.mark.parametrize("answers", ["live", "recorded"])
def test_lines_of_a_session_may_have_messages(mode, answers):
    later = [SYSTEM, ASKED, TOLD, MORE] if mode == "history" else [MORE]
    rows = [
        {"session_id": "a", "messages": [SYSTEM, ASKED], "output_length": 50, "timestamp": 0},
        {"session_id": "b", "messages": [ASKED], "output_length": 5},
        {"session_id": "a", "messages": later, "output_length": 30, "delay": 2000},
    ]
    if mode == "delta":
        rows = [{**row, "message_mode": "delta"} for row in rows]
    found = read(lines(*rows), answers=answers)
    (first, second), (other,) = (graph.nodes for graph in found.graphs)
    assert [texts(node) for node in (first, second, other)] == [
        [("user", "hello")],
        [("user", "bye")],
        [("user", "hello")],
    ]
    assert [(node.system, node.context, node.after) for node in (first, second)] == [
        ("be brief", -1, ()),
        ("be brief", 0, (0,)),
    ]
    assert [node.max_tokens for node in (first, second, other)] == [50, 30, 5]
    assert second.pause.first == 2000 * NS_PER_MS
    if answers == "live":
        assert first.answer is None
    elif mode == "history":
        assert first.answer == "hi there friend"
    else:
        assert len(first.answer.split()) == 50


def test_a_context_that_does_not_begin_with_the_previous_one_starts_over():
    rows = [{"session_id": "a", "messages": [ASKED, TOLD, MORE], "output_length": 5}] * 2
    first, second = read(lines(*rows)).graphs[0].nodes
    assert (
        texts(second)
        == texts(first)
        == [("user", "hello"), ("assistant", "hi there friend"), ("user", "bye")]
    )
    assert (second.context, second.after) == (-1, (0,))


def turn_of(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


BRANCHES = (
    {
        "session_id": "boss",
        "pre_session_spawns": ["early"],
        "turns": [
            {
                "messages": [SYSTEM, ASKED],
                "max_tokens": 9,
                "spawns": ["a", {"children": ["b"], "join_at": 2}],
            },
            turn_of("second", delay=250, forks=[{"child": "aside", "background": True}]),
            turn_of("third", model="other", forks=["end"]),
        ],
    },
    {"session_id": "early", "turns": [turn_of("early")]},
    {"session_id": "a", "turns": [turn_of("a1"), turn_of("a2")]},
    {"session_id": "b", "turns": [turn_of("b1")]},
    {"session_id": "aside", "turns": [turn_of("aside")]},
    {"session_id": "end", "turns": [turn_of("end")]},
    {
        "session_id": "other",
        "context_mode": "message_array_with_responses",
        "turns": [turn_of("x"), {"messages": [ASKED, TOLD, MORE]}],
    },
)


def test_sessions_fork_spawn_and_join():
    found = read(lines(*BRANCHES))
    boss, other = found.graphs
    texts_of = [node.messages[-1].parts[0] for node in boss.nodes]
    assert texts_of == ["early", "hello", "a1", "a2", "b1", "second", "aside", "third", "end"]
    assert [node.after for node in boss.nodes] == [(), (), (1,), (2,), (1,), (1, 3), (5,), (4, 5), (7,)]
    assert [node.context for node in boss.nodes] == [-1, -1, -1, 2, -1, 1, 5, 5, 7]
    assert [found.kinds[node.kind] for node in boss.nodes] == [
        *("spawn", "root", "spawn", "spawn", "spawn", "root", "fork", "root", "fork")
    ]
    brief = "be brief"
    assert [node.system for node in boss.nodes] == ["", brief, "", "", "", *[brief] * 4]
    assert boss.nodes[1].max_tokens == 9
    assert boss.nodes[5].pause.first == 250 * NS_PER_MS
    assert [(node.after, node.context) for node in other.nodes] == [((), -1), ((0,), -1)]
    assert found.findings[1:] == ("it.json: not sent: model of turns",)


def test_an_agent_waits_for_its_subagents():
    trace = {
        "id": "t1",
        "requests": [
            {"t": 0.0, "type": "s", "in": 100, "out": 10, "hash_ids": [1, 2], "api_time": 1.0},
            {"t": 1.0, "type": "subagent", "requests": [
                {"t": 0.0, "type": "n", "in": 30, "out": 3},
                {"t": 4.0, "type": "n", "in": 40, "out": 4, "think_time": 0.5},
            ]},
            {"t": 1.0, "type": "subagent", "requests": [{"t": 0.0, "type": "n", "in": 31, "out": 3}]},
            {"t": 9.0, "type": "s", "in": 150, "out": 10, "hash_ids": [1, 2, 3], "api_time": 2.0},
            {"t": 14.0, "type": "s", "in": 170, "out": 10, "hash_ids": [1, 2, 3, 4]},
            {"t": 15.0, "type": "s", "in": 20, "out": 1, "hash_ids": [9]},
        ],
    }  # fmt: skip
    found = read(trace)
    (graph,) = found.graphs
    assert [node.after for node in graph.nodes] == [(), (0,), (1,), (0,), (0, 2, 3), (4,), (5,)]
    assert [node.context for node in graph.nodes] == [-1, -1, 1, -1, 0, 4, -1]
    words = [len(node.messages[0].parts[0].split()) for node in graph.nodes]
    assert words == [100, 30, 40 - 33, 31, 150 - 110, 170 - 160, 20]
    assert [node.pause.first / NS_PER_S for node in graph.nodes] == [0, 0, 0.5, 0, 0, 3.0, 1.0]
    assert [found.kinds[node.kind] for node in graph.nodes] == [
        "agent",
        "subagent",
        "subagent",
        "subagent",
        *["agent"] * 3,
    ]


def round_of(number, size, said, *, cached=0, hidden=None, heard="00:00", spoken="00:00", session="claude:a"):
    return {
        "session_id": session, "round_index": number, "input_tokens_total": size, "prefix_tokens": cached,
        "newly_append_tokens": size - cached, "output_tokens": said, "reasoning_output_tokens": hidden,
        "first_input_event_type": "tool_result" if number else "user_message",
        "timing_events": [
            {"event_type": "tool_result", "timestamp": f"2026-06-01T05:{heard}.000Z"},
            {"event_type": "tool_result", "timestamp": f"2026-06-01T05:{heard}.500Z"},
            {"event_type": "text", "timestamp": f"2026-06-01T05:{spoken}.000Z"},
            {"event_type": "usage_report", "timestamp": "2026-06-01T09:00:00Z"},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("answers", ["live", "recorded"])
def test_the_rounds_of_a_session_grow_and_shrink_as_recorded(answers):
    found = read(
        lines(
            round_of(1, 700, 60, cached=256, hidden=20, heard="01:10", spoken="01:30"),
            round_of(0, 500, 100, heard="00:40", spoken="01:00"),
            round_of(0, 90, 0, session="codex:b"),
            round_of(2, 690, 10, cached=384, heard="01:20", spoken="01:40"),  # the reasoning was dropped
            round_of(3, 300, 10, cached=0, heard="02:00", spoken="02:10"),  # a summary
        ),
        answers=answers,
    )
    first, other = found.graphs
    assert (first.name, other.name, found.kinds) == (
        "claude:a",
        "codex:b",
        ("after-user", "after-tool"),
    )
    assert [node.after for node in first.nodes] == [(), (0,), (0, 1), (2,)]
    assert [node.context for node in first.nodes] == [-1, 0, 0, -1]
    words = [len(node.messages[0].parts[0].split()) for node in first.nodes]
    assert words == [500, 700 - 600, 690 - 600, 300]
    assert [node.max_tokens for node in first.nodes] == [100, 60, 10, 10]
    assert [node.pause.first / NS_PER_S for node in first.nodes] == [0, 10.5, 0, 20.5]
    if answers == "recorded":
        assert [len(node.answer.split()) for node in first.nodes] == [100, 40, 10, 10]
    assert "repeat 1,200 tokens of earlier calls" in found.findings[1]
    assert "found 640 tokens in its cache; contexts that start over within a session: 1" in found.findings[1]


def test_a_later_context_is_as_long_as_recorded_even_if_it_cannot_hold_the_answer():
    found = read(lines(round_of(0, 500, 400), round_of(1, 600, 5)), answers="recorded")
    first, second = found.graphs[0].nodes
    carried = [first.messages[0].parts[0], first.answer, second.messages[0].parts[0]]
    assert sum(len(text.split()) for text in carried) == 600


def span(identity, start_s, end_s, operation, parent="", **attributes):
    values = {
        "gen_ai.operation.name": operation,
        **{f"gen_ai.{name}": value for name, value in attributes.items()},
    }
    return {
        "traceId": "t",
        "spanId": identity,
        "parentSpanId": parent,
        "startTimeUnixNano": str(round(start_s * NS_PER_S)),
        "endTimeUnixNano": str(round(end_s * NS_PER_S)),
        "attributes": [
            {
                "key": key,
                "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
            }
            for key, value in values.items()
        ],
    }


def otlp(*spans):
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def usage(sent, said):
    return {"usage.input_tokens": sent, "usage.output_tokens": said}


def test_branches_of_a_trace_run_in_parallel():
    """Two agents at once: a call of one that happens to end before a call of the other is not awaited by it."""
    found = read(
        otlp(
            span("root", 0, 20, "invoke_agent", **{"agent.name": "boss"}),
            span("plan", 0.5, 2, "chat", "root", **usage(50, 5)),
            span("a", 3, 10, "invoke_agent", "root", **{"agent.name": "worker"}),
            span("a1", 3, 4, "chat", "a", **usage(20, 2)),
            span("tool", 4, 6, "execute_tool", "a"),
            span("a2", 6, 7, "chat", "a", **usage(30, 2)),
            span("b", 3, 9, "invoke_agent", "root", **{"agent.name": "worker"}),
            span("b1", 5, 8, "chat", "b", **usage(20, 2)),
            span("end", 11, 12, "chat", "root", **usage(90, 9)),
        )
    )
    (graph,) = found.graphs
    # In the order of their starts: plan, a1, b1, a2, end.
    assert [node.after for node in graph.nodes] == [(), (0,), (0,), (1,), (0, 2, 3)]
    assert [node.pause.first / NS_PER_S for node in graph.nodes] == [0.5, 1, 3, 2, 3]
    assert [node.context for node in graph.nodes] == [-1, -1, -1, 1, 0]
    assert [len(node.messages[0].parts[0].split()) for node in graph.nodes] == [50, 20, 20, 30 - 22, 90 - 55]
    assert [found.kinds[node.kind] for node in graph.nodes] == ["boss", "worker", "worker", "worker", "boss"]
    assert [node.max_tokens for node in graph.nodes] == [5, 2, 2, 2, 9]


def said(role, text):
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def test_spans_with_texts_are_replayed_with_them():
    first = [said("user", "question")]
    second = [*first, said("assistant", "the answer"), said("tool", "42")]
    found = read(
        otlp(
            span(
                "1",
                0,
                1,
                "chat",
                **{
                    "input.messages": json.dumps(first),
                    "output.messages": json.dumps([said("assistant", "the answer")]),
                },
            ),
            span("2", 2, 3, "chat", **{"input.messages": json.dumps(second)}),
        ),
        answers="recorded",
    )
    one, two = found.graphs[0].nodes
    assert (texts(one), one.answer, one.max_tokens) == ([("user", "question")], "the answer", 2)
    assert (texts(two), two.context) == ([("user", "42")], 0)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"hello", "is not JSON"),
        (b'{"a": 1}', "is not a known recording: its first entry has 'a'"),
        (b"[1]", "entry 1 of it.json is not an object"),
        ({"requests": 5}, "'requests' is not a list"),
        ({"requests": [{"in": "x", "out": 1}]}, "request 1: 'in' is 'x'"),
        ({"requests": []}, "contains no tasks"),
        (
            {"conversations": [{"from": "martian", "value": "x"}]},
            "message 1 is not a message with a role and a text",
        ),
        (lines({"input_length": 5, "output_length": -1}), "line 1 of it.json: 'output_length' is -1"),
        (lines({"messages": [TOLD], "output_length": 5}), "line 1 of it.json: 'messages' has none of a user"),
        (
            lines(
                {"session_id": 1, "messages": [ASKED], "output_length": 5},
                {"session_id": 1, "messages": [MORE], "output_length": 5, "message_mode": "delta"},
            ),
            "session '1' has turns of several kinds",
        ),
        (
            {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 1}]}]}]},
            "a span of it.json cannot be read",
        ),
        ({"resourceSpans": []}, "contains no tasks"),
        ({"round_index": 0}, "line 1 of it.json has no 'session_id'"),
        (round_of(0, 5, 5, hidden=9), "'reasoning_output_tokens' is 9, and 'output_tokens' is 5"),
        (round_of(0, 5, 5, heard="99:00"), "timestamp '2026-06-01T05:99:00.000Z' cannot be read"),
        ({"conversations": []}, "contains no tasks"),
        (
            {"session_id": "a", "turns": [turn_of("x", forks=["b"])]},
            "has no session 'b', which a turn starts",
        ),
        ({"session_id": "a", "turns": [turn_of("x", forks=["a"])]}, "every session of it.json is started"),
        ({"session_id": 5, "turns": []}, "line 1 of it.json: 'session_id' is 5"),
        ({"session_id": "a", "turns": [{"messages": [TOLD]}]}, "turn 0: 'messages' has none of a user"),
        ({"session_id": "a", "turns": [5]}, "turn 0 is not an object"),
        (
            {"session_id": "a", "turns": [turn_of("x", spawns=[{"children": ["a"], "join_at": 1}])]},
            "'join_at' is 1",
        ),
        ({"session_id": "a", "orchestrator": True, "spawns": ["b"]}, "are not supported"),
        (
            lines(
                {"session_id": "r", "turns": [turn_of("x", spawns=["a"])]},
                {"session_id": "a", "turns": [turn_of("x", spawns=["b"])]},
                {"session_id": "b", "turns": [turn_of("x", spawns=["a"])]},
            ),
            "session 'a' starts itself",
        ),
        (
            lines(
                *(
                    {"session_id": str(each), "turns": [turn_of("x", spawns=[str(each + 1)] * 10)]}
                    for each in range(9)
                ),
                {"session_id": "9", "turns": [turn_of("x")]},
            ),
            "'0' starts more than",
        ),
    ],
)
def test_a_file_that_is_not_a_recording_is_rejected(document, words):
    with pytest.raises(UsageError, match=words):
        read(document)
