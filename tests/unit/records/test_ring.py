"""Records written to the ring come out once and in order, at any pace."""

import mmap
import os
import signal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferometer.records.records import COLUMNS, EMPTY, RingReader, join
from inferometer.records.ring import (
    CAPACITY,
    CELLS,
    FIRST_BYTE,
    MOST_STAMPS,
    ROW,
    ROW_BYTES,
    WRITTEN,
    RingWriter,
    of_which,
    pack_row,
)
from tests.support.simulation import new_cells


def make_ring():
    cells = new_cells()
    return RingWriter(cells), RingReader(cells)


def write(writer, value, times=()):
    columns = [value * 10 + column for column in range(ROW - 1)]
    pack_row(writer.cells, writer.position, *columns, writer.stamp(times))
    writer.position += ROW_BYTES
    if writer.position == writer.end:
        writer.position = FIRST_BYTE
    writer.written += 1


def test_a_writer_knows_whether_it_stored_times():
    writer, _ = make_ring()
    assert not writer.has_stamps
    writer.stamp((1, 2))
    assert writer.has_stamps


def test_a_ring_takes_little_memory():
    assert CELLS * 8 < 12 * 2**20


@given(st.lists(st.integers(0, CAPACITY // 3), min_size=1, max_size=6))
def test_every_row_comes_out_once_even_across_the_end(bursts):
    writer, reader = make_ring()
    # Start close to the end, so that the first bursts wrap around.
    writer.written = writer.cells[1] = CAPACITY - 5
    writer.position = FIRST_BYTE + (CAPACITY - 5) * ROW_BYTES
    value = 0
    for burst in bursts:
        first = value
        for _ in range(min(burst, 300)):
            write(writer, value)
            value += 1
        writer.publish()
        assert list(reader.take().due_ns) == [number * 10 for number in range(first, value)]
    assert len(reader.take()) == 0


def test_rows_that_are_not_published_stay_hidden():
    writer, reader = make_ring()
    write(writer, 1)
    assert len(reader.take()) == 0
    writer.publish()
    assert len(reader.take()) == 1


def test_writer_notices_a_reader_that_falls_behind():
    writer, reader = make_ring()
    for value in range(CAPACITY // 2 + 1):
        write(writer, value)
    writer.publish()
    assert writer.crowded
    reader.take()
    assert not writer.crowded


def test_records_are_ordered_by_end_across_workers():
    writer, reader = make_ring()
    for value in (3, 1, 2):
        write(writer, value)
    writer.publish()
    one = reader.take()
    assert list(one.end_ns) == [14, 24, 34]
    both = join([one, one])
    assert list(both.end_ns) == [14, 14, 24, 24, 34, 34]
    assert join([]) is EMPTY


def test_times_of_responses_stay_with_their_request():
    writer, reader = make_ring()
    write(writer, 3, [31, 32])
    write(writer, 1, [11])
    write(writer, 2)
    writer.publish()
    taken = reader.take()
    assert list(taken.stamps) == [1, 0, 2]
    assert list(taken.times) == [11, 31, 32]
    assert list(taken.where(taken.end_ns > 20).times) == [31, 32]
    assert list(join([taken, taken]).times) == [11, 11, 31, 32, 31, 32]


def test_times_wrap_around_the_end_of_their_ring():
    writer, reader = make_ring()
    for value in range(20):
        write(writer, value, list(range(MOST_STAMPS + 5)))
        writer.publish()
        assert len(reader.take().times) == MOST_STAMPS


def test_many_unread_times_crowd_the_ring():
    writer, reader = make_ring()
    for value in range(5):
        write(writer, value, list(range(MOST_STAMPS)))
    writer.publish()
    assert writer.crowded
    reader.take()
    assert not writer.crowded


def test_special_tokens_come_out_beside_the_total():
    writer, reader = make_ring()
    values = dict.fromkeys(COLUMNS, 0) | {
        "tokens": of_which(2**31 - 1, 7),
        "prompt_tokens": of_which(5, 2**31 - 1),
        "responses": of_which(9, 3),
        "step": of_which(1234, 4),
        "status": of_which(503, 2),
    }
    cells = [
        value
        for name, value in values.items()
        if name not in ("reasoning_tokens", "cached_tokens", "answer_at", "tool_at", "checked")
    ]
    pack_row(writer.cells, writer.position, *cells)
    writer.written += 1
    writer.publish()
    found = reader.take()
    assert (found.tokens[0], found.reasoning_tokens[0]) == (2**31 - 1, 7)
    assert (found.responses[0], found.answer_at[0]) == (9, 3)
    assert (found.step[0], found.tool_at[0]) == (1234, 4)
    assert (found.status[0], found.checked[0]) == (503, 2)
    assert (found.prompt_tokens[0], found.cached_tokens[0]) == (5, 2**31 - 1)


def test_a_count_never_appears_to_decrease():
    """While another process publishes; each count is one store, so a reader sees the old or the new one."""
    memory = mmap.mmap(-1, CELLS * 8)
    cells = memoryview(memory).cast("q")
    writer = RingWriter(cells)
    writer.written = 1 << 40
    writer.publish()
    process = os.fork()
    if process == 0:
        while True:  # until it is killed
            writer.written += 1
            writer.publish()
    try:
        counts = np.frombuffer(cells, dtype=np.int64)
        seen = [0]
        for _ in range(2_000_000):  # most readings are equal if both processes share a core
            if (count := int(counts[WRITTEN])) != seen[-1]:
                seen.append(count)
            if len(seen) == 20_000:
                break
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert seen == sorted(seen)
    assert len(seen) > 2
