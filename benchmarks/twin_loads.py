"""Loads for fitting and judging the twin: servers with their models, and the held-out loads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from tests.support.planted import NO_BATCHES, NO_CORES, PLANTED, SLOW_FIRST

FITTED = (1, 2, 4, 8)
IMAGES = "ensemble_image"
IMAGE_STEPS = ("preprocessing", "classifier", "postprocessing")
IMAGE_PACKAGES = ("onnxruntime", "PIL")  # imported by the steps
MIXES = "mixes"
SLOW, BATCHES, CORES = SLOW_FIRST.name, NO_BATCHES.name, NO_CORES.name
MODELS = (SLOW, BATCHES, CORES, IMAGES)
SERVERS: Mapping[str, tuple[str, ...]] = {**{model: (model,) for model in MODELS}, MIXES: MODELS}
SECONDS = {SLOW: 9.0, BATCHES: 7.0, CORES: 6.0, IMAGES: 6.0}
RANDOM_S = {SLOW: 20.0, BATCHES: 15.0, CORES: 10.0, IMAGES: 10.0}
BATCH_S = 3.0
BATCH = 8
_TWO = {"instance_group": [{"kind": "KIND_CPU", "count": 2}]}


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """The load of one model: its options in addition to the common ones."""

    model: str
    given: tuple[tuple[str, Any], ...]
    seconds: float

    @property
    def words(self) -> str:
        (name, value), *_ = self.given
        return f"{self.model}_{name[0]}{value:g}"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Loads that run at the same time, the name of their file, and an optional setting of a step."""

    name: str
    loads: tuple[ModelLoad, ...]
    setting: tuple[str, dict[str, Any]] | None = None


def missing_packages() -> tuple[str, ...]:
    """Packages of the image ensemble that are not installed."""
    return tuple(name for name in IMAGE_PACKAGES if find_spec(name) is None)


def models_of(server: str) -> tuple[str, ...]:
    """Models that a server can have on this machine: the image models only if their packages are installed."""
    is_missing = bool(missing_packages())
    return tuple(name for name in SERVERS[server] if name != IMAGES or not is_missing)


def with_steps(models: Sequence[str]) -> tuple[str, ...]:
    """All models that the server has to load."""
    steps = {pipeline.name: pipeline.models() for pipeline in PLANTED} | {IMAGES: (IMAGES, *IMAGE_STEPS)}
    return tuple(name for model in models for name in steps[model])


def fitted(model: str) -> Iterator[tuple[str, ModelLoad]]:
    """Loads of the fit by the name of their file; the first one measures the cost of a batch, if there are batches."""
    if model != IMAGES:
        yield f"fit-{model}-b{BATCH}", ModelLoad(model, (("concurrency", 1), ("batch", BATCH)), BATCH_S)
    yield f"fit-{model}", ModelLoad(model, (("concurrency", list(FITTED)),), SECONDS[model])


def flying(model: str, count: int) -> ModelLoad:
    return ModelLoad(model, (("concurrency", count),), SECONDS[model])


def due(model: str, per_s: float, *, is_random: bool = False) -> ModelLoad:
    more = (("request_distribution", "poisson"),) if is_random else ()
    return ModelLoad(model, (("rate", round(per_s, 2)), *more), (RANDOM_S if is_random else SECONDS)[model])


def held_out(server: str, most: Mapping[str, float]) -> Iterator[HeldOut]:
    """Held-out loads of a server; `most` is the throughput of each model at the heaviest load of the fit."""
    if server == MIXES:
        yield from _mixes(most)
        return
    for model in most:
        for count in (3, 5, 6, 12, 16):
            yield HeldOut(f"{model}-c{count}", (flying(model, count),))
        for share in (50, 80):
            yield HeldOut(f"{model}-r{share}", (due(model, most[model] * share / 100),))
        for share in (40, 60):
            yield HeldOut(f"{model}-p{share}", (due(model, most[model] * share / 100, is_random=True),))
    yield from _settings(server)


def _settings(model: str) -> Iterator[HeldOut]:
    if model == SLOW:
        for count in (4, 8):
            yield HeldOut(f"{SLOW}-2x-c{count}", (flying(SLOW, count),), ("first_fetch", _TWO))
    if model == BATCHES:
        batching: dict[str, Any] = {"dynamic_batching": {}}
        for count in (4, 8):
            yield HeldOut(
                f"{BATCHES}-batching-c{count}", (flying(BATCHES, count),), ("batch_model", batching)
            )
    if model == CORES:
        yield HeldOut(f"{CORES}-2x-c4", (flying(CORES, 4),), ("cores_model", _TWO))


def _mixes(most: Mapping[str, float]) -> Iterator[HeldOut]:
    pairs = [
        (flying(SLOW, 2), flying(BATCHES, 3)),
        (flying(SLOW, 4), flying(CORES, 2)),
        (flying(BATCHES, 2), flying(CORES, 2)),
        (due(SLOW, most[SLOW] / 2), due(BATCHES, most[BATCHES] / 2)),
    ]
    if IMAGES in most:
        pairs += [
            (flying(BATCHES, 2), flying(IMAGES, 2)),
            (flying(CORES, 1), flying(IMAGES, 1)),
            (flying(CORES, 2), flying(IMAGES, 3)),
            (due(SLOW, most[SLOW] / 2), due(IMAGES, most[IMAGES] / 2)),
        ]
    for first, second in pairs:
        seconds = max(first.seconds, second.seconds)
        pair = tuple(replace(row, seconds=seconds) for row in (first, second))
        yield HeldOut(f"mix-{'-'.join(row.words for row in pair)}", pair)
