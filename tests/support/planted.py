"""Model repositories with a known bottleneck, for a real Triton: steps that sleep or keep a core busy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CODE = '''"""Takes as long as its configuration says, then answers with its input."""

import json
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        given = json.loads(args["model_config"])["parameters"]
        self.sleep_s, self.item_sleep_s, self.spin_s, self.item_spin_s = (
            float(given[name]["string_value"]) / 1000 for name in ("sleep", "item_sleep", "spin", "item_spin")
        )

    def execute(self, requests):
        inputs = [request.inputs()[0].as_numpy() for request in requests]
        items = sum(len(values) for values in inputs)
        time.sleep(self.sleep_s + items * self.item_sleep_s)
        until_s = time.thread_time() + self.spin_s + items * self.item_spin_s
        while time.thread_time() < until_s:
            pass
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", values)]) for values in inputs]
'''

TENSORS = """max_batch_size: 8
input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


@dataclass(frozen=True, slots=True)
class PlantedStep:
    """Milliseconds per execution and per inference: asleep, and busy on a core."""

    name: str
    sleep_ms: float = 0.0
    item_sleep_ms: float = 0.0
    spin_ms: float = 0.0
    item_spin_ms: float = 0.0
    instances: int = 1

    def config(self) -> str:
        given = {
            "sleep": self.sleep_ms,
            "item_sleep": self.item_sleep_ms,
            "spin": self.spin_ms,
            "item_spin": self.item_spin_ms,
        }
        parameters = "".join(
            f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}\n'
            for name, value in given.items()
        )
        group = f"instance_group [ {{ kind: KIND_CPU count: {self.instances} }} ]\n"
        return f'backend: "python"\n{TENSORS}{group}{parameters}'


@dataclass(frozen=True, slots=True)
class Planted:
    """An ensemble and the expected findings about it."""

    name: str
    steps: tuple[PlantedStep, ...]
    kind: str
    culprit: str

    def models(self) -> tuple[str, ...]:
        return (self.name, *(step.name for step in self.steps))

    def config(self) -> str:
        return ensemble(TENSORS, [step.name for step in self.steps])


def ensemble(tensors: str, names: Sequence[str]) -> str:
    """Configuration of an ensemble of consecutive models, each with one INPUT and one OUTPUT."""
    passed = ["INPUT", *(f"after_{name}" for name in names[:-1]), "OUTPUT"]
    steps = ",\n".join(
        f'{{ model_name: "{name}" model_version: -1 '
        f'input_map {{ key: "INPUT" value: "{given}" }} output_map {{ key: "OUTPUT" value: "{made}" }} }}'
        for name, given, made in zip(names, passed, passed[1:], strict=False)
    )
    return f'platform: "ensemble"\n{tensors}ensemble_scheduling {{ step [\n{steps}\n] }}\n'


SLOW_FIRST = Planted(
    "slow_first",
    (
        PlantedStep("first_fetch", item_sleep_ms=60.0),
        PlantedStep("first_model", item_sleep_ms=6.0),
        PlantedStep("first_sort", item_sleep_ms=2.0),
    ),
    kind="compute",
    culprit="first_fetch",
)
NO_BATCHES = Planted(
    "no_batches",
    (
        PlantedStep("batch_fetch", item_sleep_ms=4.0),
        PlantedStep("batch_model", sleep_ms=40.0, item_sleep_ms=2.0),
        PlantedStep("batch_sort", item_sleep_ms=2.0),
    ),
    kind="batching",
    culprit="batch_model",
)
NO_CORES = Planted(
    "no_cores",
    (
        PlantedStep("cores_fetch", item_sleep_ms=2.0),
        PlantedStep("cores_model", spin_ms=24.0, item_spin_ms=2.0, instances=4),
    ),
    kind="cpu",
    culprit="cores_model",
)
PLANTED = (SLOW_FIRST, NO_BATCHES, NO_CORES)


def plant(folder: Path, pipelines: tuple[Planted, ...] = PLANTED) -> Path:
    """Write the model repository into a folder."""
    for pipeline in pipelines:
        (folder / pipeline.name / "1").mkdir(parents=True)
        (folder / pipeline.name / "config.pbtxt").write_text(pipeline.config())
        plant_steps(folder, pipeline.steps)
    return folder


def plant_steps(folder: Path, steps: Sequence[PlantedStep]) -> Path:
    """Write individual models into a folder."""
    for step in steps:
        (folder / step.name / "1").mkdir(parents=True)
        (folder / step.name / "1" / "model.py").write_text(_CODE)
        (folder / step.name / "config.pbtxt").write_text(step.config())
    return folder
