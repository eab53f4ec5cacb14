"""Metrics of an LLM server, and a diagnosis of one, in every report format."""

from dataclasses import replace
from types import ModuleType

from inferometer.base.answer_file import from_json, to_json
from inferometer.diagnose.diagnosis import COMMAND, Diagnosis, Machine
from inferometer.diagnose.llm import conclude_llm
from inferometer.report.document import Table
from inferometer.report.documents.diagnosis import diagnosis_document
from inferometer.report.documents.measurement import measurement_document
from inferometer.report.documents.serving import server_section
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.report.saved import to_csv
from inferometer.stats.machine_figures import LlmServerFigures, ServerMetrics
from inferometer.stats.result import Result
from tests.support.llm_engine import EngineSettings, Traffic, simulated_sweep

SAID = LlmServerFigures(
    server="vLLM", seconds=2.0, running_mean=3.5, running_max=4.0, waiting_mean=0.0, waiting_max=0.0,
    kv_cache_mean=0.25, kv_cache_max=0.5, kv_tokens=24_000, preemptions=1_234, generated_per_s=512.0,
)  # fmt: skip


def result(build: ModuleType, *said: LlmServerFigures | None) -> Result:
    levels = []
    for number, llm in enumerate(said, 1):
        found = build.measurement(1000, 3208.51, 307, 50, (300, 310, 320, 330))
        metrics = None if llm is None else ServerMetrics(3, (), None, None, None, (), None, llm)
        levels.append(build.level(replace(found, metrics=metrics), value=number))
    made: Result = build.result(*levels)
    return made


def diagnosis() -> Diagnosis:
    levels = simulated_sweep(EngineSettings(slots=4), Traffic(200, 100), seed=1, dialect="SGLang")
    found = conclude_llm(levels, "tiny")
    top = levels[-1]
    return Diagnosis(
        tool="inferometer 0", command=COMMAND, started_at="2026-01-01T00:00:00+00:00", model="tiny",
        verdict=found.verdict, concurrency=top.concurrency, throughput=top.requests_per_s, latency_ns=top.latency_ns,
        steps=(), client_ns=0.0, overhead_ns=0.0, machine=Machine(None, None, None, None),
        suggestions=found.suggestions, curve=found.curve, results=(), notes=found.notes, serving=found.serving,
    )  # fmt: skip


def test_known_metrics_have_columns_and_missing_ones_are_named(build: ModuleType) -> None:
    section = server_section(result(build, SAID, replace(SAID, preemptions=None)))
    assert section is not None
    assert "The metrics of vLLM, with a KV cache of 24,000 tokens." in section.lead
    assert "Not reported: Prompt tokens/s, Prefix hits, Drafts accepted." in section.lead
    (table,) = section.blocks
    assert isinstance(table, Table)
    assert [column.name for column in table.columns][1:] == [
        *("Running", "Waiting", "KV cache", "Preemptions", "Generated/s")
    ]
    assert [row[1:] for row in table.rows] == [
        ("3.50 (≤ 4)", "0 (≤ 0)", "50 %", "1,234", "512"),
        ("3.50 (≤ 4)", "0 (≤ 0)", "50 %", "unknown", "512"),
    ]


def test_servers_without_metrics_have_no_section(build: ModuleType) -> None:
    assert server_section(result(build, None)) is None


def test_a_restart_is_reported(build: ModuleType) -> None:
    section = server_section(result(build, replace(SAID, was_restarted=True)))
    assert section is not None
    assert "The server was restarted during the run" in section.lead


def test_server_metrics_are_saved_and_shown(build: ModuleType) -> None:
    made = result(build, SAID)
    assert from_json(to_json(made), "file", Result) == made
    assert "Server metrics" in markdown(measurement_document(made))


def test_the_evidence_of_a_diagnosis_is_saved_and_shown() -> None:
    made = diagnosis()
    assert from_json(to_json(made), "file", Diagnosis) == made
    text = markdown(diagnosis_document(made))
    for words in (
        *("The queue is the limit: 4 requests run at once", "of 16 requests, 4 run"),
        *("Each limit by itself", "prefill", "decode", "kv cache", "client"),
        *(
            "Let 8 requests run at once (--max-running-requests)",
            "sequences of this length fit into the KV cache",
        ),
    ):
        assert words in text, text
    assert "Each limit by itself" in render(diagnosis_document(made))


def test_a_diagnosis_as_a_table_has_a_row_for_each_load() -> None:
    header, *rows = to_csv(diagnosis()).splitlines()
    assert header.startswith("Model,Concurrency,Requests/s,Latency,TTFT,Token gap,Output tokens/s")
    assert [row.split(",")[1] for row in rows] == ["1", "2", "4", "8", "16"]
    assert {row.split(",")[-1] for row in rows} == {"queue"}
