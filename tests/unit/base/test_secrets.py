"""Displayed and stored text contains no secrets."""

import time
from collections.abc import Iterator

import pytest

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.secrets import (
    GIVEN,
    body_secrets,
    header_secrets,
    query_secrets,
    redacted,
    redacted_body,
    redacted_document,
)
from inferometer.services.address import read_address
from inferometer.services.endpoint import Endpoint

REDACTED = (
    ("vllm serve m --api-key S3CRET --port 1", "vllm serve m --api-key *** --port 1"),
    ("run --hf-token S3CRET", "run --hf-token ***"),
    ("http://user:S3CRET@host:1/x", "http://***@host:1/x"),
    ("http://S3CRET@host", "http://***@host"),
    ("https://h/x?api_key=S3CRET&n=1", "https://h/x?api_key=***&n=1"),
    ("/x?n=1&access_token=S3CRET#f", "/x?n=1&access_token=***#f"),
    ("GET /x?key=S3CRET HTTP/1.1", "GET /x?key=*** HTTP/1.1"),
    ("h/x?sig=S3CRET%3D", "h/x?sig=***"),
    ("h/x?X-Amz-Signature=S3CRET", "h/x?X-Amz-Signature=***"),
    ("h/x?client_secret=S3CRET;b=2", "h/x?client_secret=***;b=2"),
    ("user:S3CRET@host:8000", "user:***@host:8000"),
    ('{"password": "S3CRET", "n": 1}', '{"password": "***", "n": 1}'),
    ("Authorization: Bearer S3CRET-token", "Authorization: Bearer ***"),
    ("api_key=S3CRET", "api_key=***"),
    ("http://user:a/S3CRET@host", "http://***@host"),
    ("http://user:a?S3CRET@host", "http://***@host"),
    ("user:a@S3CRET@host:8000", "user:***@host:8000"),
    ("http:/user:S3CRET@host", "http:/user:***@host"),
    ("http://user:S3CRET,model", "http://user:***,model"),
    ("http://user:12.S3CRET is", "http://user:*** is"),
    ("/x?accessToken=S3CRET", "/x?accessToken=***"),
    ("/x?api%5Fkey=S3CRET&n=1", "/x?api%5Fkey=***&n=1"),
    ("/x?token[]=S3CRET", "/x?token[]=***"),
    ("/x?token=a'S3CRET", "/x?token=***"),
    ("/x?session=S3CRET", "/x?session=***"),
    ('{"auth": {"clientSecret": "S3CRET"}}', '{"auth": {"clientSecret": "***"}}'),
    ("X-Api-Key: S3CRET", "X-Api-Key: ***"),
    ("Authorization: Token S3CRET", "Authorization: ***"),
    ("Set-Cookie: a=S3CRET", "Set-Cookie: ***"),
    ("token:S3CRET", "token:***"),
)
PLAIN = (
    "serve --prompt-tokens 12 --api-key-env NAME --token 12 --api-key --port 1",
    "http://localhost:8000/v1/models?limit=5",
    "max_tokens=5",
    "--prompt-tokens 512",
    "model@localhost:8000",
    "https://monkey.example/key/value?monkey=1",
    "p99<50ms, errors<0.1%",
    '{"tokens": 3, "keys": [1]}',
    "http://[::1]:8000/x",
    "http://host:8000/users/@me",
    "time to first token: 12 ms",
    "2026-01-01 10:11:12",
    "http://host:8000/x?max_tokens=5&n%5Fx=1",
    "use host:port, http://host:port or https://host:port",
    "Address of the server: host:port, or https://host:port with TLS.",
    "ray://HOST:PORT; and 'http://127.0.0.1:{port}/predict'",
    "it is interpreted as http://127.0.0.1:8000.",
    "see http://h:8000. Then type x=1; or (http://h:8001), https://h:2!",
)


@pytest.mark.parametrize(("text", "shown"), REDACTED)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown
    assert "S3CRET" not in str(UsageError(f"the address '{text}' is refused", remedy=text))


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_are_unchanged(text: str) -> None:
    assert redacted(text) == text


def test_bodies_are_shown_by_length_and_digest() -> None:
    shown = redacted_body('{"password": "S3CRET"}')
    assert shown.startswith("*** (22 bytes, sha256 ")
    assert "S3CRET" not in shown
    assert shown != redacted_body('{"password": "OTHER1"}')
    assert redacted_body("@body.json") == "@body.json"
    assert redacted_body("temperature=0.5") == "temperature=0.5"
    assert "123" not in redacted_body("api_key=123")


def test_documents_keep_their_structure() -> None:
    document = {
        "classes": {"a": {"server": "http://u:S3CRET@h", "options": {"header": ["x-key: S3CRET"]}}},
        "n": 1,
    }
    assert redacted_document(document) == {
        "classes": {"a": {"server": "http://***@h", "options": {"header": ["x-key:***"]}}},
        "n": 1,
    }


ADDRESSES = (
    "http://user:S3CRET@host:99999",
    "ftp://user:S3CRET@host",
    "http://host:8000/x?api_key=S3CRET#part",
    "http://host:x/?token=S3CRET",
    "http://a,b/?password=S3CRET",
    "user:S3CRET@host:8000",
    "http://:0?key=S3CRET",
    "http://host /?key=S3CRET",
)


@pytest.mark.parametrize("written", ADDRESSES)
def test_a_rejected_address_is_shown_without_its_secrets(written: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_address(written)
    assert "S3CRET" not in str(refused.value)


def test_an_endpoint_is_shown_without_secrets() -> None:
    assert str(Endpoint("h", 1, "/x?api_key=S3CRET")) == "http://h:1/x?api_key=***"


@pytest.mark.parametrize(
    "piece", ["a:", "?a", "_a", "&key", "'token", '"token":', "://", "Bearer ", "a_=", "@a:"]
)
def test_the_work_is_linear_in_the_text(piece: str) -> None:
    """The text may contain a server's words."""

    def cost_ns(size: int) -> int:
        text = "=" + piece * size
        began = time.thread_time_ns()
        redacted(text)
        return time.thread_time_ns() - began

    cost_ns(10)  # compiled
    assert cost_ns(40_000) < 40 * max(cost_ns(4_000), 1_000_000)


@pytest.mark.parametrize(
    ("given", "said", "shown"),
    [
        (header_secrets([("X-Tenant", "S3CRET-t")]), "no tenant S3CRET-t.", "no tenant ***."),
        (header_secrets([("authorization", "Bearer S3CRET-k")]), "wrong key: S3CRET-k", "wrong key: ***"),
        (header_secrets([("Cookie", "a=S3CRET1; b=S3CRET2")]), "S3CRET1 and S3CRET2", "*** and ***"),
        (header_secrets([("X-Key", 'a"S3CRET')]), '{"said": "a\\"S3CRET"}', '{"said": "***"}'),
        (header_secrets([("X-Key", "S3CRET-long")]), "wrong: S3CRET-l", "wrong: ***"),
        (header_secrets([("X-Key", "S3CRET-long")]), "wrong: S3CRET-l\u2026", "wrong: ***"),
        (header_secrets([("Content-Type", "application/json")]), "application/json", "application/json"),
        (header_secrets([("X-Env", "prod")]), "no model of prod", "no model of prod"),
        (query_secrets("/x?n=5&api_key=S3CRET%21#f"), "S3CRET! or S3CRET%21", "*** or ***"),
        (query_secrets("/x?model=resnet50"), "no resnet50", "no resnet50"),
        (body_secrets('{"a": "S3CRET"}'), 'cannot read {"a": "S3CRET"}', "cannot read ***"),
        (body_secrets('user="S3CRET"'), "no user S3CRET", "no user ***"),
        (body_secrets("temperature=0.123456"), "0.123456 is too high", "0.123456 is too high"),
    ],
)
def test_masks_given_secrets_that_a_server_repeats(given: Iterator[str], said: str, shown: str) -> None:
    GIVEN.add(given)
    assert redacted(said) == shown
    assert str(PeerError(said)) == shown
