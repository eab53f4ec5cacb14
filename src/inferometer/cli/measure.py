"""`inferometer measure`: load levels, and a table of what came of them."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.signals import INTERRUPTED
from inferometer.base.text import to_stderr
from inferometer.base.writing import Outputs
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import OWN, WORDS, Command, own_options
from inferometer.options.commands import MeasureOptions
from inferometer.options.options import AUTO, DURATION_S, MODERN, REQUEST_TIMEOUT_S, Options
from inferometer.report.delivery import check_outputs, deliver, is_stdout

if TYPE_CHECKING:
    from inferometer.measure.journal import RequestJournal
    from inferometer.measure.mix import WeightedModel
    from inferometer.measure.prepare import Setup
    from inferometer.report.progress import Progress
    from inferometer.scenario.run import ScenarioRequest, ScenarioSetup
    from inferometer.stats.result import Result
    from inferometer.stats.watcher import Watcher
    from inferometer.store.keeper import Keeper

TOO_MANY_FAILURES = 1
PROMISE_BROKEN = 4

COMMAND = Command(
    "inferometer measure",
    "URL [MODEL] [options]",
    "Load a model and measure its latency and throughput. An address alone is asked what it is.",
    MeasureOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    examples=(
        ("localhost:8000 simple", "one request at a time"),
        ("localhost:8000 simple -c 1,2,4,8 -d 10s", "more at a time, level by level"),
        ("localhost:8001 simple --grpc -r 200 --slo 'p99<50ms'", "by rate; is the promise kept?"),
        ("localhost:8000 simple -c 8 -n 1000 --json - -q", "a thousand requests, for a program"),
    ),
    epilog="To see the first request: --dry-run. `inferometer help load` says more; so do data, slo, duration, output, "
    "config and preview.",
    takes_words=True,
)


def with_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, with the words that stand alone as the address and the model."""
    found = dict(given)
    words = list(found.pop(WORDS, ()))
    if words and "url" not in found:
        addresses = addresses_of(words) or [word for word in words if "@" in word]
        if not addresses and len(words) == 1:
            raise UsageError(
                f"'{words[0]}' is no address", remedy=f"write the address first: localhost:8000 {words[0]}"
            )
        found["url"] = (addresses or words)[0]
        words.remove(found["url"])
    for word in words:
        if _is_surely_address(word):
            raise UsageError(f"Two addresses are given: {found['url']} and {word}", remedy="give one")
        if found.setdefault("model", word) != word:
            raise UsageError(f"Two models are given: {found['model']} and {word}", remedy="give one")
    return found


def addresses_of(words: Sequence[str], *, is_known: bool = False) -> list[str]:
    """Those of the words that stand alone which are meant as addresses: a name with a dot in it is one as long as no
    other word, and no option (`is_known`), says where the server is."""
    sure = [word for word in words if "@" not in word and _is_surely_address(word)]
    if sure or is_known or any("@" in word for word in words):
        return sure
    return [word for word in words if is_address(word)]


def is_address(word: str) -> bool:
    """Whether a word that stands alone can be meant as one."""
    return word == "localhost" or any(mark in word for mark in ":/.")


def _is_surely_address(word: str) -> bool:
    """Models have neither schemes nor ports in their names, but may be called org/llama-3.1:8b."""
    return word == "localhost" or re.fullmatch(r"\w+://.*|([^/:]*|\[.*\]):\d+([/?].*)?", word) is not None


def measure_options(given: Mapping[str, Any], *, duration_s: float = DURATION_S) -> Options:
    """What was given by field, with the defaults of our own commands: a level ends when its figures are precise, at
    the latest after `duration_s`. Where no kind is asked for, the address is asked what it is."""
    from secrets import randbits

    from inferometer.measure.checks import STABILITY_OPTIONS, make

    found = with_words(given)
    if "grpc_method" in found:
        found.setdefault("service_kind", "dynamic_grpc")
    if "url" in found:
        found.setdefault("service_kind", AUTO)
    _find_model(found)
    if "headers" in found:  # HTTP/2 forbids the blanks around a value, which the classic tool sends over gRPC
        found["headers"] = tuple((name, value.strip(" ")) for name, value in found["headers"])
    defaults: dict[str, Any] = {
        "request_timeout_s": REQUEST_TIMEOUT_S,
        "sequence_ids": (randbits(62) + 1, None),  # two runs at once never share an id
    }
    if STABILITY_OPTIONS.isdisjoint(found):
        defaults["duration_s"] = duration_s
    return make(found, defaults=defaults)


def _find_model(found: dict[str, Any]) -> None:
    """With the kind of the server known, the model must be, too; it may stand in the address."""
    from inferometer.measure.address import model_in
    from inferometer.services.kind import KINDS

    kind = found.get("service_kind")
    if found.get("model") or (kind is not None and (kind == AUTO or not KINDS[kind].needs_model)):
        return
    if kind is None:
        raise UsageError("No server and no model are given", remedy="write them: localhost:8000 MODEL")
    found["model"] = model_in(found.get("url"), kind)
    if not found["model"]:
        raise UsageError(
            f"No model is named, and --service-kind {kind} needs one",
            remedy="name it with -m, or leave out the kind: then the address is asked what it has",
        )


def loads(given: Mapping[str, Any]) -> Iterator[tuple[str, Options]]:
    """What would be loaded, each with its name where there are several."""
    from inferometer.measure.checks import changed

    found = dict(given)
    if f"{OWN}scenario" in found:
        from inferometer.scenario.classes import planned_classes

        request = _scenario(found)
        for one in planned_classes(request.scenario, request.options, request.models, folder=request.folder):
            yield one.name, one.options
        return
    options, models = _asked(found)
    if len(models) < 2:
        yield "", options
        return
    for row in models:
        yield row.model, changed(options, model=row.model)


def _asked(given: dict[str, Any]) -> "tuple[Options, tuple[WeightedModel, ...]]":
    """The options of the load, and the models, of which there may be several."""
    from inferometer.measure.mix import weighted

    if given.pop(f"{OWN}schema", None):
        raise UsageError("--schema sends nothing", remedy="leave it out")
    own = own_options(given, MeasureOptions)
    words = list(given.get(WORDS, ()))
    if own.models and words:
        given = with_words(given)
    if own.models:
        names = (*own.models, *([given.pop("model")] if "model" in given else ()))
        models = weighted(names)
        given["model"] = models[0].model
    else:
        models = ()
    return measure_options(given), models


def maybe_told(given: Mapping[str, Any]) -> str | None:
    """What is only to be shown: the scenarios that there are, or what one may hold."""
    if given.get(f"{OWN}schema"):
        from inferometer.scenario.spec import scenario_schema

        return json.dumps(scenario_schema(), indent=1)
    if given.get(f"{OWN}scenario") == "list":
        from inferometer.scenario.ready import listing

        return listing()
    return None


def _scenario(given: dict[str, Any]) -> "ScenarioRequest":
    from inferometer.measure.mix import weighted
    from inferometer.scenario.ready import open_scenario
    from inferometer.scenario.run import ScenarioRequest

    word = str(given.pop(f"{OWN}scenario"))
    scenario = open_scenario(word)
    given = with_words(given) if given.get(WORDS) else given
    given.setdefault("service_kind", AUTO)
    options, models = _asked(given)
    return ScenarioRequest(
        scenario=scenario,
        options=options,
        models=models or (weighted((options.model,)) if options.model else ()),
        duration_s=options.duration_s if "duration_s" in options.given else None,
        folder=Path(word).parent if Path(word).is_file() else None,
    )


def _run_scenario(given: dict[str, Any], keeper: "Keeper") -> int:
    from inferometer.base.messages import messages_shown
    from inferometer.scenario.run import prepare_scenario, run_scenario

    request = _scenario(given)
    options = request.options
    with messages_shown(options.verbose):
        check_outputs(options)
        setup = prepare_scenario(request)
        models = dict.fromkeys(part.model.name for part in setup.setups)
        keeper.about(url=str(setup.result.server["url"]), model=",".join(models))
        code_of = partial(exit_code, max_error_rate=options.max_error_rate)
        return run_and_report(setup, keeper, partial(run_scenario, setup), code_of)


def run(given: dict[str, Any], keeper: "Keeper") -> int:
    from inferometer.base.messages import messages_shown
    from inferometer.measure.mix import prepare_mix
    from inferometer.measure.prepare import OWN_HABITS, prepare
    from inferometer.measure.run import run as measure

    if f"{OWN}scenario" in given:
        return _run_scenario(given, keeper)
    options, models = _asked(given)
    keeper.about(url=options.url or "", model=",".join(row.model for row in models) or options.model)
    with messages_shown(options.verbose):
        check_outputs(options)
        if len(models) > 1:
            setup = prepare_mix(options, models, command="measure", habits=OWN_HABITS)
        else:
            setup = prepare(options, command="measure", habits=OWN_HABITS)
        code_of = partial(exit_code, max_error_rate=options.max_error_rate)
        return run_and_report(setup, keeper, partial(measure, setup), code_of)


def exit_code(result: "Result", max_error_rate: float) -> int:
    """A run that was given up or not answered is no success, whatever share of its requests failed.

    A broken promise comes last: the others say that the run itself went wrong. The page `exit-codes` has this order.
    """
    from inferometer.base.notes import Note

    levels = result.levels
    notes = [{remark.note for remark in level.remarks} for level in levels]
    if any(remark.note is Note.TIME_LIMIT for remark in result.remarks):  # that was asked for
        notes = [row - {Note.INTERRUPTED} for row in notes]
    is_unanswered = bool(notes) and all(Note.NO_REPLY in row and Note.INTERRUPTED not in row for row in notes)
    if any(level.is_given_up for level in levels):
        return PeerError.exit_code
    if any(level.is_cut_short for level in levels) or any(
        remark.note is Note.WORKER_LOST for remark in result.remarks
    ):
        return LocalError.exit_code
    if is_unanswered:
        return PeerError.exit_code
    if any(Note.INTERRUPTED in row for row in notes):
        return INTERRUPTED
    if result.fails_too_often(max_error_rate):
        return TOO_MANY_FAILURES
    return PROMISE_BROKEN if result.breaks_promise else 0


def run_and_report(
    setup: "Setup | ScenarioSetup",
    keeper: "Keeper",
    start: "Callable[[Watcher], Iterator[Result]]",
    code_of: "Callable[[Result], int]",
) -> int:
    """Run it with progress on stderr; show the result, and write it to the files that were asked for.

    The JSON file grows with every level. The exit code is that of the result, also where the user ended a run
    between two levels: only a fault of the server or of this machine says more.
    """
    from inferometer.base.answer_file import write

    options, outputs, result = setup.options, Outputs(), setup.result
    growing = None if is_stdout(options.json) else options.json
    with progress_shown(options.verbose, is_quiet=options.quiet) as progress:
        watcher = keeper.watching(progress)
        keeper.save(result)
        for message in setup.messages:
            watcher.said(message)
        for result in start(watcher):
            # A disk that is full now may have room after the next level.
            outputs.file(growing, partial(write, result))
            keeper.save(result)
    deliver(result, options, outputs)
    if setup.journal is not None:
        outputs.attempt(setup.journal.path, partial(_export, setup.journal))
    outputs.settle()
    code = code_of(result)
    is_fault = code in (PeerError.exit_code, LocalError.exit_code)
    return INTERRUPTED if progress.is_interrupted() and not is_fault else code


def _export(journal: "RequestJournal") -> None:
    from inferometer.report.export import write_export

    for remark in write_export(journal.export(), journal.path):
        to_stderr(remark)


@contextmanager
def progress_shown(verbose: int = 0, *, is_quiet: bool = False) -> Iterator["Progress"]:
    """A block on a terminal, lines elsewhere; with -v a line for every window. Ctrl-C lets the run end in order."""
    from inferometer.base.signals import Interrupts
    from inferometer.base.units import monotonic_ns
    from inferometer.report.progress import LiveProgress, PlainProgress, Progress, can_draw

    is_drawn = can_draw(sys.stderr) and not verbose
    with Interrupts(is_silent=is_drawn or is_quiet).caught() as interrupts:
        if is_quiet:
            progress = Progress(interrupts.is_asked)
        elif is_drawn:
            from rich.console import Console

            progress = LiveProgress(interrupts.is_asked, Console(stderr=True))
        else:
            progress = PlainProgress(
                interrupts.is_asked, sys.stderr, monotonic_ns, every_window=bool(verbose)
            )
        with closing(progress):
            yield progress
