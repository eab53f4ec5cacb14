"""Requests of each level for export: the workers' spools joined with the times of the windows."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from inferometer.base import status
from inferometer.base.errors import LocalError, PeerError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.model.spec import Tensor
from inferometer.records.spool import Response, SpoolEntry, read_spool
from inferometer.stats.exported import Export, ExportedLevel, ExportedRequest, ExportedResponse, Value

KEPT_REPLIES = 4096
LONGEST_KEPT = 4096  # bytes
DISORDER_NS = NS_PER_S  # spool entries are ordered by end, up to this tolerance
ALL_TIMES = (0, 2**64 - 1)  # the classic tool's window for a ramp of streams

ReadOutputs = Callable[[bytes, int | None], Mapping[str, bytes]]
"""Decodes (reply, length of its JSON part) into raw values by name."""


@frozen
class _Span:
    """The windows of a level, on the monotonic clock."""

    mode: str
    value: float
    boundaries_ns: tuple[int, ...]
    # Earlier ends belong to an earlier load, although a window may begin with an earlier send.
    start_ns: int


@dataclass(slots=True)
class RequestJournal:
    """Record of all requests: created before the load, filled while it runs, read afterwards."""

    path: Path  # of the export; the spools need space on the same disk
    service_kind: str
    endpoint: str
    steps: Sequence[Sequence[Tensor]]
    datatypes: Mapping[str, str]  # of the outputs
    read_outputs: ReadOutputs
    load_mode: str = "concurrency"
    problem: str = ""  # why a worker could not record its requests
    _epoch_ns: int = field(default_factory=lambda: time.time_ns() - monotonic_ns())
    _spools: list[BinaryIO] = field(default_factory=list)
    _spans: list[_Span] = field(default_factory=list)
    _inputs: dict[int, tuple[Value, ...]] = field(default_factory=dict)  # by step
    _outputs: dict[tuple[bytes, int], tuple[Value, ...]] = field(default_factory=dict)  # by reply

    def open_spools(self, count: int) -> tuple[int, ...]:
        """Open anonymous temporary files, one per worker."""
        try:
            for _ in range(count):
                self._spools.append(tempfile.TemporaryFile(dir=self.path.parent))  # noqa: SIM115
        except OSError as error:
            raise LocalError(
                f"requests cannot be recorded for '{self.path}': {error.strerror or error}",
                remedy="check the folder and the free disk space",
            ) from error
        return tuple(spool.fileno() for spool in self._spools)

    def forget_level(self) -> None:
        """Drop the last level, which is measured again."""
        self._spans.pop()

    def add_level(
        self, mode: str, value: float, boundaries_ns: tuple[int, ...], *, start_ns: int = 0
    ) -> None:
        self._spans.append(_Span(mode, value, boundaries_ns, max(start_ns, boundaries_ns[0])))

    def export(self) -> Export:
        """Return the recorded requests. This works once: the files are deleted afterwards."""
        return Export(self.service_kind, self.endpoint, self._levels(), self.problem)

    def close(self) -> None:
        """Delete the recorded requests, which cannot be exported afterwards."""
        for spool in self._spools:
            spool.close()
        self._spools.clear()

    # --- reading

    def _levels(self) -> Iterator[ExportedLevel]:
        offsets = [0] * len(self._spools)
        try:
            for span in self._spans:
                boundaries_ns = tuple(self._epoch_ns + boundary for boundary in span.boundaries_ns)
                value = 0.0 if self.load_mode == "fixed_schedule" else span.value
                mode = span.mode
                if self.load_mode == "session_concurrency":
                    mode, value = "request_rate", 0.0
                if self.load_mode in ("periodic_concurrency", "session_concurrency"):
                    boundaries_ns = ALL_TIMES
                yield ExportedLevel(mode, value, boundaries_ns, self._requests(span, offsets))
        finally:
            self.close()

    def _requests(self, span: _Span, offsets: list[int]) -> Iterator[ExportedRequest]:
        """Yield the requests of a span, worker by worker."""
        for worker in range(len(self._spools)):
            for entry in self._entries(worker, span, offsets):
                yield self._request(worker, entry)

    def _entries(self, worker: int, span: _Span, offsets: list[int]) -> Iterator[SpoolEntry]:
        """Yield a worker's entries in the span; the next span starts at the first entry that may belong to it."""
        end_ns = span.boundaries_ns[-1]
        later: int | None = None
        for entry in read_spool(self._spools[worker], offsets[worker]):
            if entry.head.end_ns > end_ns:
                later = entry.offset if later is None else later
                if entry.head.end_ns > end_ns + DISORDER_NS:
                    break
            elif entry.head.end_ns > span.start_ns:
                yield entry
        if later is not None:
            offsets[worker] = later

    def _request(self, worker: int, entry: SpoolEntry) -> ExportedRequest:
        head = entry.head
        return ExportedRequest(
            due_ns=self._epoch_ns + head.due_ns,
            sent_ns=self._epoch_ns + head.sent_ns if head.sent_ns else 0,
            end_ns=self._epoch_ns + head.end_ns,
            status=status.kind(head.status),
            step=head.step,
            worker=worker,
            sequence_id=head.sequence,
            received=head.received,
            inputs=self._values_in(head.step),
            responses=tuple(
                ExportedResponse(self._epoch_ns + response.time_ns, self._values_out(response))
                for response in entry.responses
            ),
        )

    def _values_in(self, step: int) -> tuple[Value, ...]:
        if step not in self._inputs:
            tensors = self.steps[step]
            self._inputs[step] = tuple(Value(tensor.name, tensor.datatype, tensor.data) for tensor in tensors)
        return self._inputs[step]

    def _values_out(self, response: Response) -> tuple[Value, ...]:
        """Decode outputs, caching short replies, which often repeat."""
        key = (response.body, response.header_length)
        known = self._outputs.get(key)
        if known is not None:
            return known
        outputs = self._read(response)
        if len(response.body) <= LONGEST_KEPT and len(self._outputs) < KEPT_REPLIES:
            self._outputs[key] = outputs
        return outputs

    def _read(self, response: Response) -> tuple[Value, ...]:
        header_length = None if response.header_length < 0 else response.header_length
        missing: bytes | None = b""
        try:
            found = self.read_outputs(response.body, header_length)
        except PeerError:
            found, missing = {}, None
        return tuple(Value(name, kind, found.get(name) or missing) for name, kind in self.datatypes.items())
