"""The options that say what is reported, and what is collected for it."""

from inferometer.base.errors import UsageError
from inferometer.base.options import Dialect, Option, as_given, choice, new_file, whole


def _path(name: str, text: str) -> str:
    if not text:
        raise UsageError(
            f"Failed to parse {name}. The path is empty", remedy="give the name of a file to write"
        )
    return text


OPTIONS = (
    Option(("-f",), "csv", "Write the CSV report to this file.", _path, "FILE"),
    Option(("--verbose-csv",), "verbose_csv", "Write more columns to the CSV report."),
    Option(("--json",), "json", "Write the whole result to this file.", _path, "FILE", dialect=Dialect.OURS),
    Option(
        ("--html",),
        "html",
        "Write the report to this file, one page that opens anywhere.",
        _path,
        "FILE",
        dialect=Dialect.OURS,
    ),
    Option(("-v",), "verbose", "Say more; twice for every message.", repeatable=True),
    Option(
        ("--profile-export-file",),
        "profile_export",
        "Write every request to this file, which must not exist yet: JSON, or Parquet if its name ends so.",
        new_file,
        "FILE",
    ),
    Option(("--collect-metrics",), "collect_metrics", "Collect the server's Prometheus metrics."),
    Option(
        ("--metrics-url",),
        "metrics_url",
        "Where the metrics are.",
        as_given,
        "URL",
        "port 8002 of the server",
    ),
    Option(
        ("--metrics-interval",),
        "metrics_interval_ms",
        "Milliseconds between two looks at the metrics.",
        whole(least=1),
        "MSEC",
        "1000",
    ),
    Option(
        ("--trace-level",),
        "trace_level",
        "What the server traces: OFF, TIMESTAMPS or TENSORS.",
        choice("OFF", "TIMESTAMPS", "TENSORS"),
        "LEVEL",
    ),
    Option(
        ("--trace-rate",),
        "trace_rate",
        "The server traces one of so many requests.",
        as_given,
        "RATE",
    ),
    Option(
        ("--trace-count",),
        "trace_count",
        "Most traces; -1 is no limit.",
        whole(least=-1),
        "COUNT",
    ),
    Option(
        ("--log-frequency",),
        "log_frequency",
        "Traces per file of the server's trace log; 0 is one file.",
        whole(least=0),
        "COUNT",
    ),
)
