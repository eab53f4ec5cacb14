"""`inferometer tune`: the best configuration of a model inside a promise."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.signals import INTERRUPTED
from inferometer.base.text import printable
from inferometer.base.writing import Outputs, write_file
from inferometer.cli.measure import addresses_of, measure_options, progress_shown
from inferometer.options.asides import PREVIEW
from inferometer.options.command_line import OWN, WORDS, Command, own_options
from inferometer.options.commands import TUNE_REFUSED, TuneOptions
from inferometer.options.options import AUTO, MODERN, Options
from inferometer.report.delivery import check_outputs, deliver

if TYPE_CHECKING:
    from inferometer.tune.study import Study

NOT_FOUND = 1

COMMAND = Command(
    "inferometer tune",
    "[URL] MODEL [--slo PROMISE] [--budget TIME] [options]",
    "Find the configuration of a model (instances, batch size, batching) and the load that give the most throughput "
    "inside a promise, in few measurements.",
    TuneOptions,
    shared=(*MODERN, *PREVIEW),
    refused=TUNE_REFUSED,
    examples=(
        ("simple --budget 3m", "of the example models, on a server of our own"),
        ("simple --model-repository models --slo 'p99<10ms' --budget 5m", "of yours, inside a promise"),
        ("localhost:8000 simple --budget 3m", "on a running server, which is left as it was found"),
        ("simple --budget 3m --output config.pbtxt --html tune.html", "with the configuration and a page"),
    ),
    takes_words=True,
)


def run(given: dict[str, Any]) -> int:
    from inferometer.tune.session import profile
    from inferometer.tune.settings import settings_of
    from inferometer.tune.study import recommend

    own = own_options(_with_words(given), TuneOptions)
    options = measure_options({**given, "model": own.model})
    check_outputs(options)
    if own.url is not None:
        options = _on_triton(options, own.url)
    if own.fresh:
        own.journal.unlink(missing_ok=True)
    with progress_shown(options.verbose, is_quiet=options.quiet) as progress:
        (study,) = profile(settings_of(own, options), progress)
    outputs = Outputs()
    deliver(study, options, outputs)
    found = recommend(study)
    if found is not None:
        outputs.file(own.output, partial(_write_config, study, found.best.name))
    outputs.settle()
    if progress.is_interrupted():
        return INTERRUPTED
    return 0 if found is not None and found.does_pass else NOT_FOUND


def _on_triton(options: Options, url: str) -> Options:
    """With the protocol of the server there; any other server than Triton is refused."""
    from inferometer.measure.recognize import recognized

    found, _ = recognized(replace(options, url=url, service_kind=AUTO), "tune")
    if found.service_kind != "triton":
        raise UsageError(
            f"the server at {url} is of the kind {found.service_kind}, and only Triton's models can be tuned",
            remedy=f"measure it as it is: inferometer measure {url} {options.model}",
        )
    return replace(options, protocol=found.protocol)


def _with_words(given: dict[str, Any]) -> dict[str, Any]:
    """A word that stands alone is the address, or the model, which may also stand in the address."""
    url, model = OWN + "url", OWN + "model"
    words = given.pop(WORDS, ())
    is_alone = len(words) == 1 and model not in given  # no address is needed
    addresses = addresses_of(words, is_known=is_alone or url in given)
    for word in words:
        field = url if word in addresses else model
        if given.setdefault(field, word) != word:
            raise UsageError(f"Both {given[field]} and {word} are given", remedy="give one")
    if model not in given and url in given:
        from inferometer.measure.address import model_in

        given[model] = model_in(given[url], "triton")
    if not given.get(model):
        raise UsageError("No model is given", remedy="write its name: inferometer tune NAME")
    return given


def _write_config(study: "Study", name: str, path: Path) -> None:
    from inferometer.tune import model_config

    write_file(path, model_config.to_text(study.variant(name).config))
    print(printable(f"written: {path}"))
