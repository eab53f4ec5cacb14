"""Bodies of uploads: multipart/form-data (RFC 7578) with a file and text fields."""

import json
from typing import Any, NamedTuple

from inferometer.services.text_api import Fields

BOUNDARY = "inferometer-9b1de3a07c5f4e62"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
_LINE = b"\r\n"


class SoundUpload(NamedTuple):
    """A file to upload."""

    data: bytes
    suffix: str

    @property
    def content_type(self) -> str:
        return {"mp3": "audio/mpeg", "m4a": "audio/mp4"}.get(self.suffix, f"audio/{self.suffix}")


def upload(fields: Fields) -> bytes:
    """Return the body; values that are not texts are written as JSON, so true is `true`."""
    return b"".join(_part(name, value) for name, value in fields.items()) + f"--{BOUNDARY}--\r\n".encode()


def _part(name: str, value: Any) -> bytes:
    quoted = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{quoted}"'
    if isinstance(value, SoundUpload):
        head += f'; filename="sound.{value.suffix}"\r\nContent-Type: {value.content_type}'
        data = value.data
    else:
        data = (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "replace")
    return head.encode() + _LINE + _LINE + data + _LINE
