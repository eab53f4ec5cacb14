"""Objectives and constraints of a search, parsed from `--objective` and `--slo`."""

import re

from inferometer.base.errors import UsageError
from inferometer.base.slo import Slo, parse_slo, slo_parts
from inferometer.options.names import option_name
from inferometer.stats.figures import BY_TAG, GOODPUT_RATE, MEGA, METRICS, THROUGHPUT, TOKEN_TAGS
from inferometer.stats.slo import metric_of
from inferometer.tune.scoring import Constraint, Goal

_OBJECTIVES = {
    "throughput": THROUGHPUT,
    "latency": "perf_latency_avg",
    **{f"p{rank}": f"perf_latency_p{rank}" for rank in (50, 90, 95, 99)},
    "gpu memory": "gpu_used_memory",
    "gpu power": "gpu_power_usage",
}
"""Metric tags by name."""

_OTHER_NAMES = {"tokens/s": "tokens", "tokens/s per user": "tokens per user", "itl": "tpot"}
_TEXT_OBJECTIVES = {
    **{
        row.short: row.tag
        for row in METRICS
        if row.tag in TOKEN_TAGS and row.short and not row.short.endswith((" min", " max", " p25", " p75"))
    },
    **{row.short: row.tag for row in METRICS if row.tag.startswith("energy_per_")},
    "goodput": GOODPUT_RATE,
}
"""Objectives of servers that generate text, and of an SLO."""


def parse_objectives(text: str | None, *, is_launched: bool = False) -> tuple[tuple[str, float], ...]:
    """Parse objectives with weights, such as `throughput:2, gpu power:1`."""
    if text is None:
        return Goal("").objectives
    known = _OBJECTIVES | _TEXT_OBJECTIVES if is_launched else _OBJECTIVES
    found: dict[str, float] = {}
    for term in text.lower().replace("_", " ").split(","):
        name, _, weight = (part.strip() for part in term.partition(":"))
        name = _OTHER_NAMES.get(name, name)
        if name not in known or known[name] in found:
            problem = "is named twice" if name in known else "is not an objective"
            raise UsageError(
                f"{option_name('--objective')} {text}: '{name}' {problem}",
                remedy=f"the objectives are {', '.join(known)}",
            )
        if not re.fullmatch(r"\d*\.?\d+|", weight) or (weight and float(weight) == 0):
            raise UsageError(
                f"{option_name('--objective')} {text}: the weight of {name} is '{weight}', not a number "
                "above 0",
                remedy="write, for example, 'throughput:2, gpu power:1'",
            )
        found[known[name]] = float(weight or 1)
    return tuple(found.items())


def parse_constraints(slo: str | None) -> tuple[Constraint, ...]:
    if slo is None:
        return ()
    others = maybe_slo(slo)
    found = [_gpu_constraint(term) for term in slo_parts(slo) if _is_of_gpus(term)]
    for term in () if others is None else others.terms:
        metric = metric_of(term)
        if metric.tag not in BY_TAG:
            raise UsageError(
                f"{option_name('--slo')} names {term.label}, which tune does not support",
                remedy="use mean, p50, p90, p95, p99, ttft, tpot, gap, errors, throughput, gpu memory or gpu power",
            )
        limit = metric.in_unit(term.limit)
        is_least = term.sign.startswith(">")
        found.append(
            Constraint(metric.tag, low=limit if is_least else None, high=None if is_least else limit)
        )
    return tuple(found)


def maybe_slo(text: str) -> Slo | None:
    """Return the part of an SLO that does not limit GPUs; None if there is none."""
    others = [term for term in slo_parts(text) if not _is_of_gpus(term)]
    return parse_slo(",".join(others)) if others else None


def _is_of_gpus(term: str) -> bool:
    return term.lower().startswith("gpu")


_GPU_TERM = re.compile(r"gpu[ _](memory|power)\s*<=?\s*(\d+\.?\d*)\s*(\w+)", re.IGNORECASE)
_GPU_LIMITS = {
    "memory": ("gpu_used_memory", {"mb": 1.0, "gb": 1e3, "mib": 2**20 / MEGA, "gib": 2**30 / MEGA}),
    "power": ("gpu_power_usage", {"w": 1.0, "kw": 1e3}),
}
"""Tag and units, by limited resource."""


def _gpu_constraint(term: str) -> Constraint:
    """Parse `gpu memory<8GB`, the total over all GPUs of the server, or `gpu power<300W`, their mean."""
    found = _GPU_TERM.fullmatch(term)
    tag, units = ("", {}) if found is None else _GPU_LIMITS[found[1].lower()]
    if found is None or found[3].lower() not in units:
        raise UsageError(
            f"'{term}' is not a GPU limit", remedy="write it like 'gpu memory<8GB' or 'gpu power<300W'"
        )
    return Constraint(tag, high=float(found[2]) * units[found[3].lower()])
