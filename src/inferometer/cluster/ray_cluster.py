"""The helper process's view of a Ray cluster: connect, place clients, start them."""

import contextlib
import hashlib
import logging
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import inferometer
from inferometer.base.errors import InferometerError, LocalError, UsageError
from inferometer.base.units import plain_number
from inferometer.cluster.messages import ClientFailed
from inferometer.cluster.ray_actors import RayClient, make_probe
from inferometer.cluster.ray_messages import CLIENT, LOCAL, SERVER, BeginClients, BegunClient, RaySettings
from inferometer.cluster.ray_nodes import LocalNodes, answers
from inferometer.cluster.ray_shares import share_for, this_machine
from inferometer.options.names import option_name, with_names

LOCAL_CLIENTS = 2
REACH_S = 5.0  # for an address to answer
PLACE_S = 30.0  # for Ray to place the clients
PROBE_S = 60.0  # for a first process on every node
BEGIN_S = 120.0  # for actors and their workers to be ready, including shipping the package
_POLL_S = 0.1
_LONGEST = 200  # characters of Ray's messages
REMOTE = "ray://"
ASIDE = "aside"  # calls that a client answers while working on others
_OPTIONS = {
    "num_cpus": 0,  # reserved by the placement group, which several may share in turns
    "max_restarts": 0,
    "max_task_retries": 0,
}
_START = "start one with `ray start --head` on this machine, or use {ray:local}"


@contextlib.contextmanager
def connected(settings: RaySettings, folder: Path) -> Iterator["RayCluster"]:
    """Connect to the cluster at this address; a local one ends with this context."""
    resources = dict(settings.resources) or {"CPU": 1.0}
    with contextlib.ExitStack() as stack:
        count = settings.clients
        if settings.address == LOCAL:
            count = LOCAL_CLIENTS if count is None else count
            is_one = settings.noun == SERVER  # servers share this machine's resources
            nodes = stack.enter_context(
                LocalNodes(1, this_machine(), folder) if is_one else LocalNodes(count, resources, folder)
            )
            _init(nodes.address, settings.address, _node_ip_address=nodes.ip(0))  # ends with the nodes
            _wait_for_nodes(nodes)
        else:
            _check_reachable(settings.address)
            _init(settings.address, settings.address)
            import ray

            stack.callback(ray.shutdown)
        yield RayCluster(settings, resources, count)


def _check_reachable(address: str) -> None:
    """Raise if the address does not answer; Ray itself would wait for a long time."""
    if address == "auto":
        return
    host, _, port = address.removeprefix(REMOTE).rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(
            f"{option_name('--ray')} {address} is not the address of a Ray cluster",
            remedy="write auto, local, host:port, or ray://host:port such as ray://head:10001",
        )
    if not answers(host.strip("[]"), int(port), timeout_s=REACH_S):
        raise UsageError(
            f"no answer from {host}:{port}, the address of {option_name('--ray')}",
            remedy="check that the head node of the cluster runs there and that its port is reachable from here",
        )


def _init(address: str, asked: str, **more: Any) -> None:
    import ray

    try:
        ray.init(
            address=address,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.CRITICAL,
            **more,
        )
    except Exception as error:  # Ray raises anything from ConnectionError to assertions
        if asked == "auto" and isinstance(error, ConnectionError):
            raise UsageError(
                f"{option_name('--ray')} auto: no Ray cluster runs on this machine", remedy=with_names(_START)
            ) from error
        raise UsageError(
            f"{option_name('--ray')} {asked}: {_first_line(error)}", remedy=_remedy(error, asked)
        ) from error


def _remedy(error: Exception, asked: str) -> str:
    said = str(error)
    if "ersion" in said and "mismatch" in said.lower():
        return "install the same versions of Ray and Python here and on the cluster"
    if asked == LOCAL:
        return "check whether this machine is out of memory or processes"
    if not asked.startswith(REMOTE):
        return "host:port is for a machine that is a node of the cluster; from elsewhere use ray://host:10001"
    return "check that the head node of the cluster runs there, with the same versions of Ray and Python"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _wait_for_nodes(nodes: LocalNodes) -> None:
    deadline = time.monotonic() + PROBE_S
    while len(_alive()) < nodes.count:
        nodes.check()
        if time.monotonic() >= deadline:
            raise LocalError(
                f"only {len(_alive())} of {nodes.count} nodes of the local Ray cluster started within "
                f"{plain_number(PROBE_S)} s",
                remedy=f"this machine may be overloaded; try again with fewer {option_name('--clients')}",
            )
        time.sleep(_POLL_S)


def _alive() -> list[Mapping[str, Any]]:
    return [node for node in _untyped("nodes")() if node["Alive"]]


def _untyped(name: str) -> Any:
    """Return a Ray function whose type annotations are missing or wrong."""
    import ray

    return getattr(ray, name)


class RayCluster:
    """A connected cluster."""

    def __init__(self, settings: RaySettings, resources: Mapping[str, float], count: int | None) -> None:
        self._settings = settings
        self._resources = resources
        self._count = count
        self._room: Any = None  # the placement group

    def place(self) -> int:
        """Place the clients on nodes that have this package, and return their number."""
        import ray

        count = self._place()
        if self._settings.address != LOCAL and not self._have_package(count):
            # Ray ships a folder only for a whole connection.
            ray.shutdown()
            _init(
                self._settings.address, self._settings.address, runtime_env={"py_modules": [str(_package())]}
            )
            count = self._place()
        return count

    def _place(self) -> int:
        from ray.util.placement_group import placement_group, remove_placement_group

        totals = [node["Resources"] for node in _alive()]
        count = self._count
        if self._settings.noun == SERVER:
            count = count or 1
            self._resources = share_for(count, totals)
            if not self._resources:
                raise self._no_room(count, totals)
        if count is None:
            count = sum(_fits(self._resources, total) for total in totals)
        room = placement_group([dict(self._resources)] * max(count, 1), strategy="SPREAD")
        if not count or not room.wait(PLACE_S):
            remove_placement_group(room)
            raise self._no_room(count, totals)
        self._room = room
        return count

    def _free(self, needed: Mapping[str, float]) -> str:
        """Describe the free amounts of the needed resources."""
        free = _untyped("available_resources")()
        return f"free now: {in_words({name: free.get(name, 0) for name in needed})}"

    def begin(self, wanted: BeginClients) -> tuple[list[Any], tuple[BegunClient, ...]]:
        """Start the clients, each with its job, and wait until they are ready."""
        actor = _untyped("remote")(concurrency_groups={ASIDE: 1})(RayClient)
        gpus = self._resources.get("GPU", 0) if self._settings.noun == SERVER else 0
        options = {**_OPTIONS, "num_gpus": gpus} if gpus else _OPTIONS  # a server sees only its own GPU
        actors = [
            actor.options(**options, scheduling_strategy=self._bundle(number)).remote()
            for number in range(len(wanted.jobs))
        ]
        refs = [
            client.begin.remote(job, wanted.files) for client, job in zip(actors, wanted.jobs, strict=True)
        ]
        found = self._gather(refs, BEGIN_S, "was not ready")
        for _, failed in found:
            if failed:
                _raise_failed(pickle.loads(failed))
        return actors, tuple(client for client, _ in found)

    def _no_room(self, count: int, totals: Sequence[Mapping[str, Any]]) -> UsageError:
        noun = self._settings.noun
        needed = self._resources or {
            "CPU": 1,
            **({"GPU": 1} if any(row.get("GPU") for row in totals) else {}),
        }
        other = f" or other {option_name('--client-resources')}" if noun == CLIENT else ""
        return UsageError(
            f"{f'{count} {noun}s' if count > 1 else f'a {noun}'} with {in_words(needed)} each cannot be placed: "
            f"{offered(totals)}; {self._free(needed)}",
            remedy=f"give fewer {option_name(f'--{noun}s')}{other}, or wait until resources are free",
        )

    def _bundle(self, number: int) -> Any:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return PlacementGroupSchedulingStrategy(self._room, placement_group_bundle_index=number)

    def ask(self, actor: Any, message: bytes, *, is_aside: bool) -> Any:
        """Return a reference to the answer. Over ray:// requests run one by one, because Ray's client lacks concurrency
        groups."""
        if is_aside and not self._settings.address.startswith(REMOTE):
            return actor.handle.options(concurrency_group=ASIDE).remote(message)
        return actor.handle.remote(message)

    def end(self, actors: Sequence[Any]) -> None:
        import ray

        for actor in actors:
            with contextlib.suppress(Exception):  # it or its node has already ended
                ray.kill(actor)

    def _have_package(self, count: int) -> bool:
        """Whether all nodes have exactly this package."""
        import ray

        probe = ray.remote(make_probe())
        refs = [
            probe.options(num_cpus=0, max_retries=0, scheduling_strategy=self._bundle(number)).remote()
            for number in range(count)
        ]
        found = self._gather(refs, PROBE_S, "did not answer")
        for number, (_, _, missing) in enumerate(found):
            if missing:
                raise UsageError(
                    f"the node of {self._settings.noun} {number + 1} lacks {missing}, which inferometer requires",
                    remedy="install inferometer on the nodes: pip install inferometer",
                )
        own = (inferometer.__version__, fingerprint())
        return all((version, state) == own for version, state, _ in found)

    def _gather(self, refs: list[Any], limit_s: float, what: str) -> list[Any]:
        import ray

        _, late = ray.wait(refs, num_returns=len(refs), timeout=limit_s)
        if late:
            number = refs.index(late[0]) + 1
            raise LocalError(
                f"{self._settings.noun} {number} {what} within {plain_number(limit_s)} s",
                remedy="its node may be overloaded or unreachable; `ray status` shows the cluster",
            )
        found = []
        for number, ref in enumerate(refs, 1):
            try:
                found.append(ray.get(ref, timeout=REACH_S))
            except Exception as error:  # any failure of the node, its processes or Ray
                raise LocalError(
                    f"{self._settings.noun} {number} could not be started: {why_lost(error)}",
                    remedy="check the logs of its node; the same Python and Ray must be installed there",
                ) from error
        return found


def _raise_failed(failed: ClientFailed) -> None:
    if isinstance(failed.error, InferometerError):
        raise failed.error
    raise LocalError(f"a client could not be started: {failed.text}")


def _package() -> Path:
    return Path(inferometer.__file__).parent


def fingerprint() -> str:
    digest = hashlib.sha256()
    folder = _package()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _fits(needed: Mapping[str, float], total: Mapping[str, float]) -> bool:
    return all(total.get(name, 0) >= amount for name, amount in needed.items())


def in_words(resources: Mapping[str, float]) -> str:
    """Format resources, such as `CPU 2, client 1`."""
    return ", ".join(f"{name} {plain_number(amount)}" for name, amount in resources.items()) or "nothing"


def offered(totals: Sequence[Mapping[str, Any]]) -> str:
    """Describe the cluster's resources node by node."""
    rows: dict[str, int] = {}
    for total in totals:
        shown = {
            name: amount
            for name, amount in sorted(total.items())
            if not name.startswith(("node:", "object_store_memory", "accelerator_type", "bundle"))
            and "_group_" not in name
            and name != "memory"
        }
        words = in_words(shown)
        rows[words] = rows.get(words, 0) + 1
    nodes = "; ".join(f"{count} node{'s' * (count > 1)} with {words}" for words, count in rows.items())
    return f"the cluster has {nodes or 'no nodes'}"


_REASONS = (
    ("node", "its node was lost"),
    ("worker process has died", "its process has ended"),
    ("killed", "its process was killed"),
)


def why_lost(error: BaseException) -> str:
    """Summarize why a call of an actor failed; Ray's own explanation is a page-long guess."""
    if type(error).__name__ == "ActorUnavailableError":
        return "it can no longer be reached"
    said = " ".join(str(error).split())
    _, is_dead, reason = said.partition("The actor is dead because ")
    for words, meaning in _REASONS if is_dead else ():
        if words in reason[:100]:
            return meaning
    if type(error).__name__ == "ActorDiedError":
        return "its process has ended"
    return _first_line(error)[:_LONGEST]
