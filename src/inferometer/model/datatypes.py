"""The datatypes of the KServe v2 protocol, one row each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Datatype:
    """How one element looks in memory."""

    name: str
    numpy: str  # dtype that holds the raw bytes; BF16 is the upper half of a float32
    size: int  # bytes of an element; 0 for BYTES, whose elements carry their own length


DATATYPES = {
    row.name: row
    for row in (
        Datatype("BOOL", "bool", 1),
        Datatype("UINT8", "uint8", 1),
        Datatype("UINT16", "uint16", 2),
        Datatype("UINT32", "uint32", 4),
        Datatype("UINT64", "uint64", 8),
        Datatype("INT8", "int8", 1),
        Datatype("INT16", "int16", 2),
        Datatype("INT32", "int32", 4),
        Datatype("INT64", "int64", 8),
        Datatype("FP16", "float16", 2),
        Datatype("BF16", "uint16", 2),
        Datatype("FP32", "float32", 4),
        Datatype("FP64", "float64", 8),
        Datatype("BYTES", "object", 0),
    )
}
