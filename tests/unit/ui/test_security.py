"""Guarantees of docs/security.md."""

import json
from dataclasses import replace

import pytest

from inferometer.base import confined
from inferometer.base.errors import UsageError
from inferometer.dataset.payloads import build_messages
from inferometer.options.options import DataOptions
from inferometer.services.openai_media import parts_of
from inferometer.ui import security
from inferometer.ui.app import application, no_token
from inferometer.ui.security import MOST_BODY, Gatekeeper, allowed_host, is_loopback, names_of, reached_at
from tests.support.asgi import asked
from tests.support.reports import sample_result
from tests.unit.ui.conftest import HOST, TOKEN

NASTY = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"
CHANGES = (
    ("/new/check", "POST"),
    ("/new/look", "POST"),
    ("/new/start", "POST"),
    ("/uploads/data.json", "PUT"),
    ("/jobs/1/remove", "POST"),
    ("/runs/{id}/stop", "POST"),
    ("/runs/{id}/tags", "POST"),
    ("/runs/{id}/rerun", "POST"),
    ("/runs/{id}/delete", "POST"),
)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8700", "127.0.0.1.evil.example", "", "localhost@evil.example", "a b"],
)
def test_another_host_is_refused(ask, host):
    assert ask("/", headers={"host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost:8700", "127.0.0.1", "[::1]:8700", "LOCALHOST:9000"])
def test_this_machine_has_several_names(ask, host):
    assert ask("/", headers={"host": host}).status == 200


def test_a_change_from_elsewhere_is_refused(ask, kept):
    run = kept()
    for origin in ("", "null", "http://evil.example", "http://127.0.0.1:9999", "file://"):
        for path, method in CHANGES:
            assert ask(path.format(id=run.id), method=method, headers={"origin": origin}).status == 403


@pytest.mark.parametrize(
    "cookie", ["", "inferometer-8700=", "inferometer-8700=wrong", "inferometer-8701=the-token", ";;=="]
)
def test_nothing_is_shown_or_changed_without_the_token(ask, site, kept, cookie):
    run = kept(words=("measure", "localhost:8000", "a-model-of-ours"))
    for path in (
        "/",
        "/new",
        f"/runs/{run.id}",
        f"/runs/{run.id}/report",
        f"/runs/{run.id}/download/json",
        "/nothing",
    ):
        answer = ask(path, headers={"cookie": cookie})
        assert answer.status == 401
        assert "a-model-of-ours" not in answer.text
        assert run.id not in answer.text
    for path, method in CHANGES:
        assert ask(path.format(id=run.id), method=method, headers={"cookie": cookie}).status == 401
    assert site.store.get(run.id) == run


def test_the_token_of_the_address_becomes_a_cookie_that_scripts_cannot_read(ask):
    answer = ask(f"/runs?q=a&token={TOKEN}", headers={"cookie": ""})
    assert (answer.status, answer.headers["location"]) == (303, "/runs?q=a")
    assert answer.headers["set-cookie"] == f"inferometer-8700={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert ask("/?token=wrong", headers={"cookie": ""}).status == 401
    assert (
        ask(f"//evil.example/?token={TOKEN}", headers={"cookie": ""}).headers["location"] == "/evil.example/"
    )


def test_a_token_in_the_address_of_a_change_does_not_count(ask):
    assert ask(f"/new/check?token={TOKEN}", method="POST", headers={"cookie": ""}).status == 401


@pytest.mark.parametrize("headers", [{"content-length": str(MOST_BODY + 1)}, {}, {"content-length": "12"}])
def test_a_huge_body_is_refused_whatever_its_content_length(ask, headers):
    answer = ask("/new/check", method="POST", headers=headers, body=b" " * (MOST_BODY + 1))
    assert answer.status == 413


def test_a_huge_file_leaves_nothing_behind(ask, site, monkeypatch):
    monkeypatch.setattr(security, "MOST_UPLOAD", 100_000)
    assert ask("/uploads/large.bin", method="PUT", body=b"x" * 200_000).status == 413
    assert [path for path in site.uploads.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "../../etc/passwd",
        "....",
        "abcd%00",
        "ABCD",
        "abc",
        "123456789",
        ".sqlite",
        "abcd/../../x",
    ],
)
def test_no_path_escapes_the_store(ask, name):
    for end in ("", "/report", "/download/json", "/events", "/live"):
        assert ask(f"/runs/{name}{end}").status == 404
    for end in ("/delete", "/tags", "/stop", "/rerun"):
        assert ask(f"/runs/{name}{end}", method="POST").status == 404
    assert ask(f"/compare?run={name}").status == 404
    assert ask(f"/new?from={name}").status == 404


@pytest.mark.parametrize("name", ["../../ui.py", "..", "ui.js/../../app.py", "", "app.py"])
def test_there_are_exactly_three_static_files(ask, name):
    assert ask(f"/static/{name}").status == 404
    assert ask(f"/static/{name}", headers={"cookie": ""}).status == 401


@pytest.mark.parametrize(
    "name", ["../../evil", "..%2f..%2fevil", "/etc/evil", "a\\..\\evil", ".hidden", "$(touch x)*.json"]
)
def test_an_uploaded_file_is_in_its_own_folder(ask, site, name):
    answer = ask(f"/uploads/{name}", method="PUT", body=b"[1]")
    if answer.status == 200:
        path = site.uploads / json.loads(answer.text)["path"]
        assert path.resolve().parent.parent == site.uploads
        assert path.read_bytes() == b"[1]"
        assert not set(path.name) & set("/\\*$() ")
    outside = [
        path for path in site.folder.rglob("*") if path.is_file() and not path.is_relative_to(site.uploads)
    ]
    assert [path for path in outside if path.suffix != ".sqlite"] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("--data", "/etc/passwd"),
        ("--api-key-file", "/etc/passwd"),
        ("--input", "IN=@/etc/passwd"),
        ("--body", "@/etc/passwd"),
        ("--prompt-tokens", "@/etc/passwd"),
        ("--tls-ca", "../../etc/passwd"),
        ("--replay", "{uploads}/../../../etc/passwd"),
        ("--json", "/tmp/x.json"),
        ("--config", "/etc/passwd"),
        ("--store", "/tmp"),
        ("--model-repository", "/tmp"),
    ],
)
def test_the_form_accepts_only_uploaded_files(ask, site, name, value):
    fields = {"url": "localhost:8000", "model": "simple", name: value.format(uploads=site.uploads)}
    body = json.dumps({"command": "measure", "fields": fields}).encode()
    answer = ask("/new/start", method="POST", body=body, headers={"content-type": "application/json"})
    assert answer.status == 422
    assert json.loads(answer.text)["errors"]
    assert site.jobs.current is None


def test_text_from_servers_and_files_is_never_markup(ask, kept):
    result = sample_result()
    nasty = replace(result, model={**result.model, "name": NASTY})
    run = kept(nasty, words=("measure", "localhost:8000", NASTY, "--tag", NASTY), tags=(NASTY,))
    other = kept(nasty)
    pages = [
        "/",
        f"/?q={NASTY}",
        f"/runs/{run.id}",
        f"/runs/{run.id}/report",
        f"/new?from={run.id}",
        f"/compare?run={run.id}&run={other.id}",
    ]
    for path in pages:
        answer = ask(path)
        assert answer.status == 200
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text


def test_the_content_of_an_uploaded_file_has_no_side_effects(tmp_path, monkeypatch):
    data = tmp_path / "uploads" / "a" / "data.json"
    data.parent.mkdir(parents=True)
    data.write_text(json.dumps({"data": [{"message_generator": f"touch {tmp_path}/owned"}]}))
    (data.parent / "photo.png").write_bytes(b"png")
    (tmp_path / "secret.png").write_bytes(b"png")
    monkeypatch.setenv(confined.VARIABLE, str(tmp_path / "uploads"))
    with pytest.raises(UsageError, match="names a command"):
        build_messages(DataOptions(sources=(str(data),)))
    assert not (tmp_path / "owned").exists()
    assert len(parts_of(f"look at @{data.parent}/photo.png")) == 2
    for path in (f"{tmp_path}/secret.png", f"{data.parent}/../../secret.png"):
        with pytest.raises(UsageError, match="not an uploaded file"):
            parts_of(f"look at @{path}")


def test_pages_run_only_our_script(ask, kept):
    run = kept()
    for path in ("/", "/new", f"/runs/{run.id}", "/nothing"):
        answer = ask(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
    report = ask(f"/runs/{run.id}/report").headers["content-security-policy"]
    assert "default-src 'none'; script-src 'sha256-" in report
    assert "sandbox allow-scripts allow-downloads" in report
    assert "allow-same-origin" not in report
    frame = ask(f"/runs/{run.id}").text
    assert 'sandbox="allow-scripts allow-downloads"' in frame


def test_loopback_addresses_are_recognized():
    assert [
        host
        for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "box")
        if is_loopback(host)
    ] == [
        "127.0.0.1",
        "localhost",
        "::1",
        "127.9.9.9",
    ]
    assert names_of("127.0.0.1") == {"localhost", "127.0.0.1", "::1"}
    assert {"0.0.0.0", "localhost", "127.0.0.1"} < names_of("0.0.0.0")
    assert HOST.partition(":")[0] in names_of("0.0.0.0")


# --- behind a proxy

NAME = "runs.example.com"


@pytest.fixture
def proxied(site):
    """Send a request through a proxy named by `--allow-host`."""
    guard = Gatekeeper(
        application(site),
        TOKEN,
        names_of("127.0.0.1"),
        8700,
        no_token,
        frozenset({NAME, "other.example:8443"}),
    )
    cookie = {"cookie": f"inferometer-8700={TOKEN}"}

    def ask(path: str, *, method: str = "GET", **headers: str):
        given = cookie | {name.replace("_", "-"): value for name, value in headers.items()}
        return asked(guard, path, method=method, headers=given)

    return ask


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (NAME, f"https://{NAME}", 200),  # Host preserved
        (f"{NAME}:8443", f"https://{NAME}:8443", 200),
        (NAME, f"https://{NAME}:8443", 200),  # nginx's $host has no port
        (NAME.upper(), f"https://{NAME}", 200),
        ("127.0.0.1:8700", f"https://{NAME}", 200),  # Host rewritten
        ("localhost:8700", f"http://{NAME}", 200),
        ("127.0.0.1:8700", "https://other.example:8443", 200),
        ("other.example:8443", "https://other.example:8443", 200),
        ("127.0.0.1:8700", "http://127.0.0.1:8700", 200),  # without the proxy
        ("127.0.0.1:8700", "https://other.example:8444", 403),
        ("127.0.0.1:8700", "https://other.example", 403),
        ("127.0.0.1:8700", "https://evil.example", 403),
        ("127.0.0.1:8700", f"https://{NAME}.evil.example", 403),
        ("127.0.0.1:8700", f"https://evil.example/{NAME}", 403),
        ("127.0.0.1:8700", f"https://{NAME}@evil.example", 403),
        ("127.0.0.1:8700", f"ftp://{NAME}", 403),
        ("127.0.0.1:8700", "null", 403),
        ("127.0.0.1:8700", "http://127.0.0.1:9999", 403),
        (NAME, "https://evil.example", 403),
        ("other.example", f"https://{NAME}", 421),
        ("evil.example", f"https://{NAME}", 421),
        (f"{NAME}.evil.example", f"https://{NAME}", 421),
    ],
)
def test_a_proxy_may_keep_or_rewrite_the_host(proxied, host, origin, status):
    body_is_missing = 400  # the form was reached
    answer = proxied("/new/check", method="POST", host=host, origin=origin)
    assert answer.status == (body_is_missing if status == 200 else status)


def test_a_forwarded_host_is_ignored(proxied):
    assert proxied("/", host="evil.example", x_forwarded_host=NAME).status == 421


@pytest.mark.parametrize(
    ("host", "scheme", "is_secure"),
    [
        (NAME, "https", True),
        (NAME, "HTTPS", True),
        (NAME, "http", False),
        (NAME, "", False),
        ("127.0.0.1:8700", "https", True),
        ("127.0.0.1:8700", "", False),
    ],
)
def test_the_cookie_is_secure_behind_a_tls_proxy(proxied, host, scheme, is_secure):
    answer = proxied(f"/?token={TOKEN}", host=host, x_forwarded_proto=scheme)
    assert answer.status == 303
    assert ("; Secure" in answer.headers["set-cookie"]) is is_secure


def test_without_allow_host_the_cookie_is_never_secure(ask):
    answer = ask(f"/?token={TOKEN}", headers={"x-forwarded-proto": "https", "cookie": ""})
    assert "Secure" not in answer.headers["set-cookie"]


@pytest.mark.parametrize("name", ["*", "https://a.example", "a.example/x", "a b", "", "*.example", "a:b"])
def test_a_name_that_is_not_a_host_is_refused(name):
    with pytest.raises(UsageError, match="--allow-host"):
        allowed_host(name)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_wildcard_address_is_printed_as_a_reachable_one(host):
    reached = reached_at(host)
    assert reached not in ("0.0.0.0", "::", "", "localhost", "127.0.0.1")
    assert reached.lower() in names_of("0.0.0.0")
    assert reached_at("127.0.0.1") == "127.0.0.1"
    assert reached_at("box.example") == "box.example"
