"""The page of a trace: sentences about bursts and shared prompts, without unknown facts."""

from dataclasses import replace

from inferometer.report.document import Chart, Document, Facts
from inferometer.report.documents.trace import inspection_document
from inferometer.stats.inspection import Burstiness
from tests.support.reports import sample_inspection


def lead(found: Burstiness) -> str:
    document = inspection_document(replace(sample_inspection(), burstiness=found))
    return document.sections[0].lead


def facts(document: Document) -> dict[str, str]:
    return {
        name: value
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Facts)
        for name, value in block.rows
    }


def test_a_whole_report():
    found = inspection_document(sample_inspection())
    assert found.verdict.startswith(
        "500 requests in 9 min 57 s (0.84/s) with prompts of 762 tokens on average and "
    )
    assert "67 % of the prompt tokens could come from a prefix cache." in found.verdict
    assert [section.name for section in found.sections] == ["rate", "lengths", "shared", "notes"]
    charts = [
        block.title for section in found.sections for block in section.blocks if isinstance(block, Chart)
    ]
    assert charts == [
        "Requests per second, in steps of 12.0 s",
        "Tokens per second",
        "Share of requests up to a length",
    ]
    assert facts(found)["Sessions"] == "250, with 2 requests (p50) and at most 2"


def test_unknown_facts_are_omitted():
    bare = replace(
        sample_inspection(), span_s=None, bins=(), burstiness=None, input=None, output=None,
        cacheable_tokens=None, session_count=0, findings=(),
    )  # fmt: skip
    found = inspection_document(bare)
    assert (found.verdict, found.sections) == ("500 requests.", ())


def test_sentences_about_bursts():
    usual = Burstiness(gap_variation=1.0, dispersion=1.1, window_s=2.0, chance=0.3, together=0.0, tick_s=1e-9)
    assert lead(usual).startswith("Requests arrive independently (Poisson)")
    assert "varies 11.0 times as much" in lead(replace(usual, dispersion=11.0))
    assert lead(replace(usual, dispersion=11.0)).startswith(
        "Requests arrive in bursts: the number of requests in a"
    )
    assert lead(replace(usual, dispersion=0.2)).startswith("Requests arrive evenly")
    assert "the gaps between requests vary 9.00 times" in lead(
        replace(usual, dispersion=None, gap_variation=9.0)
    )
    assert "multiples of 3.00 s: a replay sends them together" in lead(
        replace(usual, together=0.9, tick_s=3.0)
    )
