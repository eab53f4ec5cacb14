"""Contended resources, from the figures of both models."""

import random
from dataclasses import replace

import pytest

from inferometer.base.errors import UsageError
from inferometer.compare.interfere import (
    Evidence,
    InterfereRequest,
    _use,
    check_interfere,
    contention,
    evidence,
)
from inferometer.compare.interference import (
    BANDWIDTH,
    CLIENT,
    CORES,
    FRONT,
    GPU,
    HIDDEN,
    NOTHING,
    QUEUE,
    STRANGER,
    UNKNOWN,
    WORK,
    ServerTimes,
    SharedUse,
)
from inferometer.compare.live import ModelAtServer
from inferometer.measure.checks import make
from inferometer.options.values import Range
from inferometer.report.saved import document
from inferometer.stats.estimate import Estimate
from inferometer.stats.machine_figures import CoreUse, GpuFigures, HostUse
from tests.support.reports import sample_interference

IDLE = SharedUse(cores=8, busy=2.0, server_cores=1.5, waiting=0.0)
SLOWED, UNTOUCHED = sample_interference().models


def shared(alone, together, *, slower_ns=2_000_000):
    """Return a model with these (queue, compute) times in nanoseconds."""
    service = replace(SLOWED.alone.service, mean_ns=10_000_000)
    return replace(
        SLOWED,
        alone=replace(SLOWED.alone, service=service),
        together=replace(
            SLOWED.together,
            service=replace(service, mean_ns=10_000_000 + slower_ns),
            infer_per_s=Estimate(400.0),
            batch=1,
        ),
        server_alone=ServerTimes(100, *alone),
        server_together=ServerTimes(100, *together),
        use=IDLE,
    )


COMPUTE = shared((0, 5e6), (0, 7e6))


def on_gpu(share, *strangers):
    """Return the evidence from a GPU that is busy with both models, and with each alone by this share."""
    alone = replace(COMPUTE, use=replace(IDLE, gpu_share=share, gpu_strangers=strangers))
    return evidence([alone], replace(IDLE, gpu_share=0.97, gpu_strangers=strangers))


def seen(*, more_work=0.0, shares_server=True, was_full=False, **use):
    return replace(
        evidence([COMPUTE], replace(IDLE, **use)),
        more_work=Estimate(more_work, more_work, more_work),
        shares_server=shares_server,
        was_full=was_full,
    )


FULL = {"busy": 7.9, "server_cores": 7.0}
CROWDED = {"busy": 7.9, "server_cores": 0.05, "others": 7.5}


@pytest.mark.parametrize(
    ("found", "evidence", "resource", "words"),
    [
        (UNTOUCHED, seen(), NOTHING, "no loss is shown"),
        (shared((0, 5e6), (2e6, 5e6)), seen(), QUEUE, "wait for a free instance"),
        (COMPUTE, seen(**FULL, waiting=None), CORES, "the servers used 7.00 of 8 cores"),
        (
            COMPUTE,
            seen(**FULL, waiting=None, was_full=True),
            UNKNOWN,
            "waits of the models for cores may or may not",
        ),
        (COMPUTE, seen(waiting=0.9), CORES, "waited for 0.90 more cores"),
        (COMPUTE, seen(client_waiting=0.9), CLIENT, "this tool waited for 0.90 more cores"),
        (COMPUTE, seen(more_work=0.9), WORK, "took 0.90 more cores"),
        (COMPUTE, seen(gpu_share=0.95), GPU, "busy for 95 %"),
        (COMPUTE, seen(gpu_share=0.95, gpu_memory_share=0.8), BANDWIDTH, "memory was busy for 80 %"),
        (COMPUTE, on_gpu(0.95), GPU, "busy for 97 %"),
        (COMPUTE, on_gpu(0.95, 77), STRANGER, "another program (process 77) used the busy GPU"),
        (COMPUTE, on_gpu(0.4, 77), GPU, "busy for 97 %"),
        (shared((0, 5e6), (0, 5e6)), seen(), FRONT, "neither queue nor compute"),
        # A lock: requests take longer, and no resource explains it, even if others keep the machine busy.
        (COMPUTE, seen(), HIDDEN, "a lock or a queue"),
        (COMPUTE, seen(**CROWDED), HIDDEN, "a lock or a queue"),
        (COMPUTE, seen(**FULL), HIDDEN, "a lock or a queue"),  # all cores are busy, but nobody waits for one
        (COMPUTE, seen(waiting=0.39), HIDDEN, "a lock or a queue"),
        (
            COMPUTE,
            replace(seen(), more_waiting=Estimate(0.3, 0.1, 0.5)),
            UNKNOWN,
            "waits of the models for cores may",
        ),
        (
            COMPUTE,
            replace(seen(), more_waiting=Estimate(0.9, 0.3, 1.5)),
            UNKNOWN,
            "waits of the models for cores may",
        ),
        (COMPUTE, replace(seen(), more_work=None), UNKNOWN, "CPU time per request may or may not"),
        (COMPUTE, seen(**CROWDED, waiting=0.04), HIDDEN, "a lock or a queue"),
        (shared((0, 5e6), (0, 5e6)), seen(shares_server=False), HIDDEN, "a lock or a queue"),
        (COMPUTE, Evidence(None), UNKNOWN, "could not be observed"),
    ],
)
def test_contended_resources_are_identified(found, evidence, resource, words):
    told, reason = contention(found, evidence)
    assert told == resource
    assert words in reason


def pair(chance, cores, *, each, alone_wait_ms, together_wait_ms, slower_ms, others):
    """Return two servers with one request in flight each, whose processes wait for a core in each request."""

    def waiting(per_s, wait_ms):
        return per_s * wait_ms / 1000 * chance.uniform(0.85, 1.15)

    service_ms = chance.uniform(10, 60)
    alone_per_s = 1000 / (service_ms + alone_wait_ms)
    together_per_s = 1000 / (service_ms + alone_wait_ms + slower_ms)
    found = shared((0, 5e6), (0, 5e6), slower_ns=round(slower_ms * 1e6))
    found = replace(
        found,
        use=SharedUse(cores, others + each, each, waiting(alone_per_s, alone_wait_ms), others=others),
        alone=replace(found.alone, infer_per_s=Estimate(alone_per_s), batch=1),
        together=replace(found.together, infer_per_s=Estimate(together_per_s)),
        server_alone=None,
        server_together=None,
    )
    used = 2 * each * together_per_s / alone_per_s
    use = SharedUse(cores, others + used, used, waiting(2 * together_per_s, together_wait_ms), others=others)
    return found, replace(evidence([found, found], use), shares_server=False)


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_lock_is_never_taken_for_a_resource(seed):
    """Two servers that sleep in turns under one lock while other programs keep the cores busy.

    For each request they wait for a core, alone as well as together."""
    chance = random.Random(seed)
    cores = chance.choice((2, 4, 16, 64))
    wait_ms = chance.uniform(0, 15)
    found, seen = pair(
        chance,
        cores,
        each=chance.uniform(0.01, 0.1),
        alone_wait_ms=wait_ms,
        together_wait_ms=wait_ms,
        slower_ms=chance.uniform(8, 60),
        others=chance.uniform(0.8, 1) * cores,
    )
    resource, reason = contention(found, seen)
    assert resource == HIDDEN
    assert "a lock or a queue" in reason


@pytest.mark.parametrize("seed", range(20))
def test_planted_contention_for_cores_is_named(seed):
    """The models wait for cores only when both are loaded."""
    chance = random.Random(seed)
    slower_ms = chance.uniform(8, 60)
    found, seen = pair(
        chance,
        2,
        each=chance.uniform(0.5, 0.9),
        alone_wait_ms=0.1,
        together_wait_ms=slower_ms,
        slower_ms=slower_ms,
        others=0.1,
    )
    resource, _ = contention(found, seen)
    assert resource == CORES


def noisy_pair(chance, *, each, alone_wait_ms, together_wait_ms, more_work=0.0, slower_ms, others):
    """Return two servers as in `pair`, from turns of a fraction of a second on a machine whose load varies."""
    rounds, service_ms = chance.choice((10, 20, 40)), chance.uniform(10, 60)
    alone_per_s = 1000 / (service_ms + alone_wait_ms)
    together_per_s = 1000 / (service_ms + together_wait_ms + slower_ms)

    def turns(per_s, wait_ms, cores):
        return [
            HostUse(
                2,
                others + cores,
                server=cores * chance.uniform(0.9, 1.1),
                ours=CoreUse(0.05, per_s * wait_ms / 5000 * chance.lognormvariate(0, 0.7), 100),
                seconds=0.3,
                server_waiting=per_s * wait_ms / 1000 * chance.lognormvariate(0, 0.7),
            )
            for _ in range(rounds)
        ]

    alone = [turns(alone_per_s, alone_wait_ms, each) for _ in range(2)]
    used = 2 * each * together_per_s / alone_per_s + more_work * slower_ms / 1000 * 2 * together_per_s
    together = turns(2 * together_per_s, together_wait_ms, used)
    slowed_ns = round((slower_ms + together_wait_ms - alone_wait_ms) * 1e6)
    model = shared((0, 5e6), (0, 5e6), slower_ns=slowed_ns)
    rows = [
        replace(
            model,
            use=_use(hosts),
            alone=replace(model.alone, infer_per_s=Estimate(alone_per_s), batch=1),
            together=replace(model.together, infer_per_s=Estimate(together_per_s)),
            server_alone=None,
            server_together=None,
        )
        for hosts in alone
    ]
    return rows[0], replace(evidence(rows, _use(together), [*alone, together]), shares_server=False)


LOCK = {
    "each": (0.01, 0.1),
    "wait": (0, 15),
    "more_wait": (0, 0),
    "work": 0,
    "slower": (8, 60),
    "others": (1, 2),
}
BURNING = {**LOCK, "each": (0.5, 0.9), "wait": (0, 3)}  # servers that compute under the lock
SPINNING = {**LOCK, "wait": (0, 2), "work": 1}  # while they wait for the lock
SHORT = {
    "each": (0.5, 0.9),
    "wait": (0, 1),
    "more_wait": (8, 60),
    "work": 0,
    "slower": (0, 1),
    "others": (0, 0.2),
}
CROWD = {
    **SHORT,
    "wait": (3, 10),
    "more_wait": (20, 80),
    "others": (1, 1.5),
}  # and others hold cores all the time


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("kind", "resource"),
    [(LOCK, HIDDEN), (BURNING, HIDDEN), (SPINNING, WORK), (SHORT, CORES), (CROWD, CORES)],
    ids=["lock", "burning", "spinning", "short", "crowd"],
)
def test_noise_of_the_machine_leads_to_no_wrong_cause(kind, resource, seed):
    chance = random.Random(seed)
    wait_ms = chance.uniform(*kind["wait"])
    found, seen = noisy_pair(
        chance,
        each=chance.uniform(*kind["each"]),
        alone_wait_ms=wait_ms,
        together_wait_ms=wait_ms + chance.uniform(*kind["more_wait"]),
        more_work=kind["work"],
        slower_ms=chance.uniform(*kind["slower"]),
        others=chance.uniform(*kind["others"]),
    )
    told, reason = contention(found, seen)
    assert told in {resource, UNKNOWN}, reason


def test_strangers_of_the_busiest_gpu_are_kept_from_all_turns():
    gpus = (
        GpuFigures("a", 0.95, None, None, None, strangers=(77,)),
        GpuFigures("b", 0.1, None, None, None, strangers=(8,)),
    )
    turns = [HostUse(8, 1.0, seconds=1.0, gpus=row) for row in (gpus, gpus[1:], ())]
    assert _use(turns).gpu_strangers == (8, 77)


def test_a_machine_kept_busy_by_others_is_reported():
    found = sample_interference()
    crowded = replace(found, use=replace(found.use, others=1.95))
    assert document(crowded).verdict.endswith("Other programs kept 1.95 of this machine's 2 cores busy.")
    assert "Other programs" not in document(found).verdict


def test_extra_work_is_relative_to_the_same_requests_alone():
    rows = [replace(SLOWED, together=SLOWED.alone, use=replace(IDLE, server_cores=1.0))] * 2
    assert evidence(rows, replace(IDLE, server_cores=2.6)).more_work.value == pytest.approx(0.6)
    assert evidence(rows, replace(IDLE, server_cores=None)).more_work is None


def request(**given):
    options = make({"model": "a", "url": "localhost:1", **given}, defaults={"duration_s": 1.0})
    return InterfereRequest((ModelAtServer("a", "a"), ModelAtServer("b", "b")), options)


def test_interfere_takes_a_single_load():
    check_interfere(request(concurrency=Range(2)))
    with pytest.raises(UsageError, match="several levels"):
        check_interfere(request(concurrency=Range.of([1, 2])))
    with pytest.raises(UsageError, match="is not supported by `interfere`"):
        check_interfere(request(request_count=5))
