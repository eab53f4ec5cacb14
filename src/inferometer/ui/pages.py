"""Pages of the browser interface: the presentation of a run, and the templates. Everything is escaped."""

import shlex
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from inferometer.base.frozen import frozen
from inferometer.base.text import printable
from inferometer.report.format import duration, level_label, level_value, quantity, time_span
from inferometer.stats.estimate import Estimate
from inferometer.stats.verdict import EXIT_INCONCLUSIVE, INCONCLUSIVE
from inferometer.store.run import FAILED, FINISHED, KILLED, QUEUED, RUNNING, SLO_VIOLATED, STATES, Point, Run

if TYPE_CHECKING:
    from jinja2 import Environment

NS_PER_MS = 1e6
SPARK_WIDTH, SPARK_HEIGHT = 96, 24
STATE_WORDS = {state: "waiting" if state == QUEUED else state for state in STATES}


def page(name: str, **values: object) -> str:
    """Render a page of the browser interface."""
    return printable(_environment().get_template(name).render(**values))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("inferometer.ui"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {
        "spark": spark,
        "level_label": level_label,
        "badge": badge,
        "loads": loads,
        "FINISHED_WORDS": FINISHED_WORDS,
    }
    environment.filters |= {"per_s": per_s, "ms": ms, "span": time_span, "moment": moment}
    return environment


@frozen
class RunRow:
    """A run in lists and headings."""

    run: Run
    short: str

    @property
    def title(self) -> str:
        return self.run.model.replace(",", ", ") or self.run.url or self.run.command

    @property
    def line(self) -> str:
        """The command line."""
        return shlex.join(("inferometer", *self.run.words))

    @property
    def place(self) -> str:
        """The path of the page of a run."""
        return f"/runs/{self.run.id}" + ("/live" if self.run.state == "running" else "")


@frozen
class Badge:
    """The state or outcome of a run in a word or two, with a colour `tone`."""

    tone: str  # good, warning, bad or plain
    words: str


_STATE_TONES = {QUEUED: "warning", RUNNING: "good", FAILED: "bad", KILLED: "bad"}
_LOAD_CODES = {1: "requests failed", 3: "server failed", 4: SLO_VIOLATED}
_JUDGED_CODES = {1: "regression", 2: INCONCLUSIVE, 3: "invalid"}
_CODES = {"measure": _LOAD_CODES, "scenario": _LOAD_CODES, "compare": _JUDGED_CODES, "gate": _JUDGED_CODES}
"""Exit codes by command; that of an inconclusive verdict is the same for the others."""
FINISHED_WORDS = STATE_WORDS[FINISHED]


def badge(run: Run) -> Badge:
    """The badge of a run; a run without problems is only marked as finished, since its verdict says the rest."""
    if run.state == FAILED and run.is_stopped:  # before there was anything to report
        return Badge("warning", "stopped")
    if run.state != FINISHED:
        return Badge(_STATE_TONES[run.state], STATE_WORDS[run.state])
    is_inconclusive = run.outcome == INCONCLUSIVE  # of which a problem says more
    trouble = (_trouble(run) or run.outcome) if is_inconclusive else (run.outcome or _trouble(run))
    words = ", ".join(filter(None, ("stopped" if run.is_stopped else "", trouble)))
    if trouble:
        is_open = trouble == INCONCLUSIVE or (run.tone == "warning" and (is_inconclusive or not run.outcome))
        return Badge("warning" if is_open else "bad", words)
    return Badge("warning", words) if words else Badge("plain", FINISHED_WORDS)


def _trouble(run: Run) -> str:
    """The problem shown by the exit code, or by the tone of the report."""
    if run.code and not run.is_stopped:
        known = {EXIT_INCONCLUSIVE: INCONCLUSIVE, **_CODES.get(run.command, {})}
        return known.get(run.code, f"exit code {run.code}")
    return "problems found" if run.tone == "bad" else ""


def loads(points: Sequence[Point]) -> str:
    """The loads of a run: `concurrency 4`, `concurrency 1 to 8`."""
    by_mode: dict[str, list[float]] = {}
    for point in points:
        by_mode.setdefault(point.mode, []).append(point.value)
    return ", ".join(
        level_label(mode, min(values))
        + (f" to {level_value(mode, max(values))}" if len(set(values)) > 1 else "")
        for mode, values in by_mode.items()
    )


def moment(started_at: str) -> str:
    """A timestamp to the minute, in the time zone of the machine that ran it."""
    return started_at[:16].replace("T", " ")


def per_s(found: Estimate | None) -> str:
    return "" if found is None else quantity(found.value)


def ms(found: Estimate | None) -> str:
    return "" if found is None else duration(found.value * NS_PER_MS)


# --- sparklines


@frozen
class Spark:
    """Throughput by level as points of an SVG line, and in words."""

    line: str
    last: tuple[float, float]
    words: str


def spark(points: Sequence[Point]) -> Spark | None:
    """A sparkline; None with fewer than two levels."""
    found = [(point, point.figures["throughput"].value) for point in points if "throughput" in point.figures]
    if len(found) < 2:
        return None
    most = max(value for _, value in found) or 1.0
    step = (SPARK_WIDTH - 6) / (len(found) - 1)
    places = [
        (3 + number * step, 3 + (SPARK_HEIGHT - 6) * (1 - value / most))
        for number, (_, value) in enumerate(found)
    ]
    first, last = found[0], found[-1]
    words = " to ".join(
        f"{quantity(value)}/s at {level_label(point.mode, point.value)}" for point, value in (first, last)
    )
    return Spark(" ".join(f"{x:.1f},{y:.1f}" for x, y in places), places[-1], f"throughput: {words}")
