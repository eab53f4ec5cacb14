"""Figures that a fit needs from another tool's file, and which of them are missing. Pure."""

from collections.abc import Sequence

from inferometer.base.errors import UsageError
from inferometer.stats.measurement import UNSTATED, Level
from inferometer.stats.result import Result

_LOAD, _ARRIVALS, _LATENCY = (
    "the load that was applied",
    "constant or Poisson arrivals",
    "the latency of requests",
)
_REMEDIES = {
    _LOAD: "give a file that states it, such as profile_export_aiperf.json in place of profile_export.jsonl",
    _ARRIVALS: "measure concurrencies, or rates with constant or Poisson arrivals",
    _LATENCY: "give a file with individual requests or latencies, such as that of `vllm bench serve --save-detailed`",
}


def check_stated(origins: Sequence[str], results: Sequence[Result]) -> None:
    """Raise if no load of another tool's file can be used, and name the missing figure."""
    for origin, result in zip(origins, results, strict=True):
        missing = [maybe_missing(result, level) for level in result.levels]
        if missing and missing[0] is not None and all(missing):
            raise UsageError(
                f"'{origin}', which {result.tool} wrote, does not state {missing[0]}",
                remedy=_REMEDIES[missing[0]],
            )


def maybe_missing(result: Result, level: Level) -> str | None:
    """Return the figures of a level that a fit needs and another tool's file does not state."""
    found = level.measurement
    if not result.source or found is None or not found.request_count:
        return None
    if level.mode == UNSTATED:
        return _LOAD
    if level.mode == "request_rate" and result.effective.distribution == UNSTATED:
        return _ARRIVALS
    return None if found.latency.count else _LATENCY


def maybe_reason(result: Result, level: Level) -> str | None:
    """Return why a level is left out of a fit; None if it is usable."""
    missing = maybe_missing(result, level)
    if missing is not None:
        return f"the file does not state {missing}"
    return None if level.is_as_asked else "it was not applied as specified"
