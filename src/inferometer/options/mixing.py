"""Options of `interfere` alone, and the options that it and scenarios do not support."""

from collections.abc import Mapping

from inferometer.base.frozen import frozen
from inferometer.options.comparing import COMPARE_REFUSED
from inferometer.options.groups import CHECKS, CLUSTER, LEVEL_ACTIONS
from inferometer.options.option import appended, ours
from inferometer.options.outputs import inconclusive_allowed
from inferometer.options.values import label

INTERFERE_REFUSED: Mapping[str, str] = {
    **COMPARE_REFUSED,
    **dict.fromkeys(
        ("request_count", "warmup_s", "warmup_request_count"),
        "set the time with {--duration}: it applies to each model alone and to all together",
    ),
    **dict.fromkeys(
        ("request_intervals", "max_error_rate"), "give every model the same load with {-c} or {-r}"
    ),
    **dict.fromkeys(CLUSTER, "each model has its own processes on this machine: leave it out"),
    **dict.fromkeys(CHECKS, "use it with `inferometer measure` or `compare`"),
    "ramp_s": "leave it out: all users of a model start at once",
    "think_time": "measure the model alone with {--think-time}",
    "junit": "there is no SLO to check: use it with `inferometer measure` or `compare`",
    "collect_metrics": "use it with `inferometer measure`",
    "metrics_url": "use it with `inferometer measure`",
    "metrics_interval_ms": "use it with `inferometer measure`",
}
SCENARIO_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("warmup_s", "warmup_request_count", "ramp_s"),
        "give the scenario a phase named warm-up instead",
    ),
    **dict.fromkeys(LEVEL_ACTIONS, "give a phase of the scenario a command"),
    "think_time": "give the steps of a `flow` a `think` time, or those of a `task` a `pause`",
    **dict.fromkeys(CHECKS, "measure the model alone, without {--scenario}"),
    **dict.fromkeys(
        ("request_count", "precision", "sweep", "binary_search", "latency_limit_ms", "time_limit_s"),
        "a scenario lasts as long as its phases; {-d} sets their total time",
    ),
    **dict.fromkeys(
        (
            "measurement_mode",
            "measurement_interval_ms",
            "measurement_request_count",
            "max_trials",
            "stability_percentage",
        ),
        "a scenario lasts as long as its phases; {-d} sets their total time",
    ),
    **dict.fromkeys(
        (
            "profile_export",
            "shared_memory",
            "trace_level",
            "trace_rate",
            "trace_count",
            "log_frequency",
        ),
        "measure the model alone, without {--scenario}",
    ),
    **dict.fromkeys(
        ("collect_metrics", "metrics_url", "metrics_interval_ms"),
        "measure the model alone, without {--scenario}",
    ),
    **dict.fromkeys(
        (
            "request_intervals",
            "periodic_concurrency",
            "fixed_schedule",
            "session_concurrency",
            "replay",
            "shape_load",
            "speed",
            "slo",
            "request_distribution",
            "burstiness",
            "workers",
        ),
        "set it for a class of the scenario",
    ),
}


@frozen
class InterfereOptions:
    """Options of `interfere` alone."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "Model that shares the server, or MODEL@URL; may be given several times.",
        label("NAME"),
        group="Interference",
        combine=appended,
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
