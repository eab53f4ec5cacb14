"""A small vocoder by onnxruntime, in single precision: 20 bands of 128 frames in, 2048 samples of sound out."""

from pathlib import Path

import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        # One thread, so that variants differ by their arithmetic and not by how many cores they get.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        network = Path(__file__).with_name("model.onnx")
        self.session = onnxruntime.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        return [self._respond(request.inputs()[0].as_numpy()) for request in requests]

    def _respond(self, mel):
        (audio,) = self.session.run(["audio"], {"mel": mel[None]})
        return pb_utils.InferenceResponse([pb_utils.Tensor("AUDIO", audio.reshape(-1))])
