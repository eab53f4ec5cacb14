"""Sum and difference of two rows of numbers."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class AddSub(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        inputs = {one.name: self.decode(one, default_codec=NumpyCodec) for one in payload.inputs}
        first, second = inputs["INPUT0"], inputs["INPUT1"]
        outputs = [
            NumpyCodec.encode_output("OUTPUT0", first + second),
            NumpyCodec.encode_output("OUTPUT1", first - second),
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)
