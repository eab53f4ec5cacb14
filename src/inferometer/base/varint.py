"""Integers of variable length, as in Protocol Buffers."""


def varint(value: int) -> bytes:
    """Encode an integer from 0 to 2**64 - 1."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
