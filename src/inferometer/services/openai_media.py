"""Images and sounds in chat messages: files named in a prompt, and generated ones of a given size.

A word such as `@photo.jpg` in a prompt is the file of that name, relative to the folder in which the command runs;
`@"my photo.jpg"` may contain blanks. Only words with the suffix of an image or a sound count as files: `@home` is text.

Generated media differ from request to request, to avoid cache hits in the server, and are the same for the same seed.
Images are PNG files of coloured squares: a server decodes them to the requested number of pixels, but they have fewer
bytes than a photo of that size. Sounds are WAV files of noise, 16 bits at 16 kHz, one channel.
"""

import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from inferometer.base.confined import check_path
from inferometer.base.reading import MIB, read_file

Part = Mapping[str, Any]
"""A part of a message in the form of chat completions."""

IMAGES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
}
SOUNDS = ("wav", "mp3", "flac", "ogg", "m4a")
RATE_HZ = 16_000  # sampling rate of speech models
MEDIUM = 256 * MIB  # maximum bytes of a file in a request
SQUARE = 8  # pixels on a side
_SUFFIXES = "|".join((*IMAGES, *SOUNDS))
_FILE = re.compile(
    rf'(?<!\S)@(?:"(?P<quoted>[^"]+\.(?:{_SUFFIXES}))"|(?P<bare>[^\s"]+?\.(?:{_SUFFIXES})))(?=[\s,.;:!?)]|$)',
    re.IGNORECASE,
)


def parts_of(prompt: str) -> list[Part]:
    """Return the text and the files of a prompt, in order; empty if it names no file."""
    parts: list[Part] = []
    end = 0
    for found in _FILE.finditer(prompt):
        parts += _text(prompt[end : found.start()])
        parts.append(_file(found["quoted"] or found["bare"]))
        end = found.end()
    return [*parts, *_text(prompt[end:])] if parts else []


def _text(text: str) -> list[Part]:
    return [text_part(text.strip())] if text.strip() else []


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def _file(name: str) -> Part:
    check_path(name)
    data = read_file(
        name,
        MEDIUM,
        "the prompt's file",
        remedy="paths are relative to the folder in which the command runs; leave out the @ for plain text",
    )
    suffix = name.rpartition(".")[2].lower()
    return image_part(data, IMAGES[suffix]) if suffix in IMAGES else sound_part(data, suffix)


def image_part(data: bytes, kind: str) -> Part:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{b64encode(data).decode()}"}}


def sound_part(data: bytes, form: str) -> Part:
    return {"type": "input_audio", "input_audio": {"data": b64encode(data).decode(), "format": form}}


# --- generated media


def made_image(width: int, height: int, seed: int) -> bytes:
    """Generate a PNG file (ISO/IEC 15948), RGB with 8 bits per channel."""
    import numpy as np

    across, down = -(-width // SQUARE), -(-height // SQUARE)
    squares = np.random.default_rng(seed).integers(0, 256, (down, across, 3), dtype=np.uint8)
    pixels = squares.repeat(SQUARE, axis=0).repeat(SQUARE, axis=1)[:height, :width]
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each row starts with its filter type, none
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def made_sound(seconds: float, seed: int) -> bytes:
    """Generate a WAV file."""
    import numpy as np

    count = max(1, round(seconds * RATE_HZ))
    samples = np.random.default_rng(seed).integers(-3000, 3000, count, dtype=np.int16).astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
    body = b"WAVE" + b"".join(
        name + struct.pack("<I", len(chunk)) + chunk for name, chunk in ((b"fmt ", form), (b"data", samples))
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body
