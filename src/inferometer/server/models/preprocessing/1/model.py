"""The bytes of a picture file in, a normalised 3x224x224 tensor out."""

import io

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image

SIDE = 224
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)


class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request.inputs()[0].as_numpy()) for request in requests]

    def _respond(self, encoded):
        try:
            pixels = prepare(encoded.tobytes())
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError(f"INPUT is not a picture that can be read: {error}")
            )
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", pixels)])


def prepare(encoded):
    with Image.open(io.BytesIO(encoded)) as picture:
        small = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    pixels = (np.asarray(small, dtype=np.float32) / 255 - MEAN) / DEVIATION
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
