"""Schedules of the user's own, several worker processes, and arrivals as the server sees them."""

import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from inferometer import api
from inferometer.base.errors import UsageError
from inferometer.base.units import monotonic_ns
from inferometer.load.plan import Closed, Constant, Open, Periodic, Plan, Poisson
from inferometer.load.workers import Workers
from inferometer.model.spec import ModelSpec, Tensor, TensorSpec
from inferometer.options.options import Options
from inferometer.records.records import Records, join
from inferometer.selftest.accuracy import ks_distance
from inferometer.selftest.drive import NullServer, run_load, workers
from inferometer.selftest.null_server import Behaviour
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.traffic import Traffic
from inferometer.services.triton_grpc import TritonGrpc
from inferometer.services.triton_http import TritonHttp
from tests.support.grpc_servers import Act, Call, FakeGrpcTriton, Wire, asked, response, say
from tests.support.servers import FakeTriton


def numbers(fake: FakeTriton) -> list[int]:
    """What the server was sent, in the order in which it came."""
    return [struct.unpack("<i", request.body[-4:])[0] for request in fake.inferences]


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., str]:
    def write(*entries: dict[str, object]) -> str:
        path = tmp_path / "trace.jsonl"
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        return str(path)

    return write


@pytest.mark.machine(
    reason="requests some 20 ms apart arrive in their order only if none is delayed for longer"
)
def test_a_trace_sends_what_its_lines_say(run: Callable, steps: Callable, trace: Callable) -> None:
    lines = (
        {"timestamp": 0},
        {"timestamp": 60, "data": {"INPUT0": [77]}},
        {"timestamp_s": 0.02, "step": 2},
        {"timestamp": 40},
        {"timestamp": 80, "data": {"INPUT0": [77]}},
    )
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--replay", trace(*lines)),
            *("--input-data", steps(10, 11, 12)),
        )
        assert numbers(fake) == [10, 12, 12, 77, 77]
    assert ended.code == 0
    assert "  Sending 5 benchmark requests\n" in ended.stdout
    assert "    Request count: 5\n" in ended.stdout
    assert "    Request rate: asked 50, sent " in ended.stdout


@pytest.mark.machine(
    reason="requests some 20 ms apart arrive in their order only if none is delayed for longer"
)
def test_a_trace_may_name_streams(run: Callable, trace: Callable, tmp_path: Path) -> None:
    data = tmp_path / "streams.json"
    data.write_text(json.dumps({"data": [[{"INPUT0": [1]}, {"INPUT0": [2]}], [{"INPUT0": [3]}]]}))
    lines = ({"timestamp": 0, "stream": 1}, {"timestamp": 9, "stream": 0, "step": 1}, {"timestamp": 18})
    words = ("--replay", trace(*lines), "--input-data", str(data), "--speed", "0.5")
    with FakeTriton() as fake:
        ended = run("inferometer", "measure", "-m", "fake", "-u", fake.server.address, *words)
        assert numbers(fake) == [3, 2, 3]
    assert ended.code == 0
    assert "replay of trace.jsonl at speed 0.5: 3 requests in 36.0 ms" in ended.stdout


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"timestamp": 1, "step": 3}, "line 2 of '{}': the step is 3, but the data has 3"),
        ({"timestamp": 1, "stream": 1}, "line 2 of '{}': the stream is 1, but the data has 1"),
        ({"timestamp": 1, "stream": 0, "step": 7}, "line 2 of '{}': the step of stream 0 is 7"),
        ({"timestamp": 1, "data": {"INPUT0": ["x"]}}, "in line 2 of '{}'"),
        ({"timestamp": 1, "data": {"OTHER": [1]}}, "'OTHER' is not found in the model configuration"),
        ({"timestamp": None}, "line 2 of '{}': 'timestamp' is null"),
    ],
)
def test_a_wrong_line_is_named_before_any_load(
    line: dict[str, object], sentence: str, run: Callable, steps: Callable, trace: Callable
) -> None:
    path = trace({"timestamp": 0}, line)
    with FakeTriton() as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-u", fake.server.address, "--replay", path, "--input-data", steps(1, 2, 3)),
        )
        assert not fake.inferences
    assert ended.code == 99
    assert sentence.format(path) in ended.stderr


@pytest.mark.machine(
    reason="requests some 20 ms apart arrive in their order only if none is delayed for longer"
)
def test_a_fixed_schedule_sends_each_step_once_in_the_order_of_its_times(
    run: Callable, tmp_path: Path
) -> None:
    times = [90, 0, 30, 60, 120, 150]
    data, csv = tmp_path / "fixed.json", tmp_path / "fixed.csv"
    rows = [{"INPUT0": [number], "timestamp": [time]} for number, time in enumerate(times)]
    data.write_text(json.dumps({"data": rows}))
    words = ("--fixed-schedule", "--input-data", str(data), "--warmup-request-count", "2", "-f", str(csv))
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *words)
        assert numbers(fake) == [1, 2, 3, 0, 4, 5]
    assert ended.code == 0
    assert "  Sending 2 warmup requests\n  Sending 4 benchmark requests\n" in ended.stdout
    assert "Request Rate: 1 inference" not in ended.stdout
    assert "\n    Request count: 4\n" in ended.stdout
    assert "\nRequest Rate: 1, throughput: " in ended.stdout
    assert csv.read_text().splitlines()[1].startswith("1,")


def test_a_shape_makes_as_many_requests_as_it_has(run: Callable, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    words = (
        "--shape-load",
        "ramp 0..200 over 500ms then burst 100 for 100ms every 200ms",
        "--json",
        str(path),
    )
    with FakeTriton() as fake:
        ended = run("inferometer", "measure", "-m", "fake", "-u", fake.server.address, *words)
        assert len(fake.inferences) == 60
    assert ended.code == 0
    for heading in ("Due/s", "Sent/s", "Answered/s", "Service"):
        assert heading in ended.stdout
    (level,) = api.load(str(path)).levels
    assert level.measurement.request_count == sum(row.request_count for row in level.windows) == 60
    assert level.measurement.service.mean_ns <= level.measurement.latency.mean_ns


# --- ramps of streams


@pytest.mark.parametrize(("workers_count", "responses"), [(1, 3), (1, 2), (2, 3)])
def test_a_ramp_waits_for_the_responses_of_the_latest_batch(workers_count: int, responses: int) -> None:
    happened: list[tuple[str, int]] = []

    def infer(number: int, call: Call) -> Act:
        happened.append(("request", number))

        def act(wire: Wire, call: Call) -> None:
            for _ in range(responses):
                happened.append(("response", number))
                wire.answer(call, response(asked(call).id, is_final=False))
            wire.answer(call, response(asked(call).id, has_data=False))

        return act

    with FakeGrpcTriton(infer, decoupled=True) as fake:
        records = sent(ramp_traffic(fake), Periodic(2, 6, 2, 2), count=workers_count)
    assert len(records.good) == 6
    assert set(records.responses) == {responses}
    begun = [place for place, (what, _) in enumerate(happened) if what == "request"]
    for batch, first in enumerate((2, 4)):
        before = happened[: begun[first]]
        for number in range(2 * batch, 2 * batch + 2):
            assert before.count(("response", number)) >= 2


def test_a_ramp_whose_streams_are_too_short_is_refused() -> None:
    with (
        FakeGrpcTriton(lambda number, call: say(response(asked(call).id)), decoupled=True) as fake,
        pytest.raises(UsageError, match="fewer responses than the request period of 2"),
    ):
        sent(ramp_traffic(fake), Periodic(1, 2, 1, 2))


def test_a_ramp_is_exported_and_nothing_else_is_reported(run: Callable, tmp_path: Path) -> None:
    def infer(number: int, call: Call) -> Act:
        empty = response(asked(call).id, has_data=False)
        return say(*[response(asked(call).id, is_final=False)] * 3, empty)

    export, csv = tmp_path / "ramp.json", tmp_path / "ramp.csv"
    with FakeGrpcTriton(infer, decoupled=True) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming", "-f", str(csv)),
            *("--periodic-concurrency-range", "2:6:2", "--request-period", "2"),
            *("--profile-export-file", str(export)),
        )
    assert ended.code == 0
    assert "Request concurrency" not in ended.stdout
    assert "Client:" not in ended.stdout
    assert "Inferences/Second" not in ended.stdout
    assert not csv.exists()
    (level,) = json.loads(export.read_text())["experiments"]
    assert level["experiment"] == {"mode": "concurrency", "value": 1}
    assert level["window_boundaries"] == [0, 2**64 - 1]
    requests = sorted(level["requests"], key=lambda request: request["timestamp"])
    assert len(requests) == 6
    for batch in (1, 2):
        second = max(request["response_timestamps"][1] for request in requests[2 * batch - 2 : 2 * batch])
        assert all(request["timestamp"] >= second for request in requests[2 * batch : 2 * batch + 2])


def test_a_ramp_has_a_page(run: Callable, tmp_path: Path) -> None:
    def infer(number: int, call: Call) -> Act:
        empty = response(asked(call).id, has_data=False)
        return say(*[response(asked(call).id, is_final=False)] * 3, empty)

    page = tmp_path / "ramp.html"
    with FakeGrpcTriton(infer, decoupled=True) as fake:
        ended = run(
            *("inferometer", "measure", fake.server.address, "fake", "--grpc", "--streaming"),
            *("--periodic-concurrency-range", "2:6:2", "--request-period", "2"),
            *("--profile-export-file", str(tmp_path / "ramp.json"), "--html", str(page), "-q"),
        )
    assert ended.code == 0
    assert "at concurrency\u00a02 to 6" in page.read_text()


def test_a_count_of_requests_has_a_course(run: Callable, tmp_path: Path) -> None:
    words = ("-n", "100", "--json", str(tmp_path / "run.json"), "-q")
    with FakeTriton() as fake:
        assert run("inferometer", "measure", fake.server.address, "fake", *words).code == 0
    (level,) = json.loads((tmp_path / "run.json").read_text())["levels"]
    assert [window["request_count"] for window in level["windows"]] == [30, 30, 40]
    assert level["measurement"]["request_count"] == 100


def test_a_ramp_whose_streams_are_too_short_ends_with_a_sentence(run: Callable, tmp_path: Path) -> None:
    with FakeGrpcTriton(lambda number, call: say(response(asked(call).id)), decoupled=True) as fake:
        ended = run(
            "perf_analyzer",
            *("-m", "fake", "-i", "grpc", "-u", fake.server.address, "--streaming"),
            *("--periodic-concurrency-range", "1:2", "--profile-export-file", str(tmp_path / "ramp.json")),
        )
    assert ended.code == 99
    assert "fewer responses than the request period of 10" in ended.stderr


def test_a_fixed_schedule_is_exported_as_rate_0(run: Callable, tmp_path: Path) -> None:
    data, export = tmp_path / "fixed.json", tmp_path / "export.json"
    rows = [{"INPUT0": [number], "timestamp": [20 * number]} for number in range(4)]
    data.write_text(json.dumps({"data": rows}))
    words = ("--fixed-schedule", "--input-data", str(data), "--profile-export-file", str(export))
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *words)
    assert ended.code == 0
    (level,) = json.loads(export.read_text())["experiments"]
    assert level["experiment"] == {"mode": "request_rate", "value": 0.0}
    assert sorted(request["request_inputs"]["INPUT0"] for request in level["requests"]) == [0, 1, 2, 3]


def ramp_traffic(fake: FakeGrpcTriton) -> Traffic:
    host, _, port = fake.server.address.partition(":")
    target = TritonGrpc(Connection(Endpoint(host, int(port))), Options(protocol="grpc", streaming=True))
    return target.traffic(MODEL, ((Tensor("INPUT0", "INT32", (1,), bytes(4)),),))


# --- several processes

MODEL = ModelSpec("fake", "", (TensorSpec("INPUT0", "INT32", (1,)),), ())


def sent(traffic: Traffic, plan: Plan, *, count: int = 1) -> Records:
    """All requests of a plan that ends."""
    parts = []
    with Workers(traffic, count=count) as load:
        load.apply(plan)
        while True:
            collected = load.collect(monotonic_ns() + 10**9)
            parts.append(collected.records)
            if collected.is_finished:
                return join(parts)


@pytest.mark.parametrize("count", ["1", "2", "3"])
def test_workers_send_every_request_once_and_record_it_once(
    count: str, run: Callable, trace: Callable, tmp_path: Path
) -> None:
    total = 600
    order = random.Random(5).sample(range(total), total)
    lines = ({"timestamp": turn, "data": {"INPUT0": [number]}} for turn, number in enumerate(order))
    words = ("--replay", trace(*lines), "--workers", count, "--async", "--json", str(tmp_path / "r.json"))
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *words)
        assert Counter(numbers(fake)) == Counter(range(total))
    assert "Traceback" not in ended.stderr
    (level,) = api.load(str(tmp_path / "r.json")).levels
    assert level.measurement.request_count == level.measurement.latency.count == total
    assert level.measurement.failed_count == 0
    assert level.measurement.client.workers == int(count)


def test_records_of_two_workers_carry_the_ids_the_server_saw() -> None:
    total = 400
    requests = tuple((Tensor("INPUT0", "INT32", (1,), struct.pack("<i", number)),) for number in range(total))
    with FakeTriton() as fake:
        target = TritonHttp(Connection(Endpoint("127.0.0.1", fake.server.port)))
        plan = Open(Constant(800), count=total, steps=tuple(reversed(range(total))))
        records = sent(target.traffic(MODEL, requests), plan, count=2)
        seen = numbers(fake)
    assert Counter(seen) == Counter(int(step) for step in records.step) == Counter(range(total))
    by_due = records.step[np.argsort(records.due_ns)]
    assert list(by_due) == list(reversed(range(total)))


def test_workers_auto_starts_with_one_and_measures(run: Callable, tmp_path: Path) -> None:
    words = ("--workers", "auto", "--json", str(tmp_path / "r.json"), "--request-count", "50")
    with FakeTriton() as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, *words)
        assert len(fake.inferences) == 50
    assert ended.code == 0
    result = api.load(str(tmp_path / "r.json"))
    assert result.effective.workers == "auto"
    assert result.levels[0].measurement.client.workers == 1


def test_a_crew_that_is_resized_goes_on_with_all_its_workers() -> None:
    with NullServer(Behaviour()) as server, workers(server, "http", 64) as load:
        load.apply(Closed(2))
        load.resize(3)
        assert load.count == 3
        measurement, _ = run_load(load, Closed(3, count=300), 1.0)
        load.stop()
        requests = server.report().requests
    assert measurement.request_count == 300
    assert measurement.client.workers == 3
    assert requests >= 300


# --- arrivals


@pytest.mark.machine(reason="arrivals keep their gaps only where other processes leave a core")
def test_poisson_requests_arrive_when_they_are_due_and_not_evenly() -> None:
    """The k-th arrival is never before the k-th due time; how late it may be is the machine's affair."""
    rate, total, stretch = 100, 250, 100
    with NullServer(Behaviour(keeps_arrivals=True)) as server, workers(server, "http", 64) as load:
        server.report()
        _, records = run_load(load, Open(Poisson(rate, seed=11), count=total), total / rate)
        arrived = np.sort(np.array(server.report().arrivals_ns))
    due = np.sort(records.due_ns)
    assert len(arrived) == len(due) == total
    late = arrived - due
    assert late.min() >= 0
    # A machine that stops for a while brings arrivals together: judge the stretch in which it did so least, and
    # leave room. The exact test is on the simulated clock.
    first = min(range(0, total - stretch, 10), key=lambda start: late[start : start + stretch].max())
    gaps_s = np.diff(arrived[first : first + stretch]) / 1e9
    assert ks_distance(gaps_s.tolist(), rate) < 0.35
    assert ks_distance([1 / rate] * stretch, rate) > 0.6
