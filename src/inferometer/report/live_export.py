"""The figures of a run that other tools can follow while it goes: one table, from which every exporter is made.

A figure has the name that OpenTelemetry gives it (`inferometer.request.latency`, in `s`). Prometheus has the same with
underscores and the unit at the end (`inferometer_request_latency_seconds`), by its conventions.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "inferometer"
MS_PER_S = 1000
_SUFFIXES = {"s": "_seconds", "1": "_ratio", "{request}/s": "_per_second", "{token}/s": "_per_second"}
"""By unit, the end of a name in Prometheus; a number of things has none."""


@dataclass(frozen=True, slots=True)
class ExportedFigure:
    """A row of the table."""

    name: str
    unit: str  # as OpenTelemetry writes units: {request} is a number of requests
    help: str
    key: str  # of the live line of a run that has it
    scale: float = 1.0  # what the line has is divided by this
    is_counter: bool = False
    label: tuple[str, str] | None = None  # one more, that tells figures of the same name apart

    @property
    def otel_name(self) -> str:
        return f"{PREFIX}.{self.name}"

    @property
    def prometheus_name(self) -> str:
        end = "_total" if self.is_counter else _SUFFIXES.get(self.unit, "")
        return f"{PREFIX}_{self.name.replace('.', '_')}{end}"


FIGURES = (
    ExportedFigure(
        "requests.ended", "{request}", "Requests that ended, well or badly.", "ended", is_counter=True
    ),
    ExportedFigure("requests.failed", "{request}", "Requests that failed.", "failed", is_counter=True),
    ExportedFigure("requests.outstanding", "{request}", "Requests that have not ended.", "outstanding"),
    ExportedFigure(
        "request.throughput",
        "{request}/s",
        "Requests per second that ended well, of the last second.",
        "per_s",
    ),
    *(
        ExportedFigure(
            "request.latency",
            "s",
            "A percentile of the latency of the requests that ended well in the last second.",
            f"p{p}_ms",
            scale=MS_PER_S,
            label=("quantile", str(p / 100)),
        )
        for p in (50, 90, 95, 99)
    ),
    ExportedFigure("output.token.throughput", "{token}/s", "Output tokens per second.", "tokens_per_s"),
    ExportedFigure(
        "load", "{load}", "The load that is applied, by its mode: requests at a time or per second.", "load"
    ),
    ExportedFigure("level", "{level}", "Number of the level, or of the tuner's trial.", "number"),
    ExportedFigure("warmup", "{state}", "1 while what ends is of the warm-up, else 0.", "is_warm_up"),
    ExportedFigure(
        "client.cores", "{cpu}", "Processor cores that this tool uses to send and receive.", "client_cores"
    ),
    ExportedFigure(
        "server.requests.waiting", "{request}", "Requests in the server's queue.", "server_waiting"
    ),
    ExportedFigure("gpu.utilization", "1", "Share of the time that the busiest GPU works.", "gpu"),
)


Row = tuple[ExportedFigure, Mapping[str, str], float]
"""A figure, its labels, its value."""


class LatestFigures:
    """What is known of a run, out of its live lines (store/live.py). Any thread may read it."""

    def __init__(self, *, command: str, run: str = "") -> None:
        self._labels = {"model": "", "command": command, "run": run or secrets.token_hex(4)}
        self._mode = ""
        self._known: dict[str, float] = {}
        self._before = dict.fromkeys(_COUNTERS, 0)  # of levels that are over,
        self._counts = dict.fromkeys(_COUNTERS, 0)  # and of the one that is measured
        self._part: tuple[int, str] = (0, "")  # level and phase
        self._rows: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._rows

    def tell(self, line: Mapping[str, Any]) -> None:
        kind = line["kind"]
        if kind == "prepared":
            self._labels = {**self._labels, "model": line["model"]}
        elif kind == "level":
            self._mode = line["mode"]
            self._known |= {"load": line["value"], "number": line["number"]}
        elif kind == "sample":
            self._take(line)
        else:
            return
        self._rows = tuple(self._made())

    def _take(self, line: Mapping[str, Any]) -> None:
        part, counts = (line["number"], line["phase"]), {key: line[key] for key in _COUNTERS}
        # The lines count from the begin of a level, and of its warm-up, on; a level may be measured again.
        if part != self._part or any(counts[key] < self._counts[key] for key in _COUNTERS):
            self._before = {key: self._before[key] + self._counts[key] for key in _COUNTERS}
        self._part, self._counts = part, counts
        found = {**{key: line.get(key) for key in _KEYS}, "load": self._known.get("load")}
        found |= {key: self._before[key] + count for key, count in counts.items()}
        found["is_warm_up"] = line["phase"] == "warm-up"
        self._known = {key: float(value) for key, value in found.items() if value is not None}

    def _made(self) -> Iterator[Row]:
        for figure in FIGURES:
            value = self._known.get(figure.key)
            if value is None:
                continue
            labels = dict(self._labels)
            if figure.label is not None:
                labels[figure.label[0]] = figure.label[1]
            if figure.key == "load":
                labels["mode"] = self._mode
            yield figure, labels, value / figure.scale


_KEYS = tuple(figure.key for figure in FIGURES)
_COUNTERS = tuple(figure.key for figure in FIGURES if figure.is_counter)
