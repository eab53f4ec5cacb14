"""A link that tells what it sends and what comes back, a line each. It takes time: only for who asks to see it."""

from collections.abc import Callable, Sequence

from inferometer.base.units import NS_PER_US
from inferometer.load.engine import Explain, Finish, Link, NextStep, OpenLink, Responded, always_finish
from inferometer.load.sequences import Mark
from inferometer.records import status as outcome

Say = Callable[[str], None]


def narrated(open_link: OpenLink, requests: Sequence[bytes | memoryview], say: Say) -> OpenLink:
    """The same link, with a voice."""

    def open_aloud(*, finish: Finish, turn: NextStep, explain: Explain) -> Link:
        def finish_aloud(
            slot: int,
            status: int,
            sent_ns: int,
            wrote_ns: int,
            first_ns: int,
            end_ns: int,
            received: int,
            responses: int = 1,
            times: Sequence[int] = (),
            tokens: int = 0,
            prompt_tokens: int = 0,
        ) -> None:
            took = f"{(end_ns - sent_ns) // NS_PER_US} usec" if sent_ns else "never sent"
            say(f"< [{slot}] {outcome.kind(status)}, {received} bytes in {responses} response(s), {took}")
            finish(
                slot,
                status,
                sent_ns,
                wrote_ns,
                first_ns,
                end_ns,
                received,
                responses,
                times,
                tokens,
                prompt_tokens,
            )

        def explain_aloud(status: int, text: str) -> None:
            say(f"! {outcome.kind(status)}: {text}")
            explain(status, text)

        link = open_link(finish=finish_aloud, turn=always_finish(finish_aloud), explain=explain_aloud)
        return _Narrated(link, requests, say)

    return open_aloud


class _Narrated:
    """Passes everything on, and tells of each request."""

    def __init__(self, link: Link, requests: Sequence[bytes | memoryview], say: Say) -> None:
        self._link = link
        self._titles = [title(request) for request in requests]
        self._say = say

    @property
    def reconnects(self) -> int:
        return self._link.reconnects

    @property
    def resent(self) -> int:
        return self._link.resent

    @property
    def is_flushed(self) -> bool:
        return self._link.is_flushed

    @property
    def connects(self) -> int:
        return self._link.connects

    @property
    def connect_ns(self) -> int:
        return self._link.connect_ns

    @property
    def opening(self) -> int:
        return self._link.opening

    @property
    def heard(self) -> int:
        return self._link.heard

    def send(self, slot: int, step: int, now_ns: int, mark: Mark | None) -> None:
        self._say(
            f"> [{slot}] {self._titles[step]}" + ("" if mark is None else f", sequence {mark.sequence_id}")
        )
        self._link.send(slot, step, now_ns, mark)

    def prepare(self, slots: int) -> None:
        self._link.prepare(slots)

    def cancel(self, slot: int, status: int, text: str) -> None:
        self._link.cancel(slot, status, text)

    def close(self, slot: int) -> None:
        self._link.close(slot)

    def watch(self, responded: Responded) -> None:
        self._link.watch(responded)


def title(request: bytes | memoryview) -> str:
    """A request in a line: over HTTP its first line. Headers are not shown: they may hold secrets."""
    start = bytes(request[:2048])
    if start.startswith(b"POST "):
        first = start.partition(b"\r\n")[0].decode("latin-1")
        return f"{first}, {len(request)} bytes"
    return f"gRPC message, {len(request)} bytes"
