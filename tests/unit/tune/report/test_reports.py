"""Reports as functions of a study: their sentences, and equal bytes for equal studies."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.dialects.model_analyzer import picture, tables
from inferometer.dialects.model_analyzer.outputs import ReportFiles, shortage
from inferometer.dialects.model_analyzer.values import Plot
from inferometer.report.chromium import browsing, find_chromium
from inferometer.report.documents import study_facts as facts
from inferometer.report.documents.study import pareto, study_document
from inferometer.report.documents.study_facts import effect_sentence, main_effects
from inferometer.report.documents.variant import detailed, find
from inferometer.report.markdown import markdown
from inferometer.report.page import render
from inferometer.stats.estimate import Estimate
from inferometer.tune.scoring import Constraint, Goal
from inferometer.tune.search.brute import brute
from inferometer.tune.search.search import ModelProblem, SearchProblem
from inferometer.tune.settings import SearchSettings
from inferometer.tune.space import SearchBounds, automatic
from inferometer.tune.study import Study
from inferometer.tune.trial import Figures, Status
from inferometer.tune.variant import VariantNames
from tests.support.nasty import NASTY, with_texts
from tests.support.samples import sample
from tests.unit.tune.scripted import W, drive, server

BOUNDS = SearchBounds(instances=(1, 2), batch=(1, 4), concurrency=(1, 8))


def made(goal=None, formula=server, *, cpu_only=True):
    goal = goal or Goal("W")
    names = VariantNames()
    scope = SearchProblem(
        (ModelProblem(automatic("W", W, BOUNDS, cpu_only=cpu_only), goal),), SearchSettings(bounds=BOUNDS)
    )
    found = drive(brute(scope, names), formula)
    return Study(
        "inferometer test",
        "online",
        "brute",
        (goal,),
        tuple(names.known.values()),
        tuple(found.trials),
        host={"processor": "Model 5", "cores": 4},
        ended=found.ended,
    )


def with_gpus(study):
    figures = Figures((("gpu_used_memory", Estimate(512.25)), ("gpu_utilization", Estimate(40.0))))
    trials = tuple(replace(trial, gpus=(("GPU-a", figures), ("GPU-b", figures))) for trial in study.trials)
    idle = replace(trials[0], parts=(), number=-1)
    gpus = {uuid: {"name": "Chip", "total_memory": 2e9} for uuid in ("GPU-a", "GPU-b")}
    return replace(study, trials=trials, idle=(idle,), gpus=gpus)


def test_a_report_is_the_same_from_the_saved_study():
    study = made()
    again = from_json(to_json(study), "study.json", Study)
    for make in (lambda found: study_document(found, 3), lambda found: detailed(found, "W_config_5")):
        assert render(make(study)) == render(make(again))
        assert markdown(make(study)) == markdown(make(again))


def test_the_summary_recommends_with_a_reason():
    text = markdown(
        study_document(made(Goal("W", constraints=(Constraint("perf_latency_p99", high=6.0),))), 3)
    )
    for words in (
        "# W",
        "Max p99 Latency: 6 ms",
        "better than the default configuration at maximizing throughput, under the given constraints,",
        "4 cores of Model 5",
        "W/config.pbtxt",
        "What each knob did",
        "The Pareto front",
        "every configuration was tried",
    ):
        assert words in text


FASTER = Goal("W", objectives=(("perf_latency_p99", 1.0),))

# (goal, formula, words of the sentence)
SENTENCES = [
    (Goal("W"), lambda variant, load: (100.0 if variant.is_default else 50.0, 1.0), "no gain"),
    (Goal("W"), lambda variant, load: (100.0, 1.0), "no gain"),
    (Goal("W", constraints=(Constraint("perf_latency_p99", high=0.1),)), server, "no configuration satisfies"),
    (FASTER, lambda v, load: (1.0, 9.0 if v.is_default else 3.0), "200% better"),
    (FASTER, lambda v, load: (1.0, 9.0 if v.is_default else 3.0), "at meeting the objectives"),
    (
        Goal("W", constraints=(Constraint("perf_latency_p99", high=5.0),)),
        lambda variant, load: (10.0, 9.0 if variant.is_default else 3.0),
        "the default configuration does not satisfy",
    ),
    (Goal("W"), lambda variant, load: None, "No measurement of W succeeded"),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "formula", "words"), SENTENCES)
def test_the_sentence_matches_the_result(goal, formula, words):
    study = made(goal, formula)
    assert words in facts.sentence(study)
    assert words in markdown(study_document(study, 3))


def test_a_single_configuration_is_not_called_the_best():
    study = made()
    alone = replace(
        study, trials=tuple(trial for trial in study.trials if trial.parts[0].variant == study.default_name)
    )
    assert "W_config_default is the only configuration measured on" in facts.sentence(alone)
    assert "best" not in facts.sentence(alone)
    assert "gain" not in facts.sentence(alone)


def test_a_difference_within_the_spread_is_not_reported_as_a_gain():
    study = made(formula=lambda variant, load: (100.0 if variant.is_default else 104.0, 1.0))
    wide = tuple(
        replace(
            trial,
            parts=tuple(
                replace(part, figures=Figures((("perf_throughput", Estimate(rate, rate - 20, rate + 20)),)))
                for part in trial.parts
                for rate in [part.figures.get("perf_throughput")]
            ),
        )
        for trial in study.trials
    )
    assert "inside the spread" in facts.sentence(replace(study, trials=wide))


def test_main_effects_are_those_of_the_changed_parameters():
    effects = main_effects(made())
    assert {row.knob for row in effects} == {"instances", "max_batch_size"}
    by_value = {(row.knob, row.value): row.best for row in effects}
    assert by_value["instances", "2"] > by_value["instances", "1"]
    assert "matters most" in effect_sentence(effects)


def test_the_front_is_monotonic():
    front = pareto(made())
    rates = [trial.combined("perf_throughput") for trial in front]
    times = [trial.combined("perf_latency_p99") for trial in front]
    assert rates == sorted(set(rates))
    assert times == sorted(times)


def test_skipped_and_failed_trials_are_reported_with_their_reasons():
    study = made()
    failed = replace(study.trials[0], status=Status.FAILED, reason="it broke")
    skipped = replace(study.trials[1], status=Status.SKIPPED, reason="cannot win")
    expected = replace(study.trials[2], predicted=(("perf_throughput", 120.0),))
    text = markdown(study_document(replace(study, trials=(*study.trials[2:], failed, skipped, expected)), 3))
    assert "it broke" in text
    assert "cannot win" in text
    assert "forecast" in render(study_document(replace(study, trials=(*study.trials, expected)), 3))


def test_each_gpu_has_a_table_and_columns():
    study = with_gpus(made(cpu_only=False))
    sheet = tables.gpu([study])
    assert sheet.header == (
        "Model", "GPU UUID", "Batch", "Concurrency", "Model Config Path", "Instance Group", "Satisfies Constraints",
        "GPU Memory Usage (MB)", "GPU Utilization (%)",
    )  # fmt: skip
    assert sheet.missing == ("gpu_power_usage",)
    assert len(sheet.rows) == 2 * 28
    assert sheet.rows[0][7] == "512.2"
    server_sheet = tables.server([study])
    assert [row[:2] for row in server_sheet.rows] == [("triton-server", "GPU-a"), ("triton-server", "GPU-b")]
    assert tables.gpu([with_gpus(made())]).rows == ()
    assert len(tables.gpu([with_gpus(made())], always=True).rows) == 56
    text = markdown(study_document(study, 3))
    assert "2 x Chip" in text
    assert "Total Available GPU Memory: 4.0 GB" in text
    assert "Max GPU Memory Usage (MB)" in text


def test_long_names_keep_their_number():
    name = "a_model_with_a_name_that_is_much_too_long_config_17"
    assert picture.short_name(name) == "a_model_with_a_name_tha...config_17"
    assert len(picture.short_name(name)) <= 35


def test_a_limit_is_drawn_into_the_plot():
    study = made(Goal("W", constraints=(Constraint("perf_latency_p99", high=6.0),)))
    drawing = picture.plot(study, study.ranked, Plot("t", "T", "perf_latency_p99", "perf_throughput", True))
    assert "stroke-dasharray" in drawing.svg
    assert "Target p99 Latency (ms)" in drawing.svg
    assert picture.plot(study, study.ranked, Plot("t", "T", "perf_latency_p99", "gpu_used_memory")) is None
    assert picture.latency_breakdown(find(study, "W_config_5")) is None


def test_one_browser_prints_it_all(tmp_path):
    find_chromium()
    study, files = made(), ReportFiles()
    files.later(tmp_path / "a" / "report.pdf", render(study_document(study, 3)))
    drawing = picture.plot(study, study.ranked, Plot("t", "T", "perf_latency_p99", "perf_throughput"))
    files.later(tmp_path / "plot.png", drawing)
    assert files.print_all() is None
    assert (tmp_path / "a" / "report.pdf").read_bytes().startswith(b"%PDF")
    data = (tmp_path / "plot.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (640, 480)


# Words of names that span several lines in tables.
BROKEN = """(() => {
  const found = [];
  for (const cell of document.querySelectorAll(".name")) {
    const text = cell.firstChild;
    for (const word of text ? text.data.matchAll(/\\S+/g) : []) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  }
  return found.join(" ");
})()"""


@pytest.mark.sampled
@pytest.mark.parametrize("width", sample([400], [400, 720, 1200]))
def test_names_stay_whole_at_any_width(tmp_path, width):
    study = made()
    name = "a_model_with_a_longer_name"
    page = tmp_path / "page.html"
    page.write_text(render(study_document(study, 3)).replace("W_config", f"{name}_config"))
    with browsing() as tab:
        tab.open(page, width=width, height=1000)
        tab.call("Emulation.setEmulatedMedia", media="print" if width == 720 else "screen")
        assert (
            f"{name}_config_5"
            in tab.call("Runtime.evaluate", expression="document.body.innerText")["result"]["value"]
        )
        assert tab.call("Runtime.evaluate", expression=BROKEN)["result"]["value"] == ""


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (Goal("W"), "found only 7. Showing all available"),
        (Goal("W", constraints=(Constraint("perf_throughput", low=1000.0),)), "that satisfied constraints"),
        (Goal("W", constraints=(Constraint("perf_latency_p99", high=0.1),)), "none satisfied constraints"),
    ],
)
def test_fewer_results_than_requested_are_reported_with_the_cause(goal, words):
    assert words in shortage(made(goal), 50)


def test_a_study_without_measurements_has_no_complaint():
    assert shortage(replace(made(), trials=()), 3) is None


def test_a_variant_is_described_with_its_members():
    names = VariantNames()
    single = names.variant("W", W, {"instance_group": [{"count": 2, "kind": "KIND_CPU"}]}, cpu_only=True)
    words = "2 CPU instances with a max batch size of 8, dynamic batching enabled, on platform python"
    assert facts.shape(single) == words
    ensemble = {"name": "E", "platform": "ensemble", "ensemble_scheduling": {"step": [{"model_name": "W"}]}}
    assert (
        facts.shape(names.variant("E", ensemble, {}, composing=(single,)))
        == f"the members W_config_0 ({words})"
    )
    caller = {"name": "L", "backend": "python"}
    assert facts.shape(names.variant("L", caller, {}, composing=(single,))) == (
        "1 GPU instance with a max batch size of 0, dynamic batching disabled, on platform python, "
        f"and the members W_config_0 ({words})"
    )


# --- names that are markup or formulas

# A comma separates names, and messages have no lone surrogates.
SPELLED = [text for text in NASTY if text.strip() and "," not in text and "\ud800" not in text]
every_text = pytest.mark.parametrize("nasty", SPELLED, ids=repr)


def nasty_study(nasty: str):
    study = with_gpus(made(cpu_only=False))
    names = {variant.name for variant in study.variants} | {"W", "GPU-a", "GPU-b", "Chip", "Model 5"}
    return with_texts(study, lambda text: text if text not in names else f"{nasty}{text}")


@every_text
def test_tables_have_no_formulas_and_keep_their_cells(nasty: str) -> None:
    found = nasty_study(nasty)
    for sheet in (
        tables.inference([found], ("model_name", "model_config_path")),
        tables.gpu([found], ("gpu_uuid",)),
    ):
        rows = list(csv.reader(io.StringIO(sheet.csv())))
        assert len({len(row) for row in rows if row}) == 1
        cells = [cell for row in rows for cell in row]
        assert len(cells) > 2
        assert not any(re.match(r"[=+@\t\r|%]|-\D", cell) for cell in cells)


class Tags(HTMLParser):
    """Reject tags and attributes that our pages do not have."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "img"
        assert not any(name.startswith("on") for name, _ in attrs)


@every_text
def test_reports_contain_no_foreign_tags(nasty: str) -> None:
    document = study_document(nasty_study(nasty), 3)
    Tags().feed(render(document))
    assert "\x1b" not in markdown(document)
