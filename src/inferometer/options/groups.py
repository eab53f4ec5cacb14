"""Groups of related options of a measurement, by field."""

WINDOWS = (
    "measurement_mode",
    "measurement_interval_ms",
    "measurement_request_count",
    "stability_percentage",
    "max_trials",
)
PROMPTS = (
    "data.prompt_tokens",
    "data.tokenizer",
    "data.prefix_tokens",
    "data.prefix_pool",
    "data.prefix_zipf",
    "data.unique_prompts",
    "data.repeat_prompts",
)
OTHER_LOADS = (
    "request_rate",
    "request_intervals",
    "periodic_concurrency",
    "request_period",
    "fixed_schedule",
    "replay",
    "speed",
    "shape_load",
    "session_concurrency",
    "binary_search",
    "sweep",
    "latency_limit_ms",
    "max_outstanding",
)
CHECKS = ("check", "check_python", "check_sample", "check_similarity")
ADDRESSES = ("balance",)
THINKING = ("think_time",)
LEVEL_ACTIONS = ("before_level", "after_level", "before_level_timeout_s")
ENDINGS = ("request_count", "precision", "time_limit_s", "percentile", *WINDOWS)
CANCELLING = ("cancel_after_s", "cancel_share")
CLUSTER = ("ray", "clients", "client_resources")

OWN_LOADS = "it chooses the loads itself"  # why a command refuses OTHER_LOADS
