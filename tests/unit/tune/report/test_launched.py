"""The report of a search over the command line of a server."""

from dataclasses import replace

from inferometer.report.document import Bars, Facts, Table
from inferometer.report.documents.tuning import tuning_document, users_front
from inferometer.report.page import render
from inferometer.stats.estimate import Estimate
from inferometer.tune.scoring import Constraint, Goal
from inferometer.tune.study import Study, accounted
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial, TrialPart
from inferometer.tune.variant import VariantNames

NAMES = VariantNames()
BASE = {"knobs": {"slots": 1, "eager": ""}}
VARIANTS = tuple(NAMES.variant("tiny", BASE, {"knobs": {"slots": slots}}) for slots in (1, 4, 16))
GOAL = Goal("tiny", (("output_token_throughput", 1.0),), (Constraint("time_to_first_token_p99", high=500.0),))


def trial(
    number: int, slots: int, load: int, tokens: float, per_user: float, ttft_ms: float = 100.0
) -> Trial:
    values = (
        ("perf_throughput", Estimate(tokens / 10)),
        ("perf_latency_p99", Estimate(50.0)),
        ("output_token_throughput", Estimate(tokens, 0.95 * tokens, 1.05 * tokens)),
        ("output_token_throughput_per_user", Estimate(per_user)),
        ("time_to_first_token_p99", Estimate(ttft_ms, 0.9 * ttft_ms, 1.1 * ttft_ms)),
    )
    name = {1: "default", 4: "0", 16: "1"}[slots]
    part = TrialPart("tiny", f"tiny_config_{name}", ClientLoad(concurrency=load), Figures(values))
    return Trial(number, (part,), cost_s=4.0, loading_s=1.0, warming_s=0.5, measuring_s=2.0, key=str(number))


TRIALS = (
    trial(0, 1, 1, 100, 100),
    trial(1, 4, 4, 300, 75),
    trial(2, 4, 8, 280, 40),  # no better than the one before in either
    trial(3, 16, 16, 400, 25, ttft_ms=900.0),
    Trial(
        4,
        (TrialPart("tiny", "tiny_config_1", ClientLoad(concurrency=4)),),
        Status.FAILED,
        "the server exited with status 1; no weights",
    ),
)
LINES = {variant.name: f"serve {number}" for number, variant in enumerate(VARIANTS)}
STUDY = Study("inferometer", "online", "smart", (GOAL,), VARIANTS, TRIALS, {"lines": LINES}, ended="done")


def test_configurations_are_named_by_their_values():
    found = tuning_document(STUDY)
    assert found.verdict.startswith(
        "Run it with slots=4 eager='': 300 tokens/s (285 to 315) with p99 50.0 ms, ttft p99 100 ms at concurrency 4"
    )
    assert "against slots=1 eager=''" in found.verdict
    assert "config_" not in render(found)


def test_the_command_to_run_is_shown():
    section = next(row for row in tuning_document(STUDY).sections if row.name == "configuration")
    assert section.blocks == (Facts("Command", (("Run", "serve 1"),)),)


def test_the_parts_of_the_time_add_up_to_the_command():
    study = accounted(STUDY, 20.0)
    assert study.account is not None
    assert (study.account.loading_s, study.account.warming_s, study.account.measuring_s) == (4.0, 2.0, 8.0)
    assert (study.account.searching_s, study.account.total_s) == (6.0, 20.0)
    section = next(row for row in tuning_document(study).sections if row.name == "search")
    facts, bars = section.blocks
    assert isinstance(facts, Facts)
    assert dict(facts.rows)["Time"] == (
        "20.0 s: starting the server 4.00 s, warming up 2.00 s, measuring 8.00 s, searching 6.00 s"
    )
    assert isinstance(bars, Bars)
    assert sum(segment.value for segment in bars.rows[0].segments) == 20.0


def test_trials_of_earlier_commands_take_no_time():
    known = tuple(replace(row, is_recalled=True) for row in TRIALS)
    account = accounted(replace(STUDY, trials=known), 3.0).account
    assert account is not None
    assert (account.loading_s, account.measuring_s, account.searching_s) == (0.0, 0.0, 3.0)


def test_the_front_of_tokens_per_user_and_per_server():
    assert [row.number for row in users_front(STUDY)] == [0, 1, 3]
    section = next(row for row in tuning_document(STUDY).sections if row.name == "users")
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["slots=1 eager=''", "slots=4 eager=''", "slots=16 eager=''"]
