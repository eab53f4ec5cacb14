"""`inferometer twin`: fit a simulation of a server to measured runs, and predict other loads."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import printable
from inferometer.base.writing import Outputs, refuse_link
from inferometer.options.asides import CONFIG, STORE
from inferometer.options.command_line import Command, Request
from inferometer.options.option import OWN
from inferometer.options.twin import TwinOptions

if TYPE_CHECKING:
    from inferometer.stats.result import Result
    from inferometer.twin.twin import Twin, TwinLoad

VERBS = ("fit", "predict", "check")
COMMAND = Command(
    "inferometer twin",
    "fit RUN|RESULT.json ... [-f twin.json]\n"
    "predict [-m MODEL[:WEIGHT] ...] [-c N] [-r RATE] [...]\n"
    "check [RUN|RESULT.json ...] [-f twin.json] [options]",
    "Fit a simulation of a server to measured runs (`fit`), predict loads, mixes of models and settings that were not "
    "measured (`predict`), and measure its error (`check`; with saved runs it sends nothing). Every figure has a 90 % "
    "interval, which grows with the distance from the measured loads, and is marked as interpolated or extrapolated.",
    TwinOptions,
    shared=(("Keep", (STORE,)), *CONFIG),
    examples=(
        ("fit a.json b.json", "two models, each measured alone"),
        ("predict -m a:3 -m b:1 -r 40 --arrivals poisson", "both at once, 30/s and 10/s"),
        ("predict -m a -c 3,16 --set a.instances=2", "loads and a setting not measured"),
        ("check -c 3,6 -d 5s", "measure the prediction error"),
    ),
    takes_words=True,
)
_OF_LOADS = ("models", "concurrency", "rate", "arrivals", "url", "duration_s")
_OF_VERB = {
    "fit": ("cores",),
    "predict": ("models", "concurrency", "rate", "arrivals", "prompt_tokens", "output_tokens", "settings"),
    "check": (*_OF_LOADS, "allow_inconclusive"),
}


def run(request: Request[TwinOptions]) -> int:
    from inferometer.cli.reporting import allowed, ruling_code
    from inferometer.report.delivery import check_forms, deliver
    from inferometer.report.saved import consistent

    verb, *names = request.words or ("",)
    if verb not in VERBS:
        raise UsageError(
            f"unknown action '{verb}'" if verb else "no action is given",
            remedy=f"write {', '.join(VERBS[:-1])} or {VERBS[-1]}",
        )
    _refuse_others(verb, request.given)
    own, is_named = request.own, "file" in request.given
    check_forms(own)
    if verb == "fit" and not is_named:
        refuse_link(own.file, "--file")
    if verb == "check" and not names and not is_named:
        _refuse_foreign(own.file)
    if verb == "predict" and names:
        raise UsageError(f"unexpected argument '{names[0]}'", remedy="give models with -m")
    with consistent(*names) if names else consistent(str(own.file)):
        twin = {"fit": _fit, "predict": _predict, "check": _check}[verb](own, names, request.asides.store)
    outputs = Outputs()
    deliver(twin, own, outputs)
    if verb == "fit":
        outputs.file(str(own.file), lambda path: _write(twin, path))
        if not own.quiet and outputs.has(own.file) and own.json != "-":
            print(printable(f"Written: {own.file}"))
    outputs.settle()
    if verb != "check":
        return 0
    return allowed(ruling_code(twin.ruling), is_allowed=own.allow_inconclusive)


def _refuse_others(verb: str, given: Collection[str]) -> None:
    """Raise for options of another action."""
    about = {field for fields in _OF_VERB.values() for field in fields} - set(_OF_VERB[verb])
    for field in sorted(about.intersection(given)):
        name = next(row.names[-1] for row in COMMAND.by_name.values() if row.field == f"{OWN}{field}")
        homes = " or ".join(f"twin {other}" for other in VERBS if field in _OF_VERB[other])
        raise UsageError(
            f"{name} does not apply to `twin {verb}`", remedy=f"leave it out, or use it with {homes}"
        )


def _fit(own: TwinOptions, names: Sequence[str], store: Path | None) -> "Twin":
    from inferometer.base.writing import writable
    from inferometer.twin.fit import fit_twin

    if not names:
        raise UsageError(
            "no run is given to fit",
            remedy="give results saved with --json, or ids of runs (`inferometer runs`)",
        )
    writable(own.file)
    origins, results = _results(names, store)
    return fit_twin(results, cores=own.cores, origins=origins)


def _results(names: Sequence[str], store: Path | None) -> "tuple[list[str], list[Result]]":
    """Return the results of measurements and diagnoses, with their given names."""
    from inferometer.diagnose.diagnosis import Diagnosis
    from inferometer.stats.result import Result
    from inferometer.stats.saved import read
    from inferometer.store.saved_run import saved_file

    kinds: tuple[type[Result | Diagnosis], ...] = (Result, Diagnosis)
    found: list[tuple[str, Result]] = []
    for name in names:
        answer = read(saved_file(name, store), *kinds)
        found += [(name, row) for row in (answer.results if isinstance(answer, Diagnosis) else (answer,))]
    return [name for name, _ in found], [row for _, row in found]


def _read(own: TwinOptions) -> "Twin":
    from inferometer.base.answer_file import read
    from inferometer.twin.twin import Twin

    if not own.file.exists():
        raise UsageError(
            f"the twin file '{own.file}' does not exist",
            remedy="create it with `inferometer twin fit RUN ...`",
        )
    return read(own.file, Twin)


def _loads(twin: "Twin", own: TwinOptions) -> "tuple[TwinLoad, ...]":
    from inferometer.twin.loads import AskedLoads, loads_of, setting_of, values_of

    asked = AskedLoads(
        models=own.models,
        concurrency=values_of("--concurrency", own.concurrency),
        rates=values_of("--rate", own.rate),
        arrivals=own.arrivals,
        settings=tuple(map(setting_of, own.settings)),
        prompt_tokens=own.prompt_tokens,
        output_tokens=own.output_tokens,
    )
    if own.arrivals != "constant" and not asked.rates:
        raise UsageError("--arrivals requires --rate", remedy="give --rate as well")
    return loads_of(twin, asked)


def _predict(own: TwinOptions, names: Sequence[str], store: Path | None) -> "Twin":
    from inferometer.twin.predict import predict_twin

    twin = _read(own)
    return predict_twin(twin, _loads(twin, own))


def _check(own: TwinOptions, names: Sequence[str], store: Path | None) -> "Twin":
    from inferometer.cli.reporting import progress_shown
    from inferometer.twin.check import CheckRequest, check_twin

    twin = _read(own)
    if names:
        asked = [field for field in _OF_LOADS if getattr(own, field) != getattr(TwinOptions(), field)]
        if asked:
            name = next(row.names[-1] for row in COMMAND.by_name.values() if row.field == OWN + asked[0])
            raise UsageError(
                f"{name} does not apply to saved runs ({', '.join(names)})",
                remedy="leave out the option or the runs",
            )
        origins, results = _results(names, store)
        request = CheckRequest(results=tuple(results), origins=tuple(origins))
    else:
        request = CheckRequest(_loads(twin, own), own.url, own.duration_s)
    with progress_shown(own.verbose, is_quiet=own.quiet) as progress:
        return check_twin(twin, request, progress)


def _write(twin: "Twin", path: Path) -> None:
    from inferometer.base.answer_file import write
    from inferometer.cli.trusted import remember_made

    write(twin, path)
    remember_made(path)


def _refuse_foreign(path: Path) -> None:
    """Raise if a twin file that the user did not name was not written here: it names servers, and files to send to
    them."""
    from inferometer.cli.trusted import is_made_here

    if path.exists() and not is_made_here(path):
        raise UsageError(
            f"'{path}' was found here, was not named, and was not written by `inferometer twin fit`: it determines "
            "which server is loaded, and with which files",
            remedy=f"review it, then name it: -f {path}; or check saved runs",
        )
