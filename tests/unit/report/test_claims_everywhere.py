"""One claim of every command and ruling, in every place that states it: page, terminal, Markdown, notebook, JUnit, CSV,
exit code and badge."""

import csv
import html
import io
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

import pytest
from rich.console import Console

from inferometer.base.answer_file import Answer
from inferometer.base.notes import Note, Remark
from inferometer.capacity.plan import NeededRange
from inferometer.cli.main import main
from inferometer.cli.reporting import exit_code
from inferometer.compare.comparison import FAILED, PASSED, GateOutcome
from inferometer.compare.comparison import INCONCLUSIVE as OPEN
from inferometer.compare.regression import RunsToJudge, judged
from inferometer.diagnose.run import Outcome
from inferometer.options.options import Options
from inferometer.report.document import Tone
from inferometer.report.markdown import markdown_line
from inferometer.report.notebook import fragment
from inferometer.report.saved import document, has_junit, to_csv, to_html, to_junit, to_markdown
from inferometer.report.terminal import show
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import LATENCY_P99, THROUGHPUT
from inferometer.stats.history import FigureHistory
from inferometer.stats.mlperf import LATENCY_RULE, QUERIES_RULE, MlperfRule, MlperfVerdict, SequentialAnswer
from inferometer.stats.mlperf import Answer as MlperfAnswer
from inferometer.stats.result import Finding, JudgedLoad
from inferometer.stats.slo_outcome import Keeping, PromiseOutcome, TermOutcome
from inferometer.stats.trend import TrendPoint
from inferometer.stats.verdict import INCONCLUSIVE, NOT_SHOWN, SHOWN, Ruling
from inferometer.store.run import FINISHED, Run
from inferometer.store.summary import concluded
from inferometer.tune.study import Study
from inferometer.tune.trial import Figures
from inferometer.twin.twin import Band
from inferometer.ui.pages import badge
from tests.support.capacity_plans import sample_capacity
from tests.support.reports import (
    LIMIT_MS,
    sample_comparison,
    sample_diagnosis,
    sample_interference,
    sample_result,
    sample_study,
)
from tests.support.twins import sample_twin
from tests.unit.report.test_claims import CODES, row

RULINGS = (SHOWN, NOT_SHOWN, INCONCLUSIVE)
KEEPING: dict[Ruling, Keeping] = {SHOWN: "broken", NOT_SHOWN: "kept", INCONCLUSIVE: "undecided"}
MARKS = {Tone.GOOD: "✓", Tone.WARNING: "!", Tone.BAD: "✗", Tone.PLAIN: ""}
COLOURS = {"32": Tone.GOOD, "33": Tone.WARNING, "31": Tone.BAD}


def measured(ruling: Ruling) -> Answer:
    result, verdict = sample_result(), KEEPING[ruling]
    found = Estimate(*{"broken": (9e6, 8e6, 10e6), "kept": (3e6, 2e6, 4e6)}.get(verdict, (5e6, 4e6, 6e6)))
    terms = (TermOutcome("p99", "p99<5ms", 5e6, found, verdict),)
    level = replace(result.levels[-1], promise=PromiseOutcome("p99<5ms", verdict, terms))
    return replace(result, levels=(level,))


def by_mlperf(ruling: Ruling) -> Answer:
    over = {SHOWN: 300, INCONCLUSIVE: 3, NOT_SHOWN: 0}[ruling]
    rules = (
        MlperfRule(QUERIES_RULE, True, "300 queries"),
        MlperfRule(LATENCY_RULE, not over, "p99 is 9 ms, the target is 5 ms"),
    )
    answers: dict[Ruling, MlperfAnswer] = {SHOWN: "violated", NOT_SHOWN: "met", INCONCLUSIVE: "undecided"}
    answer = answers[ruling]
    test = SequentialAnswer("latency", 5_000_000, 0.99, answer, 300, over)
    verdict = MlperfVerdict("server", not over, rules, 300, 0.99, 5_000_000, sequential=(test,))
    result = sample_result()
    return replace(result, levels=result.levels[-1:], mlperf=verdict)


def searched(ruling: Ruling) -> Answer:
    lightest = {SHOWN: "kept", NOT_SHOWN: "broken", INCONCLUSIVE: "undecided"}[ruling]
    loads = (JudgedLoad(10.0, lightest), JudgedLoad(20.0, "broken"))
    value, low, high = (10.0, 10.0, 20.0) if ruling == SHOWN else (0.0, 0.0, 10.0)
    finding = Finding("p99<5ms", "request_rate", value, low, high, "p99", 0.0, 0.95, loads)
    return replace(sample_result(), finding=finding)


def compared(ruling: Ruling) -> Answer:
    outcome = {SHOWN: FAILED, NOT_SHOWN: PASSED, INCONCLUSIVE: OPEN}[ruling]
    base = sample_comparison()
    contrasts = tuple(replace(contrast, outputs=()) for contrast in base.contrasts)
    gates = (GateOutcome("p99 > +5%", base.variants[1].name, outcome, "p99 +7.0 %"),)
    return replace(base, contrasts=contrasts, gates=gates)


def gated(ruling: Ruling) -> Answer:
    spread, last = {SHOWN: (0.01, 0.7), NOT_SHOWN: (0.01, 1.0), INCONCLUSIVE: (0.4, 1.0)}[ruling]
    values = [100 * (1 + spread * (-1) ** number) for number in range(12)] + [100 * last]
    points = tuple(TrendPoint(str(n), f"2026-01-{n + 1:02}", value) for n, value in enumerate(values))
    new, past = (FigureHistory("throughput", "concurrency", 4.0, part) for part in (points[-1:], points[:-1]))
    return judged(RunsToJudge("measure", "m", "host", (new,), (past,)))


def shared(ruling: Ruling) -> Answer:
    percent = {SHOWN: (-20, -30, -10), NOT_SHOWN: (0, -2, 2), INCONCLUSIVE: (-5, -40, 30)}[ruling]
    found = sample_interference()
    slowed = replace(found.models[0], differences=(row("throughput", Estimate(*percent)),))
    return replace(found, models=(slowed, *found.models[1:]), notes=())


def tuned(ruling: Ruling) -> Study:
    """The gain of the best configuration over the model's own, which ran twice unless the ruling is open."""
    study = replace(sample_study(), goals=(replace(sample_study().goals[0], constraints=()),))
    own = study.default_name
    rates = {SHOWN: 150.0, NOT_SHOWN: 50.0, INCONCLUSIVE: 150.0}
    trials = []
    for trial in study.measured:
        rate = 100.0 if trial.name == own else rates[ruling]
        figures = Figures(((THROUGHPUT, Estimate(rate, 0.99 * rate, 1.01 * rate)),))
        trial = replace(trial, parts=(replace(trial.parts[0], figures=figures),))
        repeats = 1 if ruling == INCONCLUSIVE else 3
        trials += [replace(trial, repeat=n, number=3 * trial.number + n) for n in range(repeats)]
    return replace(study, trials=tuple(trials))


def tuned_to_slo(ruling: Ruling) -> Answer:
    """p99 of every configuration; the one whose throughput is best is shown to meet the SLO, not to, or neither."""
    ends = {SHOWN: (0.4, 0.3, 0.5), NOT_SHOWN: (2.0, 1.9, 2.1), INCONCLUSIVE: (0.9, 0.5, 1.5)}[ruling]
    p99 = Estimate(*(LIMIT_MS * part for part in ends))
    study = tuned(SHOWN if ruling == SHOWN else NOT_SHOWN)
    trials = tuple(
        replace(
            trial, parts=tuple(replace(part, figures=with_p99(part.figures, p99)) for part in trial.parts)
        )
        for trial in study.trials
    )
    return replace(study, goals=sample_study().goals, trials=trials)


def with_p99(figures: Figures, p99: Estimate) -> Figures:
    return Figures((*(pair for pair in figures.values if pair[0] != LATENCY_P99), (LATENCY_P99, p99)))


def diagnosed(ruling: Ruling) -> Answer:
    found = sample_diagnosis()
    factor, half = {SHOWN: (1.5, 0.02), NOT_SHOWN: (1.03, 0.02), INCONCLUSIVE: (1.2, 0.6)}[ruling]
    before = found.results[0].levels[-1].measurement.infer_per_s.value
    results = []
    for place, result in enumerate(found.results):
        value, width = (before * factor, half) if place else (before, 0.02)
        rate = Estimate(value, value * (1 - width), value * (1 + width))
        levels = tuple(
            replace(level, measurement=replace(level.measurement, infer_per_s=rate))
            for level in result.levels
        )
        results.append(replace(result, levels=levels))
    kept = replace(found.trials[0], throughput=found.throughput * factor)
    return replace(found, trials=(kept, *found.trials[1:]), results=tuple(results))


def planned(ruling: Ruling) -> Answer:
    base = sample_capacity()
    needed = {SHOWN: NeededRange(9, 9), NOT_SHOWN: NeededRange(None, None), INCONCLUSIVE: NeededRange(6, 20)}
    option = replace(base.options[0], needed=needed[ruling])
    if ruling == NOT_SHOWN:
        option = replace(option, fewest=None, fewer=None, whole=None, reason="too slow")
    return replace(base, options=(option,), best=None if ruling == NOT_SHOWN else 0)


def checked(ruling: Ruling) -> Answer:
    ends = {SHOWN: (50, 48, 52), NOT_SHOWN: (100, 98, 102), INCONCLUSIVE: (100, 60, 150)}[ruling]
    base = sample_twin()
    forecast = replace(
        base.forecasts[0],
        bands={"throughput": Band(100.0, 90.0, 110.0)},
        measured={"throughput": float(ends[0])},
        ends={"throughput": (float(ends[1]), float(ends[2]))},
    )
    return replace(base, command="twin check", forecasts=(forecast,))


ANSWERS: dict[str, Callable[[Ruling], Any]] = {
    "measure --slo": measured,
    "measure --scenario mlperf-server": by_mlperf,
    "find": searched,
    "compare --fail-if": compared,
    "gate": gated,
    "interfere": shared,
    "tune": tuned,
    "tune --slo": tuned_to_slo,
    "diagnose --apply": diagnosed,
    "capacity": planned,
    "twin check": checked,
}
OTHERWISE = (  # commands whose codes are tested elsewhere
    "measure --scenario mlperf-server",  # tests/unit/scenario/test_mlperf.py
    "capacity",  # test_claims.py
)
GREEN = ("find", "tune", "tune --slo", "diagnose --apply", "capacity")  # a claim that is shown is good news
CASES = [(name, ruling) for name in ANSWERS for ruling in RULINGS]


def test_every_command_of_the_table_has_its_answers():
    assert {*ANSWERS, "selftest"} == set(CODES)  # `selftest` has no answer file; see test_claims.py


def tones(name: str, ruling: Ruling) -> tuple[Tone, ...]:
    """The colours that docs/exit-codes.md allows."""
    if ruling == INCONCLUSIVE:
        return (Tone.WARNING,)
    if ruling == SHOWN:
        return (Tone.GOOD if name in GREEN else Tone.BAD,)
    return (Tone.BAD,) if CODES[name][NOT_SHOWN] else (Tone.GOOD, Tone.PLAIN)


@pytest.mark.parametrize(("name", "ruling"), CASES)
def test_page_terminal_markdown_and_notebook_agree(name, ruling):
    answer = ANSWERS[name](ruling)
    made = document(answer)
    assert made.tone in tones(name, ruling)
    if name != "measure --scenario mlperf-server":  # loadgen's own words are VALID and INVALID
        is_said = re.search("inconclusive|undecided|from one run", made.verdict, re.IGNORECASE) is not None
        assert is_said == (ruling == INCONCLUSIVE)
    assert f'<p class="verdict {made.tone.value}" id="verdict">' in to_html(answer)
    assert f"**{markdown_line(made.verdict)}**" in to_markdown(answer)
    assert colour(made) is made.tone
    shown = html.unescape(re.sub("<[^>]*>", "", fragment(answer)))
    assert f"{MARKS[made.tone]} {made.verdict}".strip() in shown


def colour(made: Any) -> Tone:
    """The colour in which a terminal shows the verdict."""
    out = io.StringIO()
    show(made, Console(file=out, force_terminal=True, color_system="standard", width=100))
    style = re.match(r"\x1b\[([\d;]+)m", out.getvalue())[1]
    return next((tone for code, tone in COLOURS.items() if code in style.split(";")), Tone.PLAIN)


@pytest.mark.parametrize(("name", "ruling"), CASES)
def test_the_badge_says_so_and_also_if_inconclusive_is_allowed(name, ruling):
    answer, command = ANSWERS[name](ruling), name.split()[0]
    code = CODES[name][ruling]
    run = concluded(Run("abcd1234", command, state=FINISHED, code=code), answer)
    is_bad = ruling != INCONCLUSIVE and Tone.BAD in tones(name, ruling)
    assert badge(run).tone == ("warning" if ruling == INCONCLUSIVE else "bad" if is_bad else "plain")
    assert (INCONCLUSIVE in badge(run).words) == (ruling == INCONCLUSIVE)
    if ruling == INCONCLUSIVE:
        assert badge(replace(run, code=0)) == badge(run)


@pytest.mark.parametrize(("name", "ruling"), [case for case in CASES if has_junit(ANSWERS[case[0]](SHOWN))])
def test_a_test_case_fails_only_if_the_code_does(name, ruling):
    suite = ElementTree.fromstring(to_junit(ANSWERS[name](ruling)))
    code = CODES[name][ruling]
    assert (suite.get("skipped") != "0") == (ruling == INCONCLUSIVE)
    assert (suite.get("failures") != "0") == (ruling != INCONCLUSIVE and code != 0)


def test_a_lost_client_fails_its_test_case():
    """As the exit code does: the level lacks the share of that client."""
    result = sample_result()
    lost = replace(result.levels[-1], remarks=(Remark(Note.CLIENT_LOST, "it was lost"),))
    result = replace(result, levels=(lost,))
    assert exit_code(result, 1.0) == 70
    assert ElementTree.fromstring(to_junit(result)).get("failures") == "1"


def cells(answer: Answer, column: str) -> set[str]:
    return {line[column] for line in csv.DictReader(io.StringIO(to_csv(answer)))}


@pytest.mark.parametrize(
    ("name", "column", "words"),
    [
        ("measure --slo", "Promise", KEEPING),
        ("gate", "outcome", {SHOWN: FAILED, NOT_SHOWN: PASSED, INCONCLUSIVE: OPEN}),
        ("tune", "Recommended", {SHOWN: "yes", NOT_SHOWN: "yes", INCONCLUSIVE: "inconclusive"}),
        ("tune --slo", "Keeps constraints", {SHOWN: "yes", NOT_SHOWN: "no", INCONCLUSIVE: "inconclusive"}),
    ],
)
@pytest.mark.parametrize("ruling", RULINGS)
def test_a_table_claims_no_more(name, column, words, ruling):
    assert cells(ANSWERS[name](ruling), column) - {""} == {words[ruling]}


def test_a_study_recommends_on_its_page_only_what_it_has_shown():
    pages = {ruling: to_html(tuned_to_slo(ruling)) for ruling in RULINGS}
    found = {ruling: re.search("recommended", page, re.I) is not None for ruling, page in pages.items()}
    assert found == {SHOWN: True, NOT_SHOWN: False, INCONCLUSIVE: False}
    assert "undecided: p99" in pages[INCONCLUSIVE]
    assert "violates p99" not in pages[INCONCLUSIVE]
    assert "violates p99" in pages[NOT_SHOWN]


@contextmanager
def answering(name: str, answer: Any) -> Iterator[list[str]]:
    """The words of a command that sends nothing, and has this answer."""
    here = ["-m", "x", "-u", "localhost:1"]
    setup = SimpleNamespace(options=Options(quiet=True), result=answer, messages=(), journal=None)
    prepared = {"inferometer.measure.addresses.prepare_shared": setup}
    words, places = {
        "measure --slo": (here, {**prepared, "inferometer.measure.run.run": (answer,)}),
        "find": (
            [*here, "--slo", "p99<5ms"],
            {
                **prepared,
                "inferometer.find.run.goal_of": None,
                "inferometer.find.run.run_find": (answer,),
            },
        ),
        "compare --fail-if": ([*here, "-m", "y"], {"inferometer.compare.live.compare_live": answer}),
        "gate": (
            ["--no-tags"],
            {
                "inferometer.store.store.open_store": None,
                "inferometer.cli.gate._last": (),
                "inferometer.cli.gate._check": answer,
            },
        ),
        "interfere": ([*here, "-m", "y"], {"inferometer.compare.interfere.interfere": answer}),
        "tune": (["x"], STUDIED | {"inferometer.tune.parallel_session.studies": (answer,)}),
        "tune --slo": (["x"], STUDIED | {"inferometer.tune.parallel_session.studies": (answer,)}),
        "diagnose --apply": (
            [*here, "--apply"],
            {"inferometer.diagnose.run.diagnose_model": Outcome(answer)},
        ),
        "twin check": (
            ["check", "x.json", "-f", "twin.json"],
            {"inferometer.cli.twin._check": answer},
        ),
    }[name]
    with ExitStack() as stack:
        for place, found in places.items():
            stack.enter_context(patch(place, return_value=found))
        kept = [] if name in ("gate", "twin check") else ["--no-store"]
        yield [name.split(maxsplit=1)[0], *words, "-q", *kept]


STUDIED = {"inferometer.tune.request.settings_of": None}


@pytest.mark.parametrize(("name", "ruling"), [case for case in CASES if case[0] not in OTHERWISE])
def test_the_command_exits_with_the_code_of_the_table(name, ruling, capsys):
    code = CODES[name][ruling]
    with answering(name, ANSWERS[name](ruling)) as words:
        assert main(words) == code
        assert main([*words, "--allow-inconclusive"]) == (0 if ruling == INCONCLUSIVE else code)
    assert document(ANSWERS[name](ruling)).verdict.split()[0] in capsys.readouterr().out
