"""Figures of a running test for other tools: one table that all exporters use.

A figure has an OpenTelemetry name (`inferometer.request.latency`, in `s`). The Prometheus name follows from it by
Prometheus conventions: underscores, and the unit as a suffix (`inferometer_request_latency_seconds`).
"""

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.base.frozen import frozen

PREFIX = "inferometer"
MS_PER_S = 1000
_SUFFIXES = {"s": "_seconds", "1": "_ratio", "{request}/s": "_per_second", "{token}/s": "_per_second"}
"""Suffixes of Prometheus names by unit; counts have none."""


@frozen
class ExportedFigure:
    """An exported figure."""

    name: str
    unit: str  # as OpenTelemetry writes units: {request} is a number of requests
    help: str
    key: str  # in the live line of a run
    scale: float = 1.0  # divides the value in the line
    is_counter: bool = False
    label: tuple[str, str] | None = None  # distinguishes figures of the same name

    @property
    def otel_name(self) -> str:
        return f"{PREFIX}.{self.name}"

    @property
    def prometheus_name(self) -> str:
        end = "_total" if self.is_counter else _SUFFIXES.get(self.unit, "")
        return f"{PREFIX}_{self.name.replace('.', '_')}{end}"


FIGURES = (
    ExportedFigure(
        "requests.ended", "{request}", "Requests that ended, successfully or not.", "ended", is_counter=True
    ),
    ExportedFigure("requests.failed", "{request}", "Requests that failed.", "failed", is_counter=True),
    ExportedFigure("requests.outstanding", "{request}", "Requests that have not ended yet.", "outstanding"),
    ExportedFigure(
        "request.throughput",
        "{request}/s",
        "Successful requests per second, over the last second.",
        "per_s",
    ),
    *(
        ExportedFigure(
            "request.latency",
            "s",
            "Latency percentile of the successful requests of the last second.",
            f"p{p}_ms",
            scale=MS_PER_S,
            label=("quantile", str(p / 100)),
        )
        for p in (50, 90, 95, 99)
    ),
    ExportedFigure("output.token.throughput", "{token}/s", "Output tokens per second.", "tokens_per_s"),
    ExportedFigure(
        "load", "{load}", "Applied load, by mode: concurrent requests or requests per second.", "load"
    ),
    ExportedFigure("level", "{level}", "Number of the current level or tuning trial.", "number"),
    ExportedFigure("warmup", "{state}", "1 during the warm-up, else 0.", "is_warm_up"),
    ExportedFigure(
        "client.cores", "{cpu}", "CPU cores that the client uses to send and receive.", "client_cores"
    ),
    ExportedFigure(
        "server.requests.waiting", "{request}", "Requests in the server's queue.", "server_waiting"
    ),
    ExportedFigure("gpu.utilization", "1", "Utilization of the busiest GPU.", "gpu"),
)


Row = tuple[ExportedFigure, Mapping[str, str], float]
"""A figure with its labels and its value."""


class LatestFigures:
    """The latest figures of a run, from its live lines (store/live.py). Any thread may read them."""

    def __init__(self, *, command: str, run: str = "") -> None:
        self._labels = {"model": "", "command": command, "run": run or secrets.token_hex(4)}
        self.url = ""  # of the server
        self._mode = ""
        self._known: dict[str, float] = {}
        self._before = dict.fromkeys(_COUNTERS, 0)  # totals of finished levels,
        self._counts = dict.fromkeys(_COUNTERS, 0)  # and of the current level
        self._part: tuple[int, str] = (0, "")  # level and phase
        self._rows: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._rows

    @property
    def model(self) -> str:
        return self._labels["model"]

    def tell(self, line: Mapping[str, Any]) -> None:
        kind = line["kind"]
        if kind == "prepared":
            self._labels = {**self._labels, "model": line["model"]}
            self.url = line["url"]
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
        # Lines count from the start of a level or its warm-up; a level may be measured again.
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
