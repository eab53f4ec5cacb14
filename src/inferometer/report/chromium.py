"""An installed Chromium that turns a page into a picture or a PDF.

It is controlled with the Chrome DevTools Protocol over a pair of pipes, as JSON messages that end with a zero byte, so
that no open port and no extra package is needed.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

from inferometer.base.errors import LocalError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
DEADLINE_S = 60.0
WIDTH = 1100
MOST_PIXELS = 16_000  # largest height of a picture; longer pages are scaled down

_FLAGS = (
    "--headless",
    "--no-sandbox",  # it must run as root in containers, and only opens our own files
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def find_chromium() -> str:
    """Return the path of a Chromium or Chrome on this machine."""
    found = next((path for name in NAMES if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise LocalError(
            "pictures and PDFs require Chromium, which is not installed",
            remedy="install the package chromium (Debian, Ubuntu: apt-get install chromium) or Google Chrome",
        )
    return found


@dataclass(slots=True)
class Tab:
    """An open page; `events` are messages that the browser sent unasked, such as errors of the page."""

    commands: int  # file descriptors of the pipes
    replies: int
    deadline_s: float = DEADLINE_S
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0
    _received: bytearray = field(default_factory=bytearray)

    def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """Send a command to the browser and return its reply."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self._write(json.dumps(message).encode() + b"\0")
        until_s = time.monotonic() + self.deadline_s
        while True:
            reply = self._next(until_s)
            if reply.get("id") == self._number:
                break
            self.events.append(reply)
        if "error" in reply:
            raise LocalError(f"Chromium refused {method}: {reply['error'].get('message')}")
        found: Mapping[str, Any] = reply["result"]
        return found

    def open(self, path: Path, *, width: int = WIDTH, height: int = 900) -> None:
        """Open a file and wait until it is loaded; events of earlier pages are dropped."""
        self.visit(path.resolve().as_uri(), width=width, height=height)

    def visit(self, url: str, *, width: int = WIDTH, height: int = 900) -> None:
        """Open an address and wait until it is loaded."""
        self.events.clear()
        if not self.session:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        self.call("Emulation.setEmulatedMedia")
        self.resize(width, height)
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the size of the screen in CSS pixels, with `scale` device pixels in each."""
        size = {"width": width, "height": height, "deviceScaleFactor": scale}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=False)

    def wait_for(self, method: str) -> None:
        """Wait for an event, which may already have arrived."""
        until_s = time.monotonic() + self.deadline_s
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next(until_s))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self.commands, data) :]
        except OSError as error:
            raise _ended() from error

    def _next(self, until_s: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select([self.replies], [], [], left_s)[0]:
                raise LocalError(f"Chromium did not reply within {self.deadline_s:.0f} s")
            data = os.read(self.replies, 1 << 16)
            if not data:
                raise _ended()
            self._received += data
        end = self._received.index(0)
        message: dict[str, Any] = json.loads(self._received[:end])
        del self._received[: end + 1]
        return message


def _ended() -> LocalError:
    return LocalError(
        "Chromium exited unexpectedly", remedy="check that it starts: chromium --headless --version"
    )


@contextmanager
def browsing() -> Iterator[Tab]:
    """Start a Chromium with an empty profile, and stop it afterwards."""
    command = find_chromium()
    with tempfile.TemporaryDirectory(prefix="inferometer-chromium-", ignore_cleanup_errors=True) as profile:
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        try:
            process = _start([command, *_FLAGS, f"--user-data-dir={profile}"], their_in, their_out)
        finally:
            os.close(their_in)
            os.close(their_out)
        try:
            yield Tab(our_out, our_in)
        finally:
            os.close(our_out)  # the browser exits when its pipe closes
            os.close(our_in)
            _stop(process)


# The browser reads from descriptor 3 and writes to 4, so a shell moves ours there.
_PLACED = 'exec 3<"/dev/fd/$0" 4>"/dev/fd/$1"; shift; exec "$@"'


def _start(command: list[str], commands: int, replies: int) -> "subprocess.Popen[bytes]":
    shell = ["/bin/sh", "-c", _PLACED, str(commands), str(replies), *command]
    try:
        return subprocess.Popen(
            shell,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(commands, replies),
        )
    except OSError as error:
        raise LocalError(f"cannot start Chromium: {error}") from error


def _stop(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def picture(tab: Tab, page: Path, *, width: int = WIDTH, height: int = 0) -> bytes:
    """The page as PNG, in its full length if no height is given."""
    tab.open(page, width=width, **({"height": height} if height else {}))
    if not height:
        length = round(tab.call("Page.getLayoutMetrics")["cssContentSize"]["height"])
        tab.resize(width, length, min(1.0, MOST_PIXELS / length))
    return base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"])


def pdf(tab: Tab, page: Path) -> bytes:
    """The page as PDF on A4."""
    tab.open(page)
    sheet = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
    return base64.b64decode(tab.call("Page.printToPDF", printBackground=True, **sheet)["data"])
