"""What one response on a ModelStreamInfer stream means."""

from typing import NamedTuple

from inferometer.wire.protobuf import fields

ERROR_MESSAGE, INFER_RESPONSE = 1, 2  # fields of ModelStreamInferResponse
ID, PARAMETERS, OUTPUTS = 3, 4, 5  # of ModelInferResponse
KEY, VALUE = 1, 2  # of a map's entry
BOOL = 1  # of InferParameter
FINAL = b"triton_final_response"

REQUEST_ID = 3  # field of ModelInferRequest


class StreamReply(NamedTuple):
    """`request_id` tells whose it is; a final response without data only says that the request is over."""

    request_id: bytes
    error: str
    has_data: bool
    is_final: bool


def read_stream_reply(message: bytes | bytearray | memoryview) -> StreamReply:
    """A response without the final flag ends its request, as servers without decoupled models send it."""
    error, request_id, has_data, is_final = "", b"", False, True
    for number, value in fields(memoryview(message)):
        if number == ERROR_MESSAGE and isinstance(value, memoryview):
            error = bytes(value).decode("utf-8", "replace")
        elif number == INFER_RESPONSE and isinstance(value, memoryview):
            for inner, part in fields(value):
                if inner == ID and isinstance(part, memoryview):
                    request_id = bytes(part)
                elif inner == OUTPUTS:
                    has_data = True
                elif inner == PARAMETERS and isinstance(part, memoryview):
                    is_final = _final(part, is_final)
    return StreamReply(request_id, error, has_data, is_final)


def infer_response(message: bytes | bytearray | memoryview) -> memoryview:
    """The ModelInferResponse inside a stream's response; empty when there is none."""
    found = dict(fields(memoryview(message))).get(INFER_RESPONSE)
    return found if isinstance(found, memoryview) else memoryview(b"")


def _final(entry: memoryview, known: bool) -> bool:
    parts = dict(fields(entry))
    key, value = parts.get(KEY), parts.get(VALUE)
    if not isinstance(key, memoryview) or bytes(key) != FINAL:
        return known
    flag = dict(fields(value)).get(BOOL) if isinstance(value, memoryview) else None
    return isinstance(flag, int) and flag != 0
