"""The server of exact timing keeps its times and knows its own lateness; errors are counted against what it sent."""

import json
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from benchmarks.bar import Sample, Setting
from benchmarks.stream_server import FIRST_NS, GAP_NS, TOKENS, Sent, Truth, pieces, truth
from benchmarks.streams import (
    AIPERF,
    ENVIRONMENTS,
    GUIDELLM,
    OURS,
    Figures,
    StreamRun,
    StreamRuns,
    error_ms,
    stream_server,
    tokenizer,
    told,
)
from benchmarks.table import BARS, RIVALS
from inferometer.services.text_reply import TextReader
from inferometer.wire.http1 import ReplyDecoder

MS = 1_000_000


def sent(*late_ms: float) -> Sent:
    """A stream whose tokens left so much behind their due times."""
    due = [FIRST_NS + GAP_NS * number for number in range(len(late_ms))]
    return Sent(0, tuple(round(at + late * MS) for at, late in zip(due, late_ms, strict=True)))


def test_truth_is_what_was_sent_not_what_was_due() -> None:
    found = truth([sent(0, 0, 0), sent(2, 0, 4)])
    assert (found.streams, found.tokens, found.ttft_ms) == (2, 6, (51.0, 51.8))
    assert found.gap_ms == pytest.approx((10.5, 10.9))  # the means are 10 and 11
    assert found.late_p50_ms == 0.0
    assert found.late_p99_ms == pytest.approx(3.9)


def test_no_streams_no_truth() -> None:
    assert truth([], cut=3) == Truth(cut=3)


def test_an_answer_is_fifty_tokens_with_usage() -> None:
    decoder = ReplyDecoder(keep=True)
    whole = b"".join(pieces())
    assert decoder.receive(whole, len(whole))
    assert decoder.head is not None
    body = TextReader().start(decoder.head)
    body.receive(bytes(decoder.body), 1)
    reply = body.end()
    assert (reply.status, reply.responses, reply.tokens, reply.prompt_tokens) == (0, TOKENS, TOKENS, 20)
    for piece in pieces()[1:-1]:  # one chunk with one event each
        assert piece.count(b"data: ") == 1


def test_a_stream_over_a_socket_is_never_early_and_the_server_reports_its_lateness() -> None:
    with stream_server() as address:
        body = json.dumps({"model": "exact", "messages": [], "stream": True}).encode()
        request = Request(f"{address}/v1/chat/completions", body, {"Content-Type": "application/json"})
        began = time.monotonic_ns()
        with urlopen(request, timeout=60) as reply:
            received = reply.read()
        assert time.monotonic_ns() - began >= FIRST_NS + GAP_NS * (TOKENS - 1)
        assert received.endswith(b"data: [DONE]\n\n")
        found = told(address)
        assert told(address).streams == 0  # told once
    assert (found.streams, found.tokens, found.cut) == (1, TOKENS, 0)
    assert found.ttft_ms[0] >= FIRST_NS / MS


@pytest.mark.parametrize(
    ("said", "true", "error"),
    [
        ((50.0, 60.0), (50.0, 52.0), 8.0),
        ((58.0, 52.0), (50.0, 52.0), 8.0),
        ((50.0, 52.0), (50.0, 52.0), 0.001),  # nothing is divided by 0
    ],
)
def test_the_error_is_that_of_the_figure_that_is_further_off(
    said: tuple[float, float], true: tuple[float, float], error: float
) -> None:
    assert error_ms(said, true) == pytest.approx(error)


def test_one_run_serves_all_bars() -> None:
    figures = Figures((50.1, 50.2), 1800.0, (10.0, 10.0))
    told = Truth(ttft_ms=(50.0, 50.0), gap_ms=(10.0, 10.0))
    run = StreamRun(figures, told, 40.0, 2.0)
    runs = StreamRuns(20, runs={OURS: [run], AIPERF: [run]})
    for judged, value in (("ttft_error_ms", 0.2), ("cpu_us", 40.0)):
        with runs.bar(AIPERF, judged)(Setting()) as contest:
            found = contest.ours()
        assert isinstance(found, Sample)
        assert found.value == pytest.approx(value)


def test_the_family_has_every_number_of_streams_and_both_rivals() -> None:
    names = {bar.name for bar in BARS if bar.name.startswith("streams-")}
    for streams in (20, 200, 1000):
        assert {f"streams-{streams}-{end}" for end in ("ttft", "gap", "cpu", "ttft-guidellm")} <= names
    assert {"streams-1000-rate", "streams-1000-busy"} <= names


def test_the_documentation_describes_the_releases_that_are_measured() -> None:
    page = Path("docs/llm.md").read_text()
    for tool in (AIPERF, GUIDELLM):
        pinned = ENVIRONMENTS[tool][0].replace("==", " ").removesuffix(".*")
        assert RIVALS[tool] == pinned
        assert f"| {pinned} |" in page


def test_the_tokenizer_of_the_others_is_made_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.streams.PARTS", tmp_path)
    folder = tokenizer()
    words = json.loads((folder / "tokenizer.json").read_text())
    assert words["model"]["vocab"]["w0"] == 3
    assert json.loads((folder / "tokenizer_config.json").read_text())["unk_token"] == "<unk>"
