"""Hands both inputs to addsub and answers with its OUTPUT0."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        inner = pb_utils.InferenceRequest(
            model_name="addsub", requested_output_names=["OUTPUT0"], inputs=request.inputs()
        ).exec()
        if inner.has_error():
            return pb_utils.InferenceResponse(error=inner.error())
        return pb_utils.InferenceResponse(inner.output_tensors())
