"""Addresses that lead to the wrong server or port: the service that listens there, and the command to type instead."""

import shlex
from dataclasses import replace

from inferometer.base.errors import PeerError, UsageError
from inferometer.measure.address import address, connection_to, host_and_port, url_of, written_address
from inferometer.options.names import option_name
from inferometer.options.options import AUTO, Options
from inferometer.services.detect import GRPC, MANAGEMENT, METRICS, TLS, ServerGuess, look
from inferometer.services.kind import KINDS

_ABOVE = {METRICS: 2, MANAGEMENT: 1}
"""Usual distance of such a port above the inference port, for Triton and TorchServe."""


def maybe_wrong(options: Options, looks: ServerGuess, command: str) -> UsageError | None:
    """Return an error if the address is not of the requested kind; None if it is, or if that is unknown."""
    where = host_and_port(options, written_address(options))
    if looks.kind in _ABOVE:
        return UsageError(
            f"{where} is {looks.title}, which does not serve inference requests",
            remedy=f"use the inference port{_below(options, looks.kind, command)}",
        )
    if looks.moved_to and not options.bodies:
        return UsageError(
            f"{where} looks like {looks.title} and redirects to {looks.moved_to}",
            remedy=typed(options, command, looks.moved_to),
        )
    if looks.scheme:
        said = f"is {looks.title}" if looks.kind == TLS else f"does not use TLS: it looks like {looks.title}"
        return UsageError(f"{where} {said}", remedy=typed(options, command, _with_scheme(options, looks)))
    if options.service_kind == "dynamic_grpc" and looks.protocol == "grpc":
        return None  # any gRPC server qualifies
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
        f"{where} looks like {looks.title}, but the options request {asked}",
        remedy=typed(options, command, _secured(options, where, looks), model, is_grpc=is_grpc),
    )


def wrong_path(options: Options, looks: ServerGuess, command: str, prefix: str = "") -> UsageError:
    """Return the error for a path at which such a server, behind `prefix`, cannot be measured."""
    written = written_address(options)
    where = host_and_port(options, written)
    url = _secured(options, where, looks) + prefix
    segment = written.path.strip("/")
    model = segment if not (options.model or prefix or written.query) and "/" not in segment else None
    right = typed(options, command, url, model, is_grpc=looks.protocol == "grpc")
    return UsageError(
        f"{where} looks like {looks.title}, which cannot be measured at '{written.path}{written.query}'",
        remedy=f"{right}; or request exactly that path with {option_name('--service-kind', 'http')}",
    )


def _below(options: Options, kind: str, command: str) -> str:
    """Suggest the port where the server usually is, if it is there."""
    endpoint = address(replace(options, url=url_of(options, written_address(options))))
    distance = _ABOVE[kind]
    near = endpoint._replace(port=endpoint.port - distance)
    said = f"usually {distance} below"
    try:
        looks = look(connection_to(options, endpoint).beside(near)) if near.port > 0 else None
    except PeerError:
        looks = None
    if looks is None or looks.kind not in KINDS or looks.kind == "http":
        return f", {said}; but there is no inference server at {near.authority}"
    return f", {said}: {typed(options, command, near.authority, is_grpc=looks.protocol == 'grpc')}"


def _secured(options: Options, where: str, looks: ServerGuess) -> str:
    """Return the address as text, with a scheme if TLS is used."""
    if not (options.grpc_tls or written_address(options).scheme in ("https", "grpcs")):
        return where
    return f"{'grpcs' if looks.protocol == 'grpc' else 'https'}://{where}"


def _with_scheme(options: Options, looks: ServerGuess) -> str:
    written = written_address(options)
    path = "" if looks.protocol == "grpc" else written.path + written.query
    return f"{looks.scheme}://{host_and_port(options, written)}{path}"


def typed(
    options: Options, command: str, url: str, model: str | None = None, *, is_grpc: bool = False
) -> str:
    """Return the corrected command; `model` replaces the requested one unless it is None."""
    model = options.model if model is None else model
    grpc = " --grpc" if is_grpc and "://" not in url else ""
    if command not in ("measure", "find", "diagnose", "tune"):
        return f"write {f'{model}@' if model else ''}{url}{grpc and f' with{grpc}'}"
    words = ["inferometer", command, url, *([model] if model else [])]
    words += ["--slo", options.slo.text] if options.slo is not None else []
    return f"type {shlex.join(words)}{grpc}"
