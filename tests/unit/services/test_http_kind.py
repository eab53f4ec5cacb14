"""Plain HTTP: the user's request on the wire."""

from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.options.options import Options
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.http import PlainHttp


def rendered(
    prefix: str = "", headers: tuple[tuple[str, str], ...] = (), **options: Any
) -> tuple[bytes, ...]:
    service = PlainHttp(Connection(Endpoint("h", 1, prefix), headers), Options(**options))
    return service.traffic(service.describe("", "", ()), [()]).requests


@pytest.mark.parametrize(
    ("arguments", "request_bytes"),
    [
        ({}, b"GET / HTTP/1.1\r\nHost: h:1\r\n\r\n"),
        ({"prefix": "/a"}, b"GET /a HTTP/1.1\r\nHost: h:1\r\n\r\n"),
        ({"prefix": "/a", "path": "/b?c=1"}, b"GET /a/b?c=1 HTTP/1.1\r\nHost: h:1\r\n\r\n"),
        ({"path": "b"}, b"GET /b HTTP/1.1\r\nHost: h:1\r\n\r\n"),
        ({"method": "delete"}, b"DELETE / HTTP/1.1\r\nHost: h:1\r\n\r\n"),
        ({"method": "POST"}, b"POST / HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n"),
        ({"bodies": ("hi",)}, b"POST / HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\n\r\nhi"),
        (
            {"bodies": ("{}",), "method": "PUT"},
            b"PUT / HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        ),
        (
            {"bodies": ("{}",), "headers": (("content-type", "text/x"), ("Host", "other"))},
            b"POST / HTTP/1.1\r\ncontent-type: text/x\r\nHost: other\r\nContent-Length: 2\r\n\r\n{}",
        ),
    ],
)
def test_the_request_is_the_users(arguments: dict[str, Any], request_bytes: bytes):
    assert rendered(**arguments) == (request_bytes,)


def test_bodies_may_come_from_files_and_alternate(tmp_path: Path):
    (tmp_path / "body").write_bytes(b"\x00\xff")
    first, second = rendered(bodies=(f"@{tmp_path / 'body'}", "b"))
    assert first.endswith(b"\r\n\r\n\x00\xff")
    assert second.endswith(b"\r\n\r\nb")


def test_the_endpoint_is_named_after_its_request():
    service = PlainHttp(Connection(Endpoint("h", 1)), Options(path="/x"))
    assert service.describe("", "", ()).name == "GET /x"
    assert service.describe("mine", "", ()).name == "mine"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bodies": ("@/no/such/file",)}, "the body file '/no/such/file' cannot be read"),
        ({"method": "HEAD"}, "the method HEAD is not supported"),
        ({"path": "/a b"}, "contains a space"),
    ],
)
def test_requests_that_cannot_be_made(options: dict[str, Any], sentence: str):
    with pytest.raises(UsageError, match=sentence):
        rendered(**options)
