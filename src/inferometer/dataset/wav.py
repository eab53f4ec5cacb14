"""Sound files: RIFF/WAVE with integer or float samples.

The standard library's `wave` does not support float samples, and only from Python 3.12 on the extensible header of
24-bit and multi-channel files; the format is a list of chunks, of which two matter.
"""

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferometer.base.frozen import frozen

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_HEADER = struct.Struct("<4sI4s")
_CHUNK = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")
_SUBFORMAT = 24  # offset of the real format in an extensible header
_SAMPLES = {
    (_PCM, 8): "u1",
    (_PCM, 16): "<i2",
    (_PCM, 24): "",
    (_PCM, 32): "<i4",
    (_FLOAT, 32): "<f4",
    (_FLOAT, 64): "<f8",
}


class WavError(ValueError):
    """The bytes are not a supported sound file."""


@frozen
class Sound:
    """Samples of shape [frames, channels]; 24-bit samples are the upper three bytes of 32."""

    samples: NDArray[Any]
    bits: int

    @property
    def form(self) -> str:
        return f"{self.bits}-bit {'float' if self.samples.dtype.kind == 'f' else 'integer'}"

    def fractions(self) -> NDArray[Any]:
        """Return samples scaled to -1..1; floats unchanged."""
        kind = self.samples.dtype
        if kind.kind == "f":
            return self.samples
        if kind.itemsize == 1:  # 8 bits are unsigned, silence is 128
            return (self.samples.astype(np.float64) - 128) / 128
        return self.samples.astype(np.float64) / 2.0 ** (8 * kind.itemsize - 1)


def parse_wav(data: bytes) -> Sound:
    """Parse the bytes of a .wav file."""
    if len(data) < _HEADER.size or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise WavError("it has no RIFF header")
    chunks: dict[bytes, bytes] = {}
    for name, body in _chunks(data):
        chunks.setdefault(name, body)
    if b"fmt " not in chunks or len(chunks[b"fmt "]) < _FORMAT.size or b"data" not in chunks:
        raise WavError("it has no format or data chunk")
    header = chunks[b"fmt "]
    tag, channels, _, _, _, bits = _FORMAT.unpack_from(header)
    if tag == _EXTENSIBLE and len(header) >= _SUBFORMAT + 2:
        (tag,) = struct.unpack_from("<H", header, _SUBFORMAT)
    if (tag, bits) not in _SAMPLES or channels == 0:
        raise WavError(f"format {tag} with {bits} bits and {channels} channels is not supported")
    return Sound(_samples(chunks[b"data"], _SAMPLES[tag, bits], bits // 8 * channels, channels), bits)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = _HEADER.size
    while position + _CHUNK.size <= len(data):
        name, size = _CHUNK.unpack_from(data, position)
        begin = position + _CHUNK.size
        yield name, data[begin : begin + size]  # an interrupted recording leaves a size that is too large
        position = begin + size + size % 2


def _samples(data: bytes, dtype: str, frame: int, channels: int) -> NDArray[Any]:
    whole = len(data) // frame * frame
    if dtype:
        return np.frombuffer(data, dtype=dtype, count=whole // np.dtype(dtype).itemsize).reshape(-1, channels)
    triples = np.frombuffer(data, dtype=np.uint8, count=whole).reshape(-1, 3)
    padded = np.zeros((len(triples), 4), dtype=np.uint8)
    padded[:, 1:] = triples
    return padded.view("<i4").reshape(-1, channels)
