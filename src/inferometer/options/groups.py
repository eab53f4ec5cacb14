"""Options of a measurement that belong together, by their fields."""

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
