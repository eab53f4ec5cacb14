"""The helper process of a run that talks to Ray: started as `python -m inferometer.cluster.ray_bridge FD`.

    run ---- socket ---- this process ---- Ray ---- actors, each with a client

Ray writes to standard output, takes over signals and kills its process when the head node is gone. A separate process
protects the run, which has results to deliver, from that. The process ends with the run: a placement group and actors
end with their driver, nodes of a local cluster with this process and its guard.
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
    ClientsEnded,
    ClientsPlaced,
    ConnectRay,
    EndClients,
    RayFailed,
)


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    controller = Connection(int(sys.argv[1]))
    try:
        wanted = controller.recv()
        assert isinstance(wanted, ConnectRay)
        with connected(wanted.settings, Path(wanted.folder)) as cluster:
            signal.signal(signal.SIGTERM, _end)  # replaces Ray's handler
            _serve(controller, cluster)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except InferometerError as error:
        controller.send(RayFailed(error, str(error)))
    except Exception:  # noqa: BLE001 - the outermost frame; the controller reports it
        controller.send(RayFailed(None, traceback.format_exc()))


def _end(number: int, frame: object) -> None:
    raise EOFError


def _serve(controller: Connection, cluster: RayCluster) -> None:
    """Serve messages until the controller disconnects."""
    actors: list[Any] = []
    sending = threading.Lock()
    controller.send(ClientsPlaced(cluster.place()))
    while True:
        match controller.recv():
            case BeginClients() as wanted:
                more, begun = cluster.begin(wanted)
                actors += more
                _send(controller, sending, ClientsBegun(begun))
            case AskClient(number, client, message, is_aside):
                try:
                    answer = cluster.ask(actors[client], message, is_aside=is_aside).future()
                except Exception as error:  # noqa: BLE001 - Ray has no common class for a dead actor
                    _send(controller, sending, ClientSaid(number, lost=why_lost(error)))
                else:
                    answer.add_done_callback(functools.partial(_answered, controller, sending, number))
            case EndClients(clients):
                cluster.end([actors[client] for client in clients])
                _send(controller, sending, ClientsEnded())


def _answered(controller: Connection, sending: threading.Lock, number: int, answer: "Future[Any]") -> None:
    """Forward an answer; called in one of Ray's threads."""
    try:
        said = ClientSaid(number, answer=answer.result())
    except Exception as error:  # noqa: BLE001 - a failed node, process or Ray itself
        said = ClientSaid(number, lost=why_lost(error))
    _send(controller, sending, said)


def _send(controller: Connection, sending: threading.Lock, said: object) -> None:
    with sending:
        try:
            controller.send(said)
        except OSError:  # the main thread notices too
            return


if __name__ == "__main__":
    main()
    os._exit(0)  # skip Ray's shutdown: the cluster may be gone
