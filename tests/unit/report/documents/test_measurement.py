"""A measurement on a terminal, as golden text without colour."""

import io
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from inferometer.base.notes import Note, Remark
from inferometer.report.document import Bars, Chart, Column, Document, Section, Table, Tone
from inferometer.report.documents.breakdown import slowest_step
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.saved import document
from inferometer.report.sentences import finding_sentence, verdict_words
from inferometer.report.terminal import show
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import ClientCost, Doubt, FailureGroup, StartFigures
from inferometer.stats.result import Finding, JudgedLoad

Golden = Callable[[str, str], None]


def text_of(result: Any, width: int = 100) -> str:
    stream = io.StringIO()
    show(document(result), Console(file=stream, no_color=True, width=width))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def plain_sweep(build: ModuleType) -> Any:
    server = build.model("simple", build.counters(8300, 147, 14, (11, 93, 27)))
    first = build.measurement(8300, 3208.51, 307, 374, (223, 443, 708, 1979), server=server, interval=0.014)
    busy = build.measurement(
        12345, 15208.5, 1307, 374, (1223, 2443, 3708, 12979), server=server, interval=0.031, cpu=0.97
    )
    limited = Remark(Note.CLIENT_LIMITED, "the busiest worker used 97 % of a core")
    levels = (
        build.level(first),
        build.level(busy, 16, remarks=[limited]),
        build.level(None, 32, is_stable=False),
    )
    return build.result(*levels, model={"name": "simple"})


def image_ensemble(build: ModuleType) -> Any:
    server = build.ensemble(
        "ensemble_image",
        build.counters(400, 31_000),
        build.model("classifier", build.counters(400, 4_000, 100, (50, 3_800, 50))),
        build.model("postprocessing", build.counters(800, 300, 20, (20, 240, 20))),
        build.model("preprocessing", build.counters(400, 26_000, 18_000, (100, 7_800, 100))),
    )
    row = build.measurement(
        400, 120.4, 32_500, 900, (31_000, 36_000, 39_000, 52_000), server=server, interval=0.02
    )
    return build.result(build.level(row, 4), model={"name": "ensemble_image"})


def troubled(build: ModuleType) -> Any:
    groups = (
        FailureGroup("http 503", 12, "[red]queue is full[/red]\nsecond line", 0.1, 3.2, 1_200_000, 9_000_000),
        FailureGroup("timeout", 1, "", 2.0, 2.0),
    )
    row = build.measurement(900, 320.5, 2307, 374, (223, 443, 708, 1979), failures=groups)
    remarks = [
        Remark(Note.NOT_STABLE, "throughput of the last 3 windows spans 31 %, more than 10 %"),
        Remark(Note.FAILURES, "13 of 913 requests failed"),
    ]
    level = build.level(row, 8, is_stable=False, is_over_limit=True, remarks=remarks)
    missing = Remark(Note.STATISTICS_MISSING, "the server does not support the statistics extension")
    return build.result(level, remarks=[missing])


def request_rate(build: ModuleType) -> Any:
    row = build.measurement(900, 99.5, 2307, 374, (223, 443, 708, 1979), interval=0.001)
    return build.result(build.level(row, 100.5, mode="request_rate"), mode="request_rate")


def unsure(build: ModuleType) -> Any:
    client = ClientCost(
        *(1, 0.345, 30.25, 0, 0),
        connects=4,
        files=13,
        file_limit=1024,
        loop_lag_p50_ns=31_000,
        loop_lag_max_ns=2_300_000,
        lag_p50_ns=12_000,
        lag_p99_ns=840_000,
    )
    row = build.measurement(900, 99.5, 2307, 374, (223, 443, 708, 1979), interval=0.051)
    start = StartFigures(1_500_000_000, 120, 80.0, build.distribution(30_000, 9, {50: 29_000, 99: 90_000}))
    doubt = Doubt("drift", "throughput goes up by 42% over the level", "throughput", "▁▁▂▃▄▅▅▆▇█")
    remark = Remark(Note.NOT_PRECISE, "asked for ±2.0%: throughput ±5.1%")
    level = replace(build.level(replace(row, client=client), 4, remarks=[remark]), start=start, doubt=doubt)
    return build.result(level)


@pytest.mark.parametrize(
    "run", [plain_sweep, image_ensemble, troubled, request_rate, unsure], ids=lambda run: run.__name__
)
def test_console_report_is_the_golden_one(
    run: Callable[[ModuleType], Any], build: ModuleType, golden: Golden
) -> None:
    text = text_of(run(build))
    golden(f"console_{run.__name__}.txt", text)
    assert max(len(line) for line in text.splitlines()) <= 100


def test_figures_survive_a_narrow_terminal(build: ModuleType) -> None:
    text = text_of(plain_sweep(build), width=80)
    assert "15,208" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_server_messages_are_not_markup(build: ModuleType) -> None:
    assert "[red]queue is full[/red]" in text_of(troubled(build))


def test_slowest_step_is_named_with_its_share_and_waiting(build: ModuleType) -> None:
    measurement = image_ensemble(build).levels[0].measurement
    assert slowest_step(measurement) == (
        "Slowest step: preprocessing, 26.0 ms per request, 84 % of the server's time; "
        "69 % of that is waiting in its queue."
    )


def test_without_server_statistics_no_step_is_named(build: ModuleType) -> None:
    assert slowest_step(build.measurement(9, 9.0, 9, 9, (1, 2, 3, 4))) == ""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "up to 98.0 requests/s (95 % interval 96.0 to 104); limited by p99. Knee at 50.0."),
        ({"low": 0.0}, "up to 98.0 requests/s (95 % interval up to 104); limited by p99"),
        (
            {"high": None},
            "(95 % interval 96.0 or more); no violation found up to 120, the highest",
        ),
        ({"high": None, "low": 0.0}, "up to 98.0 requests/s (95 % interval unknown)"),
        (
            {"needed_s": 80.0},
            "Knee at 50.0. To narrow this down, search for 80 s or longer.",
        ),
        (
            {"value": 0.0, "low": 0.0, "judged": (JudgedLoad(98.0, "broken", ("p99",)),)},
            "'p99<1ms' is not met at any load tried; limited by p99.",
        ),
        (
            {
                "value": 0.0,
                "low": 0.0,
                "judged": (JudgedLoad(99.0, "undecided"), JudgedLoad(104.0, "broken")),
            },
            "It is undecided whether 'p99<1ms' is met at 99.0 requests/s, the lowest load tried "
            "(95 % interval up to 104).",
        ),
        (
            {"confidence": None, "judged": ()},
            "up to 98.0 requests/s (between 96.0 and 104)",
        ),  # written by 0.1
    ],
)
def test_a_finding_states_the_load_and_its_interval(more: dict[str, Any], says: str) -> None:
    judged = (JudgedLoad(98.0, "kept"), JudgedLoad(120.0, "broken", ("p99",)))
    finding = Finding(
        "p99<1ms", "request_rate", 98.0, 96.0, 104.0, "p99", 50.0, confidence=0.95, judged=judged
    )
    assert says in finding_sentence(replace(finding, **more))


def test_a_search_level_states_its_slo_verdict(build: ModuleType) -> None:
    level = plain_sweep(build).levels[0]
    for row, says in (
        (JudgedLoad(level.value, "kept"), "met"),
        (JudgedLoad(level.value, "undecided", ("p99",)), "undecided"),
        (JudgedLoad(level.value, "broken", ("p99", "errors")), "violated: p99"),  # this level has no errors
        (JudgedLoad(level.value + 1, "broken", ("p99",)), "ok"),
    ):
        finding = Finding("p99<1ms", level.mode, 1.0, 1.0, 2.0, "p99", 1.0, confidence=0.95, judged=(row,))
        assert verdict_words(level, finding) == says


def test_at_60_columns_every_level_keeps_its_figures_and_verdict(build: ModuleType) -> None:
    text = text_of(plain_sweep(build), width=60)
    assert max(len(line) for line in text.splitlines()) <= 60
    assert "client limit" in text
    assert "13.0 ms" in text


def test_expert_figures_are_shown_on_request(build: ModuleType) -> None:
    stream = io.StringIO()
    show(document(plain_sweep(build)), Console(file=stream, width=100), is_verbose=True)
    assert "Client: 97 % of a core" in stream.getvalue()
    assert "Client: " not in text_of(plain_sweep(build))


@pytest.mark.parametrize("width", [20, 30, 45, 60])
def test_narrow_tables_drop_columns_but_never_cut_figures(width: int) -> None:
    table = Table("Rates", tuple(map(Column, "abcdefg")), (tuple(f"{n}.1234567" for n in range(7)),))
    stream = io.StringIO()
    found = Document("kind", "title", (), "Verdict.", (Section("rates", "Rates", "", (table,)),))
    show(found, Console(file=stream, width=width))
    cells = stream.getvalue().splitlines()[-1].split()
    assert cells == [f"{n}.1234567" for n in range((width + 2) // 11)]


def test_failures_are_the_answer_if_nothing_succeeded(build: ModuleType) -> None:
    groups = (
        FailureGroup("http 500", 1, "other", 0.1, 0.1),
        FailureGroup("http 503", 1041, "not ready", 0.0, 2.0),
    )
    found = replace(build.measurement(0, 0.0, 0, 0, (0, 0, 0, 0)), failed_count=1042, failures=groups)
    page = measurement_document(build.result(build.level(found, 1)))
    assert page.tone is Tone.BAD
    assert page.verdict.startswith(
        "Every request failed (1,042 in all), so there is nothing to report. Most often: http 503: not ready."
    )


def test_only_reliable_results_are_green(build: ModuleType) -> None:
    sure = build.measurement(900, 2350.0, 307, 1, (1, 2, 3, 4), interval=0.01)
    level = build.level(sure, 1)
    assert measurement_document(build.result(level)).tone is Tone.GOOD
    busy = replace(level, remarks=(Remark(Note.HOST_BUSY, "others"),))
    assert measurement_document(build.result(busy)).tone is Tone.WARNING
    few = replace(level, measurement=replace(sure, infer_per_s=Estimate(2350.0)))
    page = measurement_document(build.result(few))
    assert page.tone is Tone.WARNING
    assert "900 requests are too few to estimate the uncertainty." in page.verdict


def test_a_search_draws_each_load_once(build: ModuleType) -> None:
    finding = Finding("p99<10ms", "request_rate", 20.0, 10.0, 30.0, "p99", 20.0, 0.95)
    levels = [
        build.level(build.measurement(count, 20.0, 307, 1, (1, 2, 3, 4)), 20, mode="request_rate")
        for count in (10, 500)
    ]
    page = measurement_document(replace(build.result(*levels), finding=finding))
    sections = {row.name: row.blocks[0] for row in page.sections}
    curves, bars = sections["distribution"], sections["time"]
    assert isinstance(curves, Chart)
    assert isinstance(bars, Bars)
    assert [row.name for row in curves.series] == ["request rate 20"]
    assert [row.label for row in bars.rows] == ["request rate 20"]


def test_a_load_that_adds_little_is_compared_with_the_load_of_the_headline(build: ModuleType) -> None:
    def level(load: int, speed: float) -> Any:
        return build.level(build.measurement(9000, speed, 307, 1, (1, 2, 3, 4), interval=0.02), load)

    page = measurement_document(build.result(level(1, 960.0), level(3, 1000.0), level(6, 1015.0)))
    lead = next(section.lead for section in page.sections if section.name == "throughput")
    assert page.figures[0].detail.endswith("at concurrency 3")
    assert lead.endswith("it already reaches 96 % of the throughput at concurrency 3.")
