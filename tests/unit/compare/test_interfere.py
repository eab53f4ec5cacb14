"""What models contend for, by the figures of both."""

from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.compare.interfere import InterfereRequest, check_interfere, contention
from inferometer.compare.interference import (
    BANDWIDTH,
    CORES,
    FRONT,
    GPU,
    NOTHING,
    QUEUE,
    ServerTimes,
    SharedUse,
)
from inferometer.compare.live import ModelAtServer
from inferometer.measure.checks import make
from inferometer.options.values import Range
from tests.support.reports import sample_interference

IDLE = SharedUse(cores=8, busy=2.0, server_cores=1.5, waiting=0.0)
SLOWED, UNTOUCHED = sample_interference().models


def shared(alone, together, *, slower_ns=2_000_000):
    """Of (queue, compute) in nanoseconds."""
    service = replace(SLOWED.alone.service, mean_ns=10_000_000)
    return replace(
        SLOWED,
        alone=replace(SLOWED.alone, service=service),
        together=replace(SLOWED.together, service=replace(service, mean_ns=10_000_000 + slower_ns)),
        server_alone=ServerTimes(100, *alone),
        server_together=ServerTimes(100, *together),
        use=IDLE,
    )


@pytest.mark.parametrize(
    ("found", "use", "resource", "words"),
    [
        (UNTOUCHED, IDLE, NOTHING, "no figure is worse"),
        (shared((0, 5e6), (2e6, 5e6)), IDLE, QUEUE, "wait for a free instance"),
        (shared((0, 5e6), (0, 7e6)), replace(IDLE, busy=7.9), CORES, "7.90 of 8 cores were busy"),
        (shared((0, 5e6), (0, 7e6)), replace(IDLE, waiting=0.5), CORES, "waited for 0.50 cores more"),
        (shared((0, 5e6), (0, 7e6)), IDLE, BANDWIDTH, "while cores were free"),
        (shared((0, 5e6), (0, 7e6)), replace(IDLE, gpu_share=0.95), GPU, "busy for 95 %"),
        (
            shared((0, 5e6), (0, 7e6)),
            replace(IDLE, gpu_share=0.95, gpu_memory_share=0.8),
            BANDWIDTH,
            "the GPU's memory was busy for 80 %",
        ),
        (shared((0, 5e6), (0, 5e6)), IDLE, FRONT, "neither queue nor compute"),
    ],
)
def test_what_they_contend_for(found, use, resource, words):
    told, reason = contention(found, use)
    assert told == resource
    assert words in reason


def request(**given):
    options = make({"model": "a", "url": "localhost:1", **given}, defaults={"duration_s": 1.0})
    return InterfereRequest((ModelAtServer("a", "a"), ModelAtServer("b", "b")), options)


def test_one_load_for_all():
    check_interfere(request(concurrency=Range(2)))
    with pytest.raises(UsageError, match="several levels"):
        check_interfere(request(concurrency=Range.of([1, 2])))
    with pytest.raises(UsageError, match="has no place in `interfere`"):
        check_interfere(request(request_count=5))
