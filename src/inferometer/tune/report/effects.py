"""What each knob did: the best objective of the variants that share a value of it. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.tune import model_config
from inferometer.tune.metrics import BY_TAG
from inferometer.tune.study import Study
from inferometer.tune.variant import Variant

HANDLED = ("instance_group", "max_batch_size", "dynamic_batching")


@dataclass(frozen=True, slots=True)
class Effect:
    """One value of one knob: over how many variants, their mean and their best."""

    knob: str
    value: str
    variants: int
    mean: float
    best: float


def main_effects(study: Study) -> tuple[Effect, ...]:
    """Of the first objective, each variant at its best load; knobs that never changed are left out."""
    tag = study.goals[0].objectives[0][0]
    groups: dict[str, dict[Any, list[float]]] = {}
    for ranked in study.ranked:
        value = ranked.best.combined(tag)
        if value is None:
            continue
        for name in ranked.name.split(","):
            variant = study.variant(name)
            for part in (variant, *variant.composing):
                several = len(study.models) > 1 or variant.composing
                for knob, setting in knobs(part):
                    label = f"{part.model}: {knob}" if several else knob
                    groups.setdefault(label, {}).setdefault(setting, []).append(value)
    is_higher_better = BY_TAG[tag].is_higher_better
    return tuple(
        Effect(
            knob,
            str(setting),
            len(values),
            sum(values) / len(values),
            max(values) if is_higher_better else min(values),
        )
        for knob, by_setting in groups.items()
        if len(by_setting) > 1
        for setting, values in sorted(by_setting.items(), key=lambda row: _order(row[0]))
    )


def knobs(variant: Variant) -> Iterator[tuple[str, Any]]:
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
    """The knob whose values differ most."""
    spans: dict[str, tuple[float, Effect, Effect]] = {}
    for knob in dict.fromkeys(row.knob for row in effects):
        rows = [row for row in effects if row.knob == knob]
        low, high = min(rows, key=lambda row: row.best), max(rows, key=lambda row: row.best)
        spans[knob] = (high.best / low.best if low.best else 1.0, low, high)
    if not spans:
        return ""
    knob, (ratio, low, high) = max(spans.items(), key=lambda row: row[1][0])
    return (
        f"{knob} matters most: the best with {high.value} has {high.best:,.1f}, the best with {low.value} has "
        f"{low.best:,.1f} ({ratio:.2f} times)."
    )
