"""No command claims more than its interval supports, and each exits as docs/exit-codes.md says."""

import csv
import io
import itertools
import math
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inferometer.base.notes import CLIENT_LIMITS, Remark
from inferometer.base.slo import parse_slo
from inferometer.capacity.plan import NeededRange
from inferometer.cli.find import find_code
from inferometer.cli.main import main
from inferometer.cli.reporting import allowed, exit_code, ruling_code
from inferometer.cli.tune import NOT_FOUND
from inferometer.compare.comparison import (
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    Comparison,
    Contrast,
    Difference,
    LevelDifference,
    Variant,
)
from inferometer.compare.differences import difference_verdict, overall
from inferometer.compare.gates import judge, parse_gates
from inferometer.compare.regression import RunsToJudge, judged
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.report.document import Tone
from inferometer.report.documents.speed import verdict, verdict_of
from inferometer.report.documents.study_facts import sentence
from inferometer.report.documents.tuning import tuning_document
from inferometer.report.saved import document, to_csv, to_junit
from inferometer.selftest.check import Check, CheckResult
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT, named
from inferometer.stats.history import FigureHistory
from inferometer.stats.promises import judge as judge_slo
from inferometer.stats.promises import without_client
from inferometer.stats.result import Finding, JudgedLoad
from inferometer.stats.slo_outcome import PromiseOutcome
from inferometer.stats.trend import TrendPoint
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, is_too_wide, rule
from inferometer.store.run import FINISHED, Run
from inferometer.tune.keeping import keeps
from inferometer.tune.scoring import gain_of_runs
from inferometer.tune.study import recommend
from inferometer.tune.trial import Figures, pooled
from inferometer.twin.twin import Band
from inferometer.ui.pages import Badge, badge
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import (
    LIMIT_MS,
    sample_diagnosis,
    sample_interference,
    sample_result,
    sample_scenario,
    sample_study,
)
from tests.support.samples import examples
from tests.support.twins import sample_twin
from tests.unit.stats.test_promises import window

DOCS = Path(__file__).parents[3] / "docs" / "exit-codes.md"
RULINGS = (SHOWN, NOT_SHOWN, INCONCLUSIVE)
SLO_VERDICTS = {"broken": SHOWN, "kept": NOT_SHOWN, "undecided": INCONCLUSIVE}
OUTCOMES = {"regression": SHOWN, "fine": NOT_SHOWN, "inconclusive": INCONCLUSIVE}
ABSURD = re.compile(r"\d{1,3}(,\d{3}){2,} ?%|\d{1,3}(,\d{3}){2,}\)")


def documented() -> dict[str, dict[str, int]]:
    rows = re.findall(r"^\| `([^`]+)` \|[^|]*\| (\d+) \| (\d+) \| (\d+) \|$", DOCS.read_text(), re.MULTILINE)
    return {name: dict(zip(RULINGS, map(int, codes), strict=True)) for name, *codes in rows}


CODES = documented()
ENDS = st.one_of(st.floats(-30, 30), st.floats(-99.9, 1e12))
PERCENTS = st.one_of(
    st.tuples(ENDS, ENDS, ENDS).map(sorted).map(lambda row: Estimate(row[1], row[0], row[2])),
    ENDS.map(Estimate),
)
UNBOUNDED = st.tuples(ENDS, ENDS).map(sorted).map(lambda row: Estimate(row[1], row[0], math.inf))


def row(metric: str, percent: Estimate) -> Difference:
    return Difference(metric, 100.0, 100.0, percent, difference_verdict(named(metric), percent), "")


def test_the_table_lists_every_command_with_a_verdict():
    assert set(CODES) == {
        *("measure --slo", "measure --scenario mlperf-server", "find", "compare --fail-if", "gate"),
        *("interfere", "tune", "tune --slo", "diagnose --apply", "capacity", "twin check", "selftest"),
    }
    assert all(codes[INCONCLUSIVE] not in (codes[SHOWN], codes[NOT_SHOWN]) for codes in CODES.values())


@settings(max_examples=examples(37), deadline=None)
@given(st.lists(PERCENTS, min_size=2, max_size=2), st.sampled_from(("concurrency", "request_rate")))
def test_interfere(percents, mode):
    found = sample_interference()
    rows = (row("throughput", percents[0]), row("p99", percents[1]))
    model = replace(found.models[0], differences=rows)
    found = replace(found, models=(model,), mode=mode)
    made, (first,) = (
        document(found),
        [r for r in rows if (r.metric == "throughput") == (mode == "concurrency")],
    )
    limits = first.percent.limits
    assert ruling_code(found.ruling) == CODES["interfere"][found.ruling]
    assert ("slower" in made.verdict) == any(r.verdict == SLOWER for r in rows) == (found.ruling == SHOWN)
    if "is not slowed" in made.verdict:
        assert limits is not None
        assert (limits[0] > -10) if first.metric == "throughput" else (limits[1] < 10)
    assert (made.tone is Tone.GOOD) <= ("is not slowed" in made.verdict)
    tones = {SLOWER: Tone.BAD, FASTER: Tone.GOOD, NO_DIFFERENCE: Tone.PLAIN}
    assert [card.tone for card in made.figures] == [tones.get(verdict_of(rows[0]), Tone.WARNING)]
    assert ("inconclusive" in made.verdict) == (found.ruling == INCONCLUSIVE) == (made.tone is Tone.WARNING)
    assert not ABSURD.search(made.verdict)


@settings(max_examples=examples(37), deadline=None)
@given(PERCENTS, st.sampled_from(("", "throughput < -3%", "throughput > +5%")))
def test_compare(percent, condition):
    levels = (LevelDifference("concurrency", 1, (row("throughput", percent),)),)
    contrast = Contrast("new", levels, overall(levels))
    gates = parse_gates(condition) if condition else ()
    variants = tuple(Variant(name, sample_result()) for name in ("old", "new"))
    made = Comparison("it", "2024", True, 0.98, "old", variants, (contrast,))
    outcomes = judge(gates, (contrast,), variants)
    found = replace(made, gates=outcomes)
    assert found.exit_code == CODES["compare --fail-if"][OUTCOMES[found.outcome]]
    words, tone = verdict(found)
    assert (tone is Tone.BAD) == (found.outcome == "regression") == words.startswith("Regression")
    is_open = words.startswith("Inconclusive")
    assert (tone is Tone.WARNING) >= is_open
    if gates:
        assert is_open == (found.outcome == "inconclusive")
        assert (tone is Tone.WARNING) == (is_open or "slower" in words)
    assert percent.limits is None or not ABSURD.search(words)
    suite = ElementTree.fromstring(to_junit(found))
    for ruling, count in ((SHOWN, "failures"), (INCONCLUSIVE, "skipped")):
        assert (suite.get(count) != "0") == (bool(gates) and OUTCOMES[found.outcome] == ruling)
    shown = csv.DictReader(io.StringIO(to_csv(found)))
    assert [line["Verdict"] for line in shown] == [difference_verdict(named("throughput"), percent)]
    for gate in gates:
        ruling = rule(percent, limit=gate.limit, is_above=gate.is_above).ruling
        assert OUTCOMES[found.outcome] == ruling
    if "No difference shown" in words:
        assert percent.limits is not None
        assert -10 < percent.limits[0] <= 0 <= percent.limits[1] < 10
    if "times faster" in words or "times slower" in words:
        assert percent.limits is not None
        assert percent.limits[0] > 0 or percent.limits[1] < 0


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=6, max_size=22), st.floats(0.001, 0.5))
@example([-1, 1] * 10 + [-2], 0.03)  # worse than usual, but within the spread
def test_gate(noise, spread):
    values = [100 * (1 + spread) ** part for part in noise]
    points = tuple(TrendPoint(str(n), f"2026-01-{n + 1:02}", value) for n, value in enumerate(values))
    histories = [FigureHistory("throughput", "concurrency", 4.0, part) for part in (points[-1:], points[:-1])]
    found = judged(RunsToJudge("measure", "m", "host", (histories[0],), (histories[1],)))
    (judgement,) = found.judgements
    assert found.exit_code == CODES["gate"][OUTCOMES[found.outcome]]
    made = document(found)
    words = made.verdict
    assert (
        made.tone is {"regression": Tone.BAD, "fine": Tone.GOOD, "inconclusive": Tone.WARNING}[found.outcome]
    )
    assert words.startswith("Inconclusive") == (found.outcome == "inconclusive")
    if found.outcome == "fine":
        stated = re.search(r"no regression of ([\d.]+) % or more", words)
        assert float(stated[1]) >= max(-judgement.percent.low, abs(judgement.visible_percent))
        assert abs(judgement.visible_percent) <= 20
        assert judgement.percent.low > -20
    if found.outcome == "regression":
        assert judgement.percent.high < 0
    assert not ABSURD.search(words)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.tuples(*3 * (st.floats(1, 60),)).map(sorted), st.sampled_from((None, *CLIENT_LIMITS)), st.booleans()
)
def test_an_slo_is_decided_by_the_whole_interval(ends, note, is_known):
    """And not against the server if the client was at its own limit."""
    low, value, high = ends
    found = Estimate(value * 1e6, low * 1e6, high * 1e6) if is_known else Estimate(value * 1e6)
    result = sample_result()
    level = result.levels[-1]
    measured = replace(level.measurement, latency_intervals=(("p99", found),))
    outcome = judge_slo(parse_slo("p99<20ms"), window([value] * 40, "p99<20ms"), {"p99": found})
    outcome = outcome if note is None else without_client(outcome)
    remarks = () if note is None else (Remark(note, "it was"),)
    level = replace(level, measurement=measured, promise=outcome, remarks=remarks, is_stable=True)
    result = replace(result, levels=(level,), remarks=())
    made, code = document(result), exit_code(result, 1.0)
    codes = CODES["measure --slo"]
    if code == codes[SHOWN]:
        assert note is None
        assert not is_known or low >= 20
        assert made.verdict.startswith("Violates 'p99<20ms'")
    if code == codes[NOT_SHOWN]:
        assert not is_known or high < 20
        assert made.verdict.startswith("Meets 'p99<20ms'")
    if code == codes[INCONCLUSIVE]:
        assert not is_known or low < 20 <= high or note is not None
        assert made.verdict.startswith("Undecided")
    assert (made.tone is Tone.BAD) == (code == codes[SHOWN])
    assert (made.tone is Tone.WARNING) >= (code == codes[INCONCLUSIVE])
    assert (made.tone is Tone.GOOD) <= (code == codes[NOT_SHOWN])
    suite = ElementTree.fromstring(to_junit(result))
    counted = {SHOWN: "failures", INCONCLUSIVE: "skipped"}
    for ruling, name in counted.items():
        assert (suite.get(name) == "1") == (code == codes[ruling])
    badge_of = badge(Run("abcd1234", "measure", state=FINISHED, code=code))
    assert badge_of.tone == {codes[SHOWN]: "bad", codes[INCONCLUSIVE]: "warning"}.get(code, "plain")


CLASS_WORDS = {"broken": (None, "violates"), "kept": (None, "meets"), "undecided": ("whether ", "meets")}
CLASS_P99S = st.one_of(
    st.tuples(*3 * (st.floats(1, 60),))
    .map(sorted)
    .map(lambda row: Estimate(*(row[n] * 1e6 for n in (1, 0, 2)))),
    st.floats(1, 60).map(lambda ms: Estimate(ms * 1e6)),
)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(CLASS_P99S, min_size=4, max_size=4))
@example([Estimate(1e6, 1e6, 20e6)] * 4)
@example([Estimate(30e6, 20e6, 40e6)] * 4)
def test_a_class_of_a_scenario_is_judged_in_every_phase_by_its_whole_interval(p99s):
    """Two classes through two phases: one phase that violates the SLO is enough, and one that is undecided leaves it
    open."""
    base = sample_scenario()
    found = iter(p99s)
    verdicts: dict[str, list[str]] = {}
    levels = []
    for level in base.levels:
        classes = []
        for row in level.classes:
            p99 = next(found)
            requests = window([p99.value / 1e6] * 40, "p99<20ms")
            outcome = judge_slo(parse_slo("p99<20ms"), requests, {"p99": p99})
            if p99.limits is not None:
                low, high = p99.limits
                expected = "broken" if low >= 20e6 else "kept" if high < 20e6 else "undecided"
                assert outcome.verdict == expected
            verdicts.setdefault(row.name, []).append(outcome.verdict)
            classes.append(replace(row, promise=outcome, outages=()))
        levels.append(replace(level, classes=tuple(classes), remarks=(), is_stable=True))
    result = replace(base, levels=tuple(levels), remarks=())
    worst = {name: min(rows, key=("broken", "undecided", "kept").index) for name, rows in verdicts.items()}
    ruling = SLO_VERDICTS[min(worst.values(), key=("broken", "undecided", "kept").index)]
    made, code = document(result), exit_code(result, 1.0)
    assert code == CODES["measure --slo"][ruling]
    for name, kept in worst.items():
        said = re.search(rf"(whether )?{name} (meets|violates)", made.verdict, re.IGNORECASE)
        assert said.groups() == CLASS_WORDS[kept]
    assert (made.tone is Tone.BAD) == (ruling == SHOWN)
    assert (made.tone is Tone.GOOD) <= (ruling == NOT_SHOWN)
    assert (made.tone is Tone.WARNING) >= (ruling == INCONCLUSIVE)
    suite = ElementTree.fromstring(to_junit(result))
    rows = list(itertools.chain.from_iterable(verdicts.values()))
    assert suite.get("failures") == str(rows.count("broken"))
    assert suite.get("skipped") == str(rows.count("undecided"))


@settings(max_examples=examples(25), deadline=None)
@given(st.tuples(*3 * (st.floats(1, 400),)).map(sorted), st.booleans())
def test_twin_check(ends, is_known):
    """A prediction of 100 infer/s beside one measured figure."""
    low, value, high = ends
    base = sample_twin()
    row = replace(
        base.forecasts[0],
        bands={"throughput": Band(100.0, 90.0, 110.0)},
        measured={"throughput": value},
        ends={"throughput": (low, high)} if is_known else {},
    )
    found = replace(base, command="twin check", forecasts=(row,))
    made = document(found)
    errors = [100 / end - 1 for end in (high, low)] if is_known else []
    is_off = bool(errors) and (errors[0] > 0.15 or errors[1] < -0.15)
    holds = bool(errors) and -0.15 < errors[0] <= errors[1] < 0.15
    assert found.ruling == (SHOWN if is_off else NOT_SHOWN if holds else INCONCLUSIVE)
    assert ruling_code(found.ruling) == CODES["twin check"][found.ruling]
    assert ("Inconclusive" in made.verdict) == (found.ruling == INCONCLUSIVE)
    assert ("Off by more than" in made.verdict) == (found.ruling == SHOWN)
    assert (made.tone is Tone.BAD) == (found.ruling == SHOWN)
    assert (made.tone is Tone.WARNING) == (found.ruling == INCONCLUSIVE)
    assert not ABSURD.search(made.verdict)
    tones = {SHOWN: Tone.BAD, INCONCLUSIVE: Tone.WARNING, NOT_SHOWN: Tone.GOOD}
    assert made.figures[0].tone is tones[found.ruling]


def test_a_twin_check_without_a_measured_figure_is_inconclusive():
    base = sample_twin()
    rows = tuple(replace(row, measured={}, ends={}) for row in base.forecasts)
    found = replace(base, command="twin check", forecasts=rows)
    made = document(found)
    assert ruling_code(found.ruling) == CODES["twin check"][INCONCLUSIVE]
    assert made.verdict.startswith("Inconclusive")
    assert made.tone is Tone.WARNING
    assert document(replace(found, command="twin predict")).tone is Tone.PLAIN


@pytest.mark.parametrize(
    ("verdicts", "ruling"),
    [
        ((CheckResult.PASS, CheckResult.SHOWN), NOT_SHOWN),
        ((CheckResult.PASS, CheckResult.NOISY), INCONCLUSIVE),
        ((CheckResult.NOISY, CheckResult.FAIL), SHOWN),
    ],
)
def test_selftest(verdicts, ruling, capsys):
    checks = [Check("part", "name", verdict, "found", {}) for verdict in verdicts]
    with patch("inferometer.cli.selftest.run_parts", return_value=iter(checks)):
        assert main(["selftest"]) == CODES["selftest"][ruling]
    with patch("inferometer.cli.selftest.run_parts", return_value=iter(checks)):
        assert main(["selftest", "--allow-inconclusive"]) == CODES["selftest"][ruling] % 5
    capsys.readouterr()


def test_every_code_that_means_inconclusive_has_its_own_badge():
    for name, codes in CODES.items():
        run = Run("abcd1234", name.split()[0], state=FINISHED, code=codes[INCONCLUSIVE])
        assert badge(run) == Badge("warning", INCONCLUSIVE), name


@pytest.mark.parametrize("kept", SLO_VERDICTS)
def test_slo(kept):
    result = sample_result()
    levels = tuple(
        replace(level, promise=PromiseOutcome("p99<5ms", kept, ()), remarks=()) for level in result.levels[:1]
    )
    found = replace(result, levels=levels, remarks=())
    assert exit_code(found, 1.0) == CODES["measure --slo"][SLO_VERDICTS[kept]]


@pytest.mark.parametrize(
    ("value", "lightest", "ruling"),
    [(10.0, "kept", SHOWN), (0.0, "broken", NOT_SHOWN), (0.0, "undecided", INCONCLUSIVE)],
)
def test_find(value, lightest, ruling):
    finding = Finding(
        "p99<5ms", "request_rate", value, value, None, "p99", 0.0, 0.95, (JudgedLoad(10.0, lightest),)
    )
    found = replace(sample_result(), finding=finding)
    assert find_code(found) == CODES["find"][ruling]
    assert ("is undecided" in document(found).verdict) == (ruling == INCONCLUSIVE)


@settings(max_examples=examples(25), deadline=None)
@given(PERCENTS, st.booleans())
def test_tune(percent, is_repeated):
    found = replace(recommend(sample_study()), gain=percent, is_repeated=is_repeated)
    expected = rule(percent, matters=10.0).ruling
    assert found.ruling == (INCONCLUSIVE if expected == SHOWN and not is_repeated else expected)
    assert ruling_code(found.ruling) == CODES["tune"][found.ruling]


P99S = st.tuples(*3 * (st.floats(0.5, 60),)).map(sorted).map(lambda row: Estimate(row[1], row[0], row[2]))


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.one_of(P99S, P99S.map(lambda row: Estimate(row.value))), min_size=2, max_size=2))
def test_the_slo_of_a_study(p99s):
    """A configuration meets the SLO only if its whole interval does, and none does only if all are beyond."""
    study = sample_study()
    names = [row.name for row in study.ranked][:2]
    chosen = [next(row for row in study.measured if row.name == name) for name in names]
    trials = tuple(
        replace(trial, parts=(replace(part, figures=Figures((part.figures.values[0], (LATENCY_P99, p99)))),))
        for trial, p99 in zip(chosen, p99s, strict=True)
        for part in trial.parts
    )
    study = replace(study, trials=trials)
    found, made = recommend(study), tuning_document(study)
    best = found.best.best.parts[0].figures.estimate(LATENCY_P99)
    if found.slo == SHOWN:
        assert best.high is not None
        assert best.high <= LIMIT_MS
    else:
        assert "Run it with" not in made.verdict
    if found.slo == NOT_SHOWN:
        assert all(p99.low is not None and p99.low > LIMIT_MS for p99 in p99s)
        assert CODES["tune --slo"][NOT_SHOWN] == NOT_FOUND
    assert made.verdict.startswith("No configuration meets") == (found.slo == NOT_SHOWN)
    assert made.verdict.startswith("Inconclusive whether") == (found.slo == INCONCLUSIVE)
    (card,) = (card for card in made.figures if card.label == "p99 latency")
    tones = {SHOWN: Tone.PLAIN, NOT_SHOWN: Tone.BAD, INCONCLUSIVE: Tone.WARNING}
    assert card.tone is tones[keeps(study.goals, found.best.best)]
    if found.slo == INCONCLUSIVE:
        assert made.tone is Tone.WARNING
        assert ruling_code(found.ruling) == CODES["tune --slo"][INCONCLUSIVE]
    limited = replace(study, trials=tuple(replace(trial, is_client_limited=True) for trial in study.trials))
    assert recommend(limited).slo != NOT_SHOWN
    assert "so few requests" not in tuning_document(limited).verdict


@settings(max_examples=examples(25), deadline=None)
@given(PERCENTS, st.booleans())
@example(Estimate(1e6, 1e6, 1e7 + 901), False)
def test_the_sentence_of_a_study(percent, is_repeated):
    study = sample_study()
    found = replace(recommend(study), gain=percent, is_repeated=is_repeated)
    with patch("inferometer.report.documents.tuning.recommend", return_value=found):
        made = tuning_document(study)
    assert (made.tone is Tone.GOOD) == (found.ruling == SHOWN)
    assert (made.tone is Tone.WARNING) == (found.ruling == INCONCLUSIVE)
    assert made.verdict.startswith("No relevant gain") == (found.ruling == NOT_SHOWN)
    (card,) = (card for card in made.figures if card.label == "Gain")
    tones = {SHOWN: Tone.GOOD, NOT_SHOWN: Tone.PLAIN, INCONCLUSIVE: Tone.WARNING}
    assert card.tone is tones[found.ruling]
    assert ("Run it with" in made.verdict) <= (percent.low is not None and percent.low > 0)
    assert is_repeated or found.ruling != INCONCLUSIVE or re.search("Inconclusive|one run", made.verdict)
    assert not is_too_wide(percent) or not ABSURD.search(made.verdict)


@pytest.mark.parametrize("place", [0, -1], ids=["before", "after"])
def test_no_gain_of_a_diagnosis_with_a_limited_client_is_shown(place):
    found = sample_diagnosis()
    assert found.ruling == SHOWN
    place = 0 if place == 0 else found.best.result
    result = found.results[place]
    said = Remark(CLIENT_LIMITS[0], "this tool was at its limit")
    levels = tuple(replace(level, remarks=(*level.remarks, said)) for level in result.levels)
    results = list(found.results)
    results[place] = replace(result, levels=levels)
    found = replace(found, results=tuple(results))
    made = document(found)
    assert found.ruling == INCONCLUSIVE
    assert made.tone is Tone.WARNING
    assert "inconclusive whether the changes helped, since this client was the limit" in made.verdict


def with_limited_client(study, *names, field="is_client_limited"):
    """The study with a limited client for these configurations, every best trial repeated once."""
    best = [row.best.setting for row in study.ranked]
    again = [replace(row, repeat=1, number=row.number + 100) for row in study.trials if row.setting in best]
    trials = [
        replace(row, **{field: row.name in names}) if row.is_measured else row
        for row in (*study.trials, *again)
    ]
    return replace(study, trials=tuple(trials))


@pytest.mark.parametrize("place", [0, -1, None], ids=["the best", "the default", "another"])
def test_no_gain_of_a_limited_client_is_shown(place):
    study = sample_study()
    best, *_, base = (row.name for row in study.ranked)
    assert base == study.default_name
    name = study.ranked[1].name if place is None else (best, base)[place]
    found = recommend(with_limited_client(study))
    assert (found.ruling, found.is_repeated) == (SHOWN, True)
    limited = with_limited_client(study, name)
    found, made = recommend(limited), tuning_document(limited)
    assert found.ruling == (SHOWN if place is None else INCONCLUSIVE)
    assert ("Run it with" in made.verdict) == (made.tone is Tone.GOOD) == (place is None)
    if place is not None:
        assert made.tone is Tone.WARNING
        assert made.verdict.startswith("Inconclusive")
        assert "this client was the limit for" in made.verdict
        assert "% better" not in sentence(limited)


@pytest.mark.parametrize("place", [0, -1, None], ids=["the best", "the default", "both"])
def test_no_gain_is_shown_if_other_programs_ran_beside_one_side_only(place):
    study = sample_study()
    sides = (study.ranked[0].name, study.default_name)
    names = sides if place is None else (sides[place],)
    busy = with_limited_client(study, *names, field="is_host_busy")
    found, made = recommend(busy), tuning_document(busy)
    assert found.ruling == (SHOWN if place is None else INCONCLUSIVE)
    assert ("Run it with" in made.verdict) == (made.tone is Tone.GOOD) == (place is None)
    assert ("% better" in sentence(busy)) == (place is None)
    if place is not None:
        assert made.verdict.startswith("Inconclusive")
        assert "other programs used the cores while" in made.verdict
    assert facts_of(made)["Other programs"].startswith("used this machine's cores during ")


def facts_of(made):
    section = next(section for section in made.sections if section.title == "The search")
    return dict(section.blocks[0].rows)


def test_a_client_at_its_limit_does_not_make_a_server_cold():
    study = sample_study()
    (name, *_) = (row.name for row in study.ranked)
    assert "Never warm" not in facts_of(tuning_document(with_limited_client(study, name)))
    assert "Never warm" in facts_of(tuning_document(with_limited_client(study, name, field="is_cold")))


def test_nothing_is_said_to_be_best_beside_a_limited_client():
    study = sample_study()
    slower = tuple(
        row if row.name == study.default_name or not row.is_measured else _slower(row) for row in study.trials
    )
    study = replace(study, trials=slower)
    kept = recommend(study)
    assert kept.best.name == study.default_name
    assert kept.ruling == NOT_SHOWN
    limited = with_limited_client(study, study.ranked[1].name)
    assert recommend(limited).ruling == INCONCLUSIVE
    made = tuning_document(limited)
    assert made.verdict.startswith("Inconclusive whether anything beats the model's own configuration")
    assert made.tone is Tone.WARNING


def _slower(trial):
    (part,) = trial.parts
    figures = Figures(
        tuple(
            (tag, Estimate(found.value / 10) if tag == THROUGHPUT else found)
            for tag, found in part.figures.values
        )
    )
    return replace(trial, parts=(replace(part, figures=figures),))


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.floats(0.3, 0.999), min_size=4, max_size=4), st.floats(0.001, 1.0), st.integers(1, 4))
@example([0.98] * 4, 0.3, 1)
@example([0.5] * 4, 0.02, 3)
def test_the_own_configuration_is_kept_only_if_no_other_can_be_much_better(shares, width, runs):
    """Others whose figures are lower may still be better by more than matters, if their intervals allow it."""
    study = sample_study()
    others = {row.name: share for row, share in zip(study.ranked, [*shares, 1.0], strict=True)}
    others[study.default_name] = 1.0
    trials = []
    for trial in study.measured:
        rate = 100 * others[trial.name]
        wide = Estimate(rate, rate * (1 - min(width, 0.99)), rate * (1 + width))
        figures = Figures(((THROUGHPUT, wide), (LATENCY_P99, Estimate(2.0, 1.9, 2.1))))
        parts = (replace(trial.parts[0], figures=figures),)
        trials += [replace(trial, parts=parts, repeat=n, number=9 * trial.number + n) for n in range(runs)]
    study = replace(study, trials=tuple(trials))
    found, made = recommend(study), tuning_document(study)
    assert found.best.name == study.default_name
    base, rows = found.best.best, [row.best for row in study.ranked if row.name != study.default_name]
    most = max(gain_of_runs(study.goals, study.trials, row, base).high for row in rows)
    assert found.ruling == (NOT_SHOWN if most < 10 else INCONCLUSIVE)
    assert made.verdict.startswith("Keep" if most < 10 else "Inconclusive whether anything beats")
    assert made.tone is (Tone.PLAIN if most < 10 else Tone.WARNING)
    assert not ABSURD.search(made.verdict)


def test_one_limited_repeat_limits_the_configuration():
    trial = sample_study().measured[0]
    repeats = [replace(trial, repeat=number, is_client_limited=number == 2) for number in range(3)]
    assert pooled(repeats).is_client_limited
    assert not pooled(repeats[:2]).is_client_limited


@settings(max_examples=examples(25), deadline=None)
@given(st.one_of(PERCENTS, UNBOUNDED, st.none()))
@example(Estimate(306.0, 65.6, math.inf))
def test_diagnose(percent):
    with patch.object(Diagnosis, "measured_gain", property(lambda _: percent)):
        found = sample_diagnosis()
        made = document(found)
        assert found.best is not None
        assert found.ruling == (INCONCLUSIVE if percent is None else rule(percent, matters=10.0).ruling)
    assert ruling_code(found.ruling) in CODES["diagnose --apply"].values()
    assert ("took it from" in made.verdict) == (made.tone is Tone.GOOD)
    assert ("inconclusive" in made.verdict) == (made.tone is Tone.WARNING)
    if "took it from" in made.verdict:
        assert percent.low > 0
    if "no relevant gain" in made.verdict:
        assert percent.high < 10
    assert percent is None or not is_too_wide(percent) or not ABSURD.search(made.verdict)


JUDGED = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from(("kept", "broken", "undecided"))),
    unique_by=lambda row: row[0],
    max_size=5,
)


@settings(max_examples=examples(25), deadline=None)
@given(JUDGED)
def test_find_claims_only_what_the_loads_show(judged):
    rows = tuple(JudgedLoad(float(load), verdict) for load, verdict in sorted(judged))
    kept = [row.load for row in itertools.takewhile(lambda row: row.verdict != "broken", rows)]
    value = max((row.load for row in rows if row.verdict == "kept" and row.load in kept), default=0.0)
    finding = Finding("p99<5ms", "request_rate", value, value, None, "p99", 0.0, 0.95, rows)
    found = replace(sample_result(), finding=finding)
    made = document(found)
    verdict = made.verdict
    lightest = rows[0].verdict if rows else "undecided"
    ruling = SHOWN if value else NOT_SHOWN if lightest == "broken" else INCONCLUSIVE
    assert find_code(found) == CODES["find"][ruling]
    assert ("up to" in verdict.partition(";")[0]) <= (ruling == SHOWN)
    assert ("is not met at any load" in verdict) == (ruling == NOT_SHOWN)
    assert ("is undecided" in verdict) == (ruling == INCONCLUSIVE)
    assert (made.tone is Tone.BAD) == (ruling == NOT_SHOWN)
    assert (made.tone is Tone.WARNING) >= (ruling == INCONCLUSIVE)
    assert (made.tone is Tone.GOOD) <= (ruling == SHOWN)


NEEDED = st.one_of(
    st.none(),
    st.builds(
        lambda low, most, doubt: NeededRange(low, None if most is None or low is None else low + most, doubt),
        st.one_of(st.none(), st.integers(1, 60)),
        st.one_of(st.none(), st.integers(0, 12)),
        st.sampled_from(("", "", "", "20 requests at concurrency 1 are too few for p99")),
    ),
)


@settings(max_examples=examples(37), deadline=None)
@given(NEEDED, st.sampled_from((0.0, 0.5, 1.0)), st.floats(0.05, 5))
def test_capacity(needed, part, other_price):
    base = sample_capacity()
    chosen, other = base.options[0], base.options[1]
    low, high = (None, None) if needed is None else (needed.low, needed.high)
    has_number = low is not None
    planned = 0 if low is None else low if high is None else low + round(part * (high - low))
    few = (
        replace(chosen.fewest, replicas=planned, terms=chosen.fewest.terms),
        replace(chosen.fewest, replicas=planned - 1),
    )
    option = replace(
        chosen,
        needed=needed,
        fewest=few[0] if has_number else None,
        fewer=few[1] if has_number and planned > 1 else None,
        whole=few[0] if has_number else None,
        reason="" if has_number else "too slow",
    )
    beside = replace(other, price_per_h=other_price)
    plan = replace(
        base, options=(option, beside) if has_number else (option,), best=0 if has_number else None
    )
    made = document(plan)
    tones = {SHOWN: Tone.GOOD, NOT_SHOWN: Tone.BAD, INCONCLUSIVE: Tone.WARNING}
    assert made.tone is tones[plan.ruling]
    assert ("inconclusive" in made.verdict.lower()) == (plan.ruling == INCONCLUSIVE)
    assert made.verdict.startswith("No number of replicas") == (plan.ruling == NOT_SHOWN)
    if re.match(r"\d+ replicas? of", made.verdict):
        assert needed is not None
        assert not needed.doubt
        assert high is not None
        assert high == low or high < 1.1 * low
    if "would not" in made.verdict:
        assert low == planned
    if "the cheapest of" in made.verdict:
        most = (high + plan.spare) * option.price_per_h
        least = (beside.needed.low + plan.spare) * beside.price_per_h
        assert most <= least or most < 1.1 * least
    with patch("inferometer.capacity.run.plan_capacity", return_value=plan), quiet_capacity() as words:
        assert main(words) == CODES["capacity"][plan.ruling]
        assert main([*words, "--allow-inconclusive"]) == CODES["capacity"][plan.ruling] % 5


@contextmanager
def quiet_capacity():
    """The words of a plan whose saved result is not read."""
    with (
        patch("inferometer.capacity.saved.saved_options", return_value=()),
        patch("inferometer.capacity.request.request_of"),
        patch("inferometer.store.saved_run.saved_file"),
    ):
        yield ["capacity", "--traffic", "9/s", "--slo", "p99<1s", "--options", "a.json", "-q"]


def test_tune_recommends_only_what_it_has_shown(monkeypatch):
    study = sample_study()
    wide = replace(recommend(study), gain=Estimate(95.9, -100.0, 570_920_956_967.0))
    monkeypatch.setattr("inferometer.report.documents.tuning.recommend", lambda _: wide)
    made = tuning_document(study)
    assert made.verdict.startswith("Inconclusive: ")
    assert not ABSURD.search(made.verdict)
    assert made.tone is Tone.WARNING


def test_an_inconclusive_verdict_can_be_allowed():
    assert allowed(5, is_allowed=True) == 0
    assert allowed(4, is_allowed=True) == 4
    assert allowed(5, is_allowed=False) == 5
