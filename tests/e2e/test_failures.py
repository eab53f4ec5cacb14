"""A request that fails is counted, grouped and shown; it never ends the run, and the run always ends."""

import re
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from inferometer import api
from inferometer.base.units import NS_PER_S
from tests.support.servers import (
    Act,
    FakeTriton,
    Request,
    Wire,
    answer,
    answer_json,
    break_off,
    never,
    raw,
)

BAD = 13
QUICK = ("-p", "100", "-s", "999999")


def is_bad(request: Request) -> bool:
    return request.body.endswith(struct.pack("<i", BAD))


FAILURES: tuple[tuple[str, Act, str, str], ...] = (
    ("a status is a failure", answer_json({"error": "overloaded"}, 503), "http 503", "overloaded"),
    ("also one without a body", raw(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), "http 500", "Oops"),
    ("a close instead of an answer", Wire.close, "reset", "closed the connection before it answered"),
    ("a reset instead of an answer", Wire.reset, "reset", "reset by peer"),
    ("a body that stops in the middle", break_off(b"0123456789", 4), "reset", "4 of 10"),
    ("a head that stops in the middle", break_off(b"", -8), "reset", ""),
    ("bytes that are not HTTP", raw(b"\x16\x03\x01\xff nonsense\r\n\r\n"), "malformed", ""),
    ("a length that is no number", raw(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), "malformed", ""),
    (
        "a chunk whose size is no number",
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "malformed",
        "",
    ),
    ("no answer at all", never, "timeout", "no complete reply within 0.1 s"),
    ("an answer that never ends", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1"), "timeout", ""),
)


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 0.1 s counts as lost")
@pytest.mark.parametrize(
    ("act", "kind", "words"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
def test_every_kind_of_failure_is_counted_and_shown(
    act: Act, kind: str, words: str, run: Callable, steps: Callable, tmp_path: Path
) -> None:
    with FakeTriton(lambda number, request: act if is_bad(request) else None) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "20", "--request-timeout", "0.1"),
            *(
                "--input-data",
                steps(1, 2, 3, 4, BAD),
                "--json",
                str(tmp_path / "r.json"),
                "-f",
                str(tmp_path / "r.csv"),
            ),
        )
    assert ended.code == 99
    assert "    Request count: 16\n" in ended.stdout
    assert "    Failed request count: 4 (20.00 %)\n" in ended.stdout
    assert re.search(
        rf"^    Failure: {kind}, 4 requests, first at \d+\.\d s, last at \d+\.\d s", ended.stdout, re.M
    )
    assert "Thread [0] had error: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "r.csv").read_text().startswith("Concurrency,Inferences/Second,")
    (level,) = api.load(str(tmp_path / "r.json")).levels
    (group,) = level.measurement.failures
    assert (group.kind, group.count) == (kind, 4)
    assert words in group.example
    assert group.example  # each group shows what was said
    assert level.measurement.latency.count == level.measurement.request_count == 16


FAULTY = 1000
PATTERN = {5: "http 503", 55: "http 503", 25: "reset", 45: "timeout", 85: "malformed"}  # of every hundred
FAULTS: dict[str, Act] = {
    "http 503": answer_json({"error": "busy"}, 503),
    "reset": Wire.reset,
    "timeout": never,
    "malformed": raw(b"\x00garbage\r\n\r\n"),
}


@pytest.mark.machine(reason="a reply that other processes delay beyond the time-out of 2 s counts as lost")
@pytest.mark.parametrize("load", [("--concurrency-range", "8"), ("--request-rate-range", "500", "--async")])
def test_a_server_with_every_fault_is_measured_to_the_end_and_its_faults_are_counted(
    load: tuple[str, ...], run: Callable, tmp_path: Path
) -> None:
    def infer(number: int, request: Request) -> Act | None:
        fault = PATTERN.get(number % 100)
        return None if fault is None else FAULTS[fault]

    with FakeTriton(infer) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", str(FAULTY), *load),
            *("--request-timeout", "2", "--json", str(tmp_path / "r.json")),
        )
        assert len(fake.inferences) == FAULTY  # none was sent twice
    assert ended.code == 99
    (level,) = api.load(str(tmp_path / "r.json")).levels
    groups = {group.kind: group.count for group in level.measurement.failures}
    assert groups == {"http 503": 20, "reset": 10, "timeout": 10, "malformed": 10}
    assert level.measurement.request_count == FAULTY - 50
    assert level.measurement.client.reconnects == 0


def test_a_reset_is_a_failure_and_an_orderly_close_is_not(run: Callable, tmp_path: Path) -> None:
    """The server may close a kept-alive connection in good order; what was sent meanwhile is sent once more."""
    for act, failed, sent in ((Wire.reset, 1, 50), (Wire.close, 0, 51)):

        def infer(number: int, request: Request, act: Act = act) -> Act | None:
            return act if number == 20 else None

        with FakeTriton(infer) as fake:
            path = tmp_path / f"{failed}.json"
            words = ("--request-count", "50", "--json", str(path))
            run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *words)
            assert len(fake.inferences) == sent
        (level,) = api.load(str(path)).levels
        assert level.measurement.failed_count == failed
        assert level.measurement.client.reconnects == 1 - failed
        assert [group.kind for group in level.measurement.failures] == ["reset"] * failed


def test_failure_groups_stand_side_by_side(run: Callable, steps: Callable) -> None:
    acts = {1: answer_json({"error": "later"}, 503), 2: answer_json({"error": "never"}, 500), 3: Wire.close}

    def infer(number: int, request: Request) -> Act | None:
        return acts.get(struct.unpack("<i", request.body[-4:])[0])

    with FakeTriton(infer) as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "12",
                "--input-data",
                steps(1, 2, 3, 4),
            ),
        )
    assert ended.code == 99
    assert "Failed request count: 9 (75.00 %)" in ended.stdout
    for kind in ("http 503", "http 500", "reset"):
        assert f"    Failure: {kind}, 3 requests, " in ended.stdout
    assert "had error: later\n" in ended.stderr
    assert "had error: never\n" in ended.stderr


@pytest.mark.parametrize(("rate", "code"), [("0.2", 0), ("20%", 0), ("0.19", 99), ("0", 99)])
def test_max_error_rate_is_the_share_that_is_forgiven(
    rate: str, code: int, run: Callable, steps: Callable
) -> None:
    with FakeTriton(
        lambda number, request: answer_json({"error": "no"}, 503) if is_bad(request) else None
    ) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "20", "--max-error-rate", rate),
            *("--input-data", steps(1, 2, 3, 4, BAD)),
        )
    assert ended.code == code
    assert "Failed request count: 4 (20.00 %)" in ended.stdout
    assert ("had error" in ended.stderr) == (code == 99)


def test_measure_answers_failures_with_its_own_exit_code(run: Callable, steps: Callable) -> None:
    with FakeTriton(
        lambda number, request: answer_json({"error": "boom"}, 503) if is_bad(request) else None
    ) as fake:
        ended = run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--request-count", "20"),
            *("--input-data", steps(1, 2, 3, 4, BAD)),
        )
    assert ended.code == 1
    assert "http 503" in ended.stdout
    assert "boom" in ended.stdout


def test_measure_fails_without_any_answer(run: Callable, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    with FakeTriton(lambda number, request: never) as fake:
        ended = run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "--duration", "0.2s", "-f", str(table)),
        )
    assert ended.code == 3
    assert "no request finished" in ended.stdout
    assert f"'{table}' was not written: there is no level to report\n" in ended.stderr
    assert not table.exists()


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"error": "\\ud800"}', b"\xff\xfe"], ids=["deep", "half", "binary"]
)
def test_the_servers_message_about_a_failure_is_printed(body: bytes, run: Callable) -> None:
    with FakeTriton(lambda number, request: answer(body, 500)) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "3")
    assert ended.code == 99
    assert "Thread [0] had error: " in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("mode", [(), ("--measurement-mode", "count_windows")], ids=["time", "count"])
def test_a_server_where_every_request_fails_ends_the_run(mode: tuple[str, ...], run: Callable) -> None:
    with FakeTriton(lambda number, request: answer_json({"error": "boom"}, 500)) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *QUICK, *mode)
    assert ended.code == 99
    assert "Thread [0] had error: boom\n" in ended.stderr
    assert "    Request count: 0\n" in ended.stdout
    assert "(100.00 %)" in ended.stdout


def test_a_server_that_never_answers_ends_with_the_time_out(run: Callable) -> None:
    with FakeTriton(lambda number, request: never) as fake:
        ended = run(
            "perf_analyzer",
            "-m",
            "fake",
            "-u",
            fake.server.address,
            "--request-count",
            "3",
            "--request-timeout",
            "0.1",
        )
    assert ended.code == 99
    assert "Failure: timeout, 3 requests" in ended.stdout


def test_a_server_that_refuses_in_the_middle_gives_connect_failures(run: Callable) -> None:
    def infer(number: int, request: Request) -> Act | None:
        return (lambda wire: fake.server.kill()) if number == 5 else None

    with FakeTriton(infer) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "10")
    assert ended.code == 99
    assert "    Request count: 5\n" in ended.stdout
    assert "    Failed request count: 5 (50.00 %)\n" in ended.stdout
    assert "    Failure: connect, " in ended.stdout
    assert "Connection refused" in ended.stdout


def test_a_changed_certificate_in_the_middle_gives_tls_failures(
    run: Callable, certificate: Callable[[str], tuple[str, ssl.SSLContext]]
) -> None:
    authority, context = certificate("right")
    _, other = certificate("wrong")

    def infer(number: int, request: Request) -> Act | None:
        if number != 5:
            return None
        fake.server.tls = other
        return Wire.close

    with FakeTriton(infer, tls=context) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", f"https://{fake.server.address}", "--request-count", "8"),
            *("--ssl-https-ca-certificates-file", authority),
        )
    assert ended.code == 99
    assert "    Request count: 5\n" in ended.stdout
    assert "    Failure: tls, 3 requests" in ended.stdout
    assert "certificate" in ended.stdout


@pytest.mark.parametrize(("command", "workers"), [("perf_analyzer", "2"), ("inferometer", "1")])
def test_a_server_killed_in_the_middle_ends_the_run_with_what_was_measured(
    command: str, workers: str, run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferometer.measure.liveness.GONE_NS", NS_PER_S)  # else it takes five
    measured: list[int] = []  # requests seen when the first window began: that is when the counters are read

    def control(request: Request) -> Act | None:
        if request.path.endswith("/stats") and not measured:
            measured.append(len(fake.inferences))
        return None

    def infer(number: int, request: Request) -> Act | None:
        return (lambda wire: fake.server.kill()) if measured and number == measured[0] + 300 else None

    with FakeTriton(infer, control=control) as fake:
        ended = run(
            command,
            *(("measure", "--duration", "600") if command == "inferometer" else ("-p", "600000")),
            *("-m", "fake", "-u", fake.server.address, "--concurrency-range", "4", "--workers", workers),
            *("--json", str(tmp_path / "r.json"), "-f", str(tmp_path / "r.csv")),
        )
    assert ended.code == (99 if command == "perf_analyzer" else 3)
    assert "Traceback" not in ended.stderr
    (level,) = api.load(str(tmp_path / "r.json")).levels
    found = level.measurement
    assert found.request_count == found.latency.count
    assert 0 < found.request_count <= measured[0] + 300
    assert {group.kind for group in found.failures} <= {"connect", "reset"}
    assert sum(group.count for group in found.failures) == found.failed_count
    assert "SERVER_GONE" in {remark.note.name for remark in level.remarks}
    row = (tmp_path / "r.csv").read_text().splitlines()[1]
    assert row.startswith("4,")
    if command == "perf_analyzer":
        assert f"    Request count: {found.request_count}\n" in ended.stdout
        assert "Concurrency: 4, throughput: " in ended.stdout
        assert "check that the server is still running" in ended.stderr


@pytest.mark.parametrize("command", ["perf_analyzer", "inferometer"])
def test_a_count_that_is_given_up_says_how_many_were_not_sent(
    command: str, run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferometer.measure.liveness.GONE_NS", NS_PER_S)  # else it takes five

    def infer(number: int, request: Request) -> Act | None:
        return Wire.reset if number >= 20 else None

    with FakeTriton(infer) as fake:
        ended = run(
            command,
            *(("measure",) if command == "inferometer" else ()),
            *("-m", "fake", "-u", fake.server.address, "--request-count", "500"),
            *("--json", str(tmp_path / "r.json"), "--max-error-rate", "1"),
        )
    (level,) = api.load(str(tmp_path / "r.json")).levels
    unsent = 500 - level.measurement.ended_count
    assert ended.code == (99 if command == "perf_analyzer" else 3)
    assert unsent > 0
    told = ended.stderr if command == "perf_analyzer" else " ".join(ended.stdout.split())
    assert f"{unsent} of 500 requests were not sent" in told
    if command == "inferometer":
        assert "server gone" in ended.stdout


def test_a_killed_worker_ends_the_run_with_what_was_measured(start: Callable, tmp_path: Path) -> None:
    csv, json = tmp_path / "r.csv", tmp_path / "r.json"
    with FakeTriton() as fake:
        process = start(
            "-m",
            "fake",
            "-u",
            fake.server.address,
            *QUICK,
            "-p",
            "100000",
            "-f",
            str(csv),
            "--json",
            str(json),
        )
        assert fake.wait_for_inferences(500)
        (worker,) = psutil.Process(process.pid).children()
        worker.kill()
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 99
    assert "Traceback" not in stderr
    assert "a worker process was killed" in stderr
    assert re.search(r"^    Request count: \d\d+$", stdout, re.M)
    assert csv.read_text().splitlines()[1].startswith("1,")
    (level,) = api.load(str(json)).levels
    assert level.measurement.request_count > 0
    assert "WORKER_LOST" in {remark.note.name for remark in level.remarks}
