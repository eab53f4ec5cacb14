"""Where variants are loaded: a server, or the workers themselves."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.options.options import Tls
from inferometer.server.in_process import Host
from inferometer.services.discovery import READY, ModelControl
from inferometer.services.endpoint import Connection, parse_endpoint
from inferometer.tune import model_config
from inferometer.tune.model_config import Fields
from inferometer.tune.variant import Variant


@dataclass(frozen=True, slots=True)
class Addresses:
    """Of the three services; an empty one is not there."""

    http: str = "localhost:8000"
    grpc: str = "localhost:8001"
    metrics_url: str = "http://localhost:8002/metrics"


class Server(Protocol):
    """A server process that is ours to start and stop, or somebody else's."""

    @property
    def addresses(self) -> Addresses: ...

    @property
    def pid(self) -> int | None:
        """None for a process that is not on this machine, or not ours."""

    def start(self) -> None:
        """Returns when it answers."""

    def stop(self) -> None: ...

    def is_running(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Control:
    """How the server is spoken to."""

    protocol: str = "http"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: Tls = field(default_factory=Tls)
    grpc_tls: bool = False


def repository(addresses: Addresses, control: Control) -> ModelControl:
    if control.protocol == "grpc":
        from inferometer.services.triton_grpc import TritonGrpc

        endpoint = parse_endpoint(addresses.grpc, default_port=8001, tls=control.tls)
        if control.grpc_tls:
            endpoint = replace(endpoint, tls=control.tls)
        return TritonGrpc(Connection(endpoint, control.headers))
    from inferometer.services.triton_http import TritonHttp

    endpoint = parse_endpoint(addresses.http, default_port=8000, tls=control.tls)
    return TritonHttp(Connection(endpoint, control.headers))


class Site(Protocol):
    """Has the variants of a trial loaded. Use as a context manager: what it started ends with it."""

    is_special: bool  # made for one model's server flags

    @property
    def addresses(self) -> Addresses: ...

    @property
    def pid(self) -> int | None:
        """Of the server, where it is a process of this machine."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Doing it twice does no harm."""

    def is_running(self) -> bool: ...

    def revive(self) -> bool:
        """Make good for what died; whether anything had."""

    def base_config(self, model: str) -> Fields:
        """What the server makes of the model's own configuration."""

    def others(self, models: Sequence[str]) -> tuple[str, ...]:
        """What somebody else has loaded besides these models and those they call."""

    def apply(self, variants: Sequence[Variant]) -> bool:
        """Have exactly these loaded; whether anything changed."""

    def host(self, model: str) -> Host | None:
        """For a worker that is to hold the model itself; None where a server does."""


class ServerSite:
    """Loads variants in place of each other; the server is only restarted when it died or when it must be.

    A variant stands in for the model under the model's own name. Models that somebody else had loaded are put back
    at the end, with the configuration they had.
    """

    def __init__(self, server: Server, control: Control, *, is_ours: bool, may_load: bool = True) -> None:
        self._server = server
        self._control = control
        self._is_ours = is_ours
        self._may_load = may_load
        self._loaded: dict[str, str] = {}  # model -> key of the variant that is in its place
        self._before: dict[str, Mapping[str, Any] | None] = {}
        self.starts = 0
        self.is_special = False  # made for one model's server flags
        self._is_open = False

    # --- life

    def __enter__(self) -> Self:
        self._is_open = True
        self._server.start()
        self.starts += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Put back what was there and end our server; doing it twice does no harm."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if not self._is_ours and self._may_load:
                self._restore()
        finally:
            self._server.stop()

    @property
    def addresses(self) -> Addresses:
        return self._server.addresses

    @property
    def pid(self) -> int | None:
        return self._server.pid

    @property
    def control(self) -> Control:
        return self._control

    @property
    def repository(self) -> ModelControl:
        return repository(self.addresses, self._control)

    def is_running(self) -> bool:
        return self._server.is_running()

    def revive(self) -> bool:
        """Start our server again if it died; whether it had to be."""
        if not self._is_ours or self._server.is_running():
            return False
        self._server.stop()
        self._loaded.clear()
        self._server.start()
        self.starts += 1
        return True

    # --- models

    def base_config(self, model: str) -> Fields:
        """What the server makes of the model's own configuration."""
        known = self.repository
        names = {row.name for row in known.index()}
        if model not in names:
            raise UsageError(
                f"the server has no model '{model}'",
                remedy=f"its models are {', '.join(sorted(names)) or 'none'}",
            )
        self._note_before(known, [model])
        if not self._is_loaded(known, model):
            self._load(known, model, None)
        found = _loaded_config(known, model)
        self._loaded.pop(model, None)
        return _without_completed(found)

    def others(self, models: Sequence[str]) -> tuple[str, ...]:
        if self._is_ours:
            return ()
        known = self.repository
        ready = {row.name for row in known.index() if row.state == READY}
        called = {
            name
            for model in models
            if model in ready
            for name in model_config.members(_loaded_config(known, model))
        }
        return tuple(sorted(ready - called - set(models)))

    def apply(self, variants: Sequence[Variant]) -> bool:
        """Have exactly these loaded, members before those who call them; whether anything had to be loaded."""
        wanted = [part for variant in variants for part in (*variant.composing, variant)]
        stale = [variant for variant in wanted if self._loaded.get(variant.model) != variant.key]
        if not stale:
            return False
        if not self._may_load:
            self._check_loaded(variants)
            return False
        known = self.repository
        self._note_before(known, [variant.model for variant in wanted])
        if any(variant.composing for variant in variants):
            # A caller keeps the members it was loaded with: all of it anew whenever one of them changed.
            stale = wanted
        for variant in stale:
            self._loaded.pop(variant.model, None)
            self._load(known, variant.model, {**variant.config, "name": variant.model})
            self._loaded[variant.model] = variant.key
        return True

    def host(self, model: str) -> None:
        return None

    def _check_loaded(self, variants: Sequence[Variant]) -> None:
        for variant in variants:
            if not self._is_loaded(self.repository, variant.model):
                raise PeerError(f"the model '{variant.model}' is not loaded, and loading was ruled out")

    def _is_loaded(self, known: ModelControl, model: str) -> bool:
        return any(row.name == model and row.state == READY for row in known.index())

    def _load(self, known: ModelControl, model: str, config: Mapping[str, Any] | None) -> None:
        try:
            known.load_model(model, config)
        except PeerError as error:
            if "polling is enabled" in error.message:
                raise UsageError(
                    f"the server refuses to load '{model}': {error.message}",
                    remedy="start it with --model-control-mode explicit",
                ) from error
            raise

    # --- what was there before

    def _note_before(self, known: ModelControl, models: Sequence[str]) -> None:
        if self._is_ours or not self._may_load:
            return
        for model in models:
            if model not in self._before:
                self._before[model] = _loaded_config(known, model) if self._is_loaded(known, model) else None

    def _restore(self) -> None:
        """Callers are put back after the models they call, which were noted first."""
        for model, config in self._before.items():
            known = self.repository
            with suppress(PeerError):  # the server may be gone; the search's result stands
                if config is None:
                    known.unload_model(model)
                else:
                    known.load_model(model, config)


def _loaded_config(known: ModelControl, model: str) -> Fields:
    """What the server says of a loaded model, in the form it can be loaded with again: it also lists empty fields,
    and refuses some of them."""
    return model_config.normal(_known_fields(known.config(model)))


def _known_fields(fields: Mapping[str, Any]) -> Fields:
    """Without what a newer server knows and our messages do not."""
    names = model_config.message().DESCRIPTOR.fields_by_name
    return {name: value for name, value in fields.items() if name in names}


def _without_completed(fields: Fields) -> Fields:
    """A preferred batch size that the server filled in would bind every variant."""
    batching = fields.get("dynamic_batching")
    if batching is None:
        return fields
    kept = {name: value for name, value in batching.items() if name != "preferred_batch_size"}
    return {**fields, "dynamic_batching": kept}


def wait_until_ready(known: ModelControl, server: Server, timeout_s: float) -> None:
    """Poll until the server is ready; its end or the deadline is an error."""
    deadline = time.monotonic() + timeout_s
    while not known.is_ready():
        if not server.is_running():
            raise LocalError("the server ended instead of starting", remedy="see its log")
        if time.monotonic() > deadline:
            raise LocalError(f"the server was not ready after {timeout_s:g} s", remedy="see its log")
        time.sleep(0.05)
