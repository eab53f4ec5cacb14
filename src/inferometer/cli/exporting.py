"""Live export of a run's figures: `--prometheus` and `--otlp`; of its requests: `--otlp-traces` and `--perfetto`."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import to_stderr
from inferometer.stats.measurement import ADDRESS

if TYPE_CHECKING:
    from inferometer.measure.prepare import Setup
    from inferometer.options.measuring import MeasureOptions
    from inferometer.records.spans import Tracing
    from inferometer.report.spans import SpanExport, SpanSubject
    from inferometer.store.keeper import Keeper

TRACEPARENT = "traceparent"
TRACE_SHARE = 0.01


@contextmanager
def exporting(keeper: "Keeper", port: int | None, collector: str | None) -> Iterator[None]:
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
            from inferometer.cli.collectors import CollectorPost
            from inferometer.report.otlp import OtlpPush, endpoint

            post = CollectorPost(endpoint(collector), "METRICS")
            push = stack.enter_context(closing(OtlpPush(figures, post, _warn)))
            keeper.watch_also(push)
        yield


def check_request_export(own: "MeasureOptions", *, is_ray: bool) -> None:
    """Refuse combinations that cannot work, and files that cannot be written, before sending requests."""
    if own.perfetto is not None:
        from inferometer.base.writing import writable

        writable(own.perfetto)
    if own.otlp_traces is None:
        if own.trace_share is not None:
            raise UsageError(
                "--trace-share chooses the requests of --otlp-traces, which is not given",
                remedy="add --otlp-traces URL, or leave out --trace-share",
            )
        return
    other = "--scenario" if own.scenario is not None else "--ray" if is_ray else ""
    if other:
        raise UsageError(
            f"--otlp-traces is not supported with {other}", remedy=f"leave out --otlp-traces or {other}"
        )


@contextmanager
def exporting_requests(own: "MeasureOptions", keeper: "Keeper") -> "Iterator[SpanExport | None]":
    """Export requests as spans and swim lanes while the block runs, if requested; yield the receiver of spans."""
    lanes = None
    if own.perfetto is not None:
        from inferometer.report.perfetto import PerfettoTrace

        lanes = PerfettoTrace(own.perfetto)
        keeper.watch_also(lanes)
    if own.otlp_traces is None:
        yield None
    else:
        from inferometer.cli.collectors import CollectorPost
        from inferometer.report.otlp import TRACES_PATH, endpoint
        from inferometer.report.spans import SpanExport

        url = endpoint(own.otlp_traces, option="--otlp-traces", path=TRACES_PATH)
        with closing(SpanExport(CollectorPost(url, "TRACES"), _warn)) as spans:
            keeper.watch_also(spans)
            yield spans
    if lanes is not None:
        lanes.write()


def tracing_of(own: "MeasureOptions", setup: "Setup", spans: "SpanExport") -> "Tracing":
    """Return how the workers choose the requests that become spans."""
    from inferometer.records.spans import Tracing

    if any(name.lower() == TRACEPARENT for name, _ in setup.options.headers):
        raise UsageError(
            "--otlp-traces gives every sampled request its own traceparent header, but -H sets one too",
            remedy="leave out the header",
        )
    spans.subject = _subject(setup)
    return Tracing(TRACE_SHARE if own.trace_share is None else own.trace_share, spans)


def _subject(setup: "Setup") -> "SpanSubject":
    from inferometer.report.spans import SpanSubject

    settings, wiring = setup.level_settings, setup.traffic.wiring
    is_mixed = bool(settings.classes) and settings.class_mode != ADDRESS
    return SpanSubject(
        url=str(wiring.endpoint),
        protocol=wiring.protocol,
        models=tuple(row.name for row in settings.classes) if is_mixed else (setup.model.name,),
        model_of_step=settings.class_of_step if is_mixed else (),
        api=setup.result.effective.api,
    )


def _warn(text: str) -> None:
    to_stderr(f"WARNING: {text}")
