"""A comparison as text, Markdown and JUnit: folds over one value."""

import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
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
from inferometer.report.documents.comparison import sentences
from inferometer.report.saved import document, to_junit, to_markdown
from inferometer.report.terminal import show
from inferometer.stats.measurement import Estimate

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


def test_junit_counts_what_it_holds(comparison):
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
        row.count("|") - row.count("\\|") in (0, 3, 4, 7, 12) for row in to_markdown(strange).splitlines()
    )
    assert ET.fromstring(to_junit(strange)).find("testcase[2]").get("classname").startswith("a|b<script>")
    assert "\x1b" not in text(strange)


@pytest.mark.parametrize(
    ("verdict", "rows", "words"),
    [
        (FASTER, ROWS, "int8 is faster than fp32: at concurrency 1 throughput +20.8 % (+18.1 to +23.6), p50"),
        (
            NO_DIFFERENCE,
            (replace(ROWS[0], percent=Estimate(1.0, -2.0, 4.0), verdict=NO_DIFFERENCE),),
            "differs by 4.0 % at most",
        ),
        (
            NO_DIFFERENCE,
            (replace(ROWS[0], percent=Estimate(1.0), verdict=NO_DIFFERENCE),),
            "too few requests to tell",
        ),
        ("mixed", (ROWS[0], replace(ROWS[3], verdict=SLOWER)), "faster by some figures and slower by others"),
        (NO_DIFFERENCE, (), "could not be compared"),
    ],
)
def test_each_variant_gets_a_sentence(comparison, verdict, rows, words):
    contrast = replace(
        comparison.contrasts[0], verdict=verdict, levels=(LevelDifference("concurrency", 1, rows),)
    )
    (sentence,) = sentences(replace(comparison, contrasts=(contrast,)))
    assert words in sentence
