"""Remarks on a level beside its figures: what limited it, and what does not fit."""

import errno
import os
from collections import Counter
from collections.abc import Iterator

from inferometer.base.notes import Note, Remark
from inferometer.base.units import NS_PER_S
from inferometer.model.spec import ModelSpec
from inferometer.observe.statistics import ModelStatistics
from inferometer.stats.doubts import client_limit
from inferometer.stats.measurement import Measurement, Rates
from inferometer.stats.readings import CountBounds

SLACK_COUNTED = 0.01  # share of the requests that others may add, or that may be missing, before it is said
SLACK = 0.02  # share by which rates may differ before it is said
STOLEN_CORES = 0.05
_NO_FILE = os.strerror(errno.EMFILE)
_NO_PORT = os.strerror(errno.EADDRNOTAVAIL)
SPARE_FILES = 4  # left when a worker's files count as used up


def rate_remarks(rates: Rates, found: Measurement, *, is_from_start: bool) -> Iterator[Remark]:
    """By rate: whether requests were sent when they were due, and ended as sent, well or badly.

    What is due is what the schedule had in the measured time: random arrivals and gaps from a file are more or fewer
    than the rate times the time.
    """
    sent, ended = rates.sent_per_s, found.ended_count * NS_PER_S / found.duration_ns
    slack = SLACK * sent + 2 * NS_PER_S / found.duration_ns  # one request at either end may be cut
    # Requests in flight are not a queue that grows: a load that has just begun fills up with rate x service time
    # (Little's law). In a queue that grows for the whole time, they are half of what is missing.
    in_flight = sent * found.service.percentile_ns(50) / found.duration_ns if is_from_start else 0.0
    if ended < sent - slack - in_flight:
        yield rate_remark(Note.OVERLOADED, rates)
    elif sent < _due(rates) - slack:
        yield rate_remark(Note.NOT_OFFERED, rates)


def rate_remark(note: Note, rates: Rates) -> Remark:
    """Overloaded, or not sent as asked: the figures that show it."""
    sent, answered = rates.sent_per_s, rates.answered_per_s
    if note is Note.OVERLOADED:
        return Remark(note, f"overloaded: {sent:.4g} requests/s were sent and {answered:.4g} answered")
    if rates.due_per_s is None:
        return Remark(note, f"asked for {rates.asked_per_s:.4g} requests/s, sent {sent:.4g}")
    return Remark(
        note, f"{rates.due_per_s:.4g} requests/s were due by the schedule, and {sent:.4g} were sent"
    )


def _due(rates: Rates) -> float:
    return rates.asked_per_s if rates.due_per_s is None else rates.due_per_s


def client_remarks(found: Measurement, *, is_capped: bool) -> Iterator[Remark]:
    """Whether this tool or this machine is the limit."""
    limit = client_limit(found, is_capped=is_capped)
    if limit is not None:
        yield Remark(Note.CLIENT_LIMITED, limit)


def file_remarks(found: Measurement) -> Iterator[Remark]:
    client = found.client
    if client.file_limit and client.files >= client.file_limit - SPARE_FILES:
        text = f"a worker had {client.files} files open, and the system allows {client.file_limit}"
        yield Remark(Note.FEW_FILES, text)
    elif any(_NO_FILE in group.example for group in found.failures):  # at a moment when nobody counted them
        yield Remark(
            Note.FEW_FILES, f"a worker could open no more files: the system allows {client.file_limit}"
        )


def host_remarks(found: Measurement) -> Iterator[Remark]:
    """Whether the host of this machine, if it is a virtual one, has let it work."""
    stolen = found.client.stolen_cores
    if stolen >= STOLEN_CORES:
        text = f"this machine wanted to work and had no processor for {stolen:.0%} of a core's time"
        yield Remark(Note.STOLEN, f"{text}: figures are worse than the server is")


def port_remarks(found: Measurement) -> Iterator[Remark]:
    if any(_NO_PORT in group.example for group in found.failures):
        opened = f"after {found.client.connects} connections were opened" if found.client.connects else ""
        yield Remark(Note.FEW_PORTS, f"no local port was free {opened}".rstrip())


def member_remarks(server: ModelStatistics | None) -> Iterator[Remark]:
    """Models that the model's code was said to call, and did not. Members of an ensemble may rest behind its cache.

    And models whose figures are those of one version, while others were called too."""
    if server is None:
        return
    yield from _versions(server)
    if server.is_ensemble:
        return
    for member in server.members:
        if not member.was_called:
            yield Remark(Note.MEMBER_NOT_CALLED, f"'{server.name}' did not call '{member.name}'")


def count_remarks(model: ModelSpec, server: ModelStatistics, ours: CountBounds) -> Iterator[Remark]:
    """Whether the server has counted our requests, and no others."""
    counted = server.counters.success_count
    if counted > ours.most + SLACK_COUNTED * ours.most:
        text = f"the server counted {counted} requests of '{server.name}', and at most {ours.most} were from here"
        yield Remark(Note.OTHER_CLIENTS, text)
    elif counted < ours.fewest - SLACK_COUNTED * ours.fewest:
        text = f"the server counted {counted} requests of '{server.name}', and {ours.fewest} or more were answered"
        yield Remark(Note.NOT_COUNTED, text)
    calls = Counter(_calls(model))
    for member in {row.name: row for row in _ensemble_members(server)}.values():
        counted, most = member.counters.success_count, calls[member.name] * ours.most
        if most and counted > most + SLACK_COUNTED * most:
            called = f"at most {most} came from '{server.name}'"
            text = f"the server counted {counted} requests of '{member.name}', and {called}"
            yield Remark(Note.OTHER_CLIENTS, text)


def _calls(model: ModelSpec) -> Iterator[str]:
    """The models that one request of an ensemble calls, each as often as it is called."""
    members = {member.name: member for member in model.composing}
    for step in model.config.get("ensemble_scheduling", {}).get("step", ()):
        name = step.get("model_name", "")
        if name in members:
            yield name
            yield from _calls(members[name])


def _ensemble_members(server: ModelStatistics) -> Iterator[ModelStatistics]:
    """Those that only the ensemble decides how often to call; other models call theirs as they like."""
    for member in server.members if server.is_ensemble else ():
        yield member
        yield from _ensemble_members(member)


def _versions(server: ModelStatistics) -> Iterator[Remark]:
    if server.also_called:
        others = ", ".join(server.also_called)
        yield Remark(
            Note.SEVERAL_VERSIONS,
            f"version {server.version} of '{server.name}' is shown, and version {others} was called too",
        )
    for member in server.members:
        yield from _versions(member)
