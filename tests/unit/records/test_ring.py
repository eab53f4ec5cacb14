"""What a worker writes into the ring comes out once, in order, whatever the rhythm."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer.records.records import EMPTY, RingReader, from_rows, join
from inferometer.records.ring import CAPACITY, HEADER, ROW, RingWriter


def make_ring():
    cells = memoryview(bytearray((HEADER + CAPACITY * ROW) * 8)).cast("q")
    return RingWriter(cells), RingReader(cells)


def write(writer, value):
    for column in range(ROW):
        writer.cells[writer.position + column] = value * 10 + column
    writer.position += ROW
    if writer.position == writer.end:
        writer.position = HEADER
    writer.written += 1


@given(st.lists(st.integers(0, CAPACITY // 3), min_size=1, max_size=6))
def test_every_row_comes_out_once_also_around_the_end(bursts):
    writer, reader = make_ring()
    # Start close to the end, so that the first bursts go around it.
    writer.written = writer.cells[1] = CAPACITY - 5
    writer.position = HEADER + (CAPACITY - 5) * ROW
    value = 0
    for burst in bursts:
        first = value
        for _ in range(min(burst, 300)):
            write(writer, value)
            value += 1
        writer.publish()
        assert list(reader.take()[:, 0]) == [number * 10 for number in range(first, value)]
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
    one = from_rows(reader.take())
    assert list(one.end_ns) == [14, 24, 34]
    both = join([one, one])
    assert list(both.end_ns) == [14, 14, 24, 24, 34, 34]
    assert join([]) is EMPTY
