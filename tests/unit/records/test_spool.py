"""Recorded requests come out whole and in order; truncated ones do not come out at all."""

import io
import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from inferometer.records.spool import Spool, SpoolHead, read_spool, retimed

numbers = st.integers(-(2**63), 2**63 - 1)
responses = st.lists(st.tuples(st.integers(-1, 10**6), st.binary(max_size=60)), max_size=4)
requests = st.lists(st.tuples(st.tuples(*[numbers] * 7), responses), max_size=5)


def write(spool, rows):
    for number, (fields, parts) in enumerate(rows):
        spool.begin(number)
        for time_ns, (header_length, body) in enumerate(parts):
            spool.respond(number, time_ns, bytearray(body), header_length)
        spool.end(number, SpoolHead._make((*fields, 0)))
    spool.flush()


@given(requests, st.floats(0, 1))
def test_entries_come_out_as_written_and_a_truncated_one_is_left_out(rows, share):
    with tempfile.TemporaryFile() as file:
        write(Spool(file.fileno()), rows)
        found = list(read_spool(file))
        assert [tuple(entry.head) for entry in found] == [(*fields, len(parts)) for fields, parts in rows]
        assert [[tuple(row)[1:] for row in entry.responses] for entry in found] == [
            parts for _, parts in rows
        ]
        for entry in found:
            assert next(read_spool(file, entry.offset)) == entry
        size = os.fstat(file.fileno()).st_size
        os.truncate(file.fileno(), int(size * share))
        kept = list(read_spool(file))
        assert kept == found[: len(kept)]


def test_responses_of_one_read_are_a_nanosecond_apart_and_later_ones_keep_their_times():
    """A stream is passed on as a whole when it has ended, so that time says nothing about its responses."""
    with tempfile.TemporaryFile() as file:
        spool = Spool(file.fileno())
        spool.begin(0)
        for time_ns in (100, 100, 100, 5_000, 9_000, 9_000):
            spool.respond(0, time_ns, b"x")
        spool.end(0, SpoolHead(0, 0, 90_000, 0, 0, 0, 0, 0))
        spool.flush()
        (entry,) = read_spool(file)
    assert [response.time_ns for response in entry.responses] == [100, 101, 102, 5_000, 9_000, 9_001]


def test_a_full_disk_is_reported_and_the_load_continues():
    with open("/dev/full", "wb") as full:
        spool = Spool(full.fileno())
        rows = [((1,) * 7, [(-1, b"x" * 1000)])]
        write(spool, rows)
        assert spool.problem == "No space left on device"
        write(spool, rows)


def test_recorded_requests_are_retimed_wherever_their_bytes_are_split(tmp_path: Path) -> None:
    """As received from a client in pieces, up to a time; later entries wait."""
    path = tmp_path / "spool"
    with path.open("w+b", buffering=0) as file:
        spool = Spool(file.fileno())
        for slot, end in enumerate((50, 70, 60, 90)):
            spool.begin(slot)
            for response in range(slot):
                spool.respond(slot, 10 + response, b"x" * slot, 3)
            spool.end(slot, SpoolHead(1, 0, end, 0, slot, 0, 5, 0))
        spool.flush()
        whole = list(read_spool(file))
    data = path.read_bytes()

    def change(times: list[int]) -> list[int]:
        return [time + 1000 if time else 0 for time in times]

    for cut in range(len(data) + 1):
        first, rest = retimed(data[:cut], 60, change)
        second, rest = retimed(rest + data[cut:], 60, change)
        third, rest = retimed(rest, 1000, change)
        assert rest == b""
        found = sorted(read_spool(io.BytesIO(first + second + third)), key=lambda entry: entry.head.step)
        for entry, before in zip(found, whole, strict=True):
            assert entry.head == before.head._replace(due_ns=1001, end_ns=before.head.end_ns + 1000)
            assert [row.time_ns - 1000 for row in entry.responses] == [
                row.time_ns for row in before.responses
            ]
            assert [row.body for row in entry.responses] == [row.body for row in before.responses]
        assert max(entry.head.end_ns for entry in read_spool(io.BytesIO(first + second))) == 1060
