"""What only `measure` is asked."""

from inferometer.base.frozen import frozen
from inferometer.options.option import appended, ours
from inferometer.options.outputs import inconclusive_allowed
from inferometer.options.reach import Reach
from inferometer.options.values import label, text


@frozen
class MeasureOptions:
    """What only `measure` is asked."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "Model to measure, or several as NAME:WEIGHT. One is the second word on the command line; the requests of "
        "several take turns on the same connections, as often as the weights say: -m detector:3 -m classifier:1.",
        label("NAME"),
        group="Traffic",
        combine=appended,
        is_main=True,
    )
    scenario: str | None = ours(
        "--scenario",
        "Classes of traffic that go through phases. A YAML file, or the name of one that comes with the package: list "
        "shows these. -d is then the time of all phases.",
        text("FILE|NAME", Reach.RUNS_CODE | Reach.READS_FILES | Reach.NAMES_HOSTS),
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
    schema: bool = ours("--schema", "Show what a scenario may hold, as JSON Schema, and send nothing.")
