"""Construction of a ModelSpec from a server's metadata and configuration; the same for every protocol."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from inferometer.base.errors import MissingError, PeerError
from inferometer.model.spec import ANY_BATCH, ModelSpec, TensorSpec
from inferometer.options.names import option_name
from inferometer.services.kind import Document, Service

DEEPEST = 16  # nesting depth of models
MOST_MODELS = 1000
"""Models in an ensemble, including all its members; a model used in several places counts once per place."""
MOST_TENSORS = 16384
"""Inputs and outputs of a model."""
MOST_LISTED = 20
"""Models listed in a message."""
READY = "READY"
_FIXED = ("explicit model load", "polling is enabled", "not allowed")


class ModelState(NamedTuple):
    """A row of the server's model index."""

    name: str
    state: str  # READY, UNAVAILABLE ...; empty for a model that was never loaded


class ModelSource(Protocol):
    """Calls of a KServe v2 server about its models; answers have the form of the HTTP documents."""

    def metadata(self, name: str, version: str) -> Document: ...

    def config(self, name: str, version: str) -> Document:
        """Return the configuration of a loaded model, completed by the server."""

    def models(self) -> Sequence[str]:
        """Return the names of the models that the server lists."""


@runtime_checkable
class ModelControl(Protocol):
    """Calls of a server whose models are loaded on demand."""

    def is_ready(self) -> bool:
        """Return whether the server answers and accepts requests."""

    def index(self) -> tuple[ModelState, ...]:
        """Return every model of the server's repository, loaded or not."""

    def config(self, name: str, version: str = "") -> Document: ...

    def load_model(self, name: str, config: Document | None = None) -> None:
        """Load or reload with this configuration, or with the repository's; return when the model is ready."""

    def unload_model(self, name: str) -> None: ...


def ready_models(control: ModelControl) -> set[str]:
    return {row.name for row in control.index() if row.state == READY}


def are_fixed(error: PeerError) -> bool:
    """Return whether the server refuses to load models because of its start options."""
    return any(words in error.message for words in _FIXED)


def describe_model(
    control: ModelSource, name: str, version: str, called: Sequence[tuple[str, str]]
) -> ModelSpec:
    """Describe a model and all its members; `called` are models that its code calls."""
    try:
        metadata = control.metadata(name, version)
    except PeerError as error:
        found = error.wrapped("failed to get model metadata: ", PeerError)
        if not found.remedy:
            found.remedy = _known_models(control, name)
        raise found from error
    try:
        config = _config(control, name, version)
    except MissingError:  # plain KServe v2 servers have none and only give metadata
        config = {}
    if not metadata.get("inputs") and not config:
        raise PeerError(
            f"the server does not describe the inputs of '{name}', so no request can be built for it",
            remedy="declare them on the server (MLServer: 'inputs' in model-settings.json), or send your "
            f"own request with {option_name('--service-kind', 'http')} {option_name('--body')} @FILE",
        )
    members = _Members(control, {}).of(config, called, (name,))
    return _spec(name, version, metadata, config, members)


def plain_sentence(service: Service, *more: str) -> str:
    """Describe a server without Triton's extensions: its name and the missing extensions."""
    try:
        server = service.server()
    except MissingError:
        server = {}
    name = f"{server.get('name', '')} {server.get('version', '')}".strip()
    lacks = ["no model configuration"]
    if "statistics" not in server.get("extensions", ()):
        lacks.append("no statistics")
    return f"A plain KServe v2 server{f' ({name})' if name else ''}: {', '.join((*lacks, *more))}."


def _known_models(control: ModelSource, name: str) -> str:
    """Return a hint for a name that is not found; empty if the server does not list its models."""
    try:
        known = sorted(control.models())
    except PeerError:  # the hint is optional
        return ""
    if name in known or not known:
        return ""
    more = f" and {len(known) - MOST_LISTED:,} more" if len(known) > MOST_LISTED else ""
    return f"the server has {', '.join(known[:MOST_LISTED])}{more}"


def _config(control: ModelSource, name: str, version: str) -> Document:
    try:
        return control.config(name, version)
    except PeerError as error:
        raise error.wrapped("failed to get model config: ", type(error)) from error


class _Member(NamedTuple):
    spec: ModelSpec
    depth: int  # levels of models, including itself
    size: int  # total number of models


class _Members(NamedTuple):
    """Members of models. Each member is queried once, however many models contain it."""

    control: ModelSource
    known: dict[tuple[str, str], _Member]

    def of(
        self, config: Document, called: Sequence[tuple[str, str]], above: tuple[str, ...]
    ) -> tuple[ModelSpec, ...]:
        wanted = set(called)
        for step in config.get("ensemble_scheduling", {}).get("step", ()):
            name, version = step["model_name"], step.get("model_version", -1)
            if name in above:
                raise self._endless(above, name)
            wanted.add((name, "" if version == -1 else str(version)))  # -1: any version
            self._check_size(above, len(wanted))
        found = []
        for name, version in sorted(wanted):
            member = self._member(name, version, above)
            if len(above) + member.depth > DEEPEST + 1:
                raise self._endless(above, name)
            found.append(member)
        self._check_size(above, sum(row.size for row in found))
        return tuple(row.spec for row in found)

    def _member(self, name: str, version: str, above: tuple[str, ...]) -> _Member:
        if (name, version) not in self.known:
            if len(above) > DEEPEST:
                raise self._endless(above, name)
            config = _config(self.control, name, version)
            parts = self.of(config, (), (*above, name))
            self.known[name, version] = _measured(_spec(name, version, {}, config, parts), self.known)
            self._check_size(above, len(self.known))
        return self.known[name, version]

    def _endless(self, above: tuple[str, ...], name: str) -> PeerError:
        return PeerError(
            f"failed to get model config: the server says that '{above[0]}' is composed of "
            f"{' > '.join((*above[1:][-3:], name))}, which is an endless chain"
        )

    def _check_size(self, above: tuple[str, ...], size: int) -> None:
        if size > MOST_MODELS:
            raise PeerError(
                f"failed to get model config: the server says that '{above[0]}' is composed of more than "
                f"{MOST_MODELS:,} models, which exceeds the limit"
            )


def _measured(spec: ModelSpec, known: Mapping[tuple[str, str], _Member]) -> _Member:
    below = [known[part.name, part.version] for part in spec.composing]
    return _Member(spec, 1 + max((row.depth for row in below), default=0), 1 + sum(row.size for row in below))


def _spec(
    name: str, version: str, metadata: Document, config: Document, composing: tuple[ModelSpec, ...]
) -> ModelSpec:
    max_batch_size = config.get("max_batch_size", 0) if config else _batch_without_config(metadata)
    configs = {row["name"]: row for row in config.get("input", ())}
    inputs, outputs = (
        sorted(metadata.get(noun, ()), key=lambda row: str(row["name"])) for noun in ("inputs", "outputs")
    )
    if len(inputs) + len(outputs) > MOST_TENSORS:
        raise PeerError(
            f"the server says that '{name}' has {len(inputs):,} inputs and {len(outputs):,} outputs, which exceeds the "
            f"limit of {MOST_TENSORS:,} in total"
        )
    is_batched = max_batch_size > 0
    return ModelSpec(
        name=name,
        version=version,
        inputs=tuple(_tensor(row, configs.get(row["name"], {}), is_batched) for row in inputs),
        outputs=tuple(_tensor(row, {}, is_batched) for row in outputs),
        max_batch_size=max_batch_size,
        is_ensemble=config.get("platform") == "ensemble",
        is_decoupled=config.get("model_transaction_policy", {}).get("decoupled", False),
        is_sequence="sequence_batching" in config,
        has_cache=config.get("response_cache", {}).get("enable", False),
        composing=composing,
        is_plain=not config,
        config=config,
    )


def _batch_without_config(metadata: Document) -> int:
    """Return the batch size of a plain KServe v2 model: if the first dimension of all tensors is variable, it is the
    batch."""
    inputs = metadata.get("inputs", ())
    is_open = all(row.get("shape", ())[:1] == [-1] for row in (*inputs, *metadata.get("outputs", ())))
    return ANY_BATCH if inputs and is_open else 0


def _tensor(row: Document, config: Document, is_batched: bool) -> TensorSpec:
    is_shape_tensor = config.get("is_shape_tensor", False)
    shape = tuple(row.get("shape", ()))
    return TensorSpec(
        name=row["name"],
        datatype=row["datatype"],
        shape=shape[1:] if is_batched and not is_shape_tensor else shape,
        optional=config.get("optional", False),
        is_shape_tensor=is_shape_tensor,
    )
