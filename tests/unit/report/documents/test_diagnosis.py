"""A diagnosis in words."""

import io
from dataclasses import replace

from rich.console import Console

from inferometer.base.units import INFERENCES
from inferometer.diagnose.diagnosis import (
    COMMAND,
    COMPUTE,
    INSTANCES,
    UNKNOWN,
    Change,
    ChangeTrial,
    Diagnosis,
    Machine,
    StepFigures,
    Suggestion,
    Verdict,
)
from inferometer.report.document import Code
from inferometer.report.documents.diagnosis import trial_words
from inferometer.report.format import share as share_words
from inferometer.report.saved import document
from inferometer.report.terminal import show
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import GpuFigures, NetworkFigures, PhaseTimes
from inferometer.stats.network import network_share
from tests.support.reports import sample_result

MS = 1e6
SUGGESTION = Suggestion(
    Change(INSTANCES, "first", "1", "2", {"instance_group": [{"count": 2}]}),
    "run 2 instances of first instead of 1", 4, 33.0, 120 * MS, 0.9, "its only instance is busy 99% of the time",
)  # fmt: skip
DIAGNOSIS = Diagnosis(
    tool="inferometer",
    command=COMMAND,
    started_at="then",
    model="pipeline",
    verdict=Verdict(COMPUTE, "first limits the throughput.", "first"),
    concurrency=4,
    throughput=17.4,
    latency_ns=229 * MS,
    steps=(
        StepFigures(
            "first", 0, 1.0, 57 * MS, 170 * MS, 57 * MS, 0.98, 0.95, 0.97, 1, "cpu", 1.0, 8, False, 1.02, 17.5
        ),
        StepFigures(
            "[red]second[/red]",
            1,
            2.5,
            1 * MS,
            0,
            2.5 * MS,
            0.01,
            0.02,
            0.03,
            2,
            "gpu",
            1.0,
            0,
            False,
            0.02,
            None,
        ),
    ),
    client_ns=0.2 * MS,
    overhead_ns=0.1 * MS,
    machine=Machine(2, 1.9, 0.61, 0.25),
    suggestions=(SUGGESTION,),
    curve=(),
    results=(),
)


def text(diagnosis, width=100):
    stream = io.StringIO()
    show(document(diagnosis), Console(file=stream, width=width))
    return stream.getvalue()


def test_the_verdict_comes_first_and_every_step_has_a_row():
    shown = text(DIAGNOSIS)
    assert shown.splitlines()[0] == "first limits the throughput."
    assert "At concurrency 4: 17.4 infer/s, mean latency 229 ms." in shown
    assert "1 of 8, off" in shown
    assert "17.5/s" in shown
    assert "CPU 61 % of 2 cores. GPU 25 %." in " ".join(shown.split())
    assert "1. Run 2 instances of first instead of 1: 33.0 infer/s (+90 %), 120 ms" in shown


def test_the_share_of_the_network_is_stated_on_the_terminal():
    result = sample_result()
    level = result.levels[0]
    assert level.measurement is not None
    trip = Estimate(2.0 * MS, 1.8 * MS, 2.2 * MS)
    share = network_share(far_network(trip), dict(level.measurement.latency_intervals)["p50"])
    assert share is not None
    far = replace(level, value=4.0, network=far_network(trip, share))
    shown = " ".join(text(replace(DIAGNOSIS, results=(replace(result, levels=(far,)),))).split())
    assert f"The network is {share_words(share.value)} (95 % interval" in shown
    assert "a round trip takes 2.00 ms, the p50 is" in shown
    near = replace(far, network=replace(far_network(trip), is_local=True))
    assert "The network" not in text(replace(DIAGNOSIS, results=(replace(result, levels=(near,)),)))


def far_network(trip, share=None):
    times = PhaseTimes(6, 1, 2, 3)
    return NetworkFigures(
        is_local=False,
        connections=6,
        resolve_ns=0,
        connect=times,
        tls=None,
        round_trip=trip,
        least_round_trip_ns=2_000_000,
        round_trip_source="kernel",
        first=None,
        later=None,
        share=share,
    )


def test_names_are_not_interpreted():
    assert "↳ [red]second[/red]" in text(DIAGNOSIS)


def test_an_empty_list_of_suggestions_is_stated():
    assert "No change of settings is predicted to help." in text(replace(DIAGNOSIS, suggestions=()))


def test_without_statistics_only_known_figures_are_shown():
    shown = text(
        replace(
            DIAGNOSIS,
            verdict=Verdict(UNKNOWN, "Not known."),
            steps=(),
            suggestions=(),
            notes=("No statistics.",),
        )
    )
    assert "Busy" not in shown
    assert "predicted" not in shown
    assert "! No statistics." in shown


def test_trials_show_predicted_and_measured_figures():
    trials = (
        ChangeTrial(SUGGESTION, 31.0, 129 * MS, 0.78, True, 1),
        ChangeTrial(SUGGESTION, 0.0, 0.0, 0.0, False, None, "no memory"),
    )
    shown = text(
        replace(
            DIAGNOSIS, trials=trials, is_restored=True, after=Verdict(COMPUTE, "second limits it.", "second")
        )
    )
    shown = " ".join(shown.split())
    assert "Before 17.4, after 31.0 infer/s at concurrency 4, +78 %. Now: second limits it." in shown
    assert "refused" in shown
    assert "The server is back to its original configuration." in shown
    assert trial_words(trials[0], INFERENCES).endswith(
        "predicted 33.0, measured 31.0 infer/s (+78 %), 129 ms; kept"
    )
    assert trial_words(trials[1], INFERENCES).endswith("not possible: no memory")


def test_known_gpu_figures_are_shown_and_missing_ones_named():
    known = GpuFigures("GPU-a", 0.93, 310.4, 21 << 30, 140 << 30, 0.4, 1980.0)
    for gpu, words in (
        (known, "GPU: busy 93 % of the time, 21 of 140 GiB used, 310 W, 1980 MHz."),
        (GpuFigures("GPU-b", None, None, None, None), "GPU: utilisation not known."),
    ):
        machine = replace(DIAGNOSIS.machine, gpus=(gpu,))
        assert words in " ".join(text(replace(DIAGNOSIS, machine=machine)).split())


def test_a_wrong_prediction_states_its_lesson():
    lesson = "51% less than predicted: 2 busy cores are worth 1.1, not 2"
    trial = ChangeTrial(SUGGESTION, 16.0, 250 * MS, -0.08, False, None, "", lesson)
    assert trial_words(trial, INFERENCES).endswith(f"not kept. {lesson}")
    shown = text(replace(DIAGNOSIS, trials=(trial,), is_restored=True))
    assert f"first: instances 1 → 2: {lesson}." in " ".join(shown.split())


def test_tried_changes_follow_suggestions():
    other = replace(
        SUGGESTION,
        change=replace(SUGGESTION.change, kind="dynamic batching", settings={"dynamic_batching": None}),
        text="do not let the server form batches",
        gain=0.1,
    )
    disproved = ChangeTrial(SUGGESTION, 17.4, 230 * MS, 0.0, False, None)
    told = replace(DIAGNOSIS, suggestions=(SUGGESTION, other), trials=(disproved,))
    shown = " ".join(text(told).split())
    first, _, rest = shown.partition("Already tried:")
    assert "Do not let the server form batches" in first
    assert trial_words(disproved, INFERENCES) in rest
    assert trial_words(disproved, INFERENCES) not in first
    blocks = [block for section in document(told).sections for block in section.blocks]
    assert [block.text for block in blocks if isinstance(block, Code)] == ["# remove dynamic_batching"]
