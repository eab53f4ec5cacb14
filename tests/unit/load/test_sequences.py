"""Every sequence is complete, in order, and has its own ID."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.load.plan import Closed, Constant, Open
from inferometer.load.sequences import Mark, SequencePlan, Sequences
from inferometer.records.records import join
from tests.support.clock import FakeClock
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

MS = 1_000_000


def run(sequence_plan, plans, *, script=lambda number, sent: Reply(MS), each_ns=200 * MS):
    """Return the marks of all requests in the order of sending, until all have ended."""
    clock = FakeClock()
    steps = 1 + max(max(stream) for stream in sequence_plan.streams)
    load = SimulatedLoad(FakeServer(script), clock, requests=steps, sequences=Sequences(sequence_plan))
    records = []
    for plan in (*plans, Closed(0)):
        load.apply(plan)
        end = clock() + each_ns
        while clock() < end:
            collected = load.collect(end)
            records.append(collected.records)
            if collected.is_finished:
                break
    return load.marks, records


def by_sequence(marks):
    """Return the (step, mark) lists of each sequence; IDs may recur once a sequence has ended."""
    done = []
    live: dict[int, list[tuple[int, Mark]]] = {}
    for step, mark in marks:
        if mark.is_start:
            assert mark.sequence_id not in live, "started twice"
            live[mark.sequence_id] = []
        live[mark.sequence_id].append((step, mark))
        if mark.is_end:
            done.append(live.pop(mark.sequence_id))
    assert not live, "left unfinished"
    return done


GENERATED = SequencePlan(streams=((0, 1, 2),), is_given=False)


@pytest.mark.parametrize(
    "plans",
    [
        (Closed(1),),
        (Closed(32),),
        (Closed(5), Closed(2), Closed(9)),
        (Closed(3, 47),),
        (Open(Constant(500)),),
        (Open(Constant(500), count=33),),
        (Open(Constant(2000), cap=3),),
        (Closed(6), Open(Constant(300)), Closed(2)),
    ],
    ids=repr,
)
def test_every_sequence_starts_once_ends_once_and_is_complete(plans):
    marks, _ = run(GENERATED, plans)
    sequences = by_sequence(marks)
    assert len(sequences) > 1
    for sequence in sequences:
        flags = [(mark.is_start, mark.is_end) for _, mark in sequence]
        assert flags == [(k == 0, k == len(flags) - 1) for k in range(len(flags))]


def test_lengths_vary_around_the_base():
    marks, _ = run(GENERATED, (Closed(4),), each_ns=3000 * MS)
    lengths = {len(sequence) for sequence in by_sequence(marks)[:-4]}
    assert lengths <= set(range(17, 24))
    assert len(lengths) > 3


def test_given_streams_are_replayed_in_turn():
    plan = SequencePlan(streams=((0, 1, 2), (3, 4)), is_given=True)
    marks, _ = run(plan, (Closed(1),))
    steps = [tuple(step for step, _ in sequence) for sequence in by_sequence(marks)][:-1]
    assert steps[:4] == [(0, 1, 2), (3, 4), (0, 1, 2), (3, 4)]


def test_given_length_wraps_around_the_stream():
    plan = SequencePlan(streams=((0, 1, 2),), is_given=True, length=5, variation=0)
    marks, _ = run(plan, (Closed(1),))
    assert [step for step, _ in by_sequence(marks)[0]] == [0, 1, 2, 0, 1]


def test_ids_stay_in_their_range_and_are_never_live_twice():
    plan = SequencePlan(streams=((0,),), is_given=False, length=5, variation=0, first_id=10, last_id=13)
    marks, _ = run(plan, (Closed(2),))
    assert {mark.sequence_id for _, mark in marks} <= {10, 11, 12, 13}
    by_sequence(marks)


def test_request_count_closes_the_last_sequence_with_one_more():
    plan = SequencePlan(streams=((0,),), is_given=False, length=5, variation=0)
    marks, _ = run(plan, (Closed(1, 7),))
    assert [len(sequence) for sequence in by_sequence(marks)] == [5, 3]


def test_serial_lanes_never_have_two_requests_outstanding():
    plan = SequencePlan(streams=((0,),), is_given=False, lanes=3, is_serial=True)
    marks, records = run(plan, (Open(Constant(2000)),), script=lambda number, sent: Reply(10 * MS))
    live = defaultdict(list)
    for part in records:
        for sequence, sent, end in zip(part.sequence, part.sent_ns, part.end_ns, strict=True):
            live[int(sequence)].append((int(sent), int(end)))
    for spans in live.values():
        spans.sort()
        assert all(later[0] >= earlier[1] for earlier, later in pairwise(spans))
    by_sequence(marks)


def test_whole_sequence_is_timed_from_its_first_request():
    plan = SequencePlan(streams=((0,),), is_given=False, length=4, variation=0)
    _, records = run(plan, (Closed(1),))
    whole = [
        int(end - began)
        for part in records
        for end, began in zip(part.end_ns, part.sequence_started_ns, strict=True)
        if began
    ]
    assert set(whole[:-1]) == {4 * MS}


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 6))
def test_workers_never_share_an_id(parts, requests, lanes):
    ids = []
    for index in range(parts):
        sequences = Sequences(GENERATED, index, parts)
        own = set()
        for number in range(requests):
            _, mark = sequences.next(number % lanes, 0)
            assert isinstance(mark, Mark)
            own.add(mark.sequence_id)
        ids.append(own)
    assert sum(map(len, ids)) == len(set().union(*ids))


# --- sessions


def test_sessions_are_played_once_each():
    sequences = Sequences(SequencePlan(streams=((0, 1), (2,), (3, 4)), is_given=True, is_once=True))
    turns: dict[int, list[tuple[int, bool, bool]]] = {lane: [] for lane in (0, 1)}
    while any(sequences.has_next(lane) for lane in turns):
        for lane, steps in turns.items():
            if sequences.has_next(lane):
                step, mark = sequences.next(lane, 0)
                sequences.ended(mark)
                steps.append((step, mark.is_start, mark.is_end))
    assert turns == {
        0: [(0, True, False), (1, False, True)],
        1: [(2, True, True), (3, True, False), (4, False, True)],
    }
    assert sequences.is_over


def test_workers_share_the_sessions():
    plan = SequencePlan(streams=((0,), (1,), (2,)), is_given=True, is_once=True)
    for index, steps in ((0, [0, 2]), (1, [1])):
        sequences = Sequences(plan, index, 2)
        seen = []
        while sequences.has_next(0):
            seen.append(sequences.next(0, 0)[0])
        assert seen == steps


def test_an_interrupted_session_needs_no_closing_request():
    sequences = Sequences(SequencePlan(streams=((0, 1),), is_given=True, is_once=True, delays_ns=(7, 0)))
    _, mark = sequences.next(0, 0)
    sequences.ended(mark)
    assert not sequences.is_idle_and_unfinished(0)
    assert sequences.pause_ns(0) == 7


def test_turns_wait_for_the_answer_and_then_for_their_delay():
    plan = SequencePlan(
        streams=((0, 1, 2), (3,)), is_given=True, is_once=True, delays_ns=(20 * MS, 30 * MS, 0, 0)
    )
    clock = FakeClock()
    load = SimulatedLoad(
        FakeServer(lambda number, sent: Reply(5 * MS)), clock, requests=4, sequences=Sequences(plan)
    )
    start = clock()
    load.apply(Closed(2))
    records = []
    while True:
        collected = load.collect(clock() + 1000 * MS)
        records.append(collected.records)
        if collected.is_finished:
            break
    whole = join(records)
    times = {
        int(step): (int(sent) - start) // MS for step, sent in zip(whole.step, whole.sent_ns, strict=True)
    }
    assert times == {0: 0, 3: 0, 1: 25, 2: 60}


@pytest.mark.parametrize("parts", [1, 2])
@given(st.data())
def test_no_id_is_reused_before_its_last_request_has_ended(parts, data):
    """Three lanes share few IDs; requests end in any order."""
    few = SequencePlan(streams=((0,),), is_given=False, length=2, first_id=5, last_id=4 + 4 * parts)
    sequences = Sequences(few, index=parts - 1, parts=parts)
    outstanding: dict[int, Mark] = {}
    latest: dict[int, Mark] = {}
    for _ in range(40):
        lane = data.draw(st.integers(0, 2))
        if lane in outstanding:
            sequences.ended(outstanding.pop(lane))
            continue
        _, mark = sequences.next(lane, due_ns=1)
        assert 5 <= mark.sequence_id <= few.last_id
        others = [number for number in range(3) if number != lane]
        live = {outstanding[number].sequence_id for number in others if number in outstanding}
        live |= {latest[number].sequence_id for number in sequences.unfinished() if number != lane}
        assert mark.sequence_id not in live
        outstanding[lane] = latest[lane] = mark
