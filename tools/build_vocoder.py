"""Build the networks of the example vocoder: one architecture and one set of weights, in four variants.

Run `python -m tools.build_vocoder` after a change here; a test compares the files with the script.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inferometer.server.repository import vocoder_repository

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

SEED = 7
BANDS = 20
FRAMES = 128
UPSAMPLING = 4  # applied twice: 16 samples of sound for each frame
KERNEL = 7
# name: channels in, channels out, dilation
LAYERS = {
    "before": (BANDS, 32, 1),
    "up0": (32, 16, 1),
    "residual0": (16, 16, 3),
    "up1": (16, 8, 1),
    "residual1": (8, 8, 3),
    "after": (8, 1, 1),
}
SLOPE = 0.1  # slope of the leaky rectifiers below 0
_OPSET = 17
_IR_VERSION = 8

Weight = npt.NDArray[np.float32]
Weights = dict[str, Weight]


def vocoder_weights(seed: int = SEED) -> Weights:
    """Return every weight by name, scaled so that signals keep their size from layer to layer."""
    # RandomState, unlike Generator, guarantees the same numbers in every numpy version.
    random = np.random.RandomState(seed)
    weights: Weights = {}
    for name, (inputs, outputs, _) in LAYERS.items():
        spread = (1.5 / (inputs * KERNEL)) ** 0.5
        weights[f"{name}.kernel"] = (random.standard_normal((outputs, inputs, KERNEL)) * spread).astype(
            np.float32
        )
        weights[f"{name}.bias"] = (random.standard_normal(outputs) * 0.05).astype(np.float32)
    return weights


def example_mel(seed: int) -> Weight:
    """Return one input: bands that rise and fall smoothly, like those of a voice."""
    random = np.random.RandomState(seed)
    steps = random.standard_normal((1, BANDS, FRAMES + 7)).astype(np.float32)
    smooth = np.lib.stride_tricks.sliding_window_view(steps, 8, axis=-1).mean(axis=-1) * 2
    return np.ascontiguousarray(smooth, dtype=np.float32)


def build_vocoder(weights: Weights, *, is_half: bool = False) -> "ModelProto":
    """Build the network from bands to sound, both in FP32; `is_half` computes in FP16 internally."""
    from onnx import TensorProto, checker, helper, numpy_helper

    number = np.float16 if is_half else np.float32
    graph = helper.make_graph(
        _nodes(is_half=is_half),
        "vocoder",
        [helper.make_tensor_value_info("mel", TensorProto.FLOAT, [1, BANDS, FRAMES])],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, 1, FRAMES * UPSAMPLING**2])],
        [
            numpy_helper.from_array(np.array([1, 1, UPSAMPLING], dtype=np.float32), "scales"),
            *(numpy_helper.from_array(array.astype(number), name) for name, array in weights.items()),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    checker.check_model(model)
    return model


def _nodes(*, is_half: bool) -> "list[NodeProto]":
    from onnx import TensorProto, helper

    signal = "mel"
    nodes: list[NodeProto] = []
    if is_half:
        nodes.append(helper.make_node("Cast", [signal], ["half"], to=TensorProto.FLOAT16))
        signal = "half"
    nodes += [_convolution("before", signal), _rectifier("before")]
    signal = "before.out"
    for stage in (0, 1):
        up, residual = f"up{stage}", f"residual{stage}"
        nodes += [
            helper.make_node(
                "Resize",
                [signal, "", "scales"],
                [f"{up}.in"],
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            ),
            _convolution(up, f"{up}.in"),
            _rectifier(up),
            _convolution(residual, f"{up}.out"),
            _rectifier(residual),
            helper.make_node("Add", [f"{up}.out", f"{residual}.out"], [f"{residual}.sum"]),
        ]
        signal = f"{residual}.sum"
    end = "half.audio" if is_half else "audio"
    nodes += [_convolution("after", signal), helper.make_node("Tanh", ["after.raw"], [end])]
    if is_half:
        nodes.append(helper.make_node("Cast", [end], ["audio"], to=TensorProto.FLOAT))
    return nodes


def _convolution(name: str, signal: str) -> "NodeProto":
    from onnx import helper

    dilation = LAYERS[name][2]
    padding = KERNEL // 2 * dilation
    return helper.make_node(
        "Conv",
        [signal, f"{name}.kernel", f"{name}.bias"],
        [f"{name}.raw"],
        dilations=[dilation],
        pads=[padding, padding],
    )


def _rectifier(name: str) -> "NodeProto":
    from onnx import helper

    return helper.make_node("LeakyRelu", [f"{name}.raw"], [f"{name}.out"], alpha=SLOPE)


def quantize(model: "ModelProto") -> "ModelProto":
    """Convert the network to 8-bit weights and signals, calibrated on a few inputs."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._inputs = iter([{"mel": example_mel(seed)} for seed in range(8)])

        def get_next(self) -> dict[str, Weight] | None:
            return next(self._inputs, None)

    with tempfile.TemporaryDirectory() as folder:
        whole, quantized = Path(folder) / "whole.onnx", Path(folder) / "quantized.onnx"
        whole.write_bytes(model.SerializeToString())
        quantize_static(
            whole,
            quantized,
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["Conv"],
        )
        return onnx.load(quantized)


if __name__ == "__main__":
    weights = vocoder_weights()
    whole = build_vocoder(weights)
    for variant, network in (
        ("fp32", whole),
        ("fp16", build_vocoder(weights, is_half=True)),
        ("int8", quantize(whole)),
    ):
        path = vocoder_repository() / f"vocoder_{variant}" / "1" / "model.onnx"
        path.write_bytes(network.SerializeToString())
    np.savez(vocoder_repository() / "vocoder_numpy" / "1" / "weights.npz", **weights)
