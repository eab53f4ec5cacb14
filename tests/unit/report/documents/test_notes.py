"""Notes: each appears once, for all levels it applies to."""

from dataclasses import replace

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.report.document import Messages
from inferometer.report.documents.notes import Said, grouped, notes_section
from inferometer.report.saved import document
from inferometer.stats.estimate import Distribution
from inferometer.stats.measurement import Doubt, Level, StartFigures
from inferometer.stats.result import Result
from tests.support.reports import sample_result, sample_text


def levels(count: int) -> list[Level]:
    (level, *_) = sample_result().levels
    return [replace(level, value=float(2**number)) for number in range(count)]


@pytest.mark.parametrize(
    ("texts", "lines"),
    [
        (["busy"] * 2, ["concurrency 1: busy", "concurrency 2: busy"]),
        (["busy"] * 4, ["concurrency 1, 2, 4, 8: busy"]),
        (
            ["others used 1.9 of 2 cores", "others used 2 of 2 cores", "others used 1 of 2 cores"],
            ["concurrency 1, 2, 4: others used 1 to 2 of 2 cores"],
        ),
        (
            ["p99 9.50 ms of 1,200", "p99 10.0 ms of 900", "p99 8 ms of 10,000", "p99 1 s of 3"],
            ["concurrency 1, 2, 4, 8: p99 8 ms to 1 s of 3 to 10,000"],
        ),
        (
            ["2 left", "up 3 %", "3 left"],
            ["concurrency 1: 2 left", "concurrency 4: 3 left", "concurrency 2: up 3 %"],
        ),
        (["at 127.0.0.1:8000"] * 3, ["concurrency 1, 2, 4: at 127.0.0.1:8000"]),
    ],
)
def test_remarks_that_differ_only_in_numbers_share_a_line(texts: list[str], lines: list[str]) -> None:
    said = [Said(level, text) for level, text in zip(levels(len(texts)), texts, strict=True)]
    assert list(grouped(said)) == lines


def test_remarks_on_the_whole_run_name_no_level() -> None:
    assert list(grouped([Said(None, "3 were cut off"), Said(None, "4 were cut off")])) == [
        "3 were cut off",
        "4 were cut off",
    ]


def with_levels(found: list[Level]) -> Result:
    return replace(sample_result(), levels=tuple(found), remarks=())


def test_a_sweep_shows_each_note_once() -> None:
    rows = []
    for number, level in enumerate(levels(12)):
        assert level.measurement is not None
        latency = level.measurement.latency
        first = StartFigures(10**9, 7, 3.0, replace(latency, mean_ns=latency.mean_ns * (90 + number) // 100))
        remarks = (Remark(Note.HOST_BUSY, f"others used 1.{number} of this machine's 2 cores"),)
        rows.append(replace(level, remarks=remarks, first_round=first, start=None, doubt=None))
    section = notes_section(with_levels(rows))
    assert section is not None
    (messages,) = section.blocks
    assert isinstance(messages, Messages)
    first_rounds, busy = messages.rows
    assert "their first round is excluded: its answers took -10.0 % (concurrency 1) to" in first_rounds.text
    assert "others used 1.0 to 1.9 of this machine's 2 cores" in busy.text or "1.0 to 1.11" in busy.text
    assert "\n" not in first_rounds.text + busy.text


def test_reasons_of_many_levels_share_a_line() -> None:
    limits = [f"client-limited: this tool was {late} behind" for late in ("900 µs", "51.0 ms", "1.20 s")]
    rows = [
        replace(
            level,
            remarks=(Remark(Note.CLIENT_STARVED, limits[number]),) if number < 3 else (),
            start=StartFigures(10**9 * (number + 1), 0, 80.0 + number, Distribution(0, 0, 0, None, None, ())),
            doubt=Doubt("client-limited", limits[number], "mean latency", "▁█")
            if number < 3
            else Doubt("drift", f"drift: tokens/s goes up by {number} %", "tokens/s", "▁█"),
        )
        for number, level in enumerate(levels(6))
    ]
    section = notes_section(with_levels(rows))
    assert section is not None
    (messages,) = section.blocks
    assert isinstance(messages, Messages)
    assert [row.text for row in messages.rows] == [
        "concurrency 1, 2, 4, 8, 16, 32: the first 1.00 to 6.00 s differ from the rest and are excluded: "
        "80.0 to 85.0 infer/s",
        "concurrency 8, 16, 32: drift: tokens/s goes up by 3 to 5 %",
        "concurrency 1, 2, 4: client-limited: this tool was 900 µs to 1.20 s behind",
    ]


def test_llm_servers_have_requests_and_no_batch() -> None:
    result = sample_text()
    result = replace(result, effective=replace(result.effective, service_kind="openai"))
    text = str(document(result))
    assert "Requests/s" in text
    assert "nfer/s" not in text
    assert not any("batch" in fact for fact in document(result).facts)
