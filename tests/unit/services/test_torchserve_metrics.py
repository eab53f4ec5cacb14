"""TorchServe's metrics page, as statistics."""

from inferometer.services.torchserve_metrics import rows

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
    second, first = rows(PAGE, "m")
    assert first["version"] == "default"
    assert first["inference_count"] == 3
    assert first["inference_stats"] == {
        "success": {"count": 3, "ns": 52_747_378},
        "queue": {"count": 3, "ns": 18_760_709},
        "compute_infer": {"count": 3, "ns": 52_747_378 - 18_760_709},
    }
    assert (second["version"], second["inference_count"]) == ("2.0", 10)


def test_a_page_without_the_model_has_no_rows() -> None:
    assert rows(PAGE, "nobody") == []
    assert rows("", "m") == []
