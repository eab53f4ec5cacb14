"""Models on a GPU with a known limit, for a real Triton; they need only torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.diagnose.diagnosis import COPY, FEED, GPU, GPU_MEMORY, LAUNCH
from inferometer.server.embedded import EmbeddedTriton
from tests.support.planted import ensemble

# Each has `prepare(given)`, which makes what it works with, and `work(self, x)`: a batch of rows in, as many out.
_CODE = '''"""Planted: {name}."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

{imports}

class TritonPythonModel:
    def initialize(self, args):
        self.given = {{
            name: value["string_value"] for name, value in json.loads(args["model_config"])["parameters"].items()
        }}
{prepare}

    def work(self, x):
{work}

    def execute(self, requests):
        inputs = [request.inputs()[0].as_numpy() for request in requests]
        made = self.work(np.concatenate(inputs))
        parts, start = [], 0
        for rows in inputs:
            parts.append(made[start : start + len(rows)])
            start += len(rows)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", part)]) for part in parts]
'''
_TORCH = "import torch\n\ntorch.set_grad_enabled(False)\ntorch.set_num_threads(1)\n"
_MATMUL = (
    """self.weight = torch.randn(4096, 4096, device="cuda", dtype=torch.half) / 64
self.rounds = int(self.given["rounds"])""",
    """rows = []
for value in torch.from_numpy(x).cuda().half():
    y = self.weight * value[0]
    for _ in range(self.rounds):
        y = y @ self.weight
    rows.append(y[0, :4].float())
return torch.stack(rows).cpu().numpy()""",
)
_SMALL_LAYERS = (
    """self.layers = [torch.randn(64, 64, device="cuda") / 8 for _ in range(int(self.given["layers"]))]
total = torch.cuda.get_device_properties(0).total_memory
self.ballast = torch.zeros(int(total * float(self.given.get("ballast", 0))), dtype=torch.uint8, device="cuda")""",
    """y = torch.from_numpy(x).cuda().repeat(1, 16)
for layer in self.layers:
    y = torch.tanh(y @ layer)
return y[:, :4].cpu().numpy()""",
)
_ELEMENTWISE = (
    """self.large = torch.ones(1 << 26, device="cuda")
self.rounds = int(self.given["rounds"])""",
    """rows = []
for value in torch.from_numpy(x).cuda():
    for _ in range(self.rounds):
        self.large.mul_(1.0001)
    rows.append(self.large[:4] * value[0])
return torch.stack(rows).cpu().numpy()""",
)
_SPIN = (
    "self.spin_s = float(self.given['spin']) / 1000",
    """until_s = time.thread_time() + self.spin_s * len(x)
while time.thread_time() < until_s:
    pass
return x""",
)
_MLP = (
    "self.net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).half().cuda().eval()",
    "return self.net(torch.from_numpy(x).cuda()).cpu().numpy()",
)
_IMAGES = (
    "self.kernel = torch.randn(1, device='cuda')",
    "return (torch.from_numpy(x).cuda() * self.kernel).cpu().numpy()",
)


@dataclass(frozen=True, slots=True)
class PlantedModel:
    """One model: what it does, and how it is configured."""

    name: str
    code: tuple[str, str]
    parameters: Mapping[str, object] = field(default_factory=dict)
    kind: str = "KIND_GPU"
    max_batch: int = 32
    instances: int = 1
    is_batching: bool = False
    values: int = 4
    datatype: str = "TYPE_FP32"

    def config(self) -> str:
        parameters = "".join(
            f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}\n'
            for name, value in ({"name": self.name} | dict(self.parameters)).items()
        )
        batching = "dynamic_batching { }\n" if self.is_batching else ""
        group = f"instance_group [ {{ kind: {self.kind} count: {self.instances} }} ]\n"
        return f'backend: "python"\n{self.tensors()}{group}{batching}{parameters}'

    def tensors(self) -> str:
        # Without batches the first dimension is the model's own: one row.
        dims = f"{self.values}" if self.max_batch else f"1, {self.values}"
        tensor = f"data_type: {self.datatype} dims: [ {dims} ]"
        return (
            f"max_batch_size: {self.max_batch}\n"
            f'input [ {{ name: "INPUT" {tensor} }} ]\noutput [ {{ name: "OUTPUT" {tensor} }} ]\n'
        )

    def source(self) -> str:
        prepare, work = (text.splitlines() for text in self.code)
        return _CODE.format(
            name=self.name,
            imports=_TORCH if self.kind == "KIND_GPU" else "",
            prepare="\n".join(f"        {line}" for line in prepare),
            work="\n".join(f"        {line}" for line in work),
        )


@dataclass(frozen=True, slots=True)
class PlantedLimit:
    """What is measured: a model, or an ensemble of several, and the verdict that is right."""

    name: str
    models: tuple[PlantedModel, ...]
    kinds: tuple[str, ...]
    culprit: str | None
    concurrency: tuple[int, int] | None = None

    def ensemble(self) -> str:
        return ensemble(self.models[0].tensors(), [model.name for model in self.models])


COMPUTE_BOUND = PlantedLimit(
    "compute", (PlantedModel("compute", _MATMUL, {"rounds": 16}),), (GPU,), "compute"
)
LAUNCH_BOUND = PlantedLimit(
    "launch", (PlantedModel("launch", _SMALL_LAYERS, {"layers": 200}),), (LAUNCH,), "launch"
)
MEMORY_BOUND = PlantedLimit(
    "bandwidth", (PlantedModel("bandwidth", _ELEMENTWISE, {"rounds": 20}),), (GPU,), "bandwidth"
)
PREPROCESSED = PlantedLimit(
    "pictures",
    (
        PlantedModel("decode", _SPIN, {"spin": 8}, kind="KIND_CPU"),
        PlantedModel("network", _SMALL_LAYERS, {"layers": 20}),
    ),
    (FEED,),
    "decode",
)
TWO_ON_ONE = PlantedLimit(
    "both",
    (PlantedModel("lighter", _MATMUL, {"rounds": 6}), PlantedModel("heavier", _MATMUL, {"rounds": 18})),
    (GPU,),
    "heavier",
)
FULL_MEMORY = PlantedLimit(
    "ballast",
    (PlantedModel("ballast", _SMALL_LAYERS, {"layers": 200, "ballast": 0.6}, max_batch=0),),
    (GPU_MEMORY,),
    "ballast",
)
MLP = PlantedLimit(
    "mlp",
    (
        PlantedModel(
            "mlp", _MLP, max_batch=64, instances=4, is_batching=True, values=1024, datatype="TYPE_FP16"
        ),
    ),
    (GPU, FEED, LAUNCH),
    "mlp",
    concurrency=(1, 64),
)
COPIED = PlantedLimit(
    "copied", (PlantedModel("copied", _IMAGES, values=1 << 21, max_batch=8),), (COPY,), None
)
PLANTED = (COMPUTE_BOUND, LAUNCH_BOUND, MEMORY_BOUND, PREPROCESSED, TWO_ON_ONE, FULL_MEMORY)
ALL = (*PLANTED, MLP, COPIED)


def plant(folder: Path, limits: tuple[PlantedLimit, ...]) -> Path:
    """The repository in a folder."""
    for limit in limits:
        for model in limit.models:
            (folder / model.name / "1").mkdir(parents=True)
            (folder / model.name / "1" / "model.py").write_text(model.source())
            (folder / model.name / "config.pbtxt").write_text(model.config())
        if len(limit.models) > 1:
            (folder / limit.name / "1").mkdir(parents=True)
            (folder / limit.name / "config.pbtxt").write_text(limit.ensemble())
    return folder


def embedded(repository: Path, log_file: Path | None = None) -> EmbeddedTriton:
    """A server of these models, not started yet. Torch takes its time on a machine that has just started."""
    arguments = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
    return EmbeddedTriton(repository, startup_timeout_s=180, extra_args=arguments, log_file=log_file)
