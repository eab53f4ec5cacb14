"""The options that say when a measurement is good enough."""

from inferometer.base.options import Dialect, Option, choice, decimal, duration, percentile, share, whole

OPTIONS = (
    Option(
        ("--measurement-mode",),
        "measurement_mode",
        "What ends a window: time_windows or count_windows.",
        choice("time_windows", "count_windows"),
        "MODE",
        "time_windows",
    ),
    Option(
        ("-p", "--measurement-interval"),
        "measurement_interval_ms",
        "Length of a time window in milliseconds.",
        whole(least=1),
        "MSEC",
        "5000",
    ),
    Option(
        ("--measurement-request-count",),
        "measurement_request_count",
        "Requests in a count window.",
        whole(least=1),
        "COUNT",
        "50",
    ),
    Option(
        ("-s", "--stability-percentage"),
        "stability_percentage",
        "Spread of the last three windows that counts as stable, in percent.",
        decimal(least=0),
        "PERCENT",
        "10",
    ),
    Option(
        ("-r", "--max-trials"),
        "max_trials",
        "Most windows per level.",
        whole(least=1),
        "COUNT",
        "10",
    ),
    Option(
        ("--percentile",),
        "percentile",
        "Judge by this percentile of the latency, 1 to 99, instead of the mean (-1).",
        percentile,
        "NUMBER",
        "-1",
    ),
    Option(
        ("-l", "--latency-threshold"),
        "latency_limit_ms",
        "Stop raising the load when a level's latency reaches this many milliseconds; 0 is no limit.",
        whole(least=0),
        "MSEC",
        "0",
    ),
    Option(
        ("--duration",),
        "duration_s",
        "Measure a level until it is precise or this time is spent, such as 90s or 2m, "
        "instead of judging windows.",
        duration(zero=False),
        "TIME",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--precision",),
        "precision",
        "How precise is precise enough: half width of the 95 % interval, as a share of the figure.",
        share(zero=False),
        "SHARE",
        "2%",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--max-error-rate",),
        "max_error_rate",
        "Share of failed requests that is acceptable, such as 1% or 0.01.",
        share(zero=True),
        "SHARE",
        "0",
        dialect=Dialect.OURS,
    ),
    Option(
        ("--binary-search",),
        "binary_search",
        "Search the range by halving it instead of stepping through.",
    ),
)
