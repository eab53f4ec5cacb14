"""Triton in process against the same Triton behind a socket: median latency of `simple` at concurrency 1."""

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import Contest, Sample, Setting
from benchmarks.children import run

MODEL = "simple"
_MARGIN_S = 60


@contextlib.contextmanager
def in_process_p50(setting: Setting) -> Iterator[Contest]:
    """Compare the in-process library with the faster of HTTP and gRPC, all measured by our tool."""
    from inferometer.server.embedded import EmbeddedTriton
    from inferometer.server.repository import example_repository

    with EmbeddedTriton(load_models=(MODEL,)) as server, tempfile.TemporaryDirectory() as folder:

        def p50_us(*words: str) -> float:
            path = Path(folder) / "result.json"
            command = [sys.executable, "-m", "inferometer.cli.main", "measure", "-m", MODEL, *words]
            command += ["-n", "50"] if setting.is_smoke else ["--duration", f"{setting.seconds:g}s"]
            run([*command, "--json", str(path)], timeout_s=setting.seconds + _MARGIN_S)
            level = json.loads(path.read_text())["levels"][0]
            return float(dict(level["measurement"]["latency"]["percentiles"])[50.0]) / 1e3

        def ours() -> Sample:
            return Sample(
                p50_us("--service-kind", "triton_c_api", "--model-repository", str(example_repository()))
            )

        def theirs() -> Sample:
            http = p50_us("-u", server.http_address)
            grpc = p50_us("-i", "grpc", "-u", server.grpc_address)
            return Sample(min(http, grpc), {"HTTP us": http, "gRPC us": grpc})

        yield Contest(ours, theirs)
