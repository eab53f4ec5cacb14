"""Progress of a level, reported to its watcher."""

from dataclasses import dataclass

import numpy as np

from inferometer.base.units import NS_PER_S
from inferometer.load.plan import open_plans
from inferometer.load.workers import Collected
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.records.records import Records
from inferometer.stats.level_progress import LevelProgress
from inferometer.stats.stopping import Precision
from inferometer.stats.watcher import Watcher
from inferometer.stats.windows import Window


def report_warm_up(watcher: Watcher, begun_ns: int, collected: Collected, ended: Records) -> None:
    """Report requests that ended before the level."""
    good = ended.good
    watcher.progressed(
        LevelProgress(
            seen_ns=collected.seen_ns,
            elapsed_s=(collected.seen_ns - begun_ns) / NS_PER_S,
            latency_ns=good.end_ns - good.sent_ns,
            failed=len(ended) - len(good),
            outstanding=collected.outstanding,
            is_warm_up=True,
        )
    )


@dataclass(slots=True)
class LevelReport:
    """Progress of a level, reported with the requests that have ended since the last report."""

    instrument: Instrument
    settings: LevelSettings
    point: LoadPoint
    start_ns: int
    cpu_ns: int  # of the workers at the last report
    ended: int = 0  # requests since the start

    def report(self, collected: Collected, fresh: Records, window: Window, waiting: float | None) -> None:
        """Report requests that have just ended, and the current window; `waiting` is the queue in the last one."""
        self.ended += len(fresh)
        elapsed_s = max(0, collected.seen_ns - self.start_ns) / NS_PER_S
        good = fresh.good
        left_s, is_most = self._left_s(elapsed_s)
        last_cpu_ns, self.cpu_ns = self.cpu_ns, sum(collected.cost.cpu_ns)
        metrics, host = self.instrument.metrics, self.instrument.host
        seen = None if metrics is None else metrics.latest
        queue = None if seen is None else seen.waiting  # without metrics, the average of the last window
        gpu = None if seen is None else seen.gpu_share
        watcher = self.instrument.watcher
        watcher.ticked(elapsed_s, window.count, window.failed_count + window.empty)
        watcher.progressed(
            LevelProgress(
                seen_ns=collected.seen_ns,
                elapsed_s=elapsed_s,
                latency_ns=good.end_ns - (good.due_ns if open_plans(self.point.plan) else good.sent_ns),
                failed=len(fresh.failed),
                outstanding=collected.outstanding,
                left_s=left_s,
                is_most=is_most,
                tokens=_tokens(good) if self.settings.has_tokens else None,
                cpu_ns=max(0, self.cpu_ns - last_cpu_ns),
                server_waiting=waiting if queue is None else queue,
                gpu=host.gpu_share if gpu is None and host is not None else gpu,
                records=fresh,
            )
        )

    def _left_s(self, elapsed_s: float) -> tuple[float | None, bool]:
        """Return the time until the level ends, None if unknown, and whether it may end sooner."""
        settings, rule, count = self.settings, self.settings.rule, self.point.plan.count
        longest_s, is_most = None, False
        if settings.is_whole and count is not None:
            per_s = self.point.asked_per_s
            longest_s = count / per_s if per_s else elapsed_s * count / self.ended if self.ended else None
        elif settings.is_whole:
            pass  # a concurrency ramp or sessions: until all have ended
        elif isinstance(rule, Precision):
            longest_s, is_most = rule.duration_ns / NS_PER_S, rule.precision > 0 or rule.is_enough is not None
        elif settings.window_ns is not None:
            longest_s, is_most = rule.max_trials * settings.window_ns / NS_PER_S, True
        return (None if longest_s is None else max(0.0, longest_s - elapsed_s)), is_most


def _tokens(good: Records) -> int:
    """Return the number of tokens that the server reported; a stream without a count has one per response."""
    return int(np.where(good.tokens > 0, good.tokens, good.responses).sum())
