"""OUTPUT is the sum of INPUT over the sequence so far, STEP the number of the request in it, from 0.

A request that does not fit, because its sequence has not started or has started already, is refused.
"""

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.live = {}  # correlation id -> (sum, requests)

    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        value, starts, ends, sequence = (
            int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0])
            for name in ("INPUT", "START", "END", "CORRID")
        )
        if bool(starts) == (sequence in self.live):
            said = "starts, but has already started" if starts else "continues, but has not started"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"sequence {sequence} {said}"))
        total, step = self.live.pop(sequence, (0, 0))
        if not ends:
            self.live[sequence] = ((total + value) & 0x7FFFFFFF, step + 1)
        return pb_utils.InferenceResponse(
            [_tensor("OUTPUT", (total + value) & 0x7FFFFFFF), _tensor("STEP", step)]
        )


def _tensor(name, value):
    return pb_utils.Tensor(name, numpy.array([[value]], numpy.int32))
