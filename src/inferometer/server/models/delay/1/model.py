"""Sleeps for the number of seconds in INPUT0, then answers with INPUT0."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request.inputs()[0].as_numpy()) for request in requests]

    def _respond(self, seconds):
        time.sleep(max(0.0, float(seconds[0])))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", seconds)])
