"""A small vocoder in plain numpy: 20 bands of 128 frames in, 2048 samples of sound out."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        with np.load(Path(__file__).with_name("weights.npz")) as weights:
            self.weights = dict(weights)

    def execute(self, requests):
        return [self._respond(request.inputs()[0].as_numpy()) for request in requests]

    def _respond(self, mel):
        signal = rectify(self._convolve("before", mel))
        for stage in (0, 1):
            signal = rectify(self._convolve(f"up{stage}", np.repeat(signal, 4, axis=-1)))
            signal = signal + rectify(self._convolve(f"residual{stage}", signal, dilation=3))
        audio = np.tanh(self._convolve("after", signal))
        return pb_utils.InferenceResponse([pb_utils.Tensor("AUDIO", audio.reshape(-1))])

    def _convolve(self, layer, signal, dilation=1):
        kernel, bias = self.weights[f"{layer}.kernel"], self.weights[f"{layer}.bias"]
        size = kernel.shape[-1]
        margin = size // 2 * dilation
        padded = np.pad(signal, ((0, 0), (margin, margin)))
        length = signal.shape[-1]
        taps = np.stack([padded[:, tap * dilation : tap * dilation + length] for tap in range(size)], axis=1)
        return np.tensordot(kernel, taps, axes=((1, 2), (0, 1))) + bias[:, None]


def rectify(signal):
    return np.where(signal > 0, signal, np.float32(0.1) * signal)
