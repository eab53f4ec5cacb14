"""The whole command line against servers of our own, inside this process or as a process of its own."""

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from inferometer.cli import main
from inferometer.dialects.perf_analyzer import main as perf_analyzer
from tests.support.commands import Ended, script

COMMANDS = {"perf_analyzer": perf_analyzer.main, "inferometer": main.main}


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command line here; only its workers are processes."""

    def call(command: str, *words: str) -> Ended:
        capfd.readouterr()
        code = COMMANDS[command](list(words))
        return Ended(code, *capfd.readouterr())

    return call


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the script as a process in a group of its own, for what only processes can be done to."""
    started: list[subprocess.Popen[str]] = []

    def call(*words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(script(*words), stdout=pipe, stderr=pipe, text=True, process_group=0))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def steps(tmp_path: Path) -> Callable[..., str]:
    """A file of input data for the fake model: one step per number."""

    def write(*numbers: int) -> str:
        path = tmp_path / "steps.json"
        path.write_text(json.dumps({"data": [{"INPUT0": [number]} for number in numbers]}))
        return str(path)

    return write


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[..., tuple[str, ssl.SSLContext]]:
    """A self-signed certificate for loopback: its PEM file and a server's context. The key is in NAME.key beside it."""

    def make(
        name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None
    ) -> tuple[str, ssl.SSLContext]:
        key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        chain, secret = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, secret)
        return str(chain), context

    return make
