"""Requests that our pages never send: every route responds with a message and a status below 500."""

import json
import re

import pytest
from starlette.routing import Route

from inferometer.ui.app import application
from tests.support.asgi import asked
from tests.unit.ui.conftest import HOST, TOKEN

DEEP = b"[" * 100_000 + b"]" * 100_000
LONG = "9" * 5000
PATH_PARTS = (
    "%0d%0aset-cookie:x=1",
    "\r\nx: y",
    "\0",
    "\ud800",
    "\udcff",
    LONG,
    "-1",
    "1e9",
    "²",
    "..",
    "a" * 70_000,
)
QUERIES = (
    "q=%00&run=%00&from=%00&command=%00&model=%00&theme=%00",
    "q=%ed%a0%80&run=%ff&from=%ff&command=%ff&model=%ff&figure=%ff",
    f"q=since%3D{LONG}d&page={LONG}&order=-{LONG}&after={LONG}&run={LONG}&from={LONG}&load={LONG}",
    "q=" + "a+" * 3000,
    "q=since%3D0001-01-01&page=%d9%a3&order=id%3b--",
    "&".join(f"run={number:08x}" for number in range(2000)),
    "%0d%0a=%0d%0a",
    "\xff\xfe",
    "token=%ff&token=\xff",
)
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
FIELDS = {"url": "h:1"}


def document(**fields: object) -> bytes:
    return json.dumps({"command": "measure", "fields": FIELDS | fields}).encode()


BODIES = (  # (content type, body)
    (JSON, b""),
    (JSON, DEEP),
    (JSON, b'{"command":' * 50_000),
    (JSON, b"\xff\xfe\x00"),
    (JSON, b'{"command": "measure", "fields": {"url": "\xff"}}'),
    (JSON, b'{"command": "measure", "fields": {"url": "\\ud800"}}'),
    (JSON, b'{"command": "measure", "fields": {"\\udfff": "x"}}'),
    (JSON, b'{"command": "\\ud800", "fields": {}}'),
    (JSON, b'{"command": "measure", "fields": {"url": "a\\u0000b"}}'),
    (JSON, b'{"command": "measure", "fields": {"url": ' + b"9" * 5000 + b"}}"),
    (JSON, b'{"command": "measure", "fields": {"url": NaN, "x": 1e999999}}'),
    (JSON, b'{"command": "measure", "command": "find", "fields": {}}'),
    (JSON, b'{"command": "measure", "fields": {"url": "a:1", "url": "b:1"}}'),
    (JSON, b'{"command": [], "fields": []}'),
    (JSON, document(**{"--concurrency": LONG})),
    (JSON, document(**{"--seed": "-" + LONG, "--duration": LONG + "s"})),
    (JSON, document(**{"--data": "x" * 10_000, "--input": "=@" * 1000})),
    ("text/plain", document()),
    ("text/xml", b"<a/>"),
    ("multipart/form-data; boundary=x", b"--x\r\n\r\n--x--"),
    ("\xff", document()),
    (FORM, b"add=%ff&remove=%ed%a0%80"),
    (FORM, b"\xff\xfe"),
    (FORM, b"add=a&add=b"),
    (FORM, b"add=%00&remove=%0d%0a"),
    (FORM, b"add=" + b"a" * 500_000),
    (FORM, b"&".join(b"x%d=1" % number for number in range(20_000))),
    (FORM, DEEP),
)


@pytest.fixture
def routes(site) -> list[Route]:
    """The routes of the application, so that new ones are tested too."""
    found = [route for route in application(site).routes if isinstance(route, Route)]
    assert len(found) > 20
    return found


def kept_run(site) -> str:
    """A run without a result, whose pages are fast."""
    with site.store.begin("measure", ("measure", "h:1", "m")) as keeper:
        keeper.end(1, "it failed")
    return keeper.run.id


def checked(answer, what: object) -> None:
    assert 200 <= answer.status < 500, (what, answer.status)
    if answer.status >= 400:
        assert re.search(r"[a-z]{2,} [a-z]{2,}", answer.text), what
    assert "Traceback" not in answer.text, what
    for name, value in answer.headers.items():
        assert not set(name + value) & set("\r\n\0"), what


def places(route: Route, part: str) -> str:
    return re.sub(r"\{[^}]*\}", lambda _: part, route.path)


def test_strange_paths_get_an_error_message(ask, routes):
    for route in routes:
        for part in PATH_PARTS if "{" in route.path else ():
            method = min(route.methods)
            checked(ask(places(route, part), method=method), (route.path, part[:20], method))


def test_strange_queries_get_an_error_message(ask, routes, site):
    run = kept_run(site)
    for route in routes:
        if route.path == "/runs/{id}/events":
            continue  # a stream, which ends at once for a finished run
        for query in QUERIES:
            checked(ask(f"{places(route, run)}?{query}"), (route.path, query[:40]))


def test_strange_bodies_get_an_error_message(ask, routes, site):
    site.jobs.step = lambda: None  # do not start runs
    for route in routes:
        for method in sorted(route.methods - {"GET", "HEAD"}):
            place = places(route, kept_run(site) if "{id}" in route.path else "1")
            for kind, body in BODIES:
                answer = ask(place, method=method, body=body, headers={"content-type": kind})
                checked(answer, (route.path, kind, body[:60]))
                if route.path.startswith("/new/") and b'"--' not in body:
                    assert answer.status in (400, 415), (route.path, kind, body[:60])
    assert {job.line for job in site.jobs.waiting} == {"inferometer measure h:1 m"}  # by "Run again"


@pytest.mark.parametrize(
    "method", ["BREW", "TRACE", "CONNECT", "DELETE", "PATCH", "OPTIONS", "get", "", "\xff"]
)
def test_unknown_methods_get_an_error_message(ask, routes, method):
    for route in routes:
        answer = ask(places(route, "1"), method=method)
        checked(answer, (route.path, method))
        assert answer.status in (404, 405), (route.path, answer.status)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-length": LONG},
        {"content-length": "-5"},
        {"content-length": "²"},
        {"cookie": "\xff=\xff; =;;"},
        {"cookie": "a" * 60_000},
        {"host": HOST + "\0"},
        {"host": "\xff"},
        {"origin": "http://" + "a" * 60_000},
        {"origin": "\r\n"},
        {"last-event-id": LONG},
        {"x-forwarded-proto": "\xff"},
    ],
)
def test_strange_headers_get_an_error_message(ask, headers):
    for path, method in (
        ("/", "GET"),
        ("/new/check", "POST"),
        ("/uploads/x", "PUT"),
        (f"/?token={TOKEN}", "GET"),
    ):
        checked(ask(path, method=method, headers=headers), (path, headers))


@pytest.mark.parametrize(
    "path", ["/%0d%0ax: y", "/a\r\nset-cookie: x=1", "/\0", "/\ud800", "/\xff", "//\\evil.example"]
)
def test_the_redirect_that_sets_the_cookie_has_one_line(ask, path):
    answer = ask(f"{path}?token={TOKEN}&x=%0d%0ay", headers={"cookie": ""})
    checked(answer, path)
    assert answer.status == 303
    assert re.fullmatch(r"/([^/\\].*)?", answer.headers["location"])


def test_two_hosts_or_origins_are_refused(guarded):
    for name in ("host", "origin"):
        trusted = [("host", HOST), ("origin", f"http://{HOST}"), ("cookie", f"inferometer-8700={TOKEN}")]
        assert (
            asked(guarded, "/new/check", method="POST", headers=[*trusted, (name, "evil.example")]).status
            == 400
        )


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/new/check"), ("POST", "/new/start"), ("PUT", "/uploads/x"), ("POST", "/chosen/delete")],
)
def test_a_disconnect_during_a_request_causes_no_exception(ask, site, method, path):
    assert ask(path, method=method, body=b"{", is_cut=True).status == 400
    assert not [one for one in site.uploads.rglob("*") if one.is_file()]
