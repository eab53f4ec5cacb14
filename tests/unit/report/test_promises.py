"""An SLO in the sentences, tables, files and exit code of a measurement, which must be consistent."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from inferometer.base.answer_file import from_json, to_json
from inferometer.base.notes import Note, Remark
from inferometer.cli.find import find_code
from inferometer.cli.reporting import SLO_BROKEN, exit_code
from inferometer.dialects.perf_analyzer.main import FAILURE
from inferometer.dialects.perf_analyzer.main import exit_code as classic_code
from inferometer.options.effective import Effective
from inferometer.options.options import Options
from inferometer.report.csv import main_csv
from inferometer.report.document import Chart, Section, Table, Tone
from inferometer.report.promises import promise_sentence, verdict_word
from inferometer.report.saved import document, to_html, to_junit, to_markdown
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import ClassFigures, FailureGroup, Level
from inferometer.stats.result import Result
from inferometer.stats.slo_outcome import Keeping, PromiseOutcome, TermOutcome
from inferometer.stats.verdict import EXIT_INCONCLUSIVE
from tests.support.samples import examples
from tests.unit.report import builders as build

MS = 1_000_000
PROMISE = "p99<50ms"
FIGURES: dict[str, Estimate] = {
    "kept": Estimate(40.0 * MS, 39.0 * MS, 41.0 * MS),
    "broken": Estimate(63.0 * MS, 61.0 * MS, 65.0 * MS),
    "undecided": Estimate(49.0 * MS, 47.0 * MS, 51.0 * MS),
}


def outcome(verdict: Keeping, promise: str = PROMISE) -> PromiseOutcome:
    reason = "the limit lies inside the interval" if verdict == "undecided" else ""
    terms = (
        TermOutcome("p99", "p99<50ms", 50.0 * MS, FIGURES[verdict], verdict, reason),
        TermOutcome("errors", "errors<0.1%", 0.001, Estimate(0.0), "kept"),
    )
    return PromiseOutcome(promise, verdict, terms)


def level(value: float, verdict: Keeping | None, failed: int = 0, note: Note | None = None) -> Level:
    failures = [FailureGroup("http 500", failed, "boom", 0.0, 1.0)] if failed else []
    found = build.measurement(
        1000, 100.0 * value, 40_000, 10, (40_000, 40_000, 40_000, 40_000), failures=failures
    )
    remarks = [] if note is None else [Remark(note, "said of it")]
    made = build.level(found, value, remarks=remarks)
    return replace(made, promise=None if verdict is None else outcome(verdict))


def result(*verdicts: Keeping) -> Result:
    return measured([level(2**number, verdict) for number, verdict in enumerate(verdicts)])


def measured(levels: Sequence[Level]) -> Result:
    return replace(build.result(*levels), command="measure")


GONE, STOPPED = Note.SERVER_GONE, Note.INTERRUPTED
KEPT: Keeping = "kept"
BROKEN: Keeping = "broken"
UNDECIDED: Keeping = "undecided"
INSIDE = "the limit lies inside the interval"


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ((KEPT,), "Meets 'p99<50ms' at concurrency 1: p99 40.0 ms ±2.5 %, errors 0 %."),
        ((KEPT, KEPT), "Meets 'p99<50ms' at all levels, concurrency 1 to 2."),
        (
            (KEPT, KEPT, BROKEN, BROKEN),
            "Meets 'p99<50ms' up to concurrency 2; violated from concurrency 4: p99 63.0 ms ±3.2 %.",
        ),
        (
            (KEPT, BROKEN, KEPT),
            "Meets 'p99<50ms' at concurrency 1, 4; violated at concurrency 2: p99 63.0 ms ±3.2 %.",
        ),
        ((BROKEN,), "Violates 'p99<50ms' at concurrency 1: p99 63.0 ms ±3.2 %."),
        (
            (KEPT, UNDECIDED, BROKEN),
            "Meets 'p99<50ms' at concurrency 1; violated at concurrency 4: p99 63.0 ms ±3.2 %; undecided at "
            f"concurrency 2: p99 49.0 ms ±4.1 % ({INSIDE}). Use longer levels (-d) or more requests (-n) to decide it.",
        ),
        (
            (UNDECIDED,),
            f"Undecided at concurrency 1 whether 'p99<50ms' is met: p99 49.0 ms ±4.1 % ({INSIDE}). "
            "Use longer levels (-d) or more requests (-n) to decide it.",
        ),
    ],
)
def test_the_answer_is_one_sentence(verdicts, said):
    found = result(*verdicts)
    assert promise_sentence(found) == said
    assert document(found).verdict.startswith(said)


def test_without_an_slo_none_is_mentioned():
    found = measured([level(1, None)])
    assert promise_sentence(found) == ""
    assert "romise" not in to_markdown(found)
    assert main_csv(found).splitlines()[0].endswith("p99 latency,Verdict")


def test_figures_intervals_and_limits_are_in_a_table_of_every_form():
    found = result(KEPT, BROKEN)
    text = to_markdown(found)
    assert "| 1 | 40.0 ms ±2.5 % | 0 % | met |" in text
    assert "| 2 | 63.0 ms ±3.2 % | 0 % | violated: p99 |" in text
    assert "p99&lt;50ms" in to_html(found)


def test_the_limit_is_a_line_in_the_chart_of_its_figure():
    (throughput,) = (row for row in document(result(KEPT, BROKEN)).sections if row.name == "throughput")
    (chart,) = (block for block in throughput.blocks if isinstance(block, Chart))
    assert [(rule.value, rule.label) for rule in chart.rules] == [(50 * MS, "SLO: p99<50ms")]


def test_junit_has_a_case_for_each_level():
    suite = ET.fromstring(to_junit(result(KEPT, BROKEN, UNDECIDED)).encode())
    assert dict(suite.items()) == {
        "name": "inferometer measure",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
        "timestamp": "2025-01-01T00:00:00Z",
    }
    assert [case.get("name") for case in suite.iter("testcase")] == [
        f"concurrency {value} meets p99<50ms" for value in (1, 2, 4)
    ]
    assert [[(part.tag, part.get("message")) for part in case] for case in suite.iter("testcase")] == [
        [],
        [("failure", "p99 63.0 ms ±3.2 %")],
        [("skipped", f"undecided: p99 49.0 ms ±4.1 % ({INSIDE})")],
    ]


def test_junit_of_failed_levels_without_an_slo():
    levels = [level(1, None), level(2, None, failed=10), level(4, None, note=GONE), build.level(None, 8)]
    suite = ET.fromstring(to_junit(measured(levels)).encode())
    messages = [[part.get("message") for part in case.iter("failure")] for case in suite.iter("testcase")]
    assert messages == [[], ["10 of 1,010 requests failed"], ["server gone"], ["no reply"]]


def test_an_interrupted_level_is_not_passed_in_junit():
    levels = [level(1, verdict, note=STOPPED) for verdict in (None, KEPT, UNDECIDED, BROKEN)]
    suite = ET.fromstring(to_junit(measured(levels)).encode())
    assert [[(part.tag, part.get("message")) for part in case] for case in suite.iter("testcase")] == [
        *[[("skipped", "interrupted")]] * 3,
        [("failure", "p99 63.0 ms ±3.2 %")],
    ]


@pytest.mark.parametrize(
    ("levels", "code"),
    [
        ([level(1, KEPT), level(2, KEPT)], 0),
        ([level(1, UNDECIDED)], 5),
        ([level(1, UNDECIDED), level(2, BROKEN)], SLO_BROKEN),
        ([level(1, KEPT), level(2, BROKEN)], SLO_BROKEN),
        ([level(1, BROKEN, failed=10)], 1),  # the failures themselves come first
        ([level(1, BROKEN), level(2, BROKEN, note=GONE)], 3),
        # Several problems at once, in the order of docs/exit-codes.md.
        ([level(1, BROKEN, failed=10, note=STOPPED)], 130),
        ([level(1, KEPT), level(2, None, note=STOPPED)], 130),
        ([level(1, BROKEN, failed=10, note=STOPPED), level(2, None, note=GONE)], 3),
        ([level(1, BROKEN, note=Note.WORKER_LOST)], 70),
        ([level(1, BROKEN, note=Note.WORKER_LOST), level(2, None, note=GONE)], 3),
        ([level(1, KEPT, note=Note.CLIENT_LOST)], 70),
        ([level(1, KEPT), level(2, BROKEN, failed=10, note=Note.CLIENT_LOST)], 70),
    ],
)
def test_exit_codes(levels, code):
    assert SLO_BROKEN == 4
    assert exit_code(measured(levels), 0.0) == code


@pytest.mark.parametrize("where", ["in a level", "after the last one"])
@pytest.mark.parametrize("note", [Note.WORKER_LOST, Note.CLIENT_LOST, Note.FEWER_CLIENTS])
def test_every_command_fails_after_a_lost_worker_or_client(note, where):
    is_late = where != "in a level"
    found = measured([level(1, KEPT), level(2, KEPT, note=None if is_late else note)])
    found = replace(found, remarks=(Remark(note, ""),) if is_late else ())
    assert exit_code(found, 0.0) == 70
    assert find_code(found) == 70
    assert classic_code(found, Options(), is_interrupted=False) == FAILURE


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (level(1, UNDECIDED, note=STOPPED), 5),
        (level(1, BROKEN, note=STOPPED), SLO_BROKEN),
        (replace(level(1, None), remarks=(Remark(STOPPED, ""), Remark(Note.NO_REPLY, ""))), 3),
    ],
)
def test_a_requested_time_limit_is_not_an_interruption(found, code):
    limited = replace(measured([found]), remarks=(Remark(Note.TIME_LIMIT, "the time limit was reached"),))
    assert exit_code(limited, 0.0) == code
    assert "nterrupted" not in document(limited).verdict


def test_an_slo_on_errors_sets_the_allowed_failures():
    """Without one, none may fail; an SLO of less than 2 % errors need not allow them a second time."""
    promised = [replace(level(1, KEPT, failed=10), promise=outcome(KEPT, "p99<50ms, errors<2%"))]
    assert exit_code(measured(promised), 0.0) == 0
    assert exit_code(measured(promised), 0.005) == 1  # given in addition to the SLO
    assert exit_code(measured([level(1, KEPT, failed=10)]), 0.0) == 1


@pytest.mark.parametrize(
    ("classes", "code"),
    [
        ([(KEPT, "p99<5s, errors<30%", 100), (KEPT, "p99<5s, errors<40%", 200)], 0),
        ([(KEPT, "p99<5s, errors<30%", 100), (None, "", 0)], 0),
        ([(KEPT, "p99<5s, errors<30%", 100), (None, "", 1)], 1),  # of which none may fail
        ([(KEPT, "p99<5s, errors<30%", 100), (BROKEN, "p99<5s", 100)], 1),  # nor of this one
        ([(BROKEN, "p99<5s, errors<2%", 100), (None, "", 0)], SLO_BROKEN),
        ([(BROKEN, "p99<5s", 0), (KEPT, "p99<5s, errors<30%", 100)], SLO_BROKEN),
        ([(UNDECIDED, "p99<5s, errors<2%", 15), (KEPT, "p99<5s", 0)], 5),
    ],
)
def test_failures_of_a_class_are_judged_by_its_own_slo(classes, code):
    rows = tuple(
        ClassFigures(
            *(f"class {number}", "m", "http://a", "request_rate", 10.0, None, 0.5),
            level(1, None, failed=failed).measurement,
            (),
            promise=None if verdict is None else outcome(verdict, text),
        )
        for number, (verdict, text, failed) in enumerate(classes)
    )
    found = replace(level(1, None, failed=sum(row[2] for row in classes)), classes=rows)
    assert exit_code(measured([found]), 0.0) == code
    assert exit_code(measured([found]), 1.0) in (code, SLO_BROKEN, 0)  # all may fail


# --- all outputs together


@some.composite
def results(draw: some.DrawFn) -> Result:
    verdicts = draw(some.lists(some.sampled_from((KEPT, BROKEN, UNDECIDED)), min_size=1, max_size=5))
    levels = [
        level(
            2**number,
            verdict,
            draw(some.sampled_from((0, 0, 30))),
            GONE if draw(some.booleans()) and number > 2 else None,
        )
        for number, verdict in enumerate(verdicts)
    ]
    most = draw(some.sampled_from((0.0, 0.5)))
    return replace(measured(levels), effective=Effective(**{**build.EFFECTIVE, "max_error_rate": most}))


def cells(section: Section) -> dict[str, str]:
    """The last cell of each row by its first cell."""
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return {row[0]: row[-1] for row in table.rows}


@given(results())
@settings(max_examples=examples(20), deadline=None)
def test_verdict_tables_files_and_exit_code_never_contradict_each_other(found: Result) -> None:
    most = found.effective.max_error_rate
    code = exit_code(found, most)
    made = document(found)
    verdicts = {f"{row.value:g}": row.promise.verdict for row in found.levels if row.promise is not None}
    by_name = {section.name: section for section in made.sections}
    promised = cells(by_name["promise"])
    levels = cells(by_name["levels"])
    for value, verdict in verdicts.items():
        assert promised[value].split(":")[0] == verdict_word(verdict)
        assert levels[value].startswith(verdict_word(verdict))
    saved = json.loads(to_json(found))
    assert {f"{row['value']:g}": row["promise"]["verdict"] for row in saved["levels"]} == verdicts
    assert from_json(to_json(found), "it", Result) == found
    table = list(csv.DictReader(io.StringIO(main_csv(found))))
    assert {row["Concurrency"]: row["Promise"] for row in table} == verdicts
    suite = ET.fromstring(to_junit(found).encode())
    problems = {
        str(case.get("name")).split()[1]: [part.tag for part in case] for case in suite.iter("testcase")
    }
    for value, verdict in verdicts.items():
        if verdict == BROKEN:
            assert problems[value] == ["failure"]
        if problems[value] == []:
            assert verdict == KEPT
    is_broken = BROKEN in verdicts.values()
    assert (code not in (0, EXIT_INCONCLUSIVE)) == (suite.get("failures") != "0")
    assert (code == EXIT_INCONCLUSIVE) <= (UNDECIDED in verdicts.values() and not is_broken)
    assert (code == SLO_BROKEN) <= is_broken
    assert is_broken <= (code != 0)
    words = made.verdict.lower()
    assert ("violated" in words or "violates" in words) == is_broken
    assert ("meets" in words) == (KEPT in verdicts.values())
    assert ("undecided" in words) == (UNDECIDED in verdicts.values())
    assert is_broken <= (made.tone is Tone.BAD)
    assert (made.tone is Tone.GOOD) <= (code == 0 and set(verdicts.values()) == {KEPT})


def test_plain_http_has_requests_in_junit_too():
    term = TermOutcome("throughput", "throughput>200", 200.0, Estimate(100.0, 99.0, 101.0), BROKEN)
    made = replace(level(1, None), promise=PromiseOutcome("throughput>200", BROKEN, (term,)))
    found = replace(measured([made]), effective=Effective(**{**build.EFFECTIVE, "service_kind": "http"}))
    assert 'failure message="throughput 100 requests/s ±1.0 %"' in to_junit(found)
