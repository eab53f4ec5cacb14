"""Recognition of servers by their answers."""

import pytest

from inferometer.options.options import SERVICE_KINDS
from inferometer.services.detect import GRPC, MANAGEMENT, METRICS, TLS, ProbeAnswer, recognize
from inferometer.services.kind import KINDS

MISSING = ProbeAnswer(404, {"detail": "Not Found"})
TRITON = {"name": "triton", "version": "2.51.0", "extensions": ["statistics"]}
TORCHSERVE_404 = {
    "code": 404,
    "type": "ResourceNotFoundException",
    "message": "Requested resource is not found",
}
MODEL = {"modelName": "m", "modelUrl": "m.mar"}
METRICS_PAGE = ProbeAnswer(200, text="# HELP up Whether it is.\n# TYPE up gauge\nup 1\n")
TFSERVING = {"error": "Could not find any versions of model inferometer-looks-around"}

ROWS = [
    ("Triton", {"kserve": ProbeAnswer(200, TRITON)}, "triton http"),
    (
        "MLServer",
        {"kserve": ProbeAnswer(200, {"name": "mlserver", "version": "1", "extensions": []})},
        "triton http",
    ),
    (
        "a list of models",
        {"kserve": MISSING, "openai": ProbeAnswer(200, {"data": [{"id": "a"}]})},
        "openai http",
    ),
    (
        "TF Serving",
        {"kserve": MISSING, "openai": MISSING, "tfserving": ProbeAnswer(404, TFSERVING)},
        "tfserving http",
    ),
    ("TorchServe", {"kserve": MISSING, "ping": ProbeAnswer(200, {"status": "Healthy"})}, "torchserve http"),
    (
        "TorchServe whose workers start",
        {"ping": ProbeAnswer(500, {"status": "Unhealthy"})},
        "torchserve http",
    ),
    ("TorchServe's errors", {"ping": MISSING, "page": ProbeAnswer(404, TORCHSERVE_404)}, "torchserve http"),
    ("a web page", {"kserve": ProbeAnswer(404), "page": ProbeAnswer(200)}, "http http"),
    (
        "documents of another form",
        {"kserve": ProbeAnswer(200, [1]), "openai": ProbeAnswer(200, "x")},
        "http http",
    ),
    ("Triton's gRPC port", {"grpc kserve": ProbeAnswer(200, TRITON)}, "triton grpc"),
    ("a plain gRPC port", {"grpc kserve": ProbeAnswer(200, {"name": "x", "extensions": []})}, "triton grpc"),
    (
        "TF Serving's gRPC port",
        {"grpc tfserving": ProbeAnswer(0)},
        "tfserving grpc",
    ),
    ("another gRPC port", {"grpc": ProbeAnswer(0)}, "grpc grpc"),
    (
        "TorchServe's management port",
        {"ping": ProbeAnswer(405, TORCHSERVE_404), "management": ProbeAnswer(200, {"models": [MODEL]})},
        "management http",
    ),
    ("Triton's metrics port", {"metrics": METRICS_PAGE, "page": ProbeAnswer(200)}, "metrics http"),
    (
        "TorchServe's metrics port",
        {"metrics": METRICS_PAGE, "page": ProbeAnswer(404, TORCHSERVE_404)},
        "metrics http",
    ),
    ("the page of metrics itself", {"metrics": MISSING, "page": METRICS_PAGE}, "metrics http"),
    (
        "a site that has metrics too",
        {"metrics": METRICS_PAGE, "page": ProbeAnswer(200, text="hi")},
        "http http",
    ),
    ("a site that leads elsewhere", {"metrics": METRICS_PAGE, "page": ProbeAnswer(302)}, "http http"),
    ("an HTTPS port", {"tls": ProbeAnswer(0)}, "tls http"),
    ("a gRPC port with TLS", {"tls grpc": ProbeAnswer(0)}, "tls grpc"),
]


@pytest.mark.parametrize(("answers", "kind"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_answers_are_recognised(answers: dict[str, ProbeAnswer], kind: str):
    looks = recognize(answers)
    assert f"{looks.kind} {looks.protocol}" == kind
    assert looks.kind in SERVICE_KINDS or looks.kind in (TLS, METRICS, MANAGEMENT, GRPC)


def test_every_kind_can_be_requested():
    assert set(KINDS) <= set(SERVICE_KINDS)
