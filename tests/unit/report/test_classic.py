"""The classic report: the samples of real runs line by line, then our additions."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inferometer.base.answer_file import from_json, to_json
from inferometer.base.notes import Note, Remark
from inferometer.dialects.perf_analyzer import report as classic
from inferometer.stats.measurement import FailureGroup
from inferometer.stats.result import Result
from tests.support.reports import classic_report

Golden = Callable[[str, str], None]
REFERENCE = Path(__file__).parents[2] / "golden" / "reference"


def plain_level(build: ModuleType, **changes: Any) -> Any:
    server = build.model("addsub", build.counters(8301, 147, 14, (11.4, 93.4, 27.4)))
    fields = {"transport": 300, "send": 37, "server": server, **changes}
    return build.measurement(8300, 3208.51, 307, 374, (223, 443, 708, 1979), **fields)


def sync_http(build: ModuleType) -> Any:
    return build.result(build.level(plain_level(build)))


def async_grpc(build: ModuleType) -> Any:
    server = build.model("addsub", build.counters(7112, 1135, 793, (17.4, 216.4, 106.4)))
    row = build.measurement(
        7112, 2733.05, 1383, 489, (1377, 1959, 2119, 2571), transport=1377, send=3, receive=1, server=server
    )
    return build.result(build.level(row, 4), asynchronous=True, protocol="grpc", concurrency_start=4)


def streaming_verbose(build: ModuleType) -> Any:
    server = build.model("addsub", build.counters(9056, 171, 19, (13.4, 82.4, 54.4)))
    row = build.measurement(
        9055, 3522.71, 254, 206, (225, 323, 385, 630), transport=250, send=2, receive=1, server=server
    )
    passes = (
        (1716.51, 499, 278),
        (1959.09, 437, 283),
        (3444.2, 265, 202),
        (3557.29, 250, 235),
        (3565.72, 248, 178),
    )
    windows = [build.window(*figures) for figures in passes]
    return build.result(build.level(row, windows=windows), protocol="grpc", asynchronous=True, verbose=1)


def percentile_95(build: ModuleType) -> Any:
    row = build.measurement(10022, 3910.42, 255, 100, (199, 411, 580, 922), transport=247, send=27)
    passes = ((4547.77, 330), (4337.72, 509), (3936.09, 573), (3452.23, 683))
    level = build.level(row, windows=[build.window(*figures) for figures in passes])
    return build.result(level, percentile=95, verbose=1)


def ensemble(build: ModuleType) -> Any:
    server = build.ensemble(
        "ens",
        build.counters(3469, 493),
        build.model("addsub", build.counters(3469, 233, 26.2, (21.0, 149.1, 36.0))),
        build.model("addsub_b", build.counters(3469, 252, 27.2, (20.0, 147.1, 57.0))),
    )
    row = build.measurement(
        3469, 1370.93, 723, 300, (600, 900, 1000, 1500), transport=715, send=40, server=server
    )
    return build.result(build.level(row), model={"name": "ens"})


def nested_with_cache(build: ModuleType) -> Any:
    inner = build.ensemble(
        "ens",
        build.counters(3074, 553),
        build.model("addsub", build.counters(3074, 249, 28, (20.7, 163.7, 35.7))),
        build.model("addsub_b", build.counters(3074, 302, 31, (20.4, 200.4, 48.4))),
    )
    cached = build.model(
        "cached",
        build.counters(
            3074,
            21,
            2,
            (29.7, 35869.7, 195.7),
            inferences=1,
            executions=1,
            computed=1,
            hits=(3073, 6),
            misses=(1, 61),
        ),
        has_cache=True,
    )
    server = build.ensemble("ens_nested", build.counters(3074, 582), cached, inner)
    row = build.measurement(
        3074, 1210.5, 820, 300, (700, 900, 1000, 1500), transport=812, send=40, server=server
    )
    return build.result(build.level(row), model={"name": "ens_nested", "any_cache": True})


def batch_4(build: ModuleType) -> Any:
    server = build.model("addsub", build.counters(6408, 160, 15, (12.1, 100.1, 30.1), inferences=25632))
    row = build.measurement(
        6408, 9987.65, 400, 200, (300, 500, 700, 900), transport=392, send=38, server=server
    )
    return build.result(build.level(row), batch=4, batch_given=True)


def request_count(build: ModuleType) -> Any:
    server = build.model("addsub", build.counters(100, 471, 179, (30.7, 218.7, 41.7)))
    row = build.measurement(
        100, 99.8662, 756, 678, (460, 1835, 2029, 3203), transport=739, send=84, server=server, cpu=0.0
    )
    level = build.level(row, 2, windows=[build.window(99.8662, 756, 678, 100)])
    return build.result(level, verbose=1, request_count=100, concurrency_start=2)


def request_rate(build: ModuleType) -> Any:
    def server(count: int) -> Any:
        return build.model("addsub", build.counters(count, 518, 116, (41.4, 290.4, 66.4)))

    slow = build.measurement(
        126, 49.9537, 1087, 660, (888, 1492, 1685, 4774), transport=1079, send=123, server=server(126)
    )
    fast = build.measurement(252, 99.9287, 686, 300, (600, 900, 1000, 1500), send=60, server=server(252))
    levels = (build.level(slow, 50.0, mode="request_rate"), build.level(fast, 100.0, mode="request_rate"))
    return build.result(
        *levels, mode="request_rate", request_rate_start=50.0, request_rate_end=100.0, distribution="constant"
    )


def delayed_rate(build: ModuleType) -> Any:
    late = build.measurement(
        121, 47.98, 941050, 1992, (40000, 43000, 44000, 45000), transport=41050, delayed=119, send_rate=48.77
    )
    level = build.level(late, 100.0, mode="request_rate")
    return build.result(level, mode="request_rate", request_rate_start=100.0, distribution="poisson")


def openai(build: ModuleType) -> Any:
    row = build.measurement(
        81, 44.9832, 43644, 5072, (43915, 47859, 47888, 47927), transport=43654, send=138, receive=283
    )
    return build.result(
        build.level(row, 2),
        service_kind="openai",
        asynchronous=True,
        data_given=True,
        data_steps=2,
        measurement_interval_ms=500,
        concurrency_start=2,
    )


def failures(build: ModuleType) -> Any:
    groups = (
        FailureGroup("http 503", 12, "queue is full\nsecond line", 0.1, 3.2),
        FailureGroup("timeout", 1, "", 2.04, 2.04),
    )
    return build.result(build.level(plain_level(build, failures=groups)))


def unstable(build: ModuleType) -> Any:
    remark = Remark(Note.NOT_STABLE, "throughput of the last 3 windows spans 31 %, more than 10 %")
    row = plain_level(build, interval=0.15)
    return build.result(build.level(row, is_stable=False, remarks=[remark]))


def only_over_limit(build: ModuleType) -> Any:
    return build.result(
        build.level(plain_level(build), is_over_limit=True), latency_limit_ms=40, concurrency_end=9
    )


def over_limit(build: ModuleType) -> Any:
    levels = (
        build.level(plain_level(build)),
        build.level(plain_level(build), 5, is_over_limit=True),
        build.level(None, 9, is_stable=False),
    )
    return build.result(*levels, latency_limit_ms=40, concurrency_end=9)


def binary_search(build: ModuleType) -> Any:
    return build.result(
        build.level(plain_level(build)),
        latency_limit_ms=40,
        concurrency_end=16,
        binary_search=True,
        asynchronous=True,
    )


def bls(build: ModuleType) -> Any:
    server = build.model(
        "bls",
        build.counters(1000, 900, 50, (10, 820, 15)),
        build.model("addsub", build.counters(2000, 233, 26, (21, 149, 36))),
        build.model("never", build.counters(0, 0), version="", was_called=False),
    )
    return build.result(build.level(plain_level(build, server=server)), model={"name": "bls"})


RUNS = (
    sync_http,
    async_grpc,
    streaming_verbose,
    percentile_95,
    ensemble,
    nested_with_cache,
    batch_4,
    request_count,
    request_rate,
    delayed_rate,
    openai,
    failures,
    unstable,
    over_limit,
    only_over_limit,
    binary_search,
    bls,
)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_report_is_the_golden_one(
    run: Callable[[ModuleType], Any], build: ModuleType, golden: Golden
) -> None:
    golden(f"classic_{run.__name__}.txt", classic_report(run(build)))


def test_report_made_again_from_the_saved_file_has_the_same_bytes(build: ModuleType) -> None:
    for run in RUNS:
        first = run(build)
        assert classic_report(from_json(to_json(first), "saved", Result)) == classic_report(first)


SAMPLES = (
    sync_http,
    async_grpc,
    streaming_verbose,
    percentile_95,
    ensemble,
    nested_with_cache,
    request_count,
    openai,
)


@pytest.mark.parametrize("run", SAMPLES, ids=lambda run: run.__name__)
def test_sample_of_the_reference_is_reproduced(run: Callable[[ModuleType], Any], build: ModuleType) -> None:
    """The files contain the real tool's stdout as quoted in the contract; no test writes them."""
    sample = (REFERENCE / f"{run.__name__}.txt").read_text(encoding="utf-8")
    assert sample in classic_report(run(build))


def test_request_rate_has_its_own_header_limit_and_summary(build: ModuleType) -> None:
    text = classic_report(request_rate(build))
    for line in (
        "  Latency limit: 0 msec\n  Request Rate limit: 100 requests per seconds\n"
        "  Using uniform distribution on request generation\n",
        "Request Rate: 50 inference requests per seconds\n",
        "Request Rate: 50, throughput: 49.9537 infer/sec, latency 1087 usec\n",
    ):
        assert line in text
    assert "service time" not in text


def test_delayed_requests_are_reported_and_later_numbers_keep_their_format(build: ModuleType) -> None:
    text = classic_report(delayed_rate(build))
    assert (
        "    Avg send request rate: 48.77 infer/sec\n    [WARNING] Perf Analyzer was not able to keep up"
        in text
    )
    assert "98.35% of the requests were delayed. \n" in text
    assert "Request Rate: 100, throughput: 47.98 infer/sec" in text
    assert text.index("Avg HTTP time") < text.index("Avg service time: 41050 usec")


SETTINGS = (
    ({"warmup_request_count": 1}, "  Sending 1 warmup request\n  Using"),
    (
        {"warmup_request_count": 50, "request_count": 1},
        "  Sending 50 warmup requests\n  Sending 1 benchmark request\n",
    ),
    ({"percentile": 95, "asynchronous": True}, "  Stabilizing using p95throughput\n"),
    ({"measurement_mode": "count_windows"}, "  Minimum number of samples in each window: 50\n"),
    ({"concurrency_end": 5}, "  Latency limit: 0 msec\n  Concurrency limit: 5 concurrent requests\n"),
    ({"concurrency_start": 4, "concurrency_end": 4}, "  Concurrency limit: 4 concurrent requests\n"),
    ({"concurrency_end": 0, "latency_limit_ms": 9}, "  Latency limit: 9 msec\n  Using synchronous"),
    (
        {"service_kind": "tfserving", "batch_given": True},
        "  Batch size: 1\n  Service Kind: TENSORFLOW_SERVING\n",
    ),
    (
        {"stopping": "precision", "precision": 0.02, "duration_s": 10.0},
        "  Stopping when 95 % intervals are within 2 %, at the latest after 10 s\n",
    ),
)


@pytest.mark.parametrize(("effective", "lines"), SETTINGS, ids=[next(iter(row)) for row, _ in SETTINGS])
def test_setting_is_shown(effective: dict[str, Any], lines: str, build: ModuleType) -> None:
    assert lines in classic.settings_block(build.result(**effective))


def test_single_concurrency_shows_no_limits(build: ModuleType) -> None:
    assert "limit" not in classic.settings_block(build.result(concurrency_start=4))


def test_data_line_names_steps_only_for_one_stream(build: ModuleType) -> None:
    assert classic.data_line(build.result().effective) == ""
    four = build.result(data_given=True, data_streams=4, data_steps=2)
    assert classic.data_line(four.effective) == " Successfully read data for 4 stream/streams.\n"


def test_window_without_a_request_says_so(build: ModuleType) -> None:
    line = classic.pass_line(1, build.window(0.0, 0, count=0), None)
    assert line == (
        "  Pass [1] cb::Error: No valid requests recorded within time interval. "
        "Please use a larger time window.\n"
    )


def test_the_chosen_percentile_is_in_order(build: ModuleType) -> None:
    row = build.measurement(10, 5.0, 30, 2, (1, 3, 4, 5), extra={75: 2})
    text = classic.level_block(build.result(percentile=75), build.level(row))
    assert "    p50 latency: 1 usec\n    p75 latency: 2 usec\n    p90 latency: 3 usec\n" in text


def test_decoupled_model_has_an_empty_transport_line(build: ModuleType) -> None:
    result = build.result(build.level(plain_level(build)), model={"is_decoupled": True})
    assert "    p99 latency: 1979 usec\n    \n  Server: \n" in classic_report(result)
    assert "using the last response for measuring latency\n\n" in classic.settings_block(result)


def test_busy_client_is_warned_about_after_the_block(build: ModuleType) -> None:
    text = classic.level_block(build.result(), build.level(plain_level(build, cpu=0.51)))
    assert text.endswith(
        "\n\n[WARNING] Perf Analyzer is not able to keep up with the desired load. "
        "The results may not be accurate.\n"
    )


def test_model_without_a_successful_request_is_one_line(build: ModuleType) -> None:
    server = build.model("addsub", build.counters(0, 0))
    text = classic.level_block(build.result(), build.level(plain_level(build, server=server)))
    assert text.endswith("  Server: \n    Request count: 0\n")


def test_added_lines_follow_the_lines_that_scripts_read(build: ModuleType) -> None:
    without = classic_report(sync_http(build)).splitlines()
    for run in (failures, unstable):
        lines = classic_report(run(build)).splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("    Avg HTTP time"))
        assert lines[: at + 1] == without[: at + 1]


def test_no_level_no_summary(build: ModuleType) -> None:
    assert classic.summary(build.result(build.level(None))) == ""
