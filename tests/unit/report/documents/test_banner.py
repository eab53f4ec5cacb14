"""The colour of a page's banner, its sentence and the verdicts of its levels are consistent."""

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.base.notes import Note, Remark
from inferometer.report.document import Table, Tone
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.saved import to_html
from inferometer.report.sentences import verdict_words
from inferometer.stats.estimate import Estimate
from inferometer.stats.measurement import FailureGroup
from inferometer.stats.result import Finding, JudgedLoad, Result
from inferometer.stats.slo_outcome import PromiseOutcome, TermOutcome
from tests.support.reports import sample_result
from tests.support.samples import examples

EXAMPLES = examples(12)

REMARKS = st.lists(st.sampled_from(Note), max_size=3, unique=True)
LOADS = (1.0, 2.0, 3.0, 4.0)


@st.composite
def levels(draw):
    """Levels that succeeded, or failed in any way."""
    found = []
    for level in sample_result().levels[: draw(st.integers(0, 4))]:
        answered = draw(st.sampled_from(("all", "some", "none", "nothing")))
        row = level.measurement
        if answered in ("some", "none"):
            group = FailureGroup("http 503", 7, "busy", 0.1, 0.2)
            row = replace(row, failed_count=7, failures=(group,))
        if answered == "none":
            row = replace(row, request_count=0)
        remarks = tuple(Remark(note, "so it was") for note in draw(REMARKS))
        verdict = draw(st.sampled_from((None, "kept", "broken", "undecided")))
        outcome = None
        if verdict is not None:
            term = TermOutcome(
                "p99", "p99<50ms", 50e6, Estimate(40e6) if verdict == "kept" else None, verdict
            )
            outcome = PromiseOutcome("p99<50ms", verdict, (term,))
        changed = replace(
            level, promise=outcome, measurement=None if answered == "nothing" else row, remarks=remarks
        )
        found.append(replace(changed, is_stable=draw(st.booleans()), is_over_limit=draw(st.booleans())))
    return tuple(found)


@st.composite
def findings(draw):
    if draw(st.booleans()):
        return None
    verdicts = st.sampled_from(("kept", "broken", "undecided"))
    judged = tuple(JudgedLoad(load, draw(verdicts), ("p99",)) for load in LOADS)
    value, low = draw(st.sampled_from((0.0, 2.0))), draw(st.sampled_from((0.0, 1.0)))
    high = draw(st.sampled_from((None, 3.0)))
    return Finding("p99<50ms", "concurrency", value, low, high, "p99", 1.0, confidence=0.95, judged=judged)


def build(levels, finding, allowed, run_remarks) -> Result:
    result = sample_result()
    effective = replace(result.effective, max_error_rate=allowed)
    remarks = tuple(Remark(note, "so it was") for note in run_remarks)
    return replace(result, levels=levels, finding=finding, effective=effective, remarks=remarks)


RESULTS = st.builds(build, levels(), findings(), st.sampled_from((0.0, 0.5)), REMARKS)


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESULTS)
def test_a_banner_is_green_only_if_nothing_is_wrong(result):
    page = measurement_document(result)
    if page.tone is not Tone.GOOD:
        return
    assert not any(level.is_cut_short or level.has_remark(Note.INTERRUPTED) for level in result.levels)
    if result.finding is None:
        assert result.levels
        assert {verdict_words(level) for level in result.levels} <= {"ok", "met"}
        assert not result.failed_share
    else:
        assert result.finding.value
        assert result.finding.low
        assert result.finding.high is not None


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESULTS)
def test_a_banner_that_is_not_green_gives_a_reason(result):
    page = measurement_document(result)
    words = {word for level in result.levels for word in verdict_words(level).split(", ")} - {"ok", "met"}
    reasons = words | {
        "failed",
        "violates 'p99<50ms'",
        "violated at",
        "violated from",
        "undecided",
        "nothing to report",
        "worker process died",
        "is not met",
        "unknown",
        "interval up to",
        "no violation found",
        "the machine was busy",
        "too few to estimate",
    }
    assert (page.tone is not Tone.GOOD) == any(reason in page.verdict.lower() for reason in reasons), (
        page.verdict
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESULTS)
def test_a_run_without_results_or_cut_short_is_red(result):
    page = measurement_document(result)
    is_cut = any(level.is_cut_short for level in result.levels)
    good = sum(level.measurement.request_count for level in result.levels if level.measurement is not None)
    finding = result.finding
    least = None if finding is None else min(finding.judged, key=lambda row: row.load, default=None)
    is_broken = finding is not None and not finding.value and (least is None or least.verdict == "broken")
    if not good or is_cut or is_broken:
        assert page.tone is Tone.BAD
    elif finding is not None and not finding.value:
        assert page.tone is not Tone.GOOD
    if result.finding is None and result.failed_share > result.effective.max_error_rate:
        assert page.tone is Tone.BAD


@settings(max_examples=EXAMPLES, deadline=None)
@given(RESULTS)
def test_each_row_has_the_colour_of_its_words(result):
    for table in (
        block for row in measurement_document(result).sections if row.name == "levels" for block in row.blocks
    ):
        assert isinstance(table, Table)
        for cells, tone in zip(table.rows, table.tones, strict=False):
            said = cells[-1]
            assert (tone is Tone.GOOD) == (said in ("ok", "met"))
            if said.startswith("violated") or "all failed" in said or "no reply" in said:
                assert tone is Tone.BAD


def test_the_page_has_the_colour_of_its_document():
    result = sample_result()
    fine = replace(result, levels=result.levels[1:])
    for row, colour in ((fine, "good"), (result, "warning"), (replace(result, levels=()), "bad")):
        assert re.findall(r'<p class="verdict (\w+)"', to_html(row)) == [colour]
    assert "Not precise at concurrency 1." in measurement_document(result).verdict
