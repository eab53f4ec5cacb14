"""Other options of `inferometer measure` that a class sets by their long names."""

from collections.abc import Mapping
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.text import nearest
from inferometer.measure.checks import LOAD_MODES
from inferometer.options.config_file import as_option, option_value
from inferometer.options.groups import CHECKS, CLUSTER, LEVEL_ACTIONS, THINKING
from inferometer.options.option import Option, appended, named
from inferometer.options.options import MODERN

Scalar = str | int | float | bool

OF_RUN = frozenset(
    (
        *(
            "warmup_s",
            "warmup_request_count",
            "ramp_s",
            "request_count",
            "precision",
            "sweep",
            "binary_search",
        ),
        *("latency_limit_ms", "profile_export", "shared_memory", "time_limit_s", "collect_metrics"),
        *("measurement_mode", "measurement_interval_ms", "measurement_request_count", "max_trials"),
        *("stability_percentage", "duration_s", "json", "html", "csv", "markdown", "junit", "quiet"),
        *("verbose", "verbose_csv", "trace_level", "trace_rate", "trace_count", "log_frequency", "workers"),
        *LOAD_MODES,
        *THINKING,
        *LEVEL_ACTIONS,
        *CHECKS,
    )
)
"""Fields of the whole run, which classes do not inherit from the command line."""

_ROWS: Mapping[str, Option] = {
    name: row for _, members in MODERN for row in members for name in (*row.aliases, *row.names)
}


def read_options(
    given: Mapping[str, Scalar | list[Scalar]],
) -> tuple[dict[str, Any], list[tuple[str, UsageError]]]:
    """Return the values by field, and the mistakes by name."""
    found: dict[str, Any] = {}
    mistakes: list[tuple[str, UsageError]] = []
    for name, value in given.items():
        try:
            field, read = _read(name, value)
        except UsageError as error:
            mistakes.append((name, error))
            continue
        if read is not None:
            found[field] = read
    return found, mistakes


def _read(name: str, value: Scalar | list[Scalar]) -> tuple[str, Any]:
    row = _ROWS.get(as_option(name))
    if row is None:
        close = nearest(name, [known[2:] for known in _ROWS if known.startswith("--")])
        remedy = f"did you mean '{close}'?" if close else "see `inferometer measure --help-all`"
        raise UsageError("unknown option", remedy=remedy)
    if row.field in (*OF_RUN, *CLUSTER) or row.instead or (row.is_secret and row.field != "headers"):
        raise UsageError(
            "cannot be set for a class",
            remedy="leave it out; a class sets its load outside `options`",
        )
    words = [_word(part) for part in value] if isinstance(value, list) else [_word(value)]
    if isinstance(value, list) and row.combine not in (appended, named):
        words = [",".join(words)]
    return row.field, option_value(row, as_option(name), words)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def written(field: str) -> str:
    """Return the name of the option for a field; the last one if it has several."""
    names = [name for name, row in _ROWS.items() if row.field == field]
    return names[-1] if names else field
