"""Notes on a result and its levels: each note once, for all levels it applies to.

Remarks that differ only in their numbers or durations share one line with the range of each.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inferometer.base.notes import Note
from inferometer.base.units import NS_PER_MS, NS_PER_S, NS_PER_US
from inferometer.options.names import with_names
from inferometer.report.document import Message, Section, Tone, message_section
from inferometer.report.documents.levels import few_words
from inferometer.report.format import duration, first_line, level_label, level_value, plural, quantity
from inferometer.report.sentences import first_round_change, first_round_sentence, start_words
from inferometer.stats.measurement import ActionTaken, Doubt, Level
from inferometer.stats.result import Result

ALONE = 2  # up to this many levels get a line each
MOST_LABELS = 12
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\d:.]\d)(?: (?:ns|µs|ms|s)(?!\w))?")
_UNITS = {"": 1, "ns": 1, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}


class Said(NamedTuple):
    """A remark on a level; `level` is None if it applies to the whole run."""

    level: Level | None
    text: str


def notes_section(result: Result) -> Section | None:
    """All remarks, each kind with its advice once."""
    said: dict[Note, list[Said]] = {}
    for remark in result.remarks:
        said.setdefault(remark.note, []).append(Said(None, first_line(remark.text)))
    for level in result.levels:
        for remark in level.remarks:
            said.setdefault(remark.note, []).append(Said(level, first_line(remark.text)))
    rows = (Message("\n".join(grouped(found)), with_names(note.value)) for note, found in said.items())
    unlike = _unlike(result.levels, result.effective.rate_unit)
    return message_section(
        "notes", "Notes", [*_actions(result.levels), *_first_rounds(result.levels), *unlike, *rows]
    )


def grouped(said: Sequence[Said]) -> Iterator[str]:
    """Merge remarks that differ only in their numbers into one line with the range of each number."""
    alike: dict[str, list[Said]] = {}
    for row in said:
        alike.setdefault("" if row.level is None else _pattern(row.text), []).append(row)
    for pattern, rows in alike.items():
        levels = [row.level for row in rows if row.level is not None]
        if len(levels) <= ALONE or not pattern:
            yield from (f"{_where([] if row.level is None else [row.level])}{row.text}" for row in rows)
        else:
            yield f"{_where(levels)}{_with_ranges([row.text for row in rows])}"


def _pattern(text: str) -> str:
    return _NUMBER.sub("#", text)


def _where(levels: Sequence[Level]) -> str:
    if not levels:
        return ""
    first, *others = sorted(levels, key=lambda level: level.value)
    rest = (level_value(level.mode, level.value) for level in others)
    return f"{few_words([level_label(first.mode, first.value), *rest], MOST_LABELS)}: "


def _with_ranges(texts: Sequence[str]) -> str:
    """The common text of the remarks, with `1.9 to 2` where a number or duration differs."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(set(numbers), key=_size)
    if len(ordered) == 1:
        return ordered[0]
    (low, _, unit), last = ordered[0].partition(" "), ordered[-1]
    return f"{low if last.partition(' ')[2] == unit else ordered[0]} to {last}"


def _size(text: str) -> float:
    """Return a number, or a duration in nanoseconds."""
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")) * _UNITS[unit]


def _actions(levels: Sequence[Level]) -> Iterator[Message]:
    """Report the actions around levels: each action once, with its outcome and the range of its durations."""
    taken: dict[tuple[str, str], list[ActionTaken]] = {}
    for level in levels:
        for when, actions in (("before", level.before), ("after", level.after)):
            for action in actions:
                taken.setdefault((when, action.action), []).append(action)
    for (when, name), rows in sorted(taken.items(), key=lambda row: row[0][0] == "after"):
        first, times = rows[0], [row.duration_ns for row in rows]
        outcome = f"{first.call}, status {first.status}" if first.call else f"exit code {first.exit_code}"
        took = " to ".join(dict.fromkeys(map(duration, (min(times), max(times)))))
        line = f"; last line: {first_line(rows[-1].last_line)}" if rows[-1].last_line else ""
        words = f"{when} each level: {first_line(name)} ({outcome}, {plural(len(rows), 'run')}, {took}{line})"
        yield Message(words, tone=Tone.PLAIN)


def _first_rounds(levels: Sequence[Level]) -> Iterator[Message]:
    """Report excluded first rounds of staggered users; many levels share one line."""
    found = [(level, level.first_round) for level in levels if level.first_round is not None]
    if len(found) <= ALONE:
        for level, first in found:
            yield Message(first_round_sentence(level, first), tone=Tone.PLAIN)
        return
    changes = [
        (f"{level_label(level.mode, level.value)}", change)
        for level, first in found
        if (change := first_round_change(level, first)) is not None
    ]
    words = f"{_where([level for level, _ in found])}users started one after another; their first round is excluded"
    if changes:
        (lowest, least), (highest, most) = (way(changes, key=lambda row: row[1]) for way in (min, max))
        words += f": its answers took {_signed(least)} ({lowest}) to {_signed(most)} ({highest}) relative to the rest"
    yield Message(words, tone=Tone.PLAIN)


def _signed(change: float) -> str:
    return f"{'+' if change >= 0 else '-'}{quantity(abs(100 * change))} %"


def _unlike(levels: Sequence[Level], unit: str) -> Iterator[Message]:
    """Report the excluded warm-up, and the reasons why figures are less certain than requested.

    A reason that a remark on the same level already gives is not repeated."""
    starts = [Said(level, start_words(level.start, unit)) for level in levels if level.start is not None]
    yield from (Message(line, tone=Tone.PLAIN) for line in grouped(starts))
    doubts: dict[str, list[tuple[Said, Doubt]]] = {}
    for level in levels:
        doubt = level.doubt
        if doubt is None or any(remark.text == doubt.text for remark in level.remarks):
            continue
        words = f"{doubt.kind}: {doubt.text.removeprefix(f'{doubt.kind}: ')}"
        doubts.setdefault(_pattern(words), []).append((Said(level, words), doubt))
    for rows in doubts.values():
        lines = grouped([said for said, _ in rows])
        if len(rows) > ALONE:
            yield from map(Message, lines)
        else:
            for line, (_, doubt) in zip(lines, rows, strict=True):
                yield Message(line, f"{doubt.figure} {doubt.sparkline}")
