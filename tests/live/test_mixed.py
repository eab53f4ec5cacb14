"""Several models of the real server at once: what we say of each is what the server counts of each."""

import threading
import time

import pytest

from inferometer import api
from inferometer.server.embedded import EmbeddedTriton
from inferometer.stats.watcher import Watcher
from tests.support.commands import call
from tests.support.servers import FakeTriton, reply
from tests.support.success_counts import success_counts

pytestmark = pytest.mark.live

QUICK = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
CLASSES = {
    "fast": {"model": "simple", "rate": 30},
    "slow": {"model": "identity_fp32", "rate": 10},
}


@pytest.mark.machine(reason="a real server answers 40 requests/s on time only with a core for it")
def test_two_classes_agree_with_the_server(triton):
    models = [str(row["model"]) for row in CLASSES.values()]
    before = success_counts(triton.http_address, models)
    result = api.scenario(
        {"server": triton.http_address, "classes": CLASSES, "phases": [{"name": "both", "for": "2s"}]}
    )
    (level,) = result.levels
    for row, asked in zip(level.classes, (30, 10), strict=True):
        found = row.measurement
        assert row.rates.due_per_s == pytest.approx(asked, rel=0.05)
        assert abs(found.request_count - 2 * asked) <= 3
        assert abs(found.server.counters.success_count - found.request_count) <= 3
        assert found.server.name == row.model
        assert found.server.counters.mean_ns("success") <= found.service.mean_ns
        assert not found.failed_count
    after = success_counts(triton.http_address, models)
    assert sum(after.values()) - sum(before.values()) == result.account.sent
    assert level.measurement.request_count == sum(row.measurement.request_count for row in level.classes)


def test_by_weight_the_server_counts_three_to_one(triton):
    models = ("simple", "identity_fp32")
    before = success_counts(triton.http_address, models)
    result = api.measure(
        {"simple": 3, "identity_fp32": 1},
        url=triton.http_address,
        service_kind="auto",
        concurrency=4,
        request_count=4_000,
        duration_s=None,
        workers=2,
    )
    after = success_counts(triton.http_address, models)
    counts = [after[model] - before[model] for model in models]
    assert sum(counts) == 4_000
    assert counts[0] / 4_000 == pytest.approx(0.75, rel=0.01)
    (level,) = result.levels
    assert [row.measurement.request_count for row in level.classes] == counts


def test_a_class_that_fails_leaves_the_other_alone(triton):
    with FakeTriton(usual=reply(b"{}", status=503)) as broken:
        classes = {
            "good": {"model": "simple", "rate": 30},
            "bad": {"model": "fake", "rate": 30, "server": broken.server.address},
        }
        result = api.scenario(
            {"server": triton.http_address, "classes": classes, "phases": [{"name": "both", "for": "1s"}]}
        )
    good, bad = result.levels[0].classes
    assert good.measurement.failed_count == 0
    assert good.measurement.request_count > 10
    assert bad.measurement.request_count == 0
    assert bad.measurement.failed_count > 10


@pytest.mark.machine(reason="the outage is timed beside the run, and must agree with it within seconds")
def test_an_outage_is_reported_with_its_times():
    with EmbeddedTriton(load_models=("simple",), extra_args=QUICK) as server:
        port = int(server.http_address.rpartition(":")[2])
        again = EmbeddedTriton(load_models=("simple",), http_port=port, extra_args=QUICK)
        seen = {}

        def fail_over():
            server.stop()
            seen["gone"] = time.monotonic()
            again.start()
            seen["back"] = time.monotonic()

        thread = threading.Thread(target=fail_over)

        class InTheOutage(Watcher):
            def level_started(self, mode, value):
                if mode == "phase outage":
                    thread.start()

        try:
            result = api.scenario(
                "failover",
                model="simple",
                url=server.http_address,
                rate=50,
                duration_s=8,
                watcher=InTheOutage(),
            )
            thread.join()
        finally:
            again.stop()
    outages = [row for level in result.levels for one in level.classes for row in one.outages]
    assert sum(outage.lost for outage in outages) > 0
    assert outages[-1].back_s is not None
    assert sum(outage.down_s or 0.0 for outage in outages) <= seen["back"] - seen["gone"] + 5
    assert result.levels[-1].measurement.request_count > 0


def test_the_command_line_does_it_all(triton, tmp_path):
    scenario = tmp_path / "one.yaml"
    scenario.write_text(
        f"server: {triton.http_address}\nclasses: {{a: {{model: simple, rate: 40, slo: p99<5s}}}}\n"
        "phases: [{name: peak, for: 1s, command: 'true'}]\n"
    )
    page = tmp_path / "page.html"
    done = call("inferometer", "measure", "--scenario", str(scenario), "--html", str(page), "--no-store")
    assert done.code == 0, done.stderr
    assert "phase peak" in page.read_text()
    scenario.write_text("classes: {a: {rat: 1}}\n")
    done = call("inferometer", "measure", "--scenario", str(scenario))
    assert done.code == 2
    assert "classes.a.rat is not a known key; did you mean 'rate'?" in done.stderr
    listed = call("inferometer", "measure", "--scenario", "list").stdout
    assert all(name in listed for name in ("steady", "daily", "spike", "soak", "failover"))


def test_interfere_measures_what_sharing_a_server_costs(triton):
    found = api.interfere("simple", "upper", url=triton.http_address, service_kind="auto", duration_s=0.3)
    assert [row.name for row in found.models] == ["simple", "upper"]
    assert found.rounds == 10
    for row in found.models:
        assert row.alone.request_count
        assert row.together.request_count
        assert row.server_alone.requests > 0
        assert row.server_together.requests > 0
        assert {difference.metric for difference in row.differences} >= {"throughput", "p50", "p99"}
