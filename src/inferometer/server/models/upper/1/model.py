"""OUTPUT0 is the text of INPUT0 in upper case."""

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", _upper(request.inputs()[0].as_numpy()))])
            for request in requests
        ]


def _upper(texts):
    flat = [text.decode("utf-8", "replace").upper().encode() for text in texts.ravel()]
    return numpy.array(flat, dtype=object).reshape(texts.shape)
