"""Sends a response for each element of IN, after its DELAY in milliseconds; sleeps for WAIT before the next
request."""

import threading
import time

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            values, delays, (wait,) = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in ("IN", "DELAY", "WAIT")
            )
            sender = request.get_response_sender()
            threading.Thread(target=self._respond, args=(sender, values, delays), daemon=True).start()
            time.sleep(int(wait) / 1000)

    def _respond(self, sender, values, delays):
        for index, (value, delay) in enumerate(zip(values, delays, strict=True)):
            time.sleep(int(delay) / 1000)
            out = pb_utils.Tensor("OUT", numpy.array([value], numpy.int32))
            place = pb_utils.Tensor("IDX", numpy.array([index], numpy.uint32))
            sender.send(pb_utils.InferenceResponse([out, place]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
