"""Who reads replies: the comparison with what was expected, the export, or both. Without them replies are counted."""

from typing import TYPE_CHECKING

from inferometer.base.errors import PeerError
from inferometer.base.text import is_digits
from inferometer.records import status as outcome
from inferometer.records.spool import Buffer, Spool

if TYPE_CHECKING:
    from inferometer.services.traffic import Checker, OutputReader

Judgement = tuple[int, str]
"""(status, what is wrong)."""

GOOD: Judgement = (outcome.OK, "")


class Replies:
    """Told of every request of a link; looks at those replies that someone wants to know."""

    def __init__(
        self, checker: "Checker | None", spool: Spool | None, outputs: "OutputReader | None" = None
    ) -> None:
        self._checker = checker
        self._spool = spool
        self._outputs = outputs
        self._checked: dict[int, bool] = {}

    def wants(self, slot: int) -> bool:
        """Whether the reply to the slot's next request will be read."""
        is_checked = self._checker is not None and self._checker.wants_next()
        self._checked[slot] = is_checked
        if self._spool is None:
            return is_checked
        self._spool.begin(slot)
        return True

    def judge_http(
        self, slot: int, step: int, now_ns: int, body: bytearray, header_length: str | None
    ) -> Judgement:
        if self._spool is not None:
            is_known = header_length is not None and is_digits(header_length)
            self._spool.respond(slot, now_ns, body, int(header_length or 0) if is_known else -1)
        if not self._checked[slot]:
            return GOOD
        from inferometer.services.kserve import http_outputs

        assert self._checker is not None
        try:
            found = http_outputs(body, header_length) if self._outputs is None else self._outputs(body)
            text = self._checker.check(step, found)
        except PeerError as error:
            return outcome.MALFORMED, str(error)
        return (outcome.MISMATCH, text) if text else GOOD

    def judge_grpc(self, slot: int, step: int, now_ns: int, message: Buffer) -> str:
        """What is wrong with a ModelInferResponse; empty when nothing is."""
        self.keep(slot, now_ns, message)
        if not self._checked[slot]:
            return ""
        from inferometer.services.kserve import grpc_outputs

        assert self._checker is not None
        try:
            return self._checker.check(step, (self._outputs or grpc_outputs)(message))
        except PeerError as error:
            return f"the reply cannot be read: {error}"

    def keep(self, slot: int, now_ns: int, message: Buffer) -> None:
        """A response that there is nothing to compare with, such as the last one of a stream, which only says so."""
        if self._spool is not None:
            self._spool.respond(slot, now_ns, message)
