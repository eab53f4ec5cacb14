"""`inferometer gate`: check a new run for a regression against the latest good runs of the store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import is_named
from inferometer.base.text import printable, to_stderr
from inferometer.base.writing import Outputs
from inferometer.cli.compare import USAGE
from inferometer.options.asides import CONFIG, STORE
from inferometer.options.command_line import Command, Request
from inferometer.options.comparing import GateOptions

if TYPE_CHECKING:
    from inferometer.compare.gates import Gate
    from inferometer.compare.regression import RegressionCheck
    from inferometer.stats.result import Result
    from inferometer.store.run import Run
    from inferometer.store.store import Store

JUDGED = ("throughput", "p50", "p99")

COMMAND = Command(
    "inferometer gate",
    "[RUN ...] [options]",
    "Judge the latest run of the store, or the one given by id or file, against the latest good runs of the same "
    "model, load and command on the same class of machine: it fails on a deterioration that their spread does not "
    "explain. Several runs are judged together.",
    GateOptions,
    shared=(("Keep", (STORE,)), *CONFIG),
    examples=(
        ("", "the latest run"),
        ("7f3a --markdown gate.md", "a stored run, with a table for a pull request"),
        ("new.json --fail-if 'p99 > +5%'", "a saved result; fails only if clearly above the limit"),
        ("--accept 7f3a", "make its figures the new baseline"),
    ),
    epilog="Exit status: 0 fine, 1 regression, 2 inconclusive, 3 invalid, 64 wrong usage.",
    usage_code=USAGE,
    takes_words=True,
)


def run(request: Request[GateOptions]) -> int:
    from inferometer.compare.comparison import UNDECIDED
    from inferometer.compare.gates import parse_gates
    from inferometer.report.delivery import check_forms, deliver
    from inferometer.store.store import open_store

    own, words = request.own, request.words
    store = open_store(request.asides.store)
    gates = tuple(gate for text in own.fail_if for gate in parse_gates(text))
    figures = _figures(own, gates)
    check_forms(own)
    if own.accept:
        _accept(store, own.accept, words)
        return 0
    judged_runs = _named(store, words) if words else _last(store)
    check = _check(store, judged_runs, own, gates, figures)
    outputs = Outputs()
    deliver(check, own, outputs)
    if not own.no_tags:
        _tag(store, judged_runs, check)
    outputs.settle()
    return 0 if own.allow_inconclusive and check.outcome == UNDECIDED else check.exit_code


def _figures(own: GateOptions, gates: "Sequence[Gate]") -> tuple[str, ...]:
    from inferometer.store.summary import KEPT

    figures = own.figures or tuple(dict.fromkeys(gate.name for gate in gates)) or JUDGED
    known = [name for name in KEPT if name != "errors"]
    for name in figures:
        if name not in known:
            raise UsageError(
                f"'{name}' is not a figure of a run's history", remedy=f"use one of {', '.join(known)}"
            )
    missing = [gate.text for gate in gates if gate.name not in figures]
    if missing:
        raise UsageError(
            f"--fail-if '{missing[0]}' names a figure that is not judged",
            remedy="add it with --figure",
        )
    return figures


def _accept(store: "Store", names: Sequence[str], words: Sequence[str]) -> None:
    from inferometer.compare.regression import ACCEPTED_TAG, FAILED_TAG, SUSPECTED_TAG

    if words:
        raise UsageError(
            f"'{words[0]}' cannot be judged together with --accept", remedy="give only one of them"
        )
    for name in names:
        run = store.tag(store.get(name), ACCEPTED_TAG)
        store.untag(run, FAILED_TAG, SUSPECTED_TAG)
        print(printable(f"{store.short(run)}: its figures are the new baseline from now on"))


# --- the runs to judge, and their history


@frozen
class _JudgedRun:
    """A run of the store, or a saved result treated like one."""

    run: "Run"
    result: "Result | None"
    is_kept: bool = True


def _named(store: "Store", words: Sequence[str]) -> list[_JudgedRun]:
    return [_saved(word) if _is_file(word) else _kept(store, store.get(word)) for word in words]


def _is_file(word: str) -> bool:
    return word.endswith(".json") or is_named(word)


def _saved(name: str) -> _JudgedRun:
    from inferometer.stats.result import Result
    from inferometer.stats.saved import read
    from inferometer.store.run import FINISHED, Run
    from inferometer.store.summary import summarized

    result = read(Path(name), Result)
    found = Run(id=name, command=result.command, state=FINISHED, started_at=result.started_at)
    return _JudgedRun(summarized(found, result), result, is_kept=False)


def _kept(store: "Store", run: "Run") -> _JudgedRun:
    """Return a stored run with its result, if it has one, because the result has more details of the requests."""
    from inferometer.stats.result import Result

    try:
        answer = store.answer(run)
    except UsageError:
        return _JudgedRun(run, None)
    return _JudgedRun(run, answer if isinstance(answer, Result) else None)


def _last(store: "Store") -> list[_JudgedRun]:
    """Return the latest finished run and the suspected runs directly before it; together they may be conclusive."""
    from inferometer.compare.regression import SUSPECTED_TAG
    from inferometer.store.filter import RunFilter
    from inferometer.store.run import FINISHED

    runs = store.runs(RunFilter(state=FINISHED))
    if not runs:
        raise UsageError(
            f"no finished run in '{store.folder}'",
            remedy="measure first, or give the folder with --store",
        )
    found = [_kept(store, runs[0])]
    for run in runs[1:]:
        if not _is_alike(found[0], _JudgedRun(run, None)):
            continue
        if SUSPECTED_TAG not in run.tags:
            break
        found.append(_kept(store, run))
    return found


def _is_alike(new: _JudgedRun, old: _JudgedRun) -> bool:
    from inferometer.stats.history import setting

    one, two = setting(new.run), setting(old.run)
    if not new.is_kept:  # a file's result holds the machine and options itself
        one = replace(one, host_class=two.host_class, options=two.options)
    return one == two


def _past(store: "Store", new: Sequence[_JudgedRun], wanted: int) -> tuple[list["Run"], list[str]]:
    """Return earlier good runs, oldest first, and notes about those excluded because they differ."""
    from inferometer.compare.regression import ACCEPTED_TAG, FAILED_TAG
    from inferometer.compare.saved import unlike
    from inferometer.store.filter import RunFilter
    from inferometer.store.run import FINISHED

    last = new[0]
    ids = {row.run.id for row in new}
    first_s = min(row.run.started_s for row in new)
    found: list[Run] = []
    notes: list[str] = []
    for run in store.runs(RunFilter(command=last.run.command, state=FINISHED)):
        if run.id in ids or run.started_s > first_s or not _is_alike(last, _JudgedRun(run, None)):
            continue
        if FAILED_TAG in run.tags and ACCEPTED_TAG not in run.tags:
            continue
        if last.result is not None and (other := _kept(store, run).result) is not None:
            differing = unlike(other, last.result)
            if differing:
                notes.append(f"run {store.short(run)} is excluded: {'; '.join(differing)}")
                continue
        found.append(run)
        if len(found) == wanted:
            break
    return found[::-1], notes


def _check(
    store: "Store",
    new: Sequence[_JudgedRun],
    own: GateOptions,
    gates: "Sequence[Gate]",
    figures: Sequence[str],
) -> "RegressionCheck":
    from inferometer.compare.regression import ACCEPTED_TAG, RunsToJudge, judged
    from inferometer.stats.history import figure_histories

    last = new[0].run
    for row in new[1:]:
        if not _is_alike(new[0], row):
            raise UsageError(
                f"runs {last.id} and {row.run.id} were measured differently", remedy="judge them one by one"
            )
    past, notes = _past(store, new, own.runs)
    ordered = sorted((row.run for row in new), key=lambda run: run.started_s)
    accepted = [run.id for run in past if ACCEPTED_TAG in run.tags]
    runs = RunsToJudge(
        command=last.command,
        model=last.model,
        host_class=last.host_class,
        new=tuple(row for row in figure_histories(ordered, figures) if _is_judged(row.figure, row.mode)),
        past=figure_histories(past, figures),
        accepted_id=accepted[-1] if accepted else "",
    )
    return judged(
        runs,
        gates,
        most=own.runs,
        matters_percent=None if own.matters is None else own.matters * 100,
        notes=notes,
        problems=[p for row in new for p in _problems(row)],
    )


def _is_judged(figure: str, mode: str) -> bool:
    """Whether to judge a figure: at a rate, throughput is an input."""
    return figure != "throughput" or mode == "concurrency"


def _problems(row: _JudgedRun) -> list[str]:
    run, result = row.run, row.result
    if not run.points:
        return [f"run {run.id} has no figures: {run.verdict or run.state}"]
    if result is None:
        return []
    from inferometer.stats.wrong_answers import wrong_answers

    wrong = [f"run {run.id}: {text}" for text in wrong_answers(result.levels)]
    most = float(result.effective.max_error_rate or 0.0)
    if not result.fails_too_often(most):
        return wrong
    if result.failed_visits_share > result.failed_share:
        return [*wrong, f"run {run.id}: {result.failed_visits_share:.1%} of the visits failed"]
    return [*wrong, f"run {run.id}: {result.failed_share:.1%} of the requests failed"]


def _tag(store: "Store", new: Sequence[_JudgedRun], check: "RegressionCheck") -> None:
    """Record the verdict as a tag in the store: failed runs no longer count as good."""
    from inferometer.base.errors import InferometerError
    from inferometer.compare.comparison import REGRESSION
    from inferometer.compare.regression import FAILED_TAG, SUSPECTED_TAG

    tag = FAILED_TAG if check.outcome == REGRESSION else SUSPECTED_TAG if check.is_suspicious else ""
    for row in new:
        if not row.is_kept:
            continue
        others = [other for other in (FAILED_TAG, SUSPECTED_TAG) if other != tag and other in row.run.tags]
        try:
            run = store.untag(row.run, *others) if others else row.run
            if tag and tag not in run.tags:
                store.tag(run, tag)
        except (OSError, InferometerError) as error:
            to_stderr(f"WARNING: run {row.run.id} could not be tagged: {error}")
