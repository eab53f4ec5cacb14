"""Options of `capacity`."""

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo
from inferometer.options import outputs
from inferometer.options.amounts import price
from inferometer.options.lengths import lengths
from inferometer.options.option import appended, option
from inferometer.options.reach import Reach
from inferometer.options.values import (
    choice,
    decimal,
    duration,
    duration_or_file,
    label,
    objective,
    text,
    whole,
)

SCALE_ON = "utilisation:60%"
STARTUP_S = 60.0  # shown as 1m


@frozen
class CapacityOptions:
    """Options of `capacity`."""

    traffic: str = option(
        "--traffic",
        "Expected traffic: a rate such as 200/s, a trace as for `measure --replay`, a CSV file with the columns time "
        "and rate (requests per second), or a scenario (.yaml)",
        text("RATE|FILE", Reach.READS_FILES | Reach.RUNS_CODE),
        default="",
        group="Capacity",
        is_required=True,
        is_main=True,
    )
    prompt_tokens: int | str | None = option(
        "--prompt-tokens",
        "Lengths of prompts, for text servers",
        lengths(pairs=True),
        is_main=True,
    )
    output_tokens: int | str | None = option(
        "--output-tokens",
        "Lengths of answers (default: as measured)",
        lengths(pairs=False),
        is_main=True,
    )
    slo: Slo = option(
        "--slo",
        "SLO to meet at all times, such as 'p99<50ms'",
        objective(),
        is_required=True,
        is_main=True,
    )
    options: tuple[str, ...] = option(
        "--options",
        "Results or stored runs of measure or find: one per machine type or configuration. More may follow without "
        "the option",
        text("FILE|RUN", Reach.READS_FILES),
        combine=appended,
        is_main=True,
    )
    price: tuple[tuple[str, float], ...] = option(
        "--price",
        "Price of a replica, such as 2.50/h; NAME=2.50/h sets it for one of --options, where NAME is its file name "
        "without .json",
        price,
        combine=appended,
        is_main=True,
    )
    carbon: float | None = option(
        "--carbon",
        "Grams of CO2 per kWh, to state the emissions",
        decimal("G_PER_KWH", least=0.0),
    )
    spare: int = option(
        "--spare",
        "Number of replicas that may fail",
        whole("N", least=0),
        default=1,
        is_main=True,
    )
    balancer: str = option(
        "--balancer",
        "Load balancing: round-robin, random or least-outstanding",
        choice("NAME", "round-robin", "random", "least-outstanding"),
        default="round-robin",
        is_main=True,
    )
    stretch_s: float | None = option(
        "--stretch",
        "Length of the parts that must meet the SLO (default: 5m, or longer to hold a thousand requests)",
        duration(zero=False),
        is_main=True,
    )
    scale_on: str | None = option(
        "--scale-on",
        "Target of the autoscaler: utilisation:60%, or queue:2 (requests per replica)",
        label("RULE"),
        shown=SCALE_ON,
        is_main=True,
    )
    startup_s: float | str | None = option(
        "--startup",
        "Time until a new replica is ready, or a file of `tune --serve`",
        duration_or_file(zero=True),
        shown="1m",
        is_main=True,
    )
    seed: int = option(
        "--seed",
        "Seed of the simulation",
        whole("SEED", least=0),
        default=1,
    )
    allow_inconclusive: bool = outputs.inconclusive_allowed()
    html: str | None = outputs.page(is_main=True)
    markdown: str | None = outputs.markdown()
    csv: str | None = outputs.table("Write the number of replicas over time, as CSV")
    json: str | None = outputs.saved("Write the full plan, for `inferometer view`")
    quiet: bool = outputs.quiet()
    junit: None = None
    verbose: int = 0
