"""Words about a study for several reports: constraints, hardware, the shape of a variant, the recommendation."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from inferometer.base.frozen import frozen
from inferometer.report.format import difference, plain_number, plural, significant
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import BY_TAG, LATENCY_P99, THROUGHPUT
from inferometer.tune import model_config
from inferometer.tune.knobs import knob_words, knobs_of
from inferometer.tune.scoring import Constraint, Goal, RankedVariant
from inferometer.tune.study import Recommendation, Study, recommend
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant


def models(study: Study) -> str:
    return " and ".join(study.models)


def constraint_text(row: Constraint) -> str:
    """`Max p99 Latency: 10 ms`."""
    metric = BY_TAG[row.tag]
    bound, value = ("Max", row.high) if row.high is not None else ("Min", row.low)
    return f"{bound} {metric.title}: {plain_number(0.0 if value is None else value)} {metric.unit}".strip()


def constraint_texts(goals: Sequence[Goal]) -> tuple[str, ...]:
    """The constraints; a line for each model if there are several."""
    if len(goals) == 1:
        return tuple(map(constraint_text, goals[0].constraints)) or ("None",)
    return tuple(
        f"{goal.model}: {', '.join(map(constraint_text, goal.constraints)) or 'None'}" for goal in goals
    )


def gpu_texts(study: Study) -> tuple[str, ...]:
    """`2 x NAME` and the total memory; empty without GPUs."""
    if not study.gpus:
        return ()
    gpus = [row if isinstance(row, Mapping) else {} for row in study.gpus.values()]
    names = [str(row.get("name", "GPU")) for row in gpus]
    counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    sizes = (row.get("total_memory") for row in gpus)
    total = sum(size for size in sizes if isinstance(size, int | float))
    return (counted, f"Total Available GPU Memory: {total / 1e9:.1f} GB")


def hardware(study: Study) -> str:
    gpus = gpu_texts(study)
    if gpus:
        return gpus[0]
    name, cores = study.host.get("processor"), study.host.get("cores")
    return f"{cores} cores of {name}" if name and cores else "CPU"


def is_launched(study: Study) -> bool:
    """Whether the configurations are values in the command line of a server."""
    return any(knobs_of(variant.config) is not None for variant in study.variants)


def knobs_of_name(study: Study, name: str) -> Mapping[str, Any]:
    """The values of a configuration of a launched server."""
    return knobs_of(study.variant(name).config) or {}


def kinds(variant: ModelVariant) -> tuple[tuple[str, int], ...]:
    """(CPU or GPU, number of instances); instances without a kind run on the device chosen for the variant."""
    usual = "CPU" if variant.cpu_only else "GPU"
    counts: dict[str, int] = {}
    for kind, count in model_config.instance_counts(variant.config) or ((usual, 1),):
        shown = kind if kind in ("CPU", "GPU") else usual
        counts[shown] = counts.get(shown, 0) + count
    return tuple(counts.items())


def instance_words(variant: ModelVariant) -> str:
    """`2 CPU instances`."""
    return " and ".join(plural(count, f"{kind} instance") for kind, count in kinds(variant))


def instances(variant: ModelVariant) -> str:
    """`2:CPU`."""
    return " + ".join(f"{count}:{kind}" for kind, count in kinds(variant))


def shape(variant: ModelVariant) -> str:
    """`2 CPU instances with a max batch size of 8, dynamic batching enabled, on platform python`, and its members."""
    if (values := knobs_of(variant.config)) is not None:
        return knob_words(values)
    members = ", ".join(f"{part.name} ({shape(part)})" for part in variant.composing)
    if variant.is_ensemble:
        return f"the members {members}"
    own = (
        f"{instance_words(variant)} with a max batch size of {batch_size(variant)}, "
        f"dynamic batching {batching(variant).lower()}, "
        f"on platform {variant.config.get('backend') or variant.config.get('platform') or 'unknown'}"
    )
    return f"{own}, and the members {members}" if members else own


def batch_size(variant: ModelVariant) -> str:
    return str(model_config.max_batch_size(variant.config))


def batching(variant: ModelVariant) -> str:
    return "Enabled" if model_config.has_dynamic_batching(variant.config) else "Disabled"


def variants_of(study: Study, names: str) -> tuple[ModelVariant, ...]:
    return tuple(study.variant(name) for name in names.split(","))


def each(study: Study, names: str, text: Callable[[ModelVariant], str]) -> str:
    """A fact about every variant of a joined name; for an ensemble, about its members."""
    return ", ".join(text(part) for variant in variants_of(study, names) for part in variant.working)


def selected(study: Study, top: int) -> tuple[RankedVariant, ...]:
    """The `top` best that meet the constraints (if none does, the best that do not), and the default."""
    ranked = study.ranked
    passing = [row for row in ranked if row.does_pass]
    rows = (passing or list(ranked))[:top]
    default = next((row for row in ranked if row.name == study.default_name), None)
    return tuple(rows if default is None or default in rows else [*rows, default])


def count(study: Study) -> int:
    """Number of measurements, each counted once: a search may repeat one."""
    return len({trial.key or str(trial.number) for trial in study.measured})


def number_text(value: float | None, places: int) -> str:
    """A number; `-` if unknown."""
    return "-" if value is None else f"{value:.{places}f}"


def load_text(trial: Trial) -> str:
    return ", ".join(dict.fromkeys(str(load) for load in trial.loads))


def sentence(study: Study, *, has_own_objectives: bool = False) -> str:
    """State the number of measurements, the best variant, its gain, and whether the gain is certain."""
    found = recommend(study)
    if found is None:
        return f"No measurement of {models(study)} succeeded, so there is nothing to recommend."
    counted = f"{plural(count(study), 'measurement')} across {plural(len(study.ranked), 'configuration')}"
    return f"In {counted}, {_judgement(study, found, has_own_objectives)}"


def _judgement(study: Study, found: Recommendation, has_own_objectives: bool) -> str:
    name = found.best.name
    target = (
        "at meeting the objectives"
        if has_own_objectives or has_other_objectives(study)
        else "at maximizing throughput"
    )
    limits = any(goal.constraints for goal in study.goals)
    where = ", under the given constraints," if limits and study.mode != "offline" else ""
    on = f" on {hardware(study)}"
    if not found.does_pass:
        return f"no configuration satisfies the constraints; without them {name} is the best {target}{on}."
    if len(study.ranked) == 1:
        return f"{name} is the only configuration measured{on}."
    if name == study.default_name:
        return f"{name}, the model's own configuration, is the best of them{where}{on}: the others showed no gain."
    if found.gain_percent is None:
        problem = (
            "does not satisfy the constraints" if found.has_default else "gave no measurement to compare with"
        )
        return f"{name} is the best{where} {target}{on}; the default configuration {problem}."
    if found.is_spoilt:
        why = (
            f"this client was the limit for {' and '.join(found.limited)}"
            if found.limited
            else f"other programs used the machine while {' and '.join(found.disturbed)} was measured"
        )
        return (
            f"{name} has the best figures{where} {target}{on}, but {why}, so their difference is not known."
        )
    if round(found.gain_percent) <= 0:
        return f"{name} is the best of them{where} but showed no gain over the default configuration{on}."
    if not found.is_sure:
        return (
            f"{name} has the best figures{where} {target}{on}, but its difference from the default configuration is "
            "inside the spread of the measurements: measure both again before relying on it."
        )
    return f"{name} is {found.gain_percent:.0f}% better than the default configuration {target}{where}{on}."


def gain_text(study: Study) -> str:
    """The gain of the best variant over the default in a few words; empty if unknown."""
    found = recommend(study)
    if found is None or found.gain is None or found.best.name == study.default_name:
        return ""
    if not found.is_sure:
        return "not surely better than the default"
    measure = " in the objectives" if has_other_objectives(study) else ""
    return f"{difference(found.gain)}{measure} against the default"


def has_other_objectives(study: Study) -> bool:
    return any(tag != THROUGHPUT for goal in study.goals for tag, _ in goal.objectives)


def why(study: Study) -> str:
    """Say why this variant is recommended."""
    found = recommend(study)
    if found is None:
        return ""
    best = found.best.best
    rate, p99 = best.combined(THROUGHPUT), best.combined("perf_latency_p99")
    gives = [f"{rate:.1f} infer/sec"] if rate is not None else []
    gives += [f"a p99 latency of {p99:.2f} ms"] if p99 is not None else []
    at = f"At {load_text(best)} {best.name} has {' and '.join(gives) or 'neither throughput nor latency'}"
    parts = [f"{row.name} has {shape(row)}" for row in variants_of(study, found.best.name)]
    kept = (
        "; that keeps the constraints" if found.does_pass and any(g.constraints for g in study.goals) else ""
    )
    return f"{at}{kept}. {'; '.join(parts)}."


def trial_line(trial: Trial) -> str:
    """Describe a finished trial."""
    rate, p99 = trial.combined(THROUGHPUT), trial.combined(LATENCY_P99)
    figures = [f"{rate:.1f} infer/s"] if rate is not None else []
    figures += [f"p99 {p99:.2f} ms"] if p99 is not None else []
    shown = ", ".join(figures) or "no throughput, no latency"
    return f"{trial.name}, {load_text(trial)}: {shown if trial.is_measured else trial.reason}"


# --- effect of each knob: the best objective of the variants that share a value

LEAST_RATIO = 1.01  # smallest ratio of figures that differ
HANDLED = ("instance_group", "max_batch_size", "dynamic_batching")


@frozen
class Effect:
    """One value of one knob: number of variants, their mean and their best."""

    knob: str
    value: str
    variants: int
    mean: float
    best: float
    spread: tuple[float, float]  # interval of the best, or the figure itself without one


def main_effects(study: Study) -> tuple[Effect, ...]:
    """Effects on the first objective, each variant at its best load; knobs that never changed are omitted."""
    tag = study.goals[0].objectives[0][0]
    groups: dict[str, dict[str, tuple[Any, list[Estimate]]]] = {}
    for ranked in study.ranked:
        value = estimate(ranked.best, tag)
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


def estimate(trial: Trial, tag: str) -> Estimate | None:
    """A figure with its interval; several models together, and GPUs, have no interval."""
    found = trial.parts[0].figures.estimate(tag) if len(trial.parts) == 1 else None
    if found is not None:
        return found
    value = trial.combined(tag)
    return None if value is None else Estimate(value)


def knobs(variant: ModelVariant) -> Iterator[tuple[str, Any]]:
    """Settings that a search may have changed, with their values in this variant."""
    config = variant.config
    if (values := knobs_of(config)) is not None:
        yield from values.items()
        return
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
    """Name the knob whose values differ most, if the difference exceeds the spread of the measurements."""
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
    """A value with enough digits to show a difference of one percent."""
    return f"{value:,.1f}" if value >= 100 else significant(value, 4)
