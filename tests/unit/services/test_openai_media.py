"""Images and sounds in prompts: named files and generated ones, read back by other readers."""

import base64
import io
import json
import struct
import wave
import zlib
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.model.spec import Tensor
from inferometer.options.options import DataOptions, Options
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.openai import OpenAi
from inferometer.services.openai_media import RATE_HZ, made_image, made_sound

Parts = list[dict[str, Any]]


def contents(prompts: list[str], **options: Any) -> list[Any]:
    """Return the content of each prompt's message."""
    service = OpenAi(Connection(Endpoint("h", 1)), Options(**options))
    steps = [[Tensor("prompt", "JSON", (1,), prompt.encode())] for prompt in prompts]
    requests = service.traffic(service.describe("gpt", "", ()), steps).requests
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]
    return [body["messages"][0]["content"] for body in bodies]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("photo.JPG", "a b.png", "speech.wav", "song.mp3", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(kind: str, name: str) -> dict[str, Any]:
    data = base64.b64encode(name.encode()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


def sound(name: str, form: str) -> dict[str, Any]:
    data = base64.b64encode(name.encode()).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


PHOTO = image("image/jpeg", "photo.JPG")
PROMPTS = [
    ("describe @photo.JPG", [text("describe"), PHOTO]),
    ("@photo.JPG", [PHOTO]),
    ("what is on @photo.JPG, and why?", [text("what is on"), PHOTO, text(", and why?")]),
    (
        'compare @photo.JPG with @"a b.png".',
        [text("compare"), PHOTO, text("with"), image("image/png", "a b.png"), text(".")],
    ),
    ("@speech.wav @song.mp3", [sound("speech.wav", "wav"), sound("song.mp3", "mp3")]),
    ("write to me@photo.JPG", "write to me@photo.JPG"),
    ("who is @home?", "who is @home?"),
    ("read @notes.txt", "read @notes.txt"),
    ("@photo.JPGs are nice", "@photo.JPGs are nice"),
]


@pytest.mark.parametrize(("prompt", "content"), PROMPTS, ids=[row[0] for row in PROMPTS])
def test_files_in_prompts_become_parts(prompt: str, content: Any, folder: Path):
    assert contents([prompt], data=DataOptions(prompts="p")) == [content]


def test_generated_prompts_name_no_files(folder: Path):
    assert contents(["@photo.JPG"]) == ["@photo.JPG"]


def test_a_missing_file_is_refused(folder: Path):
    with pytest.raises(UsageError, match=r"the prompt's file 'none.png' cannot be read"):
        contents(["see @none.png"], data=DataOptions(prompts="p"))


def test_files_need_an_endpoint_that_takes_them(folder: Path):
    with pytest.raises(UsageError, match="v1/completions takes only text"):
        contents(["see @photo.JPG"], data=DataOptions(prompts="p"), endpoint="completions")


# --- generated media


def decoded(part: dict[str, Any]) -> bytes:
    found = part["image_url"]["url"] if part["type"] == "image_url" else f",{part['input_audio']['data']}"
    return base64.b64decode(found.partition(",")[2])


def test_generated_media_follow_the_text_and_differ():
    rows = contents(["one", "two"], images=((16, 8), (16, 8)), audio_s=0.5)
    assert [[part["type"] for part in row] for row in rows] == [
        ["text", "image_url", "image_url", "input_audio"]
    ] * 2
    assert [row[0]["text"] for row in rows] == ["one", "two"]
    assert len({decoded(part) for row in rows for part in row[1:]}) == 6
    assert contents(["one", "two"], images=((16, 8), (16, 8)), audio_s=0.5) == rows
    other = contents(["one", "two"], images=((16, 8), (16, 8)), audio_s=0.5, data=DataOptions(seed=1))
    assert len({decoded(part) for row in rows + other for part in row[1:]}) == 12


@pytest.mark.parametrize(("width", "height"), [(1, 1), (8, 8), (20, 10), (7, 33), (512, 512)])
def test_a_generated_image_is_a_png_of_its_size(width: int, height: int):
    """Read by the standard: every chunk with its checksum, and the number of rows given in the header."""
    data = made_image(width, height, 5)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size) == (zlib.crc32(name + body),)
        chunks[name] = body
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (width, height, 8, 2, 0, 0, 0)
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert len(pixels) == height * (1 + 3 * width)
    assert not any(pixels[:: 1 + 3 * width])  # no filter


def test_a_generated_sound_is_a_wav_of_its_length():
    with wave.open(io.BytesIO(made_sound(0.25, 5))) as found:
        assert (found.getnchannels(), found.getsampwidth(), found.getframerate()) == (1, 2, RATE_HZ)
        assert found.getnframes() == RATE_HZ / 4
        assert len(set(found.readframes(1000))) > 100
