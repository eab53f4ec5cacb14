"""The page of a study: the recommended configuration, and all trials."""

from dataclasses import replace

import pytest

from inferometer.report.document import Code, Tone
from inferometer.report.markdown import markdown
from inferometer.report.saved import document, to_html
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import THROUGHPUT
from inferometer.tune.scoring import Constraint, Goal
from inferometer.tune.study import Study
from inferometer.tune.trial import Figures, Status, Trial
from tests.support.reports import sample_study


def section(study: Study, name: str):
    return next(row for row in document(study).sections if row.name == name)


def with_rates(study: Study, rate_of) -> Study:
    """The same trials at other rates, with intervals of 10 %."""

    def changed(trial: Trial) -> Trial:
        rate = rate_of(trial)
        values = dict(trial.parts[0].figures.values) | {THROUGHPUT: Estimate(rate, rate * 0.9, rate * 1.1)}
        return replace(trial, parts=(replace(trial.parts[0], figures=Figures(tuple(values.items()))),))

    return replace(study, trials=tuple(changed(trial) for trial in study.trials if trial.is_measured))


def confirmed(study: Study) -> Study:
    """Every trial a second time, with 4 % more throughput."""
    again = with_rates(study, lambda trial: 1.04 * trial.combined(THROUGHPUT)).trials
    return replace(study, trials=(*study.trials, *(replace(trial, repeat=1) for trial in again)))


def repeated(study: Study) -> Study:
    """Every trial five times, with the same figures."""
    return replace(study, trials=tuple(replace(trial, repeat=n) for trial in study.trials for n in range(5)))


def only_own(study: Study) -> Study:
    return replace(study, trials=study.trials[:4])


def failed(study: Study) -> Study:
    trials = (replace(trial, status=Status.FAILED, reason="out of memory") for trial in study.trials)
    return replace(study, trials=tuple(trials))


def too_strict(study: Study) -> Study:
    return replace(
        study, goals=(Goal("classifier", constraints=(Constraint("perf_latency_p99", high=0.5),)),)
    )


@pytest.mark.parametrize(
    ("changed", "words", "tone"),
    [
        (
            confirmed,
            "Run it with 2 CPU instances, batches up to 8, dynamic batching (config 2): 1,558 infer/s (1,430 to 1,747) "
            "with p99 16.8 ms "
            "at concurrency 16, +377 % (+349 to +407) against the model's own configuration.",
            Tone.GOOD,
        ),
        (
            lambda study: study,
            "at concurrency 16; +377 % (+299 to +471) against the model's own configuration is from one run, which may "
            "have been lucky: measure it again before relying on it.",
            Tone.WARNING,
        ),
        (
            lambda study: with_rates(study, lambda t: 104.0 if t.name.endswith("_2") else 100.0),
            "its gain over the model's own configuration is +4.0 % (",
            Tone.WARNING,
        ),
        (
            lambda study: with_rates(study, lambda t: 200.0 if t.name.endswith("default") else 100.0),
            "Keep the model's own configuration: nothing tried beats its 200 infer/s",
            Tone.PLAIN,
        ),
        (
            lambda study: with_rates(study, lambda t: 102.0 if t.name.endswith("default") else 100.0),
            "but config 0 may give up to +17.4 %. A longer --budget can decide it.",
            Tone.WARNING,
        ),
        (
            lambda study: repeated(
                with_rates(study, lambda t: 102.0 if t.name.endswith("default") else 100.0)
            ),
            "; within the spread of the measurements, config 0, config 1, config 2, config 3 may be as good.",
            Tone.PLAIN,
        ),
        (only_own, "Only the model's own configuration was measured: 320 infer/s", Tone.PLAIN),
        (
            too_strict,
            "No configuration meets the SLO (p99 ≤ 0.5 ms); the best without it is config 2",
            Tone.BAD,
        ),
        (
            failed,
            "No measurement of classifier succeeded, so there is nothing to recommend: out of mem",
            Tone.BAD,
        ),
        (lambda study: replace(study, trials=()), "No measurement of classifier succeeded", Tone.BAD),
        (
            lambda study: replace(study, trials=study.trials[4:]),
            "; the model's own configuration was not measured.",
            Tone.GOOD,
        ),
    ],
)
def test_the_verdict_says_what_to_do(changed, words, tone):
    found = document(changed(sample_study()))
    assert words in found.verdict
    assert found.tone is tone
    assert found.title == "classifier"
    assert "<main>" in to_html(changed(sample_study()))
    assert markdown(found)


def test_every_trial_is_listed_with_what_became_of_it():
    (table,) = section(sample_study(), "trials").blocks
    assert len(table.rows) == 21  # without the two skipped ones
    assert table.rows[2] == (
        *("own config", "concurrency 16", "582", "±2.0 %", "-", "44.0", "violates p99 ≤ 22 ms"),
    )
    outcomes = [row[-1] for row in table.rows]
    assert outcomes.count("best figures") == 1  # from one run
    (table,) = section(confirmed(sample_study()), "trials").blocks
    assert "best figures" not in [row[-1] for row in table.rows]
    assert "recommended" in [row[-1] for row in table.rows]
    assert outcomes[-1] == "failed"
    (failed, left_out, _) = section(sample_study(), "not-done").blocks
    assert failed.rows[0][-1].endswith("out of memory")
    assert left_out.rows[0][0] == "config 2"


def test_the_pareto_front_and_the_slo_are_drawn():
    (chart,) = section(sample_study(), "front").blocks
    lines = {line.name: line for line in chart.series}
    assert next(iter(lines)) == "front"  # drawn first, so that its points keep their colours
    (front,) = lines["front"].runs
    assert [point.y for point in front] == sorted(point.y for point in front)
    assert [point.x for point in front] == sorted(point.x for point in front)
    (best,) = (point for run in lines["best figures"].runs for point in run)
    assert (best.label, best.is_doubtful) == ("config 2", False)
    drawn = {(point.x, point.y) for line in chart.series for run in line.runs for point in run}
    assert len(drawn) == 20
    (span,) = chart.spans
    assert (span.start, span.label) == (22.0, "beyond 22 ms")
    broken = {point.x for run in lines["measured"].runs for point in run if point.is_doubtful}
    assert min(broken) > 20.0


def test_far_apart_latencies_are_laid_out_by_their_logarithm():
    study = sample_study()
    chart = section(study, "front").blocks[0]
    assert chart.x.spread.value == "linear"
    slow = replace(
        study.trials[0].parts[0],
        figures=Figures(((THROUGHPUT, Estimate(10.0)), ("perf_latency_p99", Estimate(5000.0)))),
    )
    far = replace(study, trials=(replace(study.trials[0], parts=(slow,)), *study.trials[1:]))
    assert section(far, "front").blocks[0].x.spread.value == "log"


def test_the_recommended_configuration_is_there_to_copy():
    (code,) = section(sample_study(), "configuration").blocks
    assert isinstance(code, Code)
    assert code.caption == "classifier/config.pbtxt"
    assert 'name: "classifier"' in code.text
    assert "count: 2" in code.text
    assert code.text.strip() in markdown(document(sample_study()))


def test_several_models_keep_their_names():
    study = sample_study()
    goals = (Goal("classifier"), Goal("other"))
    other = replace(study.variants[0], model="other", name="other_config_default")
    trials = tuple(
        replace(
            trial,
            parts=(*trial.parts, replace(trial.parts[0], model="other", variant="other_config_default")),
        )
        for trial in study.trials
    )
    both = replace(study, goals=goals, variants=(*study.variants, other), trials=trials)
    found = document(both)
    assert found.title == "classifier and other"
    assert "classifier_config_2 + other_config_default" in found.verdict
    assert [block.caption for block in section(both, "configuration").blocks] == [
        "classifier/config.pbtxt",
        "other/config.pbtxt",
    ]
