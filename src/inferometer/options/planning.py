"""What `capacity` is asked."""

from dataclasses import dataclass

from inferometer.options.option import appended, option
from inferometer.options.outputs import page
from inferometer.options.prices import price
from inferometer.options.reach import Reach
from inferometer.options.values import choice, duration, label, output_file, text, whole

SCALE_ON = "utilisation:60%"
STARTUP_S = 60.0  # shown as 1m


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """What `capacity` is asked."""

    traffic: str = option(
        "--traffic",
        "What comes: a rate such as 200/s, a trace that --replay of measure reads, a CSV file with the columns time "
        "and rate (requests per second), or a scenario (.yaml)",
        text("RATE|FILE", Reach.READS_FILES | Reach.RUNS_CODE),
        default="",
        group="Capacity",
        is_required=True,
    )
    slo: str = option(
        "--slo",
        "What to keep in every stretch of the traffic, such as 'p99<50ms, errors<0.1%'",
        label("PROMISE"),
        default="",
        is_required=True,
    )
    options: tuple[str, ...] = option(
        "--options",
        "Results of measure or find, or runs that were kept: one for each kind of machine or configuration. More may "
        "follow as plain words",
        text("FILE|RUN", Reach.READS_FILES),
        combine=appended,
    )
    price: tuple[tuple[str, float], ...] = option(
        "--price",
        "What a replica costs, such as 2.50/h; NAME=2.50/h is that of one option, whose name is that of its file "
        "without .json",
        price,
        combine=appended,
    )
    spare: int = option(
        "--spare", "How many replicas may be lost with the promise still kept", whole("N", least=0), default=1
    )
    balancer: str = option(
        "--balancer",
        "How requests are given to replicas: round-robin, random or least-outstanding",
        choice("NAME", "round-robin", "random", "least-outstanding"),
        default="round-robin",
    )
    stretch_s: float | None = option(
        "--stretch",
        "The promise is to hold in every stretch of a trace: how long one is (default: 5m, or longer for a thousand "
        "requests)",
        duration(zero=False),
    )
    scale_on: str | None = option(
        "--scale-on",
        "What an autoscaler keeps to: utilisation:60%, or queue:2 (requests in each replica)",
        label("RULE"),
        shown=SCALE_ON,
    )
    startup_s: float | None = option(
        "--startup",
        "How long a replica takes until it is ready, such as 90s",
        duration(zero=True),
        shown="1m",
    )
    seed: int = option(
        "--seed", "Of the simulation: the same one gives the same answer", whole("SEED", least=0), default=1
    )
    html: str | None = page()
    markdown: str | None = option("--markdown", "Write Markdown", output_file)
    csv: str | None = option("-f --csv", "Write the replicas over time, as CSV", output_file)
    json: str | None = option("--json", "Write the whole plan, for `inferometer view`", output_file)
    quiet: bool = option("-q --quiet", "Print one sentence only")
    junit: None = None
    verbose: int = 0
