"""Build the network of the example classifier: fixed architecture, untrained weights from a fixed seed.

Run `python -m tools.build_classifier` after a change here; a test compares the file with the script.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inferometer.server.repository import example_repository

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

SEED = 20
CLASSES = 100
SIDE = 224
CHANNELS = (3, 16, 32, 64)
KERNELS = (7, 3, 3)
# All supported runtimes read these versions; onnx would write newer ones that some cannot.
_OPSET = 17
_IR_VERSION = 8

Weight = npt.NDArray[np.float32]
Weights = dict[str, Weight]


def classifier_path() -> Path:
    """The committed network file."""
    return example_repository() / "classifier" / "1" / "model.onnx"


def classifier_weights(seed: int = SEED) -> Weights:
    """Return every weight of the network by name, scaled so that signals keep their size from layer to layer."""
    # RandomState, unlike Generator, guarantees the same numbers in every numpy version.
    random = np.random.RandomState(seed)
    weights: Weights = {}
    for layer, kernel in enumerate(KERNELS):
        inputs, outputs = CHANNELS[layer], CHANNELS[layer + 1]
        spread = (2 / (inputs * kernel * kernel)) ** 0.5
        weights[f"kernel{layer}"] = _normal(random, (outputs, inputs, kernel, kernel), spread)
        weights[f"bias{layer}"] = _normal(random, (outputs,), 0.1)
    weights["dense"] = _normal(random, (CHANNELS[-1], CLASSES), 1.0)
    weights["offset"] = _normal(random, (CLASSES,), 0.1)
    return weights


def build_classifier(weights: Weights) -> "ModelProto":
    """Build three strided convolutions, the mean over the picture, and one dense layer."""
    from onnx import TensorProto, checker, helper, numpy_helper

    graph = helper.make_graph(
        [*_convolutions(), *_head()],
        "classifier",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, CHANNELS[0], SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    checker.check_model(model)
    return model


def _convolutions() -> "list[NodeProto]":
    from onnx import helper

    nodes = []
    signal = "picture"
    for layer, kernel in enumerate(KERNELS):
        inputs = [signal, f"kernel{layer}", f"bias{layer}"]
        nodes += [
            helper.make_node("Conv", inputs, [f"conv{layer}"], strides=[2, 2], pads=[kernel // 2] * 4),
            helper.make_node("Relu", [f"conv{layer}"], [f"relu{layer}"]),
        ]
        signal = f"relu{layer}"
    return nodes


def _head() -> "list[NodeProto]":
    from onnx import helper

    last = f"relu{len(KERNELS) - 1}"
    return [
        helper.make_node("GlobalAveragePool", [last], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense", "offset"], ["scores"]),
    ]


def _normal(random: np.random.RandomState, shape: tuple[int, ...], spread: float) -> Weight:
    return (random.standard_normal(shape) * spread).astype(np.float32)


if __name__ == "__main__":
    classifier_path().write_bytes(build_classifier(classifier_weights()).SerializeToString())
