"""The live figures of a run as a page for Prometheus to scrape."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.options.names import option_name
from inferometer.report.live_export import LatestFigures

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

HOST = "127.0.0.1"


class PrometheusPage:
    """Served by a separate thread; figures are collected only on request."""

    def __init__(self, figures: LatestFigures, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError as error:
            raise UsageError(
                f"{option_name('--prometheus')} requires the package prometheus-client, which is not "
                "installed",
                remedy="pip install 'inferometer[prometheus]'",
            ) from error
        self._figures = figures
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, addr=HOST, registry=registry)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"{option_name('--prometheus')} {port}: {error}", remedy="use a free port, or 0 for any"
            ) from error

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/metrics"

    def collect(self) -> "Iterable[Metric]":
        """Yield the metrics; prometheus-client calls this for each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for figure, labels, value in self._figures.rows:
            name = figure.prometheus_name
            family = families.get(name)
            if family is None:
                made = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
                family = families[name] = made(name, figure.help, labels=list(labels))
            family.add_metric(list(labels.values()), value)
        return families.values()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
