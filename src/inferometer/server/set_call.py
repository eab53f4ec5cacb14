"""HTTP calls that set values on a running server, which need no restart: `PUT URL [BODY]` with placeholders."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from inferometer.base.errors import PeerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.secrets import redacted
from inferometer.base.text import printable
from inferometer.server.template import filled
from inferometer.services.address import read_address
from inferometer.services.endpoint import Connection, Endpoint
from inferometer.services.http_control import HttpControl, reason_of

_METHODS = ("PUT", "POST", "PATCH", "DELETE", "GET")


@frozen
class SetCall:
    """One call; its texts may have placeholders (`template.py`)."""

    method: str
    url: str
    body: str = ""

    @property
    def texts(self) -> Iterator[str]:
        yield self.url
        yield self.body

    def make(self, values: Mapping[str, Any], timeout_s: float) -> None:
        """Make the call; raise PeerError unless the server answers with a 2xx status."""
        url, body = filled(self.url, values), filled(self.body, values)
        address = read_address(url)
        control = HttpControl(Connection(Endpoint(address.host, address.port or 80)))
        path = address.path + (f"?{address.query}" if address.query else "")
        status, answer = control.exchange(self.method, path, body.encode() or None, timeout_s=timeout_s)
        if not 200 <= status < 300:
            reason = printable(" ".join(reason_of(answer).split()))
            raise PeerError(f"{self.method} {redacted(url)} was answered with {status}: {reason}")

    def line(self, values: Mapping[str, Any]) -> str:
        """Return a command that makes the call; placeholders without a value remain."""
        words = ["curl", "-fsS", "-X", self.method]
        if self.body:
            words += ["-H", "Content-Type: application/json", "-d", filled(self.body, values)]
        return shlex.join([*words, filled(self.url, values)])


def parse_set_call(name: str, text: str) -> SetCall:
    """Parse `METHOD URL [BODY]`."""
    method, url, body = [*text.split(None, 2), "", "", ""][:3]
    if method not in _METHODS or re.match(r"http://[^/]", url) is None:
        raise UsageError(
            f"{name} '{text}' is not a call",
            remedy=f"write METHOD URL [BODY], with {', '.join(_METHODS)} and http://, such as "
            "'PUT http://127.0.0.1:{port_management}/models/m?min_worker={workers}'",
        )
    return SetCall(method, url, body)
