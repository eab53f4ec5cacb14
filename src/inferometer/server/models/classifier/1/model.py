"""A small convolutional network: 3x224x224 in, 100 raw scores out."""

from pathlib import Path

import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        # One thread per instance, so that instances and not hidden threads decide how many cores are used.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        network = Path(__file__).with_name("model.onnx")
        self.session = onnxruntime.InferenceSession(str(network), options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        return [self._respond(request.inputs()[0].as_numpy()) for request in requests]

    def _respond(self, picture):
        (scores,) = self.session.run(["scores"], {"picture": picture[None]})
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", scores[0])])
