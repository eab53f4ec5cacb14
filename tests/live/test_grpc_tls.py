"""gRPC with TLS and mutual TLS against Tritons that were started with certificates of our own."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from inferometer.cli import main
from inferometer.dialects.perf_analyzer import main as perf_analyzer
from inferometer.server.embedded import EmbeddedTriton
from tests.support.commands import Ended, call_here

pytestmark = pytest.mark.live

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """PEM files of a certificate and its key."""

    certificate: str
    key: str


class Authority:
    """Signs certificates; its own is in the file `certificate`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        identity = self._write(name, self._build(self._name, self._key, None, DAY), self._key)
        self.certificate = identity.certificate

    def issue(self, name: str, *, host: str = "localhost", ends_in: timedelta = DAY) -> Identity:
        """A certificate for this host, valid since the day before yesterday."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._write(name, self._build(subject, key, host, ends_in), key)

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, host: str | None, ends_in: timedelta
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + ends_in)
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host is not None:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, made: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
        chain, secret = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Identity(str(chain), str(secret))


class Scene(NamedTuple):
    """A server that wants a certificate from its clients, and one whose own has expired."""

    mutual: EmbeddedTriton
    expired: EmbeddedTriton
    authority: str
    stranger: str
    client: Identity
    uninvited: Identity

    @property
    def mutual_port(self) -> str:
        return self.mutual.grpc_address.rpartition(":")[2]

    @property
    def expired_port(self) -> str:
        return self.expired.grpc_address.rpartition(":")[2]


def with_tls(identity: Identity, *extra: str) -> EmbeddedTriton:
    return EmbeddedTriton(
        load_models=("simple",),
        extra_args=(
            *(
                "--grpc-use-ssl=1",
                "--grpc-server-cert",
                identity.certificate,
                "--grpc-server-key",
                identity.key,
            ),
            *("--disable-auto-complete-config", "--exit-timeout-secs", "0", *extra),
        ),
    )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    good, expired = authority.issue("good"), authority.issue("expired", ends_in=-DAY)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        mutual = with_tls(good, "--grpc-use-ssl-mutual=1", "--grpc-root-cert", authority.certificate)
        old = with_tls(expired)
        stack.callback(mutual.stop)
        stack.callback(old.stop)
        list(pool.map(EmbeddedTriton.start, (mutual, old)))
        yield Scene(
            mutual,
            old,
            authority.certificate,
            stranger.certificate,
            authority.issue("client"),
            stranger.issue("uninvited"),
        )


def pa(address: str, *words: str) -> Ended:
    return call_here(
        perf_analyzer.main,
        *("-m", "simple", "-i", "grpc", "-u", address, "--request-count", "20", "--concurrency-range", "2"),
        *words,
    )


def trust(authority: str) -> tuple[str, ...]:
    return ("--ssl-grpc-use-ssl", "--ssl-grpc-root-certifications-file", authority)


def show(identity: Identity) -> tuple[str, ...]:
    return (
        *("--ssl-grpc-certificate-chain-file", identity.certificate),
        *("--ssl-grpc-private-key-file", identity.key),
    )


def assert_good(done: Ended) -> None:
    assert done.code == 0, done.stderr
    assert "    Request count: 20\n" in done.stdout
    assert "Failed" not in done.stdout


def assert_refused(done: Ended, *says: str) -> None:
    assert done.code == 99
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for words in says:
        assert words in done.stderr


@pytest.mark.parametrize("mode", [(), ("--streaming",)], ids=["unary", "streaming"])
def test_69_the_right_authority(mode: tuple[str, ...], scene: Scene) -> None:
    assert_good(pa(f"localhost:{scene.mutual_port}", *trust(scene.authority), *show(scene.client), *mode))


def test_69_a_wrong_authority(scene: Scene) -> None:
    done = pa(f"localhost:{scene.mutual_port}", *trust(scene.stranger), *show(scene.client))
    assert_refused(done, "certificate was rejected", "--ssl-grpc-root-certifications-file")
    # OpenSSL's two ways to say so: with and without the authority's own certificate in the chain.
    assert re.search(
        r"\((self-signed certificate in certificate chain|unable to get local issuer)", done.stderr
    )


def test_an_authority_that_the_system_does_not_know(scene: Scene) -> None:
    done = pa(f"localhost:{scene.mutual_port}", "--ssl-grpc-use-ssl", *show(scene.client))
    assert_refused(done, "certificate was rejected", "--ssl-grpc-root-certifications-file")


def test_an_expired_certificate(scene: Scene) -> None:
    done = pa(f"localhost:{scene.expired_port}", *trust(scene.authority))
    assert_refused(done, "certificate was rejected", "certificate has expired")


def test_a_wrong_host_name(scene: Scene) -> None:
    done = pa(f"127.0.0.1:{scene.mutual_port}", *trust(scene.authority), *show(scene.client))
    assert_refused(done, "certificate was rejected", "mismatch", "127.0.0.1")


def test_the_remedy_for_a_wrong_host_name(scene: Scene) -> None:
    done = pa(f"127.0.0.1:{scene.mutual_port}", *trust(scene.authority), *show(scene.client))
    assert_refused(done, "--server-name")


def test_a_server_name_that_is_given(scene: Scene) -> None:
    words = (*trust(scene.authority), *show(scene.client), "--server-name")
    assert_good(pa(f"127.0.0.1:{scene.mutual_port}", *words, "localhost"))
    assert_refused(pa(f"127.0.0.1:{scene.mutual_port}", *words, "elsewhere"), "mismatch", "elsewhere")


def test_mutual_tls_without_a_certificate(scene: Scene) -> None:
    done = pa(f"localhost:{scene.mutual_port}", *trust(scene.authority))
    assert_refused(done, "certificate if it requires one", "failed to get model metadata")


def test_mutual_tls_with_a_strangers_certificate(scene: Scene) -> None:
    done = pa(f"localhost:{scene.mutual_port}", *trust(scene.authority), *show(scene.uninvited))
    assert_refused(done, "certificate if it requires one", "failed to get model metadata")


def test_tls_asked_of_a_server_without(scene: Scene, triton: EmbeddedTriton) -> None:
    done = pa(triton.grpc_address, *trust(scene.authority))
    assert_refused(done, "failed to get model metadata", "TLS")


def test_no_tls_asked_of_a_server_with(scene: Scene) -> None:
    assert_refused(
        pa(f"localhost:{scene.expired_port}"), "failed to get model metadata", "--ssl-grpc-use-ssl"
    )


@pytest.mark.parametrize("what", ["key", "certificate"])
def test_files_that_do_not_belong_together(what: str, scene: Scene) -> None:
    mixed = (
        Identity(scene.client.certificate, scene.uninvited.key)
        if what == "key"
        else Identity(scene.client.key, scene.client.key)
    )
    done = pa(f"localhost:{scene.mutual_port}", *trust(scene.authority), *show(mixed))
    assert_refused(done, "client certificate", "cannot be used", mixed.certificate)


def test_a_file_that_does_not_exist(scene: Scene, tmp_path: Path) -> None:
    done = pa(f"localhost:{scene.mutual_port}", *trust(str(tmp_path / "none.pem")))
    assert done.code == 99
    assert "none.pem" in done.stderr.splitlines()[0]


CURL: tuple[tuple[str, Callable[[Scene], tuple[str, ...]]], ...] = (
    (
        "cacert, cert and key",
        lambda scene: (
            *("-u", f"localhost:{scene.mutual_port}", "--ssl-grpc-use-ssl", "--cacert", scene.authority),
            *("--cert", scene.client.certificate, "--key", scene.client.key),
        ),
    ),
    ("insecure", lambda scene: ("-u", f"localhost:{scene.expired_port}", "--ssl-grpc-use-ssl", "-k")),
    ("insecure, with https", lambda scene: ("-u", f"https://127.0.0.1:{scene.expired_port}", "--insecure")),
)


@pytest.mark.parametrize("words", [row[1] for row in CURL], ids=[row[0] for row in CURL])
def test_curls_spellings(words: Callable[[Scene], tuple[str, ...]], scene: Scene) -> None:
    done = call_here(
        main.main, "measure", "-m", "simple", "-i", "grpc", "--request-count", "20", *words(scene)
    )
    assert done.code == 0, done.stderr
    assert "simple · triton grpc" in done.stdout


def test_without_insecure_the_command_verifies_too(scene: Scene) -> None:
    done = call_here(
        main.main,
        *("measure", "-m", "simple", "-i", "grpc", "--request-count", "20"),
        *("-u", f"https://localhost:{scene.expired_port}", "--cacert", scene.authority),
    )
    assert done.code == 3
    assert "certificate has expired" in done.stderr


@pytest.mark.parametrize("words", [(), ("-i", "grpc"), ("-i", "http")], ids=["asked", "grpc", "http"])
@pytest.mark.parametrize("port", ["mutual_port", "expired_port"])
def test_a_port_with_tls_is_named_with_the_scheme_to_write(
    port: str, words: tuple[str, ...], scene: Scene
) -> None:
    at = f"localhost:{getattr(scene, port)}"
    done = call_here(main.main, "measure", at, "-m", "simple", *words)
    assert done.code == 2, done.stderr
    assert f"{at} is a gRPC port with TLS; type inferometer measure grpcs://{at} simple" in done.stderr


def test_the_scheme_is_enough(scene: Scene) -> None:
    words = ("-m", "simple", "-k", "--request-count", "20")
    done = call_here(main.main, "measure", f"grpcs://localhost:{scene.expired_port}", *words)
    assert done.code == 0, done.stderr
    assert "simple · triton grpc" in done.stdout


def test_a_server_that_wants_a_certificate_of_ours_is_not_taken_for_one_without_tls(scene: Scene) -> None:
    done = call_here(main.main, "measure", f"grpcs://localhost:{scene.mutual_port}", "-m", "simple", "-k")
    assert done.code == 3, done.stderr
    assert "certificate" in done.stderr
