"""Every request is in the level whose windows it ended in, once."""

from pathlib import Path

from inferometer.base import status
from inferometer.base.errors import PeerError
from inferometer.measure.journal import DISORDER_NS, RequestJournal
from inferometer.model.spec import Tensor
from inferometer.records.spool import Spool, SpoolHead


def read_outputs(body, header_length):
    if body == b"garbage":
        raise PeerError("cannot read the reply")
    return {"OUT": body} if body else {}


def make(folder: Path, *workers, steps=1):
    """A journal whose workers recorded requests with these ends; (end, status, body) where they differ from the
    default."""
    journal = RequestJournal(
        path=folder / "x.json",
        service_kind="triton",
        endpoint="",
        steps=[[Tensor("IN", "INT32", (1,), bytes([step, 0, 0, 0]))] for step in range(steps)],
        datatypes={"OUT": "BYTES"},
        read_outputs=read_outputs,
        _epoch_ns=0,
    )
    for fd, rows in zip(journal.open_spools(len(workers)), workers, strict=True):
        spool = Spool(fd)
        for row in rows:
            end, code, body = row if isinstance(row, tuple) else (row, status.OK, b"text")
            spool.begin(0)
            spool.respond(0, end, body)
            spool.end(0, SpoolHead(end - 2, end - 1, end, code, end % steps, 0, 0, 0))
        spool.flush()
    return journal


def levels(journal):
    """Return each level with its requests."""
    return [(level, list(level.requests)) for level in journal.export().levels]


def ends(journal):
    """Return the ends of the requests of each level."""
    return [[request.end_ns for request in requests] for _, requests in levels(journal)]


def test_requests_go_to_their_level_worker_by_worker(tmp_path):
    journal = make(tmp_path, range(1, 100, 3), range(2, 100, 3))
    journal.add_level("concurrency", 1, (10, 20, 30))
    journal.add_level("concurrency", 2, (50, 60))
    assert ends(journal) == [[13, 16, 19, 22, 25, 28, 11, 14, 17, 20, 23, 26, 29], [52, 55, 58, 53, 56, 59]]


def test_unordered_ends_around_a_boundary_are_found(tmp_path):
    journal = make(tmp_path, [5, 12, 9, 11, 21, 18, 25, DISORDER_NS + 99, 26])
    journal.add_level("concurrency", 1, (0, 10))
    journal.add_level("concurrency", 1, (10, 20))
    journal.add_level("concurrency", 1, (20, 30))
    assert ends(journal) == [[5, 9], [12, 11, 18], [21, 25]]


def test_an_aborted_warm_up_does_not_belong_to_the_level(tmp_path):
    """A level of counted requests begins with its first send, which may precede the end of the warm-up."""
    journal = make(tmp_path, [3, 4, 6, 8, 9])
    journal.add_level("concurrency", 1, (2, 9), start_ns=5)
    ((level, requests),) = levels(journal)
    assert level.boundaries_ns == (2, 9)
    assert [request.end_ns for request in requests] == [6, 8, 9]


def test_failed_requests_are_exported_with_their_kind(tmp_path):
    journal = make(tmp_path, [1, (2, status.HTTP + 503, b""), 3])
    journal.add_level("request_rate", 2.5, (0, 9))
    ((level, requests),) = levels(journal)
    assert (level.mode, level.value, level.boundaries_ns) == ("request_rate", 2.5, (0, 9))
    assert [request.status for request in requests] == ["ok", "http 503", "ok"]


def test_inputs_are_those_of_the_step(tmp_path):
    journal = make(tmp_path, [1, 2, 3], steps=2)
    journal.add_level("concurrency", 1, (0, 9))
    ((_, requests),) = levels(journal)
    assert [request.inputs[0].data[0] for request in requests] == [1, 0, 1]


def values(folder, body):
    journal = make(folder, [(1, status.OK, body)])
    journal.add_level("concurrency", 1, (0, 9))
    ((_, (request,)),) = levels(journal)
    return [output.data for output in request.responses[0].outputs]


def test_outputs_missing_from_a_reply(tmp_path):
    assert values(tmp_path, b"text") == [b"text"]
    assert values(tmp_path, b"") == [b""]
    assert values(tmp_path, b"garbage") == [None]


def test_nothing_is_left_in_the_folder(tmp_path):
    journal = make(tmp_path, [1])
    assert list(tmp_path.iterdir()) == []
    assert ends(journal) == []
