"""Text in capitals."""

from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Upper(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        texts = self.decode(payload.inputs[0], default_codec=StringCodec)
        output = StringCodec.encode_output("OUT", [text.upper() for text in texts])
        return InferenceResponse(model_name=self.name, outputs=[output])
