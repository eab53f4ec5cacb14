"""`inferometer compare`: variants side by side, live or from saved results."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.reading import is_named
from inferometer.base.signals import interrupted_code
from inferometer.base.writing import Outputs
from inferometer.cli.reporting import progress_shown
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import WORDS, Command, Request
from inferometer.options.comparing import COMPARE_REFUSED, CompareOptions
from inferometer.options.option import OWN
from inferometer.options.options import MODERN, Options
from inferometer.report.delivery import FORMS, check_outputs, deliver
from inferometer.store.saved_run import is_run, saved_file
from inferometer.store.store import may_be_id

if TYPE_CHECKING:
    from inferometer.compare.comparison import Comparison
    from inferometer.compare.gates import Terms
    from inferometer.compare.live import CompareRequest
    from inferometer.store.keeper import Keeper

USAGE = 64  # EX_USAGE of sysexits.h; 2, the usage error of other commands, means inconclusive here

COMMAND = Command(
    "inferometer compare",
    "URL MODEL MODEL ... [options]\nMODEL@URL MODEL@URL ... [options]\nBASE.json|RUN NEW.json|RUN ... [options]",
    "Compare variants of a model, measured in turns, or saved results and stored runs.",
    CompareOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    refused=COMPARE_REFUSED,
    examples=(
        ("localhost:8000 simple simple_fast", "two models, measured in turns"),
        ("simple@localhost:8000 simple@localhost:9000 -c 1,4", "two servers"),
        ("base.json new.json --fail-if 'p99 > +5%'", "saved results, in CI"),
        ("localhost:8000 a b --markdown -", "tables for a pull request"),
    ),
    epilog="Exit status: 0 fine, 1 regression, 2 inconclusive, 3 invalid, 64 wrong usage.",
    usage_code=USAGE,
    takes_words=True,
    takes_many=True,
)
_REPORTING = (*FORMS, "quiet", "max_error_rate")
OF_SAVED = frozenset(
    (WORDS, f"{OWN}fail_if", f"{OWN}force", f"{OWN}allow_inconclusive", "store", *_REPORTING)
)
"""The fields that apply to saved results."""


def loads(request: Request[CompareOptions]) -> Iterator[tuple[str, Options]]:
    """Yield every variant with its name."""
    from inferometer.compare.gates import Terms
    from inferometer.compare.live import options_of

    if are_saved(request.words, request.asides.store):
        raise UsageError("Comparing saved results sends nothing", remedy="give models to measure")
    live = _request(request, Terms())
    for model in live.models:
        yield model.name, options_of(live.options, model)


def run(request: Request[CompareOptions], keeper: "Keeper") -> int:
    from inferometer.compare.comparison import UNDECIDED
    from inferometer.compare.gates import Terms, parse_gates
    from inferometer.report.saved import consistent

    own, store = request.own, request.asides.store
    names = request.words if are_saved(request.words, store) else ()
    if names:
        _check(request)
    conditions = tuple(gate for text in own.fail_if for gate in parse_gates(text))
    reports = Options(**{name: value for name, value in request.load.items() if name in _REPORTING})
    check_outputs(reports)
    terms = Terms(conditions, reports.max_error_rate)
    if names:
        comparison, is_interrupted = _saved(names, store, terms, own), False
    else:
        comparison, is_interrupted = _live(_request(request, terms), keeper)
        keeper.save(comparison)
    outputs = Outputs()
    with consistent(*names) if names else nullcontext():
        deliver(comparison, reports, outputs)
    outputs.settle()
    if is_interrupted:
        return interrupted_code()
    is_open = comparison.outcome == UNDECIDED and own.allow_inconclusive
    return 0 if is_open else comparison.exit_code


def are_saved(words: Sequence[str], store: Path | None) -> bool:
    """Whether positional words are result files or run ids; a mistyped one is not mistaken for a model."""
    names = [word for word in words if not word.endswith(".json") and not is_named(word)]
    if not words or not names:
        return bool(words)
    return all(map(may_be_id, names)) and any(is_run(name, store) for name in names)


def _check(request: Request[CompareOptions]) -> None:
    """Raise for an option that does not apply to saved results."""
    strange = [field for field in request.values if field not in OF_SAVED]
    if strange:
        names = [name for name, row in COMMAND.by_name.items() if row.field == strange[0]]
        raise UsageError(
            f"{names[0]} does not apply to saved results ({', '.join(request.words)})",
            remedy="give result files, or models to measure",
        )


def _saved(names: Sequence[str], store: Path | None, terms: "Terms", own: CompareOptions) -> "Comparison":
    from inferometer.compare.saved import compare_saved
    from inferometer.report.saved import consistent
    from inferometer.stats.result import Result
    from inferometer.stats.saved import read

    results = [(name, read(saved_file(name, store), Result)) for name in names]
    with consistent(*names):
        return compare_saved(results, terms, is_forced=own.force)


def _live(request: "CompareRequest", keeper: "Keeper") -> "tuple[Comparison, bool]":
    """Return the comparison, and whether the user interrupted it."""
    from inferometer.compare.live import compare_live

    urls = {model.url or request.options.url or "" for model in request.models}
    models = {model.model for model in request.models}
    keeper.about(url=",".join(sorted(urls)), model=",".join(sorted(models)))
    with (
        messages_shown(request.options.verbose),
        progress_shown(request.options.verbose, is_quiet=request.options.quiet) as progress,
    ):
        return compare_live(request, keeper.watching(progress)), progress.is_interrupted()


def _request(request: Request[CompareOptions], terms: "Terms") -> "CompareRequest":
    from inferometer.compare.live import CompareRequest, variants_of
    from inferometer.measure.checks import load_options

    own, target = request.own, request.target()
    options = load_options(request.load, target)
    if own.force:
        raise UsageError(
            "--force is for saved results", remedy="leave it out: live variants get the same load"
        )
    chosen = variants_of(target.models, target.urls)
    return CompareRequest(chosen, replace(options, model=chosen[0].model), terms, own.outputs)
