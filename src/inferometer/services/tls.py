"""TLS settings for connections. Imported only if needed, because the library loads slowly."""

import base64
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING

from inferometer.base.confined import check_path
from inferometer.base.errors import UsageError
from inferometer.base.reading import CERTIFICATE, check_file, read_file
from inferometer.base.system import readable_once
from inferometer.options.names import with_names

if TYPE_CHECKING:
    # Not imported by workers: it loads the whole table of options.
    from inferometer.options.options import Tls

DER = "DER"


def tls_context(tls: "Tls") -> ssl.SSLContext:
    """Return the client context for these settings; errors name the file that cannot be used."""
    for path in filter(None, (tls.ca_file, tls.certificate_file, tls.key_file)):
        check_path(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify_host and tls.verify_peer
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify_peer else ssl.CERT_NONE
    _load_authorities(context, tls)
    _load_identity(context, tls)
    return context


def _load_authorities(context: ssl.SSLContext, tls: "Tls") -> None:
    if tls.ca_file is None:
        if tls.verify_peer:  # loading them takes as long as a hundred requests
            context.load_default_certs()
        return
    remedy = "give a PEM file of certificates"
    data = _read(tls.ca_file, "the CA certificates file", remedy)
    try:
        with readable_once("identity", data) as file:
            context.load_verify_locations(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot use the CA certificates file '{tls.ca_file}': {error}",
            remedy=remedy,
        ) from error


def _load_identity(context: ssl.SSLContext, tls: "Tls") -> None:
    if tls.certificate_file is None:
        return
    certificate = _read(tls.certificate_file, "the client certificate")
    if tls.certificate_type == DER:
        certificate = _pem(certificate, "CERTIFICATE")
    key = None if tls.key_file is None else _read(tls.key_file, "the key")
    if key is not None and tls.key_type == DER:
        key = _pem(key, _key_label(key))
    try:
        with ExitStack() as files:
            paths = [
                None if data is None else files.enter_context(readable_once("identity", data))
                for data in (certificate, key)
            ]
            context.load_cert_chain(str(paths[0]), paths[1])
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the client certificate '{tls.certificate_file}' ({tls.certificate_type}) with key '{tls.key_file}' "
            f"({tls.key_type}) cannot be used: {error}",
            remedy="give a matching certificate and key, and state which are DER",
        ) from error


def _read(path: str, what: str, remedy: str = "") -> bytes:
    """Read a file; every process reads it, so it cannot be a pipe."""
    check_file(path, CERTIFICATE, what, remedy=remedy)
    return read_file(path, CERTIFICATE, what, remedy=remedy)


# --- errors

_UNKNOWN_AUTHORITY = "give its CA with {--tls-ca}, or disable verification with {--tls-insecure}"
_WRONG_NAME = "use the host name in its certificate, or give that name with {--tls-server-name}"

# By OpenSSL's verification codes.
_CERTIFICATE_REMEDIES = {
    9: "the certificate is not valid yet: check the clocks of both machines",
    10: "the certificate has expired: renew it, or disable verification with {--tls-insecure}",
    62: _WRONG_NAME,
    64: _WRONG_NAME,
}


def is_untrusted(error: BaseException | None) -> bool:
    """Return whether a certificate was rejected."""
    return isinstance(error, ssl.SSLCertVerificationError)


def maybe_problem(error: Exception) -> tuple[str, str] | None:
    """Return the reason and the remedy; None if the error is unrelated to TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate was rejected ({error.verify_message})"
        return reason, with_names(_CERTIFICATE_REMEDIES.get(error.verify_code, _UNKNOWN_AUTHORITY))
    if isinstance(error, ssl.SSLError):
        return (
            f"TLS failed ({error})",
            "check that the port speaks TLS, and give a client certificate if it requires one",
        )
    return None


# --- DER, which Python's ssl module does not read


def _pem(data: bytes, label: str) -> bytes:
    """Convert DER to PEM."""
    text = base64.encodebytes(data).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n".encode()


def _key_label(key: bytes) -> str:
    """Return the PEM label of a key, from the element after the version (RFC 5958, RFC 8017 A.1.2, RFC 5915)."""
    start = 2 + (key[1] & 0x7F if key[1:2] > b"\x7f" else 0)  # after tag and length of the outer sequence
    behind_version = key[start + 3 : start + 4]
    return {b"\x02": "RSA PRIVATE KEY", b"\x04": "EC PRIVATE KEY"}.get(behind_version, "PRIVATE KEY")
