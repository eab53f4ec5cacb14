"""Self-signed certificates for servers on loopback."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


def write_certificate(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None
) -> tuple[str, ssl.SSLContext]:
    """Write a self-signed certificate; return its PEM file and a server context. The key is in NAME.key."""
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / f"{name}.pem", folder / f"{name}.key"
    encodings = ((chain, secret, "PEM"), (folder / f"{name}.der", folder / f"{name}.key.der", "DER"))
    for public, private, encoding in encodings:
        form = getattr(serialization.Encoding, encoding)
        public.write_bytes(made.public_bytes(form))
        private.write_bytes(
            key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, secret)
    return str(chain), context
