"""Push the live figures of a run to an OpenTelemetry collector over HTTP.

A separate thread does this. If the collector fails or does not respond, one warning is shown; the run continues, and
the thread keeps trying.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from inferometer import __version__
from inferometer.base.errors import PeerError, UsageError
from inferometer.options.names import option_name
from inferometer.report.genai import GenAiHistograms, genai_attributes
from inferometer.report.live_export import FIGURES, LatestFigures
from inferometer.stats.watcher import Watcher

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

    from inferometer.options.effective import Effective
    from inferometer.stats.level_progress import LevelProgress

PERIOD_S = 1.0
LAST_S = 1.0  # wait for the last push at the end of a run, if the previous one succeeded
METRICS_PATH = "/v1/metrics"
TRACES_PATH = "/v1/traces"


class Post(Protocol):
    """Sends a body to a collector, within a time limit for the whole reply, which it returns; raises PeerError."""

    url: str  # without secrets

    def __call__(self, body: bytes, /) -> bytes: ...


class OtlpPush(Watcher):
    """Pushes the live figures of a run, from its creation until it is closed."""

    def __init__(self, figures: LatestFigures, post: Post, warn: Callable[[str], None]) -> None:
        try:
            import opentelemetry.exporter.otlp.proto.common.metrics_encoder  # noqa: F401
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import InMemoryMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise UsageError(
                f"{option_name('--otlp')} requires the OpenTelemetry packages, which are not installed",
                remedy="pip install 'inferometer[otlp]'",
            ) from error
        logger = logging.getLogger("opentelemetry.sdk")  # it logs every failure; we warn once
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        self._figures = figures
        self._post = post
        self._warn = warn
        self._is_failing = self._has_warned = False
        self._api = ""
        self._histograms = GenAiHistograms()
        self._begun_ns = time.time_ns()
        self._lock = threading.Lock()  # of the histograms
        self._ended = threading.Event()
        self._reader = InMemoryMetricReader()
        resource = Resource({"service.name": "inferometer", "service.version": __version__})
        self._provider = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        self._define()
        self._thread = threading.Thread(target=self._push_on, name="otlp", daemon=True)
        self._thread.start()

    def _define(self) -> None:
        meter = self._provider.get_meter("inferometer", __version__)
        for name, figure in {figure.otel_name: figure for figure in FIGURES}.items():
            create = meter.create_observable_counter if figure.is_counter else meter.create_observable_gauge
            create(name, [partial(self._observed, name)], unit=figure.unit, description=figure.help)

    def _observed(self, name: str, _: "CallbackOptions") -> "Iterator[Observation]":
        from opentelemetry.metrics import Observation

        for figure, labels, value in self._figures.rows:
            if figure.otel_name == name:
                yield Observation(value, labels)

    # --- events of the run

    def prepared(self, effective: "Effective") -> None:
        self._api = effective.api

    def progressed(self, progress: "LevelProgress") -> None:
        if self._api and len(progress.records):
            with self._lock:
                self._histograms.add(progress.records)

    def turn_progressed(self, variant: str, progress: "LevelProgress") -> None:
        self.progressed(progress)

    # --- the thread

    def _push_on(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self._push()
        self._push()  # the figures at the end

    def _push(self) -> None:
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

        data = self._reader.get_metrics_data()
        if data is None:  # no figures yet
            return
        scope = data.resource_metrics[0].scope_metrics[0]
        own = replace(scope, metrics=[*scope.metrics, *self._histogram_metrics()])
        resources = [replace(data.resource_metrics[0], scope_metrics=[own])]
        try:
            self._post(encode_metrics(replace(data, resource_metrics=resources)).SerializeToString())
            self._is_failing = False
        except PeerError as error:
            self._is_failing = True
            if not self._has_warned:
                self._has_warned = True
                self._warn(
                    f"--otlp cannot push figures to {self._post.url}; the run continues: {error.message}"
                )

    def _histogram_metrics(self) -> list[Any]:
        from opentelemetry.sdk.metrics.export import (
            AggregationTemporality,
            Histogram,
            HistogramDataPoint,
            Metric,
        )

        points: dict[Any, list[HistogramDataPoint]] = {}
        common = genai_attributes(self._api, self._figures.model, self._figures.url)
        with self._lock:
            for spec, labels, counts in self._histograms:
                point = HistogramDataPoint(
                    attributes=common | dict(labels),
                    start_time_unix_nano=self._begun_ns,
                    time_unix_nano=time.time_ns(),
                    count=counts.count,
                    sum=counts.total,
                    bucket_counts=counts.buckets.tolist(),
                    explicit_bounds=spec.bounds,
                    min=counts.low,
                    max=counts.high,
                )
                points.setdefault(spec, []).append(point)
        return [
            Metric(spec.name, spec.help, spec.unit, Histogram(rows, AggregationTemporality.CUMULATIVE))
            for spec, rows in points.items()
        ]

    def close(self) -> None:
        """Push the last figures, unless the collector is failing."""
        self._ended.set()
        if not self._is_failing:
            self._thread.join(LAST_S)


def endpoint(url: str, *, option: str = "--otlp", path: str = METRICS_PATH) -> str:
    """Return the URL of a collector for this kind of data; an address without a path gets the collector's usual one."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(
            f"{option} '{url}' is not the address of a collector",
            remedy="use a form such as http://localhost:4318",
        )
    return parts._replace(path=path).geturl() if parts.path in ("", "/") else url
