"""Live export of a run's figures: `--prometheus` and `--otlp`."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from inferometer.base.text import to_stderr
from inferometer.store.keeper import Keeper


@contextmanager
def exporting(keeper: Keeper, port: int | None, collector: str | None) -> Iterator[None]:
    """Export live figures while the block runs, if requested."""
    if port is None and collector is None:
        yield
        return
    from inferometer.report.live_export import LatestFigures

    figures = LatestFigures(command=keeper.run.command, run=keeper.run.id)
    keeper.tell_also(figures.tell)
    with ExitStack() as stack:
        if port is not None:
            from inferometer.report.prometheus import PrometheusPage

            page = stack.enter_context(closing(PrometheusPage(figures, port)))
            to_stderr(f"Live figures for Prometheus: {page.url}")
        if collector is not None:
            from inferometer.report.otlp import OtlpPush

            stack.enter_context(closing(OtlpPush(figures, collector, _warn)))
        yield


def _warn(text: str) -> None:
    to_stderr(f"WARNING: {text}")
