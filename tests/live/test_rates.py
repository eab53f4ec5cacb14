"""Load by rate at a real server: contract cases 29, 39, 41, and schedules that end."""

import json
import re

import pytest

from tests.support.commands import call_script

pytestmark = pytest.mark.live


@pytest.fixture
def run(triton, tmp_path):
    def call(*words, **delays_s):
        if delays_s:
            path = tmp_path / "delay.json"
            path.write_text(json.dumps({"data": [{"INPUT0": [delay]} for delay in delays_s.values()]}))
            words = (*words, "--input-data", str(path))
        return call_script("-u", triton.http_address, *words)

    return call


def figure(done, name):
    found = re.search(rf"{re.escape(name)} ([\d.e+]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


def test_29_a_rate_that_two_callers_cannot_hold_says_so(run):
    words = ("-m", "delay", "--request-rate-range", "100", "--max-threads", "2")
    done = run(*words, "-p", "700", "-r", "3", "-s", "999999", delay=0.02)
    assert figure(done, "Avg send request rate:") < 51  # two callers, 20 ms each, one instance
    delayed = re.search(r"desired request rate\. ([\d.]+)% of the requests were delayed\. \n", done.stdout)
    assert delayed is not None
    assert float(delayed[1]) > 90
    assert figure(done, "Avg latency:") > figure(done, "Avg service time:")
    rates = re.search(r"Request rate: asked 100, sent (\S+), answered (\S+) requests/sec", done.stdout)
    assert rates is not None
    assert float(rates[1]) < 51
    summary = re.search(r"^Request Rate: 100, throughput: (\S+) infer/sec", done.stdout, re.M)
    assert summary is not None
    assert float(summary[1]) == figure(done, "Throughput:")


@pytest.mark.machine(reason="a rate is reached only with a core that is free for every request")
def test_39_each_level_of_a_range_has_its_rate(run):
    done = run(
        "-m", "simple", "--request-rate-range", "50:150:50", "-p", "600", "-r", "3", "-s", "999999", "-a"
    )
    assert re.findall(r"^Request Rate: (\S+) inference requests", done.stdout, re.M) == ["50", "100", "150"]
    found = [float(value) for value in re.findall(r"^    Throughput: (\S+) ", done.stdout, re.M)]
    assert found == pytest.approx([50, 100, 150], rel=0.1)


def test_41_gaps_from_a_file_have_no_header_and_their_rate_in_the_summary(run, tmp_path):
    gaps = tmp_path / "gaps.txt"
    gaps.write_text("30000\n10000\n40000\n20000\n25000\n")
    done = run("-m", "simple", "--request-intervals", str(gaps), "-p", "500", "-r", "3", "-s", "999999")
    assert "inference requests per seconds" not in done.stdout
    assert "\nRequest Rate: 40, throughput: " in done.stdout


@pytest.mark.machine(reason="a client that is short of cores does not call the server overloaded")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_shape_above_the_models_capacity_is_overloaded(protocol, run, triton):
    words = ("-m", "delay", "--shape-load", "hold 20 for 1s then hold 100 for 2s", "-i", protocol)
    address = ("-u", triton.grpc_address) if protocol == "grpc" else ()
    done = run(*words, *address, delay=0.02)  # one instance: fifty per second at the most
    assert "    Request count: 220\n" in done.stdout
    assert "    [WARNING] overloaded: " in done.stdout
    assert "overloaded" in done.stderr
    assert "\nRequest Rate: " in done.stdout  # the summary
    assert done.code == 0


@pytest.mark.machine(
    reason="whether windows of an overloaded server are alike depends on its share of the cores"
)
@pytest.mark.parametrize("how", ["-a", "--sync"])
def test_overload_is_a_warning_and_not_a_failure(how, run):
    # Noise of this machine is no matter here. Synchronous callers get what is steady. The latency of others grows with
    # the time: its mean in the last of three windows is 2.3 times that in the first, while the throughput stays.
    apart = "60" if how == "-a" else "999999"
    words = ("-m", "delay", "--request-rate-range", "100", how, "-p", "500", "-r", "4", "-s", apart)
    done = run(*words, delay=0.02)
    assert done.code == 0
    assert "\nRequest Rate: 100, throughput: " in done.stdout
    rates = re.search(r"Request rate: asked 100, sent (\S+), answered (\S+) requests/sec", done.stdout)
    assert rates is not None
    assert float(rates[2]) < 60
    if how == "-a":
        assert "Request latency is not stabilizing. Please try lowering the request rate." in done.stderr
        assert "overloaded" in done.stderr


def test_67_a_ramp_of_streams_is_exported(triton, tmp_path):
    data, export = tmp_path / "repeat.json", tmp_path / "ramp.json"
    data.write_text(json.dumps({"data": [{"IN": [4, 2, 0, 1], "DELAY": [1, 2, 3, 4], "WAIT": [0]}]}))
    command = ["-m", "repeat", "-u", triton.grpc_address]
    command += ["-i", "grpc", "--streaming", "--periodic-concurrency-range", "2:6:2", "--request-period", "2"]
    command += ["--input-data", str(data), "--shape", "IN:4", "--shape", "DELAY:4"]
    command += ["--profile-export-file", str(export)]
    done = call_script(*command)
    assert done.code == 0, done.stderr
    (level,) = json.loads(export.read_text())["experiments"]
    requests = sorted(level["requests"], key=lambda request: request["timestamp"])
    assert len(requests) == 6
    for batch in (1, 2):
        second = max(request["response_timestamps"][1] for request in requests[2 * batch - 2 : 2 * batch])
        assert all(request["timestamp"] >= second for request in requests[2 * batch : 2 * batch + 2])
