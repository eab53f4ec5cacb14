"""The answer of `inferometer clients`, as a document and as a file: measurements and assumptions."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from inferometer import __version__
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_US
from inferometer.options.machines import ClientsOptions
from inferometer.report.document import Document, Message, Messages, Section, Table, Tone, text_columns
from inferometer.report.format import duration, interval, plural, quantity, share, size
from inferometer.selftest.clients_needed import CLUSTER_COST, Bounds, ClientsNeeded, Machines
from inferometer.selftest.limits import PROTOCOLS
from inferometer.selftest.one_worker import OneWorker

SCHEMA = 1
GIGA = 1e9


@frozen
class Planned:
    """The answer of `inferometer clients`."""

    asked: ClientsOptions
    host: Mapping[str, Any]
    worker: OneWorker
    machines: Machines
    needed: ClientsNeeded

    @property
    def protocol(self) -> str:
        return "grpc" if self.asked.grpc else "http"

    @property
    def command(self) -> str:
        """The command that sends this load, or its share of it if one command cannot merge all records."""
        rate, clients = self.asked.rate / self.needed.commands, self.clients_each
        words = ["inferometer measure SERVER:PORT MODEL", *(["--grpc"] if self.asked.grpc else [])]
        words += [f"-r {rate:.0f}", "--ray auto", f"--clients {clients}", f"--workers {self.machines.cores}"]
        return " ".join([*words, f"--client-resources CPU={self.machines.cores}"])

    @property
    def command_title(self) -> str:
        commands = self.needed.commands
        return "The command to use" if commands == 1 else f"One of {commands} commands, started together"

    @property
    def clients_each(self) -> int:
        """Number of clients that each command gets."""
        return -(-self.needed.clients // self.needed.commands)


def to_json(planned: Planned) -> str:
    needed = planned.needed
    found = {
        "schema": SCHEMA,
        "command": "clients",
        "tool": f"inferometer {__version__}",
        "host": planned.host,
        "asked": dataclasses.asdict(planned.asked) | {"json": None},
        "measured": dataclasses.asdict(planned.worker)
        | {"cpu_us_per_request": dataclasses.asdict(planned.worker.cost_us)},
        "machines": dataclasses.asdict(planned.machines),
        "needed": dataclasses.asdict(needed)
        | {
            "clients": needed.clients,
            "limit": needed.limit,
            "commands": needed.commands,
            "command_line": planned.command,
        },
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def document(planned: Planned) -> Document:
    notes = tuple(_messages(planned))
    return Document(
        kind="Clients",
        title="Clients for a load",
        facts=(
            f"{quantity(planned.asked.rate)} requests/s",
            PROTOCOLS[planned.protocol],
            f"requests of {size(int(planned.asked.request_size))}",
        ),
        verdict=_sentence(planned),
        sections=(
            _table("measured", "Measured here", _measured(planned)),
            _table("needed", "Needed for the load", _needed(planned)),
            Section(
                "assumed", "Assumptions about the other machines", "", (Messages(tuple(_assumed(planned))),)
            ),
            *((Section("notes", "Notes", "", (Messages(notes),)),) if notes else ()),
        ),
        tone=Tone.WARNING if notes else Tone.GOOD,
        tool=f"inferometer {__version__}",
    )


def _table(key: str, title: str, rows: Iterator[tuple[str, str]]) -> Section:
    return Section(key, title, "", (Table(title, tuple(text_columns("Figure", "Found")), tuple(rows)),))


def _sentence(planned: Planned) -> str:
    needed, machines = planned.needed, planned.machines
    clients = plural(needed.clients, "client")
    bounds = needed.bounds
    sure = "" if bounds.low == bounds.high else f" ({bounds} within the uncertainty)"
    return (
        f"{quantity(planned.asked.rate)} requests/s need {clients} of {plural(machines.cores, 'core')} and "
        f"{_bits(machines.network_bit_s)}{sure}; {needed.limit} is the limit."
    )


def _measured(planned: Planned) -> Iterator[tuple[str, str]]:
    worker, cost = planned.worker, planned.worker.cost_us
    yield "machine", f"{planned.host['processor']}, {plural(planned.host['cores'], 'core')}"
    yield (
        "CPU per request",
        f"{duration(cost.value * NS_PER_US)} {interval(cost)} in {plural(len(worker.costs_us), 'repeat')}",
    )
    yield "one worker alone", f"{quantity(fmean(worker.rates))} requests/s; limit: {_most(worker.limits)}"
    yield "sent", f"{size(round(worker.sent_bytes))} per request, with headers"
    yield "received", f"{size(round(worker.received_bytes))} per reply, with headers"


def _needed(planned: Planned) -> Iterator[tuple[str, str]]:
    needed = planned.needed
    yield "cores", f"{quantity(needed.cores.value)} {interval(needed.cores)} busy: {_clients(needed.by_cpu)}"
    sent, received = _bits(needed.sent_bit_s), _bits(needed.received_bit_s)
    yield "network", f"{sent} out, {received} in: {plural(needed.by_network, 'client')}"
    yield "a client sends", f"up to {quantity(needed.per_client)} requests/s"
    yield "merging the records", f"{quantity(needed.controller_cores)} cores where the command runs"


def _assumed(planned: Planned) -> Iterator[Message]:
    machines = planned.machines
    for text in (
        "Their cores are as fast as those of this machine, and their workers do not slow each other down.",
        f"A request costs a cluster client {share(CLUSTER_COST - 1)} more CPU than a single worker.",
        f"{share(machines.headroom)} of cores and network stay unused (--headroom): a saturated client would measure "
        "itself.",
        f"Each client's network carries {_bits(machines.network_bit_s)} in each direction (--network); "
        "acknowledgements are not counted.",
        "The server and the network in between can carry the load.",
    ):
        yield Message(text, tone=Tone.PLAIN)


def _messages(planned: Planned) -> Iterator[Message]:
    worker, needed = planned.worker, planned.needed
    if "client" not in worker.limits and "both" not in worker.limits:
        yield Message(
            f"The worker did not reach its own limit here (limit: {_most(worker.limits)}), so a request may need less "
            "CPU than measured.",
            "Run it again when this machine is idle.",
        )
    if worker.failed:
        yield Message(f"{plural(worker.failed, 'request')} failed.", "Run inferometer selftest.")
    if not needed.is_mergeable:
        yield Message(
            f"One command merges the records of {quantity(planned.asked.rate / needed.controller_cores)} requests/s "
            "at most, because merging uses one core.",
            f"Start {needed.commands} commands at the same time, each with its share of the rate and its own clients.",
        )


def _clients(bounds: Bounds) -> str:
    return plural(bounds.low, "client") if bounds.low == bounds.high else f"{bounds} clients"


def _most(limits: tuple[str, ...]) -> str:
    return max(limits, key=limits.count)


def _bits(per_s: float) -> str:
    return f"{quantity(per_s / GIGA)} Gbit/s"
