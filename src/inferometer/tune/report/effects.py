"""What each knob did: the best objective of the variants that share a value of it. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.stats.figures import BY_TAG
from inferometer.stats.measurement import Estimate
from inferometer.tune import model_config
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant

LEAST_RATIO = 1.01  # of two figures that are said to differ
HANDLED = ("instance_group", "max_batch_size", "dynamic_batching")


@dataclass(frozen=True, slots=True)
class Effect:
    """One value of one knob: over how many variants, their mean and their best."""

    knob: str
    value: str
    variants: int
    mean: float
    best: float
    spread: tuple[float, float]  # the interval of the best; the figure itself where it has none


def main_effects(study: Study) -> tuple[Effect, ...]:
    """Of the first objective, each variant at its best load; knobs that never changed are left out."""
    tag = study.goals[0].objectives[0][0]
    groups: dict[str, dict[str, tuple[Any, list[Estimate]]]] = {}
    for ranked in study.ranked:
        value = _estimate(ranked.best, tag)
        if value is None:
            continue
        for name in ranked.name.split(","):
            variant = study.variant(name)
            for part in (variant, *variant.composing):
                several = len(study.models) > 1 or variant.composing
                for knob, setting in knobs(part):
                    label = f"{part.model}: {knob}" if several else knob
                    groups.setdefault(label, {}).setdefault(str(setting), (setting, []))[1].append(value)
    choose = max if BY_TAG[tag].is_higher_better else min
    found = []
    for knob, by_setting in groups.items():
        for shown, (_, values) in sorted(by_setting.items(), key=lambda row: _order(row[1][0])):
            best = choose(values, key=lambda row: row.value)
            mean = sum(row.value for row in values) / len(values)
            low, high = (best.value if end is None else end for end in (best.low, best.high))
            if len(by_setting) > 1:
                found.append(Effect(knob, shown, len(values), mean, best.value, (low, high)))
    return tuple(found)


def _estimate(trial: Trial, tag: str) -> Estimate | None:
    """Of several models together only the figure is known, not its interval."""
    if len(trial.parts) == 1 and not BY_TAG[tag].of_gpu:
        return trial.parts[0].figures.estimate(tag)
    value = trial.combined(tag)
    return None if value is None else Estimate(value)


def knobs(variant: ModelVariant) -> Iterator[tuple[str, Any]]:
    """What a search may have turned, and how it stands in this variant."""
    config = variant.config
    if "ensemble_scheduling" not in config:
        yield "instances", model_config.total_instances(config)
    yield "max_batch_size", model_config.max_batch_size(config)
    if not model_config.has_dynamic_batching(config):
        yield "dynamic batching", "off"
    else:
        yield "dynamic batching", "on"
        yield "queue delay (µs)", model_config.queue_delay_us(config)
    for name, value in variant.overrides.items():
        if name not in HANDLED:
            yield name, json.dumps(value, sort_keys=True) if isinstance(value, (Mapping, list)) else value


def _order(setting: Any) -> tuple[int, float, str]:
    if isinstance(setting, (int, float)):
        return 0, float(setting), ""
    return 1, 0.0, str(setting)


def effect_sentence(effects: tuple[Effect, ...]) -> str:
    """The knob whose values differ most, if any of them differ by more than the spread of the measurements."""
    if not effects:
        return ""
    spans: list[tuple[float, Effect, Effect]] = []
    for knob in dict.fromkeys(row.knob for row in effects):
        rows = [row for row in effects if row.knob == knob]
        low, high = min(rows, key=lambda row: row.best), max(rows, key=lambda row: row.best)
        if low.best > 0 and high.best / low.best >= LEAST_RATIO and high.spread[0] > low.spread[1]:
            spans.append((high.best / low.best, low, high))
    if not spans:
        return "No knob made a difference that is larger than the spread of the measurements."
    ratio, low, high = max(spans, key=lambda row: row[0])
    return (
        f"{high.knob} matters most: the best with {high.value} has {_shown(high.best)}, the best with {low.value} has "
        f"{_shown(low.best)} ({ratio:.2f} times)."
    )


def _shown(value: float) -> str:
    """With enough digits to tell values apart that differ by a hundredth."""
    return f"{value:,.1f}" if value >= 100 else f"{value:.4g}"
