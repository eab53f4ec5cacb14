"""A comparison as text, Markdown and JUnit."""

import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from inferometer.compare.comparison import (
    FAILED,
    FASTER,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    PASSED,
    SLOWER,
    Comparison,
    Contrast,
    Difference,
    GateOutcome,
    LevelDifference,
    OutputSimilarity,
    Turn,
    Variant,
)
from inferometer.compare.differences import difference_verdict, overall
from inferometer.report.document import Table, Tone
from inferometer.report.documents.comparison import sentences
from inferometer.report.documents.speed import output_difference, speed_of, times, verdict
from inferometer.report.saved import document, to_junit, to_markdown
from inferometer.report.terminal import show
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import named
from tests.support.reports import sample_comparison, sample_interference
from tests.support.samples import examples

EXAMPLES = examples(12)

ROWS = (
    Difference("throughput", 846.2, 1022.4, Estimate(20.8, 18.1, 23.6), FASTER),
    Difference("p50", 962_000.0, 800_000.0, Estimate(-16.8, -18.0, -15.6), FASTER),
    Difference("p95", 1_920_000.0, 1_900_000.0, Estimate(-1.0, -6.0, 4.2), NO_DIFFERENCE),
    Difference(
        "p99", 4_690_000.0, 4_100_000.0, Estimate(-12.6), NO_DIFFERENCE, "800 requests of each are needed"
    ),
)
OUTPUTS = (
    OutputSimilarity("AUDIO", "FP32", 8, 100, 0.0, 6.5e-2, 4.1e-3, 7.3e-3, 0.999975, 42.8),
    OutputSimilarity("CLASS", "BYTES", 8, 8, exact=1.0),
    OutputSimilarity("GONE", "FP32", 0, 0, problem="missing from the variant"),
)
GATES = (
    GateOutcome("p99 > +5%", "int8", PASSED, "-1.0 %"),
    GateOutcome("snr < 45", "int8", FAILED, "snr 42.8 in output 'AUDIO'"),
    GateOutcome("p50 > +1%", "int8", INCONCLUSIVE, "the limit lies inside the interval"),
)


@pytest.fixture
def comparison(build):
    turn = Turn(0, 0, 0.0, 10, 800.0, ((50.0, 1_000_000),))
    return Comparison(
        tool="inferometer 0",
        started_at="2024-01-01T00:00:00+00:00",
        is_live=True,
        confidence=0.98,
        baseline="fp32",
        variants=(Variant("fp32", build.result(), ((turn,) * 30,)), Variant("int8", build.result())),
        contrasts=(Contrast("int8", (LevelDifference("concurrency", 1, ROWS),), FASTER, OUTPUTS),),
        gates=GATES,
        notes=("something to know",),
    )


def text(comparison):
    out = io.StringIO()
    show(document(comparison), Console(file=out, width=100))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def test_console(comparison, golden):
    golden("comparison_console.txt", text(comparison))


def test_markdown(comparison, golden):
    golden("comparison.md", to_markdown(comparison))


def test_junit(comparison, golden):
    golden("comparison_junit.xml", to_junit(comparison))


def test_junit_counts_match_its_cases(comparison):
    suite = ET.fromstring(to_junit(replace(comparison, problems=("2 % of the requests failed",))))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }


def test_names_stay_text_everywhere(comparison):
    evil = "a|b<script>`*_\x1b[31m"
    contrast = replace(comparison.contrasts[0], variant=evil)
    gates = tuple(replace(gate, variant=evil) for gate in GATES)
    strange = replace(comparison, contrasts=(contrast,), gates=gates, baseline=evil)
    assert "<script>" not in to_markdown(strange)
    assert all(
        row.count("|") - row.count("\\|") in (0, 3, 4, 7, 8, 12) for row in to_markdown(strange).splitlines()
    )
    assert ET.fromstring(to_junit(strange)).find("testcase[2]").get("classname").startswith("a|b<script>")
    assert "\x1b" not in text(strange)


def only(comparison, *rows, **changes):
    """The comparison with these rows at one load, or at the loads given by name."""
    levels = changes.pop("levels", (LevelDifference("concurrency", 1, rows),))
    contrast = replace(comparison.contrasts[0], levels=levels, outputs=changes.pop("outputs", ()))
    return replace(comparison, contrasts=(contrast,), gates=(), **changes)


UNSURE = replace(ROWS[0], percent=Estimate(1.0, -2.0, 4.0), verdict=NO_DIFFERENCE)
SLOW = replace(ROWS[3], percent=Estimate(40.0, 20.0, 63.3), verdict=SLOWER, reason="")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS, "int8 is 1.21 ± 0.03 times faster than fp32."),
        ((UNSURE,), "No difference shown between int8 and fp32: throughput differs by at most 4.0 % at"),
        ((replace(UNSURE, percent=Estimate(1.0)),), "int8 against fp32: too few requests to tell."),
        (
            (ROWS[0], SLOW),
            "int8 is 1.21 ± 0.03 times faster than fp32, but 1.4 ± 0.2 times slower by p99.",
        ),
        ((), "int8 against fp32: no load in common."),
    ],
)
def test_each_variant_gets_a_sentence(comparison, rows, words):
    (sentence,) = sentences(only(comparison, *rows))
    assert words in sentence


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (Estimate(80.0, 70.0, 90.0), "1.8 ± 0.1 times faster"),
        (Estimate(-50.0, -52.0, -48.0), "2.00 ± 0.08 times slower"),
        (Estimate(100.0, 26.0, 214.0), "2.0 times faster (1.3 to 3.1)"),
        (Estimate(2.1, 1.7, 2.5), "1.021 ± 0.004 times faster"),
        (Estimate(5.0, 0.02, 11.0), "1.0500 times faster (1.0002 to 1.1100)"),
        (Estimate(1900.0, 1500.0, 2300.0), "20 ± 4 times faster"),
        (Estimate(250_000.0, 250_000.0, 250_000.0), "2,501.0000 times faster (2,501.0000 to 2,501.0000)"),
        (Estimate(20.0), "1.20 times faster"),
    ],
)
def test_relative_speed_is_as_precise_as_its_interval(percent, words):
    verdict = FASTER if percent.value > 0 else SLOWER
    assert times(Difference("throughput", 1.0, 1.0, percent, verdict)) == words


def test_one_load_that_is_inconclusive_leaves_the_comparison_open(comparison):
    wide = replace(UNSURE, percent=Estimate(1.0, -40.0, 60.0), verdict=INCONCLUSIVE)
    light, heavy = (LevelDifference("concurrency", load, (row,)) for load, row in ((1, UNSURE), (64, wide)))
    assert overall((light, heavy)) == overall((heavy, light)) == INCONCLUSIVE
    assert overall((light, light)) == NO_DIFFERENCE
    (sentence,) = sentences(only(comparison, levels=(light, heavy)))
    assert sentence.startswith(
        "Inconclusive whether int8 differs from fp32: throughput +1.0 % (-40.0 to +60.0) at concurrency 64"
    )


def test_the_heaviest_load_with_a_difference_is_the_headline(comparison):
    light = LevelDifference("concurrency", 1, (ROWS[0],))
    heavy = LevelDifference("concurrency", 8, (UNSURE, SLOW))
    speed = speed_of(only(comparison, levels=(light, heavy)).contrasts[0])
    assert speed.whole == (
        "1.21 ± 0.03 times faster at concurrency 1, but 1.4 ± 0.2 times slower by p99 at concurrency 8"
    )


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (OUTPUTS[0], ""),
        (OUTPUTS[1], ""),
        (OUTPUTS[2], "missing from the variant"),
        (replace(OUTPUTS[0], snr_db=12.0), "SNR 12.0 dB"),
        (replace(OUTPUTS[0], top1=0.5), "only 50 % have the same top class"),
        (replace(OUTPUTS[1], exact=0.75), "only 75 % of the elements are the same"),
        (replace(OUTPUTS[0], non_finite=2), "2 elements with NaN or infinity on one side only"),
    ],
)
def test_outputs_match_up_to_rounding(comparison, output, why):
    assert output_difference(output) == why
    words, tone = verdict(only(comparison, ROWS[0], outputs=(output,)))
    assert why in words
    assert tone is (Tone.WARNING if why else Tone.GOOD)


def test_many_variants_are_summarized_by_count(comparison):
    contrasts = tuple(
        replace(comparison.contrasts[0], variant=f"v{n}", levels=(LevelDifference("concurrency", 1, (row,)),))
        for n, row in enumerate((ROWS[0], UNSURE, UNSURE, SLOW, ROWS[0]))
    )
    many = replace(comparison, contrasts=tuple(replace(row, outputs=()) for row in contrasts), gates=())
    assert verdict(many)[0] == (
        "Of 5 variants against fp32, 2 faster, 1 slower, 2 without a difference shown; v0 leads, "
        "1.21 ± 0.03 times faster."
    )
    (table,) = next(row for row in document(many).sections if row.name == "variants").blocks
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["fp32", "v0", "v1", "v2", "v3", "v4"]
    assert table.rows[1][-1] == "1.21 ± 0.03 times faster"


# --- one consistent verdict for any combination

LIMITS = st.tuples(st.floats(-99, 900), st.floats(-99, 900), st.floats(-99, 900)).map(sorted)


@st.composite
def differences(draw):
    low, value, high = draw(LIMITS)
    metric = draw(st.sampled_from(("throughput", "p50", "p99")))
    percent = Estimate(value, low, high) if draw(st.booleans()) else Estimate(value)
    found = difference_verdict(named(metric), percent)
    return Difference(metric, 100.0, 100.0, percent, found, "" if percent.limits else "few")


@st.composite
def contrasts(draw, name):
    levels = draw(st.lists(st.lists(differences(), max_size=3), max_size=2))
    made = tuple(LevelDifference("concurrency", n + 1, tuple(rows)) for n, rows in enumerate(levels))
    outputs = draw(st.lists(st.sampled_from((*OUTPUTS, replace(OUTPUTS[0], snr_db=3.0))), max_size=2))
    return Contrast(name, made, overall(made), tuple(outputs))


@st.composite
def comparisons(draw):
    names = [f"v{number}" for number in range(draw(st.integers(0, 6)))]
    gates = [
        GateOutcome("p99 > +5%", draw(st.sampled_from(names)), outcome, "+6 % at concurrency 1")
        for outcome in (
            draw(st.lists(st.sampled_from((PASSED, FAILED, INCONCLUSIVE)), max_size=3)) if names else ()
        )
    ]
    problems = draw(st.lists(st.just("v0: 2 % of the requests failed"), max_size=1))
    made = tuple(draw(contrasts(name)) for name in names)
    return Comparison("it", "2024", True, 0.98, "base", (), made, tuple(gates), problems=tuple(problems))


@settings(max_examples=EXAMPLES, deadline=None)
@given(comparisons())
def test_the_verdict_is_consistent(found):
    words, tone = verdict(found)
    assert words.endswith(".")
    assert words.count(": ") <= words.count("'") + 3
    first = words.partition(":")[0]
    expected = {"invalid": "Invalid", "regression": "Regression", "inconclusive": "Inconclusive"}
    # Without a condition, the same word may mean that no difference was shown.
    assert (first in expected.values()) >= (found.outcome in expected)
    assert expected.get(found.outcome, first) == first
    # The colour follows the exit code: red for a failure, green only for success.
    assert (tone is Tone.BAD) == (found.exit_code in (1, 3))
    assert tone is Tone.WARNING or found.exit_code != 2
    shown = {
        row.verdict for contrast in found.contrasts for level in contrast.levels for row in level.differences
    }
    is_unlike = any(output_difference(row) for contrast in found.contrasts for row in contrast.outputs)
    if tone is Tone.GOOD:
        assert found.exit_code == 0
        assert SLOWER not in shown
        assert not is_unlike
    assert tone is not Tone.PLAIN or not shown & {FASTER, SLOWER}
    for word in (FASTER, SLOWER):
        assert word in shown or f"times {word}" not in words
    if found.outcome == "fine":
        assert is_unlike == ("differs from the baseline's" in words)
    for contrast in found.contrasts:
        assert speed_of(contrast).kind == contrast.verdict


def test_an_interval_without_use_is_described_once(comparison):
    percent = Estimate(1.0, -90.0, 900.0)
    row = Difference("throughput", 100.0, 101.0, percent, INCONCLUSIVE)
    contrast = Contrast("int8", (LevelDifference("concurrency", 4.0, (row,)),), INCONCLUSIVE)
    page = document(replace(comparison, contrasts=(contrast,), gates=()))
    assert page.verdict.count("nconclusive") == 1
    assert "throughput at concurrency 4 has an interval wider than a factor of 10" in page.verdict
    assert page.figures[0].value == "inconclusive"
    assert not page.figures[0].detail


@pytest.mark.parametrize("make", [sample_comparison, sample_interference])
def test_the_confidence_of_the_differences_is_stated(make):
    answer = make()
    words = f"all differences hold simultaneously with {answer.confidence:.0%} confidence".replace("%", " %")
    assert words in document(answer).facts
