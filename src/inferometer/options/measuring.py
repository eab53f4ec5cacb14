"""Options of `measure` alone."""

from pathlib import Path

from inferometer.base.frozen import frozen
from inferometer.options.option import appended, ours
from inferometer.options.outputs import inconclusive_allowed
from inferometer.options.reach import Reach
from inferometer.options.values import label, path, server_url, share, text


@frozen
class MeasureOptions:
    """Options of `measure` alone."""

    models: tuple[str, ...] = ours(
        "-m --model",
        "Model to measure, or several as NAME:WEIGHT. A single model can be the second word on the command line; the "
        "requests of several are mixed on the same connections by weight: -m detector:3 -m classifier:1.",
        label("NAME"),
        group="Traffic",
        combine=appended,
        is_main=True,
    )
    scenario: str | None = ours(
        "--scenario",
        "Scenario with classes of traffic and phases: a YAML file, or the name of an included one (list shows them). "
        "-d then sets the total time of all phases.",
        text("FILE|NAME", Reach.RUNS_CODE | Reach.READS_FILES | Reach.NAMES_HOSTS),
        is_main=True,
    )
    allow_inconclusive: bool = inconclusive_allowed()
    schema: bool = ours("--schema", "Print the JSON Schema of scenarios and send nothing.")
    otlp_traces: str | None = ours(
        "--otlp-traces",
        "Send a share of the requests, the slowest and all failed ones as spans to this OpenTelemetry collector, such "
        "as http://localhost:4318. Sampled requests carry their ids to the server in traceparent.",
        server_url(),
        group="Requests for other tools",
    )
    trace_share: float | None = ours(
        "--trace-share",
        "Share of the requests that --otlp-traces samples (default: 1%); 100% sends traceparent with every request.",
        share(zero=True),
    )
    perfetto: Path | None = ours(
        "--perfetto",
        "Write the requests of every level as swim lanes to this file, a trace for ui.perfetto.dev; beyond 20,000 "
        "requests, a level is sampled.",
        path(),
    )
