"""Somebody else's server: never started, never stopped."""

from inferometer.base.errors import PeerError
from inferometer.tune.launch.site import Addresses, Control, repository


class Remote:
    """A server that is there."""

    pid: int | None = None

    def __init__(self, addresses: Addresses, control: Control) -> None:
        self.addresses = addresses
        self._control = control

    def start(self) -> None:
        if not self.is_running():
            where = self.addresses.grpc if self._control.protocol == "grpc" else self.addresses.http
            raise PeerError(
                f"the server at {where} is not ready",
                remedy="check the address and that the server is up; it must run with --model-control-mode explicit",
            )

    def stop(self) -> None:
        pass

    def is_running(self) -> bool:
        return repository(self.addresses, self._control).is_ready()
