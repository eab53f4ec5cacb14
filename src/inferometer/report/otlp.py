"""Push the live figures of a run to an OpenTelemetry collector over HTTP.

A separate thread does this. If the collector fails or does not respond, one warning is shown; the run continues, and
the thread keeps trying.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from inferometer import __version__
from inferometer.base.errors import UsageError
from inferometer.report.live_export import FIGURES, LatestFigures

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

PERIOD_S = 1.0
TIMEOUT_S = 2.0  # per push
LAST_S = 1.0  # wait for the last push at the end of a run, if the previous one succeeded
PATH = "/v1/metrics"


class OtlpPush:
    """Starts pushing when it is created."""

    def __init__(self, figures: LatestFigures, url: str, warn: Callable[[str], None]) -> None:
        self._url = endpoint(url)
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import InMemoryMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise UsageError(
                "--otlp requires the OpenTelemetry packages, which are not installed",
                remedy="pip install 'inferometer[otlp]'",
            ) from error
        for name in ("opentelemetry.exporter", "opentelemetry.sdk"):  # they log every failure; we warn once
            logger = logging.getLogger(name)
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        self._figures = figures
        self._warn = warn
        self._is_failing = self._has_warned = False
        self._ended = threading.Event()
        self._reader = InMemoryMetricReader()
        self._exporter = OTLPMetricExporter(self._url, timeout=TIMEOUT_S)
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

    def _push_on(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self._push()
        self._push()  # the figures at the end

    def _push(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        data = self._reader.get_metrics_data()
        if data is None:  # no figures yet
            return
        self._is_failing = self._exporter.export(data) is not MetricExportResult.SUCCESS
        if self._is_failing and not self._has_warned:
            self._has_warned = True
            self._warn(f"--otlp cannot push figures to {self._url}; the run continues")

    def close(self) -> None:
        """Push the last figures, unless the collector is failing."""
        self._ended.set()
        if not self._is_failing:
            self._thread.join(LAST_S)
        self._exporter.shutdown()


def endpoint(url: str) -> str:
    """The URL for metrics; an address without a path gets the collector's usual one."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(
            f"--otlp '{url}' is not the address of a collector",
            remedy="use a form such as http://localhost:4318",
        )
    return parts._replace(path=PATH).geturl() if parts.path in ("", "/") else url
