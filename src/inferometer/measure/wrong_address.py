"""An address that leads to something else than was asked for: what it is, and the command to type instead."""

import shlex

from inferometer.base.errors import UsageError
from inferometer.measure.address import host_and_port, written_address
from inferometer.options.options import AUTO, Options
from inferometer.services.detect import GRPC, MANAGEMENT, METRICS, TLS, ServerGuess
from inferometer.services.kind import KINDS

_ABOVE = {METRICS: 2, MANAGEMENT: 1}
"""How far above the port for inference such a port usually is, of Triton as of TorchServe."""


def maybe_wrong(options: Options, looks: ServerGuess, command: str) -> UsageError | None:
    """The refusal of what is there; None if it is what was asked for, or if nobody can say."""
    where = host_and_port(options, written_address(options))
    if looks.kind in _ABOVE:
        host, _, port = where.rpartition(":")
        inference = typed(options, command, f"{host}:{int(port) - _ABOVE[looks.kind]}")
        return UsageError(
            f"{where} is {looks.title}, which takes no inference",
            remedy=f"give the port for inference, usually {_ABOVE[looks.kind]} below: {inference}",
        )
    if looks.scheme:
        said = f"is {looks.title}" if looks.kind == TLS else f"speaks no TLS: it looks like {looks.title}"
        model = "" if looks.kind == "http" and not options.model else None
        return UsageError(
            f"{where} {said}", remedy=typed(options, command, _with_scheme(options, looks), model)
        )
    if options.service_kind == "dynamic_grpc" and looks.protocol == "grpc":
        return None  # any gRPC server is of that kind
    if looks.kind == GRPC:
        call = f"{typed(options, command, where, '')} --grpc-method package.Service/Method"
        return UsageError(f"{where} looks like {looks.title}", remedy=f"name the method to call: {call}")
    is_grpc = looks.protocol == "grpc"
    if looks.protocol != options.protocol and (options.service_kind != AUTO or "protocol" in options.given):
        asked = "gRPC" if options.protocol == "grpc" else "HTTP"
    elif options.service_kind not in (AUTO, looks.kind) and looks.kind != "http":
        asked = KINDS[options.service_kind].title
    else:
        return None
    model = "" if looks.kind == "http" else None
    return UsageError(
        f"{where} looks like {looks.title}, and {asked} is asked for",
        remedy=typed(options, command, where, model, is_grpc=is_grpc),
    )


def wrong_path(options: Options, looks: ServerGuess, command: str, model: str | None = None) -> UsageError:
    """The refusal of a path that such a server does not take requests at; `model` is one that stands in it."""
    written = written_address(options)
    where = host_and_port(options, written)
    right = typed(options, command, where, is_grpc=looks.protocol == "grpc")
    return UsageError(
        f"{where} looks like {looks.title}, which takes no inference at '{written.path}{written.query}'",
        remedy=f"{right}; or request just that path with --service-kind http",
    )


def _with_scheme(options: Options, looks: ServerGuess) -> str:
    written = written_address(options)
    path = "" if looks.protocol == "grpc" else written.path + written.query
    return f"{looks.scheme}://{host_and_port(options, written)}{path}"


def typed(
    options: Options, command: str, url: str, model: str | None = None, *, is_grpc: bool = False
) -> str:
    """The command that would have been right; `model` stands for the one that was asked for."""
    model = (options.model or "MODEL") if model is None else model
    grpc = " --grpc" if is_grpc else ""
    if command not in ("measure", "find", "diagnose"):
        return f"write {f'{model}@' if model else ''}{url}{grpc and f' with{grpc}'}"
    words = ["inferometer", command, url, *([model] if model else [])]
    words += ["--slo", options.slo] if options.slo is not None else []
    return f"type {shlex.join(words)}{grpc}"
