"""How a rate changes over time, in a few words: `ramp 10..500 over 60s then hold 500 for 2m`.

    shape = piece { ("then" | ",") piece }
    piece = "ramp" RATE ".." RATE "over" TIME
          | "hold" RATE "for" TIME
          | "burst" RATE ["on" RATE] "for" TIME "every" TIME ["over" TIME]

Rates are requests per second. A burst stands at the beginning of each period; the rest of the period has the rate
given with `on`, or none. Without `over` there is one period.
"""

import re
from collections.abc import Callable, Iterator

from inferometer.base.errors import UsageError
from inferometer.base.units import parse_duration_ns
from inferometer.load.plan import Ramps

OPTION = "--shape-load"
MOST_PIECES = 100_000
_HELP = (
    "write 'ramp 10..500 over 60s', 'hold 100 for 30s' or 'burst 500 on 50 for 1s every 10s over 1m', "
    "joined by 'then' or commas"
)
_RATE = r"(\d+(?:\.\d+)?)(?:/s)?"
_TIME = r"(\d\S*)"

Piece = tuple[int, float, float]  # duration ns, rate at its start, rate at its end


def parse_shape(text: str) -> Ramps:
    """The schedule the words describe; a UsageError names the piece that is wrong."""
    pieces: list[Piece] = []
    words = re.split(r"\s*,\s*(?:then\s)?|\s+then\s+", " ".join(text.lower().split()))
    for number, piece in enumerate(words, start=1):
        pieces += _piece(piece.strip(), f"piece {number} of {OPTION}")
        if len(pieces) > MOST_PIECES:
            raise UsageError(
                f"{OPTION} '{text}' has more than {MOST_PIECES} bursts", remedy="give a longer period"
            )
    schedule = Ramps(tuple(pieces))
    if not schedule.count:
        raise UsageError(
            f"{OPTION} '{text}' is over before the first request is due", remedy="give a higher rate"
        )
    return schedule


def _piece(text: str, where: str) -> list[Piece]:
    for pattern, make in _FORMS:
        found = re.fullmatch(pattern, text)
        if found is not None:
            return list(make(found, where))
    raise UsageError(f"{where} is '{text}', which is no ramp, hold or burst", remedy=_HELP)


def _ramp(found: re.Match[str], where: str) -> Iterator[Piece]:
    yield _duration(found[3], where), float(found[1]), float(found[2])


def _hold(found: re.Match[str], where: str) -> Iterator[Piece]:
    yield _duration(found[2], where), float(found[1]), float(found[1])


def _burst(found: re.Match[str], where: str) -> Iterator[Piece]:
    rate, base = float(found[1]), float(found[2] or 0)
    length, period = _duration(found[3], where), _duration(found[4], where)
    if length >= period:
        raise UsageError(
            f"{where} has bursts of {found[3]} every {found[4]}, with nothing between them",
            remedy="make the period longer than the burst, or use hold",
        )
    left = period if found[5] is None else _duration(found[5], where)
    if left // period > MOST_PIECES:
        raise UsageError(f"{where} has more than {MOST_PIECES} bursts", remedy="give a longer period")
    while left > 0:
        yield min(length, left), rate, rate
        if left > length:
            yield min(period, left) - length, base, base
        left -= period


def _duration(text: str, where: str) -> int:
    try:
        duration = parse_duration_ns(text, where)
    except OverflowError as error:
        raise UsageError(f"{where} has the time '{text}', which cannot pass", remedy=_HELP) from error
    if duration <= 0:
        raise UsageError(f"{where} has a time of '{text}'", remedy="give one above 0, such as 500ms or 10s")
    return duration


_FORMS: tuple[tuple[str, Callable[[re.Match[str], str], Iterator[Piece]]], ...] = (
    (rf"ramp {_RATE} ?\.\. ?{_RATE} over {_TIME}", _ramp),
    (rf"hold {_RATE} for {_TIME}", _hold),
    (rf"burst {_RATE}(?: on {_RATE})? for {_TIME} every {_TIME}(?: over {_TIME})?", _burst),
)
