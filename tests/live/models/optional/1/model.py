"""OUTPUT0 is the sum of whichever inputs came, zero without any."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        total = sum((tensor.as_numpy() for tensor in request.inputs()), np.zeros((1, 1), dtype=np.int32))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", total)])
