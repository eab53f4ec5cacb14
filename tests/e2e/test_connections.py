"""What a server may do with a connection and a reply without anything being wrong; headers and TLS."""

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from inferometer import api
from tests.support.servers import (
    Act,
    FakeModel,
    FakeTriton,
    answer_and_close,
    answer_chunked,
    answer_until_close,
    both,
    raw,
    reply,
    trickle,
)

GOOD: tuple[tuple[str, Act], ...] = (
    ("a reply in chunks", answer_chunked(b"{", b'"outputs": []', b"}")),
    ("a reply byte by byte", trickle(reply(b"{}"))),
    ("a reply after 100 Continue", raw(b"HTTP/1.1 100 Continue\r\n\r\n" + reply(b"{}"))),
    (
        "a reply after early hints",
        both(raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), raw(reply(b"{}"))),
    ),
    ("a reply with bare line feeds", raw(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}")),
    ("an empty reply", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")),
    ("no content", raw(b"HTTP/1.1 204 No Content\r\n\r\n")),
    ("a reply that ends with its connection", answer_until_close(b"{}")),
    ("a close that was announced", answer_and_close(b"{}", announced=True)),
    ("a close that was not announced", answer_and_close(b"{}", announced=False)),
)


@pytest.mark.parametrize("act", [row[1] for row in GOOD], ids=[row[0] for row in GOOD])
def test_every_lawful_reply_is_good(act: Act, run: Callable) -> None:
    with FakeTriton(lambda number, request: act) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "20", "--concurrency-range", "2"),
        )
    assert ended.code == 0, ended.stderr
    assert "    Request count: 20\n" in ended.stdout
    assert "Failed" not in ended.stdout


def test_a_connection_closed_between_two_requests_is_opened_again(run: Callable, tmp_path: Path) -> None:
    act = answer_and_close(b"{}", announced=False)
    with FakeTriton(lambda number, request: act if number % 10 == 9 else None) as fake:
        ended = run(
            "perf_analyzer",
            *(
                "-m",
                "fake",
                "-u",
                fake.server.address,
                "--request-count",
                "100",
                "--json",
                str(tmp_path / "r.json"),
            ),
        )
        assert len({request.connection for request in fake.inferences}) >= 10
    assert ended.code == 0
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.request_count == 100
    assert level.measurement.failed_count == 0


def test_a_connection_is_kept_as_long_as_the_server_keeps_it(run: Callable) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "100", "--concurrency-range", "4"),
        )
        assert len({request.connection for request in fake.inferences}) == 4
    assert ended.code == 0


def test_large_bodies_go_both_ways(run: Callable) -> None:
    elements = 2 * 1024 * 1024
    model = FakeModel(
        inputs=(("INPUT0", "INT32", (elements,)),), outputs=(("OUTPUT0", "INT32", (elements,)),)
    )
    with FakeTriton(model=model, usual=reply(bytes(4 * elements))) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "6", "--concurrency-range", "2"),
        )
        tensors = [
            request.body[int(request.header("Inference-Header-Content-Length")) :]
            for request in fake.inferences
        ]
    assert ended.code == 0, ended.stderr
    assert "    Request count: 6\n" in ended.stdout
    assert [len(tensor) for tensor in tensors] == [4 * elements] * 6


# --- headers


def test_headers_are_on_every_call_and_their_values_nowhere_else(run: Callable, tmp_path: Path) -> None:
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--request-count", "10", "-v", "-v"),
            *(
                "-H",
                "Authorization:Bearer s3cret",
                "-H",
                "X-Two: with:colon",
                "--json",
                str(tmp_path / "r.json"),
            ),
        )
        requests = fake.server.requests
    assert ended.code == 0
    assert {request.header("Authorization") for request in requests} == {"Bearer s3cret"}
    assert '> [0] {"' in ended.stderr
    assert {request.header("X-Two") for request in requests} == {"with:colon"}
    assert {request.path for request in requests} == {
        "/v2",
        "/v2/models/fake",
        "/v2/models/fake/config",
        "/v2/models/fake/stats",
        "/v2/models/fake/infer",
    }
    written = ended.stdout + ended.stderr + (tmp_path / "r.json").read_text()
    assert "s3cret" not in written
    assert "with:colon" not in written


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-H", "s3cret"), "-H"),
        (("-H", "Authorization:", "s3cret"), "-H"),
        (("-H", "Bad Name:s3cret"), "-H"),
        (("-H", "Name:s3cret\r\nX: y"), "-H"),
    ],
    ids=["no colon", "not quoted", "a name with a blank", "a value with a line end"],
)
def test_a_header_that_cannot_be_sent_is_refused_without_showing_it(
    words: tuple[str, ...], says: str, run: Callable
) -> None:
    ended = run("perf_analyzer", "-m", "fake", *words)
    assert ended.code == 99
    assert says in ended.stderr.splitlines()[0]
    assert "s3cret" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["perf_analyzer", "measure"])
def test_secrets_stay_secret_when_the_server_cannot_be_reached(command: str, run: Callable) -> None:
    words = ("-m", "fake", "-u", "127.0.0.1:1", "-H", "Authorization:Bearer s3cret")
    ended = (
        run("perf_analyzer", *words) if command == "perf_analyzer" else run("inferometer", command, *words)
    )
    assert ended.code != 0
    assert "s3cret" not in ended.stdout + ended.stderr


# --- TLS

Certificate = Callable[..., tuple[str, ssl.SSLContext]]


def test_an_unknown_certificate_is_refused_with_the_reason(run: Callable, certificate: Certificate) -> None:
    with FakeTriton(tls=certificate("server")[1]) as fake:
        ended = run(
            "perf_analyzer", "-m", "fake", "-u", f"https://{fake.server.address}", "--request-count", "10"
        )
    assert ended.code == 99
    assert "certificate was rejected (self-signed certificate)" in ended.stderr
    assert "--ssl-https" in ended.stderr  # what to do about it
    assert fake.inferences == []


@pytest.mark.parametrize("checked", [True, False])
def test_a_certificate_is_accepted_by_its_authority_or_unchecked(
    checked: bool, run: Callable, certificate: Certificate
) -> None:
    authority, context = certificate("server")
    trust = (
        ("--ssl-https-ca-certificates-file", authority)
        if checked
        else ("--ssl-https-verify-peer", "0", "--ssl-https-verify-host", "0")
    )
    with FakeTriton(tls=context) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", f"https://{fake.server.address}", "--request-count", "50", *trust),
            *("--concurrency-range", "2", "-H", "Authorization:Bearer s3cret"),
        )
    assert ended.code == 0, ended.stderr
    assert "    Request count: 50\n" in ended.stdout
    assert len(fake.inferences) == 50


def test_a_certificate_for_another_host_is_refused(run: Callable, certificate: Certificate) -> None:
    authority, context = certificate("server")
    with FakeTriton(tls=context) as fake:
        words = ("-m", "fake", "-u", f"https://localhost:{fake.server.port}", "--request-count", "10")
        trust = ("--ssl-https-ca-certificates-file", authority)
        refused = run("perf_analyzer", *words, *trust)
        accepted = run("perf_analyzer", *words, *trust, "--ssl-https-verify-host", "0")
    assert refused.code == 99
    assert "localhost" in refused.stderr
    assert accepted.code == 0, accepted.stderr


PKCS8, OWN = PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL
KEYS = {
    "elliptic curve": (partial(ec.generate_private_key, ec.SECP256R1()), PKCS8),
    "elliptic curve, its own form": (partial(ec.generate_private_key, ec.SECP256R1()), OWN),
    "RSA": (partial(rsa.generate_private_key, 65537, 2048), PKCS8),
    "RSA, its own form": (partial(rsa.generate_private_key, 65537, 2048), OWN),
}


@pytest.mark.parametrize(("make_key", "form"), KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("is_der", [(True, True), (True, False), (False, True)], ids=str)
def test_our_own_certificate_and_key_may_be_der(
    make_key: Callable,
    form: PrivateFormat,
    is_der: tuple[bool, bool],
    run: Callable,
    certificate: Certificate,
) -> None:
    key = make_key()
    ours = Path(certificate("client", key)[0])
    authority, context = certificate("server")
    context.load_verify_locations(ours)
    context.verify_mode = ssl.CERT_REQUIRED
    identity = ours.with_suffix(".der"), ours.with_suffix(".key.der")
    identity[0].write_bytes(ssl.PEM_cert_to_DER_cert(ours.read_text()))
    identity[1].write_bytes(key.private_bytes(Encoding.DER, form, NoEncryption()))
    words: list[str] = []
    for name, pem, der, chosen in zip(
        ("client-certificate", "private-key"), (ours, ours.with_suffix(".key")), identity, is_der, strict=True
    ):
        words += [f"--ssl-https-{name}-file", str(der if chosen else pem)]
        words += [f"--ssl-https-{name}-type", "DER" if chosen else "PEM"]
    with FakeTriton(tls=context) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", f"https://{fake.server.address}", "--request-count", "10"),
            *("--ssl-https-ca-certificates-file", authority, *words),
        )
    assert ended.code == 0, ended.stderr
    assert len(fake.inferences) == 10


def test_large_bodies_go_both_ways_over_tls(run: Callable, certificate: Certificate) -> None:
    authority, context = certificate("server")
    elements = 512 * 1024
    model = FakeModel(
        inputs=(("INPUT0", "INT32", (elements,)),), outputs=(("OUTPUT0", "INT32", (elements,)),)
    )
    with FakeTriton(model=model, usual=reply(bytes(4 * elements)), tls=context) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", f"https://{fake.server.address}", "--request-count", "6"),
            *("--ssl-https-ca-certificates-file", authority, "--concurrency-range", "2"),
        )
    assert ended.code == 0, ended.stderr
    assert "    Request count: 6\n" in ended.stdout


def test_a_tls_server_asked_without_tls_is_explained(run: Callable, certificate: Certificate) -> None:
    with FakeTriton(tls=certificate("server")[1]) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address)
    assert ended.code == 99
    assert "failed to get model metadata" in ended.stderr
    assert "Traceback" not in ended.stderr
