"""How a request says which sequence it belongs to, and which it is, without being rendered again."""

from inferometer.wire.protobuf import LENGTH, VARINT, varint

Mark = tuple[int, bool, bool]
"""Sequence id, whether it starts, whether it ends."""

_FORM = '"sequence_id":{:<20},"sequence_start":{:<5},"sequence_end":{:<5}'

PLACE = _FORM.format("", "", "").encode()
"""What stands in a rendered HTTP request where the mark goes; JSON allows blanks behind a value."""


ID_PLACE = b'""' + b" " * 20
"""What stands in a rendered HTTP request where an id goes that is put in each time it is sent."""


def http_mark(mark: Mark) -> bytes:
    """As long as PLACE, so that no length in the request changes."""
    sequence_id, is_start, is_end = mark
    return _FORM.format(sequence_id, _word(is_start), _word(is_end)).encode()


def _word(flag: bool) -> str:
    return "true" if flag else "false"


PARAMETERS = 4  # field of ModelInferRequest
_KEY, _VALUE = 1, 2
_BOOL, _INT64 = 1, 2


def grpc_mark(mark: Mark) -> bytes:
    """Parameters to append to a message: fields of a message may come in any order."""
    sequence_id, is_start, is_end = mark
    return (
        _parameter(b"sequence_id", _INT64, sequence_id)
        + _parameter(b"sequence_start", _BOOL, is_start)
        + _parameter(b"sequence_end", _BOOL, is_end)
    )


def _parameter(name: bytes, kind: int, value: int) -> bytes:
    inner = varint(kind << 3 | VARINT) + varint(value)
    entry = _chunk(_KEY, name) + _chunk(_VALUE, inner)
    return _chunk(PARAMETERS, entry)


def _chunk(number: int, data: bytes) -> bytes:
    return varint(number << 3 | LENGTH) + varint(len(data)) + data
