"""`inferometer interfere`: measure how models that share a server slow each other down, and on which resource."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.signals import interrupted_code
from inferometer.base.writing import Outputs
from inferometer.cli.asking import addresses_of, measure_options
from inferometer.cli.reporting import allowed, progress_shown, ruling_code
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import OWN, WORDS, Command, own_options
from inferometer.options.mixing import INTERFERE_REFUSED, InterfereOptions
from inferometer.options.options import AUTO, MODERN, Options
from inferometer.report.delivery import check_outputs, deliver

if TYPE_CHECKING:
    from inferometer.compare.interfere import InterfereRequest
    from inferometer.store.keeper import Keeper

COMMAND = Command(
    "inferometer interfere",
    "URL MODEL MODEL ... [options]\nMODEL@URL MODEL@URL ... [options]\nURL URL ... [options]",
    "Load models one by one and all together, in turns, and report what sharing costs each of them: throughput and "
    "percentiles alone and together, the difference, and the resource they contend for.",
    InterfereOptions,
    shared=(*MODERN, *KEEP, *PREVIEW),
    refused=INTERFERE_REFUSED,
    examples=(
        ("localhost:8000 simple upper -c 2", "two models, two requests in flight each"),
        ("localhost:8000 -m simple -m upper -r 50 -d 20s", "at a rate, 20 s alone and 20 s together"),
        ("simple@localhost:8000 upper@localhost:9000", "two servers on one machine"),
        ("localhost:8000 simple upper --html sharing.html", "with an HTML report"),
    ),
    epilog="--duration sets the time for each model alone, and for all together.",
    takes_words=True,
)


def loads(given: Mapping[str, Any]) -> Iterator[tuple[str, Options]]:
    """Yield every model with its name."""
    from inferometer.compare.live import options_of

    request = _request(dict(given))
    for model in request.models:
        yield model.name, options_of(request.options, model)


def run(given: dict[str, Any], keeper: "Keeper") -> int:
    from inferometer.compare.interfere import interfere

    is_allowed = bool(given.get(f"{OWN}allow_inconclusive"))
    request = _request(given)
    options = request.options
    check_outputs(options)
    urls = {model.url or options.url or "" for model in request.models}
    keeper.about(url=",".join(sorted(urls)), model=",".join(model.model for model in request.models))
    with (
        messages_shown(options.verbose),
        progress_shown(options.verbose, is_quiet=options.quiet) as progress,
    ):
        found = interfere(request, keeper.watching(progress))
    keeper.save(found)
    outputs = Outputs()
    deliver(found, options, outputs)
    outputs.settle()
    if progress.is_interrupted():
        return interrupted_code()
    if found.problems:
        return PeerError.exit_code
    return allowed(ruling_code(found.ruling), is_allowed=is_allowed)


def _request(given: dict[str, Any]) -> "InterfereRequest":
    from inferometer.compare.interfere import InterfereRequest
    from inferometer.compare.live import variants_of

    own = own_options(given, InterfereOptions)
    words = list(given.pop(WORDS, ()))
    addresses = addresses_of(words, is_known="url" in given)
    models = (*own.models, *(word for word in words if word not in addresses))
    several = addresses if len(addresses) > 1 else []
    if len(models) < 2 and not several:
        raise UsageError("at least two models are required", remedy="give -m several times, or MODEL MODEL")
    found = {**given, "model": models[0].partition("@")[0] if models else ""}
    if addresses:
        found["url"] = addresses[0]
    if "url" in found or any("@" in model for model in models):
        found.setdefault("service_kind", "dynamic_grpc" if "grpc_method" in found else AUTO)
    chosen = variants_of(models, several)
    return InterfereRequest(chosen, replace(measure_options(found), model=chosen[0].model))
