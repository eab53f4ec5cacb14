"""Parse the loads, model weights and settings given to a twin. Pure."""

import math
import re
from collections.abc import Iterator, Sequence

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import plain_number
from inferometer.diagnose.text_lengths import requested_pairs
from inferometer.options.names import option_name
from inferometer.options.values import Range
from inferometer.twin.twin import (
    BATCHING,
    INSTANCES,
    SETTINGS,
    TEXT_SETTINGS,
    LoadPart,
    StepSetting,
    TextLengths,
    Twin,
    TwinLoad,
)

_SWITCH = {"on": 1.0, "off": 0.0}
_WORDS = re.compile(r"(?P<model>.+)\.(?P<name>[a-z_]+)=(?P<value>[a-z0-9.]+)")
_MOST = 1024  # loads per prediction


@frozen
class AskedLoads:
    """Concurrencies, rates, or both, for each model or for a mix of models."""

    models: tuple[str, ...] = ()  # NAME or NAME:WEIGHT
    concurrency: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    arrivals: str = "constant"
    settings: tuple[StepSetting, ...] = ()
    prompt_tokens: int | str | None = None  # lengths, as `measure` takes them; None as measured
    output_tokens: int | str | None = None


def loads_of(twin: Twin, asked: AskedLoads) -> tuple[TwinLoad, ...]:
    """Return the loads in order; without any, from one request in flight to twice the highest measured load."""
    mixes = [_mix(twin, asked.models)] if asked.models else [((model.name, 1.0),) for model in twin.models]
    found = []
    for mix in mixes:
        names = [name for name, _ in mix]
        counts = asked.concurrency
        if not counts and not asked.rates:
            counts = tuple(n for n in _usual(twin, names) if n >= len(mix))
        settings = tuple(row for row in asked.settings if asked.models or _has(twin, names, row.model))
        lengths = {name: maybe_lengths(twin, name, asked) for name in names}
        for count in counts:
            shares = _whole_shares(mix, count)
            parts = tuple(
                LoadPart(name, "concurrency", share, lengths=lengths[name]) for name, share in shares
            )
            found.append(TwinLoad(parts, settings))
        whole = sum(weight for _, weight in mix)
        for rate in asked.rates:
            parts = tuple(
                LoadPart(name, "request_rate", rate * weight / whole, asked.arrivals, lengths[name])
                for name, weight in mix
            )
            found.append(TwinLoad(parts, settings))
    return tuple(found)


def maybe_lengths(twin: Twin, name: str, asked: AskedLoads) -> TextLengths | None:
    """Return the requested lengths of prompts and answers; None for lengths as measured."""
    if asked.prompt_tokens is None and asked.output_tokens is None:
        return None
    model = twin.model(name)
    if model is None:
        return None  # reported later
    if model.text is None:
        raise UsageError(
            f"'{name}' does not generate text, so its requests have no lengths in tokens",
            remedy=f"leave out {option_name('--prompt-tokens')} and {option_name('--output-tokens')}",
        )
    measured = model.text.lengths.pairs
    if asked.prompt_tokens is not None and not model.text.knows_prompts:
        raise UsageError(
            f"the server of '{name}' did not report the lengths of prompts, so "
            f"{option_name('--prompt-tokens')} cannot be predicted",
            remedy="measure a server that reports usage, or leave it out",
        )
    return TextLengths(requested_pairs(asked.prompt_tokens, asked.output_tokens, measured))


def _has(twin: Twin, names: Sequence[str], step: str) -> bool:
    """Return whether one of these models has the step; a step that no model has is reported later."""
    homes = [row.name for row in twin.models for station in row.pipeline().walk() if station.name == step]
    homes += [row.name for row in twin.models if row.text is not None and row.name == step]
    return not homes or any(name in homes for name in names)


def _usual(twin: Twin, names: Sequence[str]) -> list[float]:
    most = max((row.in_flight for row in twin.anchors if row.model in names), default=4.0)
    found = [1.0]
    while found[-1] < 2 * math.ceil(most):
        found.append(min(2 * found[-1], 2 * math.ceil(most)))
    return found


def _mix(twin: Twin, words: Sequence[str]) -> tuple[tuple[str, float], ...]:
    known = {model.name for model in twin.models}
    found: list[tuple[str, float]] = []
    for word in words:
        name, colon, weight = word.rpartition(":")
        if word in known or not colon:
            name, weight = word, "1"
        try:
            value = float(weight)
        except ValueError:
            value = 0.0
        if not 0 < value < math.inf:
            raise UsageError(
                f"'{word}': the weight '{weight}' is not a number above 0",
                remedy=f"write {name}:3, or {name}",
            )
        if name in [other for other, _ in found]:
            raise UsageError(f"'{name}' is given twice", remedy="give it once, with the sum of its weights")
        found.append((name, value))
    return tuple(found)


def _whole_shares(mix: Sequence[tuple[str, float]], count: float) -> list[tuple[str, float]]:
    """Return whole numbers of requests in flight, as close to the weights as possible."""
    whole = sum(weight for _, weight in mix)
    exact = [count * weight / whole for _, weight in mix]
    shares = [math.floor(value) for value in exact]
    order = sorted(range(len(mix)), key=lambda place: shares[place] - exact[place])
    for place in order[: round(count) - sum(shares)]:
        shares[place] += 1
    for (name, _), share in zip(mix, shares, strict=True):
        if share < 1:
            raise UsageError(
                f"'{name}' would get none of {plain_number(count)} requests in flight",
                remedy="increase the concurrency, change the weights, or give a rate",
            )
    return [(name, float(share)) for (name, _), share in zip(mix, shares, strict=True)]


def values_of(name: str, span: Range | None) -> tuple[float, ...]:
    """Return the levels of a range in order."""
    return () if span is None else tuple(_values(name, span))


def _values(name: str, span: Range) -> Iterator[float]:
    if span.listed:
        yield from map(float, span.listed)
        return
    if span.end == 0:
        raise UsageError(f"{name} has no end", remedy="give an end, as in 1:16")
    end = span.start if span.end is None else span.end
    count = math.floor((end - span.start) / span.step + 1e-9) + 1
    if count > _MOST:
        raise UsageError(
            f"{name} has {count} levels, more than the maximum of {_MOST}", remedy="use a larger step"
        )
    for number in range(count):
        yield span.start + number * span.step


def setting_of(word: str) -> StepSetting:
    """Parse a setting such as `MODEL.instances=2`."""
    found = _WORDS.fullmatch(word)
    if found is None or found["name"] not in SETTINGS:
        raise UsageError(
            f"'{word}' is not a model setting",
            remedy=f"write MODEL.SETTING=VALUE; the settings are {', '.join(SETTINGS)}",
        )
    name, text = found["name"], found["value"]
    try:
        value = _SWITCH[text] if name == BATCHING else float(text)
    except (KeyError, ValueError):
        value = -1.0
    least = 1 if name in (INSTANCES, *TEXT_SETTINGS) else 0
    if value < least or (name != BATCHING and value != int(value)):
        remedy = "write on or off" if name == BATCHING else f"write a whole number, {least} or more"
        raise UsageError(f"'{word}': '{text}' is not a value of {name}", remedy=remedy)
    return StepSetting(found["model"], name, value)
