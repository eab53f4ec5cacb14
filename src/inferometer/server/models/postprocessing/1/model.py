"""Raw scores in, the five likeliest labels out, each as `probability:label`, the best first."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

TOP = 5


class TritonPythonModel:
    def initialize(self, args):
        self.labels = Path(__file__).with_name("labels.txt").read_text(encoding="utf-8").splitlines()

    def execute(self, requests):
        return [self._respond(request.inputs()[0].as_numpy()) for request in requests]

    def _respond(self, scores):
        powers = np.exp(scores - scores.max())
        shares = powers / powers.sum()
        best = np.argsort(-shares, kind="stable")[:TOP]
        lines = [f"{shares[index]:.6f}:{self.labels[index]}".encode() for index in best]
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array(lines, dtype=np.object_))])
