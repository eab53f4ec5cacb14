"""`inferometer interfere`: measure how models that share a server slow each other down, and on which resource."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.signals import interrupted_code
from inferometer.base.writing import Outputs
from inferometer.cli.reporting import allowed, progress_shown, ruling_code
from inferometer.options.asides import KEEP, PREVIEW
from inferometer.options.command_line import Command, Request
from inferometer.options.mixing import INTERFERE_REFUSED, InterfereOptions
from inferometer.options.options import MODERN, Options
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
    takes_many=True,
)


def loads(request: Request[InterfereOptions]) -> Iterator[tuple[str, Options]]:
    """Yield every model with its name."""
    from inferometer.compare.live import options_of

    found = _request(request)
    for model in found.models:
        yield model.name, options_of(found.options, model)


def run(request: Request[InterfereOptions], keeper: "Keeper") -> int:
    from inferometer.compare.interfere import interfere

    together = _request(request)
    options = together.options
    check_outputs(options)
    urls = {model.url or options.url or "" for model in together.models}
    keeper.about(url=",".join(sorted(urls)), model=",".join(model.model for model in together.models))
    with (
        messages_shown(options.verbose),
        progress_shown(options.verbose, is_quiet=options.quiet) as progress,
    ):
        found = interfere(together, keeper.watching(progress))
    keeper.save(found)
    outputs = Outputs()
    deliver(found, options, outputs)
    outputs.settle()
    if progress.is_interrupted():
        return interrupted_code()
    if found.problems:
        return PeerError.exit_code
    return allowed(ruling_code(found.ruling), is_allowed=request.own.allow_inconclusive)


def _request(request: Request[InterfereOptions]) -> "InterfereRequest":
    from inferometer.compare.interfere import InterfereRequest
    from inferometer.compare.live import variants_of
    from inferometer.measure.checks import load_options

    target = request.target()
    several = target.urls if len(target.urls) > 1 else ()
    if len(target.models) < 2 and not several:
        raise UsageError("at least two models are required", remedy="give -m several times, or MODEL MODEL")
    chosen = variants_of(target.models, several)
    return InterfereRequest(chosen, replace(load_options(request.load, target), model=chosen[0].model))
