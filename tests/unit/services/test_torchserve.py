"""TorchServe: forms and bodies on the wire."""

import dataclasses
import email
import email.policy
from pathlib import Path

import pytest

from inferometer.base.errors import UsageError
from inferometer.model.numbers import encode
from inferometer.model.spec import ModelSpec, Tensor
from inferometer.options.options import Options, Tls
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.torchserve import TorchServe, counters

NOWHERE = Connection(Endpoint("127.0.0.1", 1, "/base"))
BYTES = bytes(range(256)) * 2


def rendered(
    step: list[Tensor], *, options: Options | None = None, version: str = "", headers: tuple = ()
) -> tuple[str, email.message.EmailMessage, bytes]:
    """Return the request line, the message parsed by a mail library, and the bare body."""
    connection = Connection(NOWHERE.endpoint, headers)
    service = TorchServe(connection, Options() if options is None else options)
    (request,) = service.traffic(ModelSpec("res net", version, (), ()), [step]).requests
    line, _, rest = request.partition(b"\r\n")
    message = email.message_from_bytes(rest, policy=email.policy.HTTP)
    return line.decode(), message, rest.partition(b"\r\n\r\n")[2]


def one(name: str, value: bytes) -> list[Tensor]:
    return [Tensor(name, "BYTES", (1,), encode("BYTES", [value]))]


def test_the_file_is_the_only_part_of_a_form(tmp_path: Path) -> None:
    path = tmp_path / "kitten_small.jpg"
    path.write_bytes(BYTES)
    line, message, body = rendered(one("TORCHSERVE_INPUT", str(path).encode()))
    assert line == "POST /base/predictions/res%20net HTTP/1.1"
    assert message["Content-Length"] == str(len(body))
    (part,) = message.iter_parts()
    assert part.get_content_type() == "image/jpeg"
    assert part.get_param("name", header="content-disposition") == "data"
    assert part.get_filename() == "kitten_small.jpg"
    boundary = message.get_boundary().encode()
    assert body.startswith(b"--" + boundary + b"\r\n")
    assert body.endswith(b"\r\n\r\n" + BYTES + b"\r\n--" + boundary + b"--\r\n")


def test_data_may_be_given_directly() -> None:
    _, message, body = rendered(one("data", b"a\r\n--b"))
    (part,) = message.iter_parts()
    assert part.get_content_type() == "application/octet-stream"
    assert b"\r\n\r\na\r\n--b\r\n--" in body


def test_a_version_is_the_end_of_the_path() -> None:
    line, _, _ = rendered(one("data", b"a"), version="1.0")
    assert line == "POST /base/predictions/res%20net/1.0 HTTP/1.1"


def test_a_file_name_cannot_end_its_header(tmp_path: Path) -> None:
    path = tmp_path / 'a"b\r\nc'
    path.write_bytes(b"x")
    _, _, body = rendered(one("TORCHSERVE_INPUT", str(path).encode()))
    assert b'filename="a%22b%0D%0Ac"\r\n' in body


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"a": 1}', "application/json"),
        (" [1]", "application/json"),
        ("plain", "application/octet-stream"),
    ],
)
def test_a_given_body_is_sent_unchanged(body: str, kind: str) -> None:
    _, message, found = rendered([], options=Options(bodies=(body,)))
    assert message["Content-Type"] == kind
    assert found == body.encode()


def test_the_users_content_type_is_kept() -> None:
    options = Options(bodies=("a,b",))
    _, message, _ = rendered([], options=options, headers=(("content-type", "text/csv"),))
    assert message.get_all("Content-Type") == ["text/csv"]


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            one("TORCHSERVE_INPUT", b"no/such"),
            "the TORCHSERVE_INPUT file 'no/such' cannot be read",
        ),
        (one("TORCHSERVE_INPUT", b"\0"), "cannot be read"),
        ([], "neither 'TORCHSERVE_INPUT' nor 'data'"),
    ],
)
def test_data_that_cannot_be_sent(step: list[Tensor], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        rendered(step)
    assert sentence in str(caught.value)


# --- the metrics page, as statistics

PAGE = """
# HELP ts_queue_latency_microseconds Torchserve prometheus counter metric
# TYPE ts_queue_latency_microseconds counter
ts_queue_latency_microseconds{model_name="m",model_version="default",hostname="vm",} 18760.709
ts_queue_latency_microseconds{model_name="other",model_version="1.0",hostname="vm",} 7.0
ts_inference_requests_total{model_name="m",model_version="default",hostname="vm",} 3.0
ts_inference_requests_total{model_name="m",model_version="2.0",hostname="vm",} 1.0E1
ts_inference_latency_microseconds{model_name="m",model_version="default",hostname="vm",} 52747.378
QueueTime{Level="Host",Hostname="vm",} 12.0
"""


def test_each_version_is_a_row() -> None:
    second, first = counters(PAGE, "m")
    assert first["version"] == "default"
    assert first["inference_count"] == 3
    assert first["inference_stats"] == {
        "success": {"count": 3, "ns": 52_747_378},
        "queue": {"count": 3, "ns": 18_760_709},
        "compute_infer": {"count": 3, "ns": 52_747_378 - 18_760_709},
    }
    assert (second["version"], second["inference_count"]) == ("2.0", 10)


def test_a_page_without_the_model_has_no_rows() -> None:
    assert counters(PAGE, "nobody") == []
    assert counters("", "m") == []


@pytest.mark.parametrize("management", [None, "other.example.com:8081", "https://other.example.com"])
def test_management_and_metrics_ports_get_no_credentials(management: str | None) -> None:
    tls = Tls(certificate_file="client.pem", key_file="client.key")
    own = Connection(Endpoint("models.example.com", 8080, tls=tls), (("Authorization", "Bearer secret"),))
    service = TorchServe(own, dataclasses.replace(Options(), management_url=management))
    for found in (service._management, service._neighbour(None, 2)):
        assert found.headers == ()
        assert found.endpoint.tls in (None, Tls())
