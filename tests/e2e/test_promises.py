"""`measure --slo` as its users see it: what is said, written and answered with an exit code."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from tests.support.openai import FakeOpenAi
from tests.support.servers import Act, FakeTriton, Request, ScriptedServer, answer, answer_json, never


def fails_every_fourth(number: int, request: Request) -> Act | None:
    return answer_json({"error": "boom"}, 503) if number % 4 == 3 else None


SLOW_S = 0.03  # of service: far longer than the client waits for a core, or a violated SLO would be undecided


@pytest.mark.machine(reason="an SLO of 400 ms is missed where other processes hold up one reply for as long")
@pytest.mark.parametrize(
    ("promise", "verdict", "code"),
    [
        ("p50<1h, p90<1h", "kept", 0),
        ("latency<1h, goodput>90%", "kept", 0),
        ("p99<1us", "broken", 4),
        ("throughput>1000000", "broken", 4),
        ("p99.99<400ms", "undecided", 5),
    ],
)
def test_an_slo_is_met_violated_or_undecided(
    promise: str, verdict: str, code: int, run: Callable, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("it.json", "it.xml", "it.csv")]
    with FakeTriton(service_s=SLOW_S) as fake:
        ended = run(
            "inferometer",
            *("measure", "-m", "fake", "-u", fake.server.address, "-c", "4", "-n", "100", "--slo", promise),
            *("--json", str(files[0]), "--junit", str(files[1]), "-f", str(files[2])),
        )
    assert ended.code == code, ended
    (level,) = json.loads(files[0].read_text())["levels"]
    assert level["promise"]["verdict"] == verdict
    assert [row["text"] for row in level["promise"]["terms"]] == [*promise.split(", "), "errors<0.1%"]
    suite = ET.parse(files[1]).getroot()
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == [
        "1", str(int(verdict == "broken")), str(int(verdict == "undecided")),
    ]  # fmt: skip
    (row,) = csv.DictReader(io.StringIO(files[2].read_text()))
    word = {"kept": "met", "broken": "violated"}.get(verdict, verdict)
    assert (row["Promise"], re.split("[:;]", row["Verdict"])[0]) == (verdict, word)
    said = {"kept": "Meets '", "broken": "Violates '", "undecided": "Undecided at concurrency 4 whether '"}
    assert said[verdict] + promise in " ".join(ended.stdout.split())
    assert word in ended.stderr


@pytest.mark.parametrize(
    ("promise", "more", "code"),
    [
        ("p50<1h", (), 1),  # failures that nobody allowed
        (
            "p50<1h",
            ("--max-error-rate", "50%"),
            4,
        ),  # allowed, and more than one in a thousand that a promise allows
        ("p50<1h, errors<5%", (), 4),
        ("p50<1h, errors<60%", (), 0),
        ("p50<1h, errors<60%", ("--max-error-rate", "1%"), 1),
    ],
)
def test_failed_requests_and_an_slo(promise: str, more: tuple[str, ...], code: int, run: Callable) -> None:
    with FakeTriton(fails_every_fourth) as fake:
        words = (
            "measure",
            "-m",
            "fake",
            "-u",
            fake.server.address,
            "--request-count",
            "100",
            "--slo",
            promise,
        )
        ended = run("inferometer", *words, *more)
    assert ended.code == code, ended


def test_a_server_that_never_answers_takes_precedence_over_the_slo(run: Callable) -> None:
    with FakeTriton(lambda number, request: never) as fake:
        words = ("measure", "-m", "fake", "-u", fake.server.address, "--duration", "0.2s", "--slo", "p99<1us")
        ended = run("inferometer", *words)
    assert ended.code == 3
    assert "undecided: p99" in ended.stdout


def test_the_classic_script_only_counts_goodput(run: Callable, tmp_path: Path) -> None:
    table = tmp_path / "it.csv"
    with FakeTriton() as fake:
        words = (
            "-m",
            "fake",
            "-u",
            fake.server.address,
            "--request-count",
            "20",
            "--slo",
            "p99<1us",
            "-f",
            str(table),
        )
        ended = run("perf_analyzer", *words)
    assert ended.code == 0
    assert "Goodput: 0 infer/sec (0.00 %) within p99<1us" in ended.stdout
    assert table.read_text().splitlines()[0].endswith("p99 latency,Goodput")


REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("measure", "--slo", "latency<50"), "'latency<50' has no unit; write 50ms, 50us or 50s"),
    (("find", "--slo", "p99<50"), "'p99<50' has no unit"),
    (("find", "--slo", "p99<50ms, throughput>5"), "find judges each load"),
    (("tune", "--slo", "mean<50"), "'mean<50' has no unit"),
    (("tune", "--slo", "latency<1s, goodput>95%"), "--slo names goodput"),
    (("measure", "--slo", "ttft<50ms"), "an answer that is not streamed arrives all at once"),
    (("measure", "--slo", "tpot<50ms"), "have no tokens"),
    (("measure", "--slo", "gap p99<50ms"), "have no tokens"),
    (("diagnose", "--slo", "p99<50ms"), "use it with `inferometer measure`"),
    (("measure", "--slo", "p99<50ms", "--junit", "no/such/folder/it.xml"), "no/such/folder"),
)


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[" ".join(row[0]) for row in REFUSED])
def test_what_would_have_no_effect_is_refused_before_any_load(
    words: tuple[str, ...], said: str, run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where tune would put its journal
    with FakeTriton() as fake:
        ended = run("inferometer", *words, "-m", "fake", "-u", fake.server.address)
        assert not fake.inferences
    assert ended.code == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("figure", ["ttft", "tpot", "gap p99"])
def test_without_a_stream_a_text_comes_all_at_once(figure: str, run: Callable) -> None:
    with FakeOpenAi() as fake:
        words = ("measure", fake.server.address, "tiny", "-n", "10", "--slo", f"{figure}<1h")
        ended = run("inferometer", *words, "--no-streaming")
        assert not fake.calls
        assert run("inferometer", *words).code == 0
    assert ended.code == 2
    assert (
        "an answer that is not streamed arrives all at once; limit the latency instead, or remove --no-streaming"
        in ended.stderr
    )


def test_an_slo_is_violated_if_every_request_failed(run: Callable) -> None:
    with ScriptedServer(lambda request: answer(b"no", 404)) as server:
        words = ("measure", server.address, "--service-kind", "http", "-n", "20", "-q", "--slo", "p99<1h")
        ended = run("inferometer", *words, "--max-error-rate", "100%")
    assert ended.code == 4
    assert ended.stdout.startswith("Violates 'p99<1h' at concurrency 1: errors 100 %")
    assert "Every request failed (20 in all), so there is nothing to report." in ended.stdout


def test_comparisons_have_conditions_instead(run: Callable) -> None:
    ended = run("inferometer", "compare", "-m", "a", "-m", "b", "--slo", "p99<50ms")
    assert ended.code == 64
    assert "--slo is not supported by `inferometer compare`" in ended.stderr


@pytest.mark.machine(reason="what a client short of cores measured violates no SLO")
def test_python_code_gets_the_same() -> None:
    with FakeTriton(service_s=SLOW_S) as fake:
        found = api.measure("fake", url=fake.server.address, duration_s=None, request_count=30, slo="p99<1us")
        assert found.breaks_promise
        before = len(fake.inferences)
        for refused in (api.measure, api.find):
            with pytest.raises(UsageError, match="'latency<50' has no unit"):
                refused("fake", url=fake.server.address, slo="latency<50")
        assert len(fake.inferences) == before
