"""A client in its own process: it answers messages on a connection until the connection ends.

`python -m tests.support.agent_process FD` first receives a job. With `--clock OFFSET_NS DRIFT SINCE_NS` before the
descriptor, this process and its workers use their own clock, as described in `agents.PlantedClock`.
"""

import runpy
import sys
import time
from multiprocessing.connection import Connection
from typing import Any


def plant_clock(offset_ns: int, drift: float, anchor_ns: int) -> None:
    """Replace the clock before anything imports it by name. Kernel timers still use the machine's clock."""
    from inferometer.base import units

    real = time.monotonic_ns

    def planted() -> int:
        now = real()
        return now + offset_ns + round((now - anchor_ns) * drift)

    units.monotonic_ns = planted
    from inferometer.load import reactor

    class PlantedTimer(reactor.Timer):
        def set(self, time_ns: int) -> None:
            super().set(anchor_ns + round((time_ns - offset_ns - anchor_ns) / (1 + drift)))

    setattr(reactor, "Timer", PlantedTimer)  # noqa: B010 - mypy refuses to assign to a class


def main() -> None:
    words = sys.argv[1:]
    start: Any = None
    if words[0] == "--clock":
        planted = words[:4]
        words = words[4:]
        plant_clock(int(planted[1]), float(planted[2]), int(planted[3]))
        if words[0] == "--worker":
            sys.argv = ["worker", *words[1:]]
            runpy.run_module("inferometer.load.worker", run_name="__main__")
            return
        start = _starter(planted)
    from inferometer.base.errors import InferometerError
    from inferometer.cluster.agent import Agent
    from inferometer.cluster.messages import ClientFailed

    connection = Connection(int(words[0]))
    try:
        job = connection.recv()
        try:
            with Agent(job, start) as agent:
                connection.send(agent.pids)
                while True:
                    number, message = connection.recv()
                    connection.send((number, agent.handle(message)))
        except InferometerError as error:
            connection.send(ClientFailed(error, str(error)))
    except (EOFError, ConnectionError):
        pass


def _starter(planted: list[str]) -> Any:
    from inferometer.load.workers import start_process

    def start(command: list[str], fds: tuple[int, ...]) -> Any:
        ours = [command[0], "-m", __spec__.name, *planted, "--worker", command[-1]]
        return start_process(ours, fds)

    return start


if __name__ == "__main__":
    main()
