"""Parsing of addresses as users write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.options.options import Tls
from inferometer.services.address import Address, ServerPath, maybe_server_path, read_address
from inferometer.services.endpoint import parse_endpoint


@pytest.mark.parametrize(
    ("text", "found", "url"),
    [
        ("localhost", Address("localhost"), "localhost:8000"),
        (" localhost:9000\n", Address("localhost", 9000), "localhost:9000"),
        (":9000", Address("localhost", 9000), "localhost:9000"),
        ("9000", Address("localhost", 9000), "localhost:9000"),
        ("h:", Address("h"), "h:8000"),
        ("grpc:8001", Address("grpc", 8001), "grpc:8001"),
        ("[::1]:9000", Address("::1", 9000), "[::1]:9000"),
        ("[::1]", Address("::1"), "[::1]:8000"),
        ("http://h", Address("h", scheme="http"), "http://h:80"),
        ("HTTPS://h", Address("h", scheme="https"), "https://h:443"),
        ("grpc://h", Address("h", scheme="grpc"), "http://h:8000"),
        ("grpcs://h:9", Address("h", 9, "grpcs"), "https://h:9"),
        ("h:9/a/?b=c", Address("h", 9, path="/a/", query="?b=c"), "h:9"),
        ("h:9?u=http://x", Address("h", 9, query="?u=http://x"), "h:9"),
        ("h/é", Address("h", path="/%C3%A9"), "h:8000"),
    ],
)
def test_an_address_is_parsed(text: str, found: Address, url: str) -> None:
    assert read_address(text) == found
    assert found.url(8000) == url


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "write it like localhost:8000"),
        ("h 1", "write it like localhost:8000"),
        ("h:port", "write it like localhost:8000"),
        ("a..b:1", "write it like localhost:8000"),
        ("h:70000", "use a port from 1 to 65535"),
        ("ftp://h:1", "one of http://, https://, grpc:// and grpcs://"),
        ("::1", "[::1]:8000"),
        ("[::1:8000", "[::1]:8000"),
        ("h:1:2", "write host:port"),
        ("http:/h:1", "write http://h:1"),
        ("http//h:1", "write http://h:1"),
        ("http://http://h:1", "write http://h:1"),
        ("h:1/a#b", "write h:1/a"),
        ("http:h:1", "write http://h:1"),
        ("grpcs:127.0.0.1:1/v2", "write grpcs://127.0.0.1:1/v2"),
        ("a:1,b:2", "give one address"),
        ("anna:geheim@h:1", "write h:1, and send them in a header"),
        ("simple@h:1", "if the part before the @ is the model: h:1 MODEL"),
    ],
)
def test_an_invalid_address_is_refused_with_a_remedy(text: str, remedy: str) -> None:
    with pytest.raises(UsageError, match="the address") as caught:
        read_address(text)
    assert remedy in caught.value.remedy
    assert "geheim" not in str(caught.value)


@given(st.text() | st.from_regex(r"(\w*://)?[\w.\[\]:@-]*(:\d*)?([/?#].*)?", fullmatch=True))
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        found = read_address(text)
    except UsageError:
        return
    assert parse_endpoint(found.url(8000), default_port=1, tls=Tls()).host == found.host
    assert (found.path + found.query).isascii()


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v2", ServerPath(("triton",), "")),
        ("/v2/models", ServerPath(("triton",), "")),
        ("/v2/models/a%20b", ServerPath(("triton",), "", model="a b")),
        ("/v2/models/m/infer", ServerPath(("triton",), "", model="m")),
        ("/x/v2/models/m/versions/3/infer", ServerPath(("triton",), "/x", model="m", version="3")),
        ("/v1", ServerPath(("openai", "tfserving"), "")),
        ("/openai/v1", ServerPath(("openai", "tfserving"), "/openai")),
        ("/v1/chat/completions", ServerPath(("openai",), "", endpoint="v1/chat/completions")),
        ("/v1/embeddings", ServerPath(("openai",), "", endpoint="v1/embeddings")),
        ("/v1/models/m", ServerPath(("tfserving", "openai"), "", model="m")),
        ("/v1/models/m:predict", ServerPath(("tfserving",), "", model="m")),
        ("/v1/models/m/versions/2:predict", ServerPath(("tfserving",), "", model="m", version="2")),
        ("/predictions/m", ServerPath(("torchserve",), "", model="m")),
        ("/predictions/m/1.0", ServerPath(("torchserve",), "", model="m", version="1.0")),
        ("", None),
        ("/page", None),
        ("/x/v2/health/ready", ServerPath(("triton",), "/x", is_measured=False)),
        ("/v2/models/m/stats", ServerPath(("triton",), "", model="m", is_measured=False)),
        ("/v2/models/m/generate", ServerPath(("openai",), "", model="m", endpoint="v2/models/m/generate")),
        (
            "/p/v2/models/m/versions/3/generate_stream",
            ServerPath(("openai",), "/p", model="m", endpoint="v2/models/m/versions/3/generate_stream"),
        ),
        ("/v1/messages", ServerPath(("openai",), "", endpoint="v1/messages")),
        ("/p/api/chat", ServerPath(("openai",), "/p", endpoint="api/chat")),
        ("/api/embed", ServerPath(("openai",), "", endpoint="api/embed")),
        ("/generate_stream", ServerPath(("openai",), "", endpoint="generate_stream")),
        ("/v1/audio/transcriptions", ServerPath(("openai",), "", endpoint="v1/audio/transcriptions")),
        ("/v1/models/m/metadata", ServerPath(("tfserving",), "", model="m", is_measured=False)),
        ("/v2/models/m/nothing", None),
        ("/v22", None),
    ],
)
def test_a_path_identifies_its_server(path: str, known: ServerPath | None) -> None:
    assert maybe_server_path(path) == known
