"""The requests of every level as swim lanes, in the JSON format of Chrome traces that Perfetto reads (`--perfetto`).

A level is a process and a lane is a thread. A lane holds requests that do not overlap, so a closed load has as many
lanes as requests at a time. A request is a slice with its phases inside:

    | request ------------------------------------------ |
    | waiting | sending | server ---------- | receiving  |
                                              . . . . .    responses of a stream

The file has at most MOST_REQUESTS requests per level: beyond, every second, fourth, ... request is kept, and the name
of the level says so.
"""

import json
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from inferometer.base import status as outcome
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_US
from inferometer.base.writing import write_file
from inferometer.records.records import EMPTY, Records, join
from inferometer.report.format import level_label
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.watcher import Watcher

MOST_REQUESTS = 20_000  # of a level
MOST_LEVELS = 50
MOST_RESPONSES = 200_000  # of the file
PHASES = ("waiting", "sending", "server", "receiving")

Event = dict[str, Any]


@frozen
class LevelLanes:
    """Requests of a level: every `stride`-th of `total`, in the order of their ends."""

    title: str
    records: Records = EMPTY
    total: int = 0
    stride: int = 1

    def plus(self, fresh: Records) -> "LevelLanes":
        first = -self.total % self.stride
        kept = join([self.records, fresh.where(slice(first, None, self.stride))])
        stride = self.stride
        while len(kept) > MOST_REQUESTS:
            kept, stride = kept.where(slice(None, None, 2)), 2 * stride
        return LevelLanes(self.title, kept, self.total + len(fresh), stride)

    @property
    def name(self) -> str:
        if self.stride == 1:
            return self.title
        return f"{self.title} (sampled: 1 of {self.stride} of {self.total:,} requests)"


class PerfettoTrace(Watcher):
    """Collects the requests of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.levels: list[LevelLanes] = []
        self.left_out = 0  # levels

    def level_started(self, mode: str, value: float) -> None:
        if len(self.levels) < MOST_LEVELS:
            self.levels.append(LevelLanes(level_label(mode, value)))
        else:
            self.left_out += 1

    def progressed(self, progress: LevelProgress) -> None:
        if self.levels and not self.left_out and len(progress.records):
            self.levels[-1] = self.levels[-1].plus(progress.records)

    def write(self) -> None:
        write_file(self.path, json.dumps(trace(self.levels, self.left_out), separators=(",", ":")))


def trace(levels: list[LevelLanes], left_out: int = 0) -> dict[str, Any]:
    """Return the document."""
    measured = [level for level in levels if level.total]
    starts = [int(level.records.due_ns.min()) for level in measured]
    epoch_ns = min(starts, default=0)
    events: list[Event] = []
    responses = MOST_RESPONSES
    for number, level in enumerate(measured, start=1):
        found = list(_level_events(number, level, epoch_ns, responses))
        responses -= sum(event["ph"] == "i" for event in found)
        events += found
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "levels": [
                {
                    "name": level.title,
                    "requests": level.total,
                    "shown": len(level.records),
                    "one_of": level.stride,
                }
                for level in measured
            ],
            "levels_left_out": left_out,
            "responses_left_out": responses <= 0,
        },
        "traceEvents": events,
    }


def _level_events(number: int, level: LevelLanes, epoch_ns: int, responses: int) -> Iterator[Event]:
    yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": level.name}}
    records, stamp = level.records, 0
    lanes, rows = _lanes(records), zip(*(column.tolist() for column in _columns(records)), strict=True)
    for lane in range(1 + max(lanes, default=-1)):
        yield {
            "ph": "M",
            "pid": number,
            "tid": lane,
            "name": "thread_name",
            "args": {"name": f"lane {lane + 1}"},
        }
    for lane, (due, sent, wrote, first, end, status, step, tokens, stamps) in zip(lanes, rows, strict=True):
        place = {"pid": number, "tid": lane}
        name = "request" if status == outcome.OK else outcome.kind(status)
        about = {"status": outcome.kind(status), "step": step} | ({"tokens": tokens} if tokens else {})
        yield {"ph": "X", **place, "name": name, **_span(due, end, epoch_ns), "args": about}
        for phase, begin, finish in zip(
            PHASES, (due, sent, wrote, first), (sent, wrote, first, end), strict=True
        ):
            if begin and finish > begin:
                yield {"ph": "X", **place, "name": phase, **_span(begin, finish, epoch_ns)}
        times = records.times[stamp : stamp + stamps]
        stamp += stamps
        for time_ns in times[: max(0, responses)].tolist():
            responses -= 1
            yield {"ph": "i", **place, "s": "t", "name": "response", "ts": (time_ns - epoch_ns) / NS_PER_US}


def _columns(records: Records) -> tuple[Any, ...]:
    return (
        *(records.due_ns, records.sent_ns, records.wrote_ns, records.first_ns, records.end_ns),
        *(records.status, records.step, records.tokens, records.stamps),
    )


def _span(begin_ns: int, end_ns: int, epoch_ns: int) -> Event:
    return {"ts": (begin_ns - epoch_ns) / NS_PER_US, "dur": max(0, end_ns - begin_ns) / NS_PER_US}


def _lanes(records: Records) -> list[int]:
    """Give each request the lowest lane that is free when it begins."""
    dues, ends = records.due_ns.tolist(), records.end_ns.tolist()
    found, free, busy = [0] * len(dues), list[int](), list[tuple[int, int]]()
    count = 0
    for row in sorted(range(len(dues)), key=dues.__getitem__):
        while busy and busy[0][0] <= dues[row]:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, count = count, count + 1
        found[row] = lane
        heappush(busy, (max(ends[row], dues[row]), lane))
    return found
