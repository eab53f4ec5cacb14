"""HTTP/2 frames and header blocks, built without any check, so that a fault server can send invalid ones."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS, PADDED, ACK = 1, 4, 8, 1
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 3, 4, 5
LARGEST = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BHBBL", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def block(*pairs: tuple[str, str]) -> bytes:
    """Build a header block of literals without indexing. It starts with a table of size 0, as the client requests."""
    return b"\x20" + b"".join(b"\0" + _text(name) + _text(value) for name, value in pairs)


def _text(text: str) -> bytes:
    raw = text.encode("latin-1")
    if len(raw) < 127:
        return bytes([len(raw)]) + raw
    size, parts = len(raw) - 127, bytearray([127])
    while size >= 128:
        parts.append(size % 128 + 128)
        size //= 128
    parts.append(size)
    return bytes(parts) + raw


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", name, value) for name, value in pairs))


def goaway(last: int, code: int = 0, text: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">LL", last, code) + text)


def rst_stream(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">L", code))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">L", increment))


def message(data: bytes, flag: int = 0) -> bytes:
    """Build a gRPC message with its prefix."""
    return struct.pack(">BL", flag, len(data)) + data
