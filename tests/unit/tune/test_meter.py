"""Figures that the engine's meter derives from a level, and when trials are interchangeable."""

import os
import subprocess
import sys
from dataclasses import replace
from threading import Event, Timer
from types import SimpleNamespace

import psutil
import pytest

from inferometer.load.plan import Closed, Open
from inferometer.options.options import DataOptions, Options
from inferometer.stats.machine_figures import GpuFigures
from inferometer.tune import trial_figures
from inferometer.tune.fingerprint import fingerprint
from inferometer.tune.meter import plan_of
from inferometer.tune.settings import Prompts
from inferometer.tune.trial import ClientLoad
from inferometer.tune.trial_figures import resident


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({}, True),
        ({"url": "elsewhere:8000"}, True),
        ({"measurement_request_count": 100}, True),
        ({"metrics_url": "http://elsewhere:8002/metrics", "metrics_interval_ms": 10}, True),
        ({"protocol": "grpc"}, False),
        ({"streaming": True}, False),
        ({"input_format": "json"}, False),
        ({"endpoint": "v1/completions"}, False),
        ({"output_tokens": 7}, False),
    ],
)
def test_only_different_requests_make_a_different_trial(changed, is_same):
    plain = Options(model="m")
    assert (fingerprint({"m": replace(plain, **changed)}, {}) == fingerprint({"m": plain}, {})) == is_same


@pytest.mark.parametrize(("own", "cap"), [({}, None), ({"synchronous": True}, 4), ({"max_threads": 2}, None)])
def test_synchronous_callers_wait_for_their_answers_at_a_rate(own, cap):
    options = replace(Options(model="m"), **own)
    plan = plan_of(ClientLoad(request_rate=50), options).plan
    assert isinstance(plan, Open)
    assert plan.cap == cap
    assert plan_of(ClientLoad(concurrency=8), options).plan == Closed(8)


def test_different_prompts_make_a_different_trial():
    options = {"m": Options(model="m")}
    others = (
        Prompts(),
        Prompts(seed=1),
        Prompts(tokenizer="a"),
        Prompts(prefix_tokens=2),
        Prompts(prefixes=2),
    )
    found = [fingerprint(options, prompts) for prompts in ({}, *({"m": other} for other in others))]
    assert len(set(found)) == 6
    assert fingerprint(options, {"m": Prompts()}) == found[1]


def test_digests_are_compatible_with_journals_of_earlier_versions():
    """Journals store the digests: if they changed, every trial would be measured again."""
    seeded = Options(model="m", data=DataOptions(seed=7))
    streamed = Options(model="m", protocol="grpc", streaming=True, sequence_length=5)
    assert fingerprint({"m": Options(model="m")}, {}) == ""
    assert fingerprint({"m": seeded}, {}) == "38da140a3783"
    assert fingerprint({"m": streamed}, {"m": Prompts(count=3)}) == "0e680b0875ce"


def level(*, reported=(), seen=(), is_local=True):
    """A level with GPUs (UUID and memory) from the server's metrics and from the host."""
    rows = {
        place: tuple(GpuFigures(uuid, 0.5, 100.0, int(size), int(80e9)) for uuid, size in found)
        for place, found in (("reported", reported), ("seen", seen))
    }
    metrics = SimpleNamespace(gpus=rows["reported"], host=None) if reported else None
    host = SimpleNamespace(gpus=rows["seen"], is_local=is_local)
    return SimpleNamespace(measurement=SimpleNamespace(metrics=metrics), host=host)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            level(reported=[("a", 4e9)], seen=[("a", 1e9)]),
            {"a": 1000.0},
        ),  # the server's figure may be outdated
        (level(reported=[("a", 4e9)], seen=[("a", 1e9), ("b", 9e9)]), {"a": 1000.0}),  # the other is not used
        (level(reported=[("a", 4e9)]), {"a": 4000.0}),
        (level(reported=[("a", 4e9)], seen=[("z", 1e9)], is_local=False), {"a": 4000.0}),
        (level(seen=[("a", 1e9)]), {"a": 1000.0}),
        (level(seen=[("a", 1e9)], is_local=False), {}),
    ],
)
def test_gpu_figures_come_from_the_host_of_the_server_or_else_its_metrics(found, expected):
    assert {
        uuid: figures.get("gpu_used_memory") for uuid, figures in trial_figures.gpus_of(found)
    } == expected


STUB = "import sys, time; print('ready', flush=True); time.sleep(600)"


def test_processes_of_the_previous_variant_do_not_count():
    """Three processes of a model with one instance: only the youngest belongs to the loaded variant."""
    stub = ["triton_python_backend_stub", "-c", STUB, "/models/m/1/model.py"]
    family = [
        subprocess.Popen(stub, executable=sys.executable, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    try:
        assert [process.stdout.readline() for process in family] == ["ready\n"] * 3
        with_all, with_one = resident(os.getpid(), {"m": 3}), resident(os.getpid(), {"m": 1})
        assert resident(os.getpid(), {"other": 1}) == pytest.approx(with_all, rel=0.1)
        young = psutil.Process(family[2].pid).memory_info().rss
        assert with_all - with_one == pytest.approx(2 * young, rel=0.2)
        family[0].kill()
        is_ended = Event()

        def end() -> None:
            is_ended.set()
            family[1].kill()

        Timer(0.3, end).start()
        trial_figures.await_leavers([os.getpid()], {"m": 1})
        assert is_ended.is_set()
        assert family[2].poll() is None
    finally:
        for process in family:
            process.kill()
            process.communicate()
