"""The process beside a run that speaks to Ray: started as `python -m inferometer.cluster.ray_bridge FD`.

    run ---- socket ---- this process ---- Ray ---- actors, each with a client

Ray writes to standard output, takes over signals and ends the process it is in when its head node is gone. None of it
may happen to a run that has numbers to hand out; so it happens here. The process ends when the run does: a placement
group and actors end with their driver, nodes of a local cluster with this process and its guard.
"""

import functools
import os
import signal
import sys
import threading
import traceback
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from inferometer.base.errors import InferometerError
from inferometer.cluster.ray_cluster import RayCluster, connected, why_lost
from inferometer.cluster.ray_messages import (
    AskClient,
    BeginClients,
    ClientSaid,
    ClientsBegun,
    ClientsPlaced,
    ConnectRay,
    RayFailed,
)


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    controller = Connection(int(sys.argv[1]))
    try:
        wanted = controller.recv()
        assert isinstance(wanted, ConnectRay)
        with connected(wanted.settings, Path(wanted.folder)) as cluster:
            signal.signal(signal.SIGTERM, _end)  # Ray has put its own there
            _serve(controller, cluster)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except InferometerError as error:
        controller.send(RayFailed(error, str(error)))
    except Exception:  # the outermost frame: the controller shows it
        controller.send(RayFailed(None, traceback.format_exc()))


def _end(number: int, frame: object) -> None:
    raise EOFError


def _serve(controller: Connection, cluster: RayCluster) -> None:
    """Until the controller goes away."""
    controller.send(ClientsPlaced(cluster.place()))
    wanted = controller.recv()
    assert isinstance(wanted, BeginClients)
    actors, begun = cluster.begin(wanted)
    controller.send(ClientsBegun(begun))
    sending = threading.Lock()
    while True:
        asked = controller.recv()
        assert isinstance(asked, AskClient)
        try:
            answer = actors[asked.client].handle.remote(asked.message).future()
        except Exception as error:  # an actor that is known to be gone
            _send(controller, sending, ClientSaid(asked.number, lost=why_lost(error)))
            continue
        answer.add_done_callback(functools.partial(_answered, controller, sending, asked.number))


def _answered(controller: Connection, sending: threading.Lock, number: int, answer: "Future[Any]") -> None:
    """In a thread of Ray's."""
    try:
        said = ClientSaid(number, answer=answer.result())
    except Exception as error:  # whatever the node, its processes or Ray had
        said = ClientSaid(number, lost=why_lost(error))
    _send(controller, sending, said)


def _send(controller: Connection, sending: threading.Lock, said: ClientSaid) -> None:
    with sending:
        try:
            controller.send(said)
        except OSError:  # the main thread finds out as well
            return


if __name__ == "__main__":
    main()
    os._exit(0)  # Ray would take its leave of a cluster that may be gone
