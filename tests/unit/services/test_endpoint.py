"""Addresses as users write them."""

import re

import pytest

from inferometer.base.errors import UsageError
from inferometer.options.options import Tls
from inferometer.services.endpoint import parse_endpoint
from inferometer.services.tls import tls_context


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("localhost", "http://localhost:8000"),
        ("localhost:9000", "http://localhost:9000"),
        ("http://10.0.0.1:81/", "http://10.0.0.1:81"),
        ("http://h/prefix/x/", "http://h:8000/prefix/x"),
        ("https://h", "https://h:443"),
        ("HTTPS://h:444", "https://h:444"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("[::1]", "http://[::1]:8000"),
    ],
)
def test_address_is_understood(url, shown):
    assert str(parse_endpoint(url, default_port=8000, tls=Tls())) == shown


@pytest.mark.parametrize("url", ["", ":80", "h:port", "h:0", "h:70000", "ftp://h:1", "grpc://h"])
def test_bad_address_is_named_with_a_remedy(url):
    with pytest.raises(UsageError, match="address") as caught:
        parse_endpoint(url, default_port=8000, tls=Tls())
    assert f"'{url}'" in str(caught.value)
    assert caught.value.remedy


def test_tls_only_for_https():
    assert parse_endpoint("http://h", default_port=1, tls=Tls()).tls is None
    assert parse_endpoint("https://h", default_port=1, tls=Tls(verify_peer=False)).tls == Tls(
        verify_peer=False
    )


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (Tls(ca_file="no-such.pem"), "CA certificates file 'no-such.pem'"),
        (Tls(certificate_file="no.pem", key_file="no.key"), "client certificate 'no.pem'"),
        (
            Tls(certificate_file="c.der", certificate_type="DER"),
            "client certificate 'c.der' cannot be read: No such file",
        ),
        (Tls(certificate_file=__file__, certificate_type="DER"), f"client certificate '{__file__}' (DER)"),
        (Tls(certificate_file=__file__, key_file=__file__, key_type="DER"), f"key '{__file__}' (DER)"),
    ],
)
def test_files_that_cannot_be_used_are_named(tls, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        tls_context(tls)
