"""A model on the GPU, measured by us and by the real perf_analyzer in turns.

Run it as `python gpu_tests/side_by_side.py PERF_ANALYZER`.
Needs torch, a GPU, and the embedded Triton. Prints one line per run.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from inferometer.server.embedded import EmbeddedTriton

CONFIG = """
name: "mlp"
backend: "python"
max_batch_size: 64
input [ { name: "INPUT0" data_type: TYPE_FP16 dims: [ 1024 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP16 dims: [ 1024 ] } ]
instance_group [ { kind: KIND_GPU count: 1 } ]
dynamic_batching { }
parameters: { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value: { string_value: "no" } }
"""

MODEL = """
import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack


class TritonPythonModel:
    def initialize(self, args):
        layers = [torch.nn.Linear(1024, 1024) for _ in range(8)]
        self.net = torch.nn.Sequential(*layers).half().cuda().eval()

    def execute(self, requests):
        inputs = [from_dlpack(request.inputs()[0].to_dlpack()).cuda() for request in requests]
        with torch.no_grad():
            out = self.net(torch.cat(inputs))
        parts = torch.split(out, [part.shape[0] for part in inputs])
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUTPUT0", to_dlpack(part))]) for part in parts]
"""


def main(theirs: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "mlp"
        (model / "1").mkdir(parents=True)
        (model / "config.pbtxt").write_text(CONFIG)
        (model / "1" / "model.py").write_text(MODEL)
        with EmbeddedTriton(Path(folder), startup_timeout_s=180) as server:
            for memory in ("none", "system", "cuda"):
                for _ in range(3):
                    ours = [sys.executable, "-m", "inferometer.dialects.perf_analyzer.main"]
                    for name, command in (("ours", ours), ("perf_analyzer", [theirs])):
                        print(f"{memory:7} {name:14} {measure(command, server, memory)}", flush=True)
            print(
                subprocess.run(
                    [
                        *ours,
                        *words(server, "cuda"),
                        "--collect-metrics",
                        "--metrics-url",
                        f"http://{server.metrics_address}/metrics",
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                ).stdout
            )


def words(server: EmbeddedTriton, memory: str) -> list[str]:
    return [
        *("-m", "mlp", "-i", "grpc", "-u", server.grpc_address, "-b", "16", "--concurrency-range", "4"),
        *("--shared-memory", memory, "-p", "2000", "-s", "50"),
    ]


def measure(command: list[str], server: EmbeddedTriton, memory: str) -> str:
    done = subprocess.run(
        [*command, *words(server, memory)], capture_output=True, text=True, check=False, timeout=120
    )
    rate = re.search(r"Throughput: (\S+)", done.stdout)
    p50 = re.search(r"p50 latency: (\S+)", done.stdout)
    if rate is None or p50 is None:
        return f"failed with {done.returncode}: {done.stderr[-300:]}"
    return f"{rate[1]:>10} infer/s  p50 {p50[1]} us"


if __name__ == "__main__":
    main(sys.argv[1])
