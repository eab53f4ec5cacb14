"""OUTPUT0 is the difference of the two inputs, OUTPUT1 their sum."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        left, right = inputs["INPUT0"], inputs["INPUT1"]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUTPUT0", left - right), pb_utils.Tensor("OUTPUT1", left + right)]
        )
