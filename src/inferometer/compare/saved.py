"""Comparison of saved results with the first of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import inferometer
from inferometer.base.errors import UnlikeError, UsageError
from inferometer.compare.comparison import Comparison, Contrast, LevelDifference, Variant
from inferometer.compare.differences import CONFIDENCE, headline_metrics, of_levels, overall
from inferometer.compare.energy import energy_differences, energy_looks
from inferometer.compare.gates import Terms, conclude
from inferometer.options.names import option_name
from inferometer.stats.measurement import UNSTATED, Level
from inferometer.stats.result import Result

_NOT_IN_TURNS = (
    "these results were measured at different times: changes of the machine in between count as differences "
    "(in a live comparison, variants take turns)"
)


def compare_saved(
    results: Sequence[tuple[str, Result]], terms: Terms, *, is_forced: bool = False
) -> Comparison:
    """Compare (name, result) pairs; the first is the baseline. Different setups are refused unless forced."""
    if len(results) < 2:
        raise UsageError("a comparison needs at least two results", remedy="give the files of two runs")
    (_, base), *others = results
    notes = [_NOT_IN_TURNS]
    for name, other in others:
        differing = unlike(base, other)
        if differing and not is_forced:
            raise UnlikeError(
                f"'{name}' was measured differently from '{results[0][0]}': {'; '.join(differing)}",
                remedy=f"measure both in the same way, or use {option_name('--force')}",
            )
        notes += [f"{name}: {difference}" for difference in differing]
    notes += [text for name, result in results if (text := _source_note(name, result))]
    matched = [_matched(base, other, is_forced=is_forced) for _, other in others]
    for (name, _), pairs in zip(others, matched, strict=True):
        if not pairs:
            raise UnlikeError(
                f"'{name}' and '{results[0][0]}' have no load level in common",
                remedy=f"measure both at the same levels, or use {option_name('--force')} if each has a "
                "single one",
            )
    wanted = headline_metrics(base.effective.percentile, terms.percentiles)
    looks = len(wanted) * sum(map(len, matched)) + sum(map(energy_looks, matched))
    contrasts = []
    for (name, _), pairs in zip(others, matched, strict=True):
        levels = tuple(
            LevelDifference(one.mode, one.value, of_levels(one, two, wanted, looks)) for one, two in pairs
        )
        note = "saved results do not contain outputs"
        energy = energy_differences(pairs, (results[0][0], name), looks)
        contrasts.append(Contrast(name, levels, overall(levels), outputs_note=note, energy=energy))
    found = Comparison(
        tool=f"inferometer {inferometer.__version__}",
        started_at=base.started_at,
        is_live=False,
        confidence=CONFIDENCE,
        baseline=results[0][0],
        variants=tuple(Variant(name, result) for name, result in results),
        contrasts=tuple(contrasts),
        notes=tuple(notes),
    )
    return conclude(found, terms)


def _source_note(name: str, result: Result) -> str:
    """Describe what a result written by another tool does not state."""
    if not result.source:
        return ""
    load = " its load," if any(level.mode == UNSTATED for level in result.levels) else ""
    return (
        f"{name} was written by {result.tool}, which does not state{load} its payload and its machine: "
        "make sure that they are the same"
    )


def _matched(base: Result, other: Result, *, is_forced: bool) -> list[tuple[Level, Level]]:
    """Pair the levels with the same load. A single level is also paired with another single level if a load is
    not stated, or if forced."""
    ours, theirs = (
        [level for level in result.levels if level.measurement is not None] for result in (base, other)
    )
    known = {(level.mode, level.value): level for level in theirs}
    found = [(level, known[level.mode, level.value]) for level in ours if (level.mode, level.value) in known]
    if found or len(ours) != 1 or len(theirs) != 1:
        return found
    is_unstated = UNSTATED in (ours[0].mode, theirs[0].mode)
    return [(ours[0], theirs[0])] if is_forced or is_unstated else []


# --- whether two results may be compared: same load, same payload, same class of machine


_LOAD = {
    "mode": "kind of load",
    "distribution": "distribution of send times",
    "service_kind": "service kind",
    "protocol": "protocol",
    "shared_memory": "shared memory",
    "input_format": "format of inputs",
    "output_format": "format of outputs",
    "batch": "batch size",
    "asynchronous": "asynchronous sending",
    "percentile": "chosen percentile",
}
_PAYLOAD = {
    "sources": "input data",
    "files": "input files",
    "shapes": "shapes",
    "string_length": "length of strings",
    "string_data": "string data",
    "seed": "seed",
    "pool": "number of different requests",
}
_HOST = {"processor": "processor", "cores": "cores"}
_MEMORY_SLACK = 0.1  # memory differs slightly between machines of one class


def unlike(base: Result, other: Result) -> tuple[str, ...]:
    """Describe the known differences in setup; empty if the results may be compared."""
    if base.source or other.source:
        one, two = _stated_load(base), _stated_load(other)
        return tuple(_differing(one, two, _LOAD, "load")) if "mode" in one and "mode" in two else ()
    return (
        *_differing(asdict(base.effective), asdict(other.effective), _LOAD, "load"),
        *_differing(_data(base), _data(other), _PAYLOAD, "payload"),
        *_inputs(base, other),
        *_differing(base.host, other.host, _HOST, "host"),
        *_memory(base, other),
    )


def _stated_load(result: Result) -> dict[str, str]:
    """Return the kind of load, and how requests arrive at a rate, as far as the file states them."""
    effective = result.effective
    arrivals = effective.distribution if effective.mode == "request_rate" else UNSTATED
    found = {"mode": effective.mode, "distribution": arrivals}
    return {name: value for name, value in found.items() if value != UNSTATED}


def _differing(
    base: Mapping[str, Any], other: Mapping[str, Any], words: Mapping[str, str], what: str
) -> list[str]:
    return [
        f"{what}: {word} is {_shown(base[key])} and {_shown(other[key])}"
        for key, word in words.items()
        if key in base and key in other and base[key] != other[key]
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) if value else "nothing"
    return "none" if value is None else str(value)


def _data(result: Result) -> Mapping[str, Any]:
    found = result.asked.get("data", {})
    return found if isinstance(found, Mapping) else {}


def _inputs(base: Result, other: Result) -> list[str]:
    """Compare the models' inputs; datatypes may differ, as in a half-precision variant."""
    one, two = (
        {str(row["name"]): tuple(row["shape"]) for row in result.model.get("inputs", ())}
        for result in (base, other)
    )
    if one.keys() != two.keys():
        return [f"payload: inputs are {_shown(sorted(one))} and {_shown(sorted(two))}"]
    return [
        f"payload: input '{name}' has shape {_shown(one[name])} and {_shown(two[name])}"
        for name in one
        if one[name] != two[name]
    ]


def _memory(base: Result, other: Result) -> list[str]:
    sizes: list[float] = [float(result.host.get("memory_bytes", 0)) for result in (base, other)]
    if min(sizes) <= 0 or max(sizes) / min(sizes) <= 1 + _MEMORY_SLACK:
        return []
    one, two = (size / 2**30 for size in sizes)
    return [f"host: memory is {one:.1f} GiB and {two:.1f} GiB"]
