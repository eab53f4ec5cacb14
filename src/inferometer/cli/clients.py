"""`inferometer clients`: estimate the client machines a load needs from the limit of one local worker."""

from typing import TYPE_CHECKING

from inferometer.base.errors import UsageError
from inferometer.base.text import to_stderr
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import Command, Request
from inferometer.options.machines import ClientsOptions

if TYPE_CHECKING:
    from inferometer.selftest.one_worker import OneWorker

QUICK_S, FULL_S = 0.3, 1.5  # per repeat

COMMAND = Command(
    "inferometer clients",
    "--rate RATE [options]",
    "Estimate how many client machines a load needs: measures the cost of such a request for one worker on this "
    "machine, against its own server on loopback, and extrapolates to the whole load, with an interval, the "
    "assumptions about other machines, and the command to use.",
    ClientsOptions,
    shared=CONFIG,
)


def run(request: Request[ClientsOptions]) -> int:
    from inferometer.base.writing import writable, write_file
    from inferometer.observe.host import describe_host
    from inferometer.report.terminal import show
    from inferometer.selftest.clients_document import Planned, document, to_json
    from inferometer.selftest.clients_needed import Machines, WantedLoad, clients_needed

    own = request.own
    if own.headroom >= 1:
        raise UsageError(
            "--headroom leaves no capacity to use", remedy="give a share below 100%, such as 30%"
        )
    writable(own.json)
    host = describe_host()
    worker = _measure(own)
    load = WantedLoad(own.rate, worker.cost_us, worker.sent_bytes, worker.received_bytes)
    machines = Machines(own.cores or host["cores"], own.network, own.headroom)
    planned = Planned(own, host, worker, machines, clients_needed(load, machines))
    show(document(planned))
    print(f"\n{planned.command_title}\n  {planned.command}")
    if own.json is not None:
        write_file(own.json, to_json(planned))
    return 0


def _measure(own: ClientsOptions) -> "OneWorker":
    from inferometer.selftest.one_worker import REPEATS, Exchanged, measure_worker

    exchanged = Exchanged("grpc" if own.grpc else "http", int(own.request_size), int(own.reply_size))
    return measure_worker(
        exchanged,
        QUICK_S if own.quick else FULL_S,
        lambda number: to_stderr(f"one worker at its limit: {number} of {REPEATS}"),
    )
