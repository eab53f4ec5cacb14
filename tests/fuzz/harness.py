"""Random inputs for everything that reads bytes of others.

A **family** reads one kind of input. Its `make` turns random bytes into an input, most often a good one with some
damage in it, so that it gets past the first check; its `read` must give a value or one of our own errors, in bounded
time and memory. Inputs that once were read wrongly stay in corpus/FAMILY, and are damaged further.

The same bytes make the same input. In `make test` hypothesis draws a few of them; `python tests/fuzz` draws as many
as it is told to with a seed, which is much faster.
"""

import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from inferometer.base.errors import PeerError, UsageError

T = TypeVar("T")
CORPUS = Path(__file__).parent / "corpus"
LONGEST_S = 10  # of processor time
ROOM = 2 << 30  # bytes that reading may take, all together
DRAWN = 192  # random bytes for a case


class Choices:
    """Decisions out of bytes; when they are used up, each is the first one."""

    __slots__ = ("_at", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def below(self, end: int) -> int:
        """A number from 0 to below `end`, at most 65536."""
        at = self._at
        self._at = at + (1 if end <= 256 else 2)
        return int.from_bytes(self._raw[at : self._at], "big") % end

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def some(self, most: int) -> bytes:
        """Up to so many bytes."""
        length = self.below(most + 1)
        found = self._raw[self._at : self._at + length]
        self._at += length
        return found


NUMBERS = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x01",
)


def damaged(raw: bytes, choices: Choices, words: Sequence[bytes] = ()) -> bytes:
    """Up to six places changed: bytes of chance, words of the format, doubled, cut out, moved."""
    found = bytearray(raw)
    for _ in range(choices.below(7)):
        at = choices.below(min(len(found) + 1, 65536))
        match choices.below(8):
            case 0:
                found[at : at + choices.below(5)] = choices.some(4)
            case 1:
                del found[at : at + 1 + choices.below(16)]
            case 2:
                found[at:at] = found[at : at + choices.below(64)]
            case 3:
                found[at : at + choices.below(5)] = choices.pick(NUMBERS)
            case 4:
                if at < len(found):
                    found[at] ^= 1 << choices.below(8)
            case 5:
                del found[at:]
            case _:
                if words:
                    found[at : at + choices.below(12)] = choices.pick(words)
    return bytes(found)


@dataclass(frozen=True, slots=True)
class Family:
    """`read` raises nothing but our own errors; `share` is its part of the cases: many of what is quick to read."""

    name: str
    make: Callable[[Choices], bytes]
    read: Callable[[bytes], Any]
    share: int

    def try_one(self, data: bytes) -> None:
        try:
            self.read(data)
        except (UsageError, PeerError) as error:
            said = str(error)
            said.encode()  # it can be printed
            assert said.strip()


def each(reads: Iterable[Callable[[], Any]]) -> None:
    """Several ways to read one input: each may refuse it, but if all do it counts as refused."""
    refused: Exception | None = None
    is_read = False
    for read in reads:
        try:
            read()
            is_read = True
        except (UsageError, PeerError) as error:
            str(error).encode()
            refused = error
    if refused is not None and not is_read:
        raise refused


@cache
def corpus(name: str) -> tuple[bytes, ...]:
    """The inputs that are kept for a family."""
    folder = CORPUS / name
    return tuple(path.read_bytes() for path in sorted(folder.iterdir())) if folder.is_dir() else ()


def damaged_seeds(
    name: str, seeds: Sequence[bytes], words: Sequence[bytes] = ()
) -> Callable[[Choices], bytes]:
    """Good inputs, and those of the corpus, with damage."""
    known = [*seeds, *corpus(name)]
    return lambda choices: damaged(choices.pick(known), choices, words)


# --- very many


@dataclass(slots=True)
class Tally:
    """What came of a family."""

    cases: int = 0
    seconds: float = 0.0  # of processor time: other work on the machine does not count
    failures: list[str] = field(default_factory=list)


class TooLongError(Exception):
    """Reading took too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Within a time for each case, and a limit on memory."""

    def stop(number: int, frame: object) -> None:
        raise TooLongError(f"more than {LONGEST_S} s")

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    handler = signal.signal(signal.SIGPROF, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def data_of(family: Family, seed: int, number: int) -> bytes:
    raw = Random(f"{seed} {family.name} {number}").randbytes(DRAWN)
    return family.make(Choices(raw))


def run(family: Family, *, cases: int, seed: int, first: int = 0, most_failures: int = 3) -> Tally:
    """So many cases, or until some have failed."""
    found = Tally()
    began = time.process_time()
    with bounded():
        for number in range(first, first + cases):
            data = data_of(family, seed, number)
            signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
            try:
                family.try_one(data)
            except Exception:  # noqa: BLE001 - any exception is a finding
                signal.setitimer(signal.ITIMER_PROF, 0)
                keep = save(family, data)
                found.failures.append(f"case {number}, kept as {keep}\n{traceback.format_exc()}")
                if len(found.failures) >= most_failures:
                    break
            found.cases += 1
    found.seconds = time.process_time() - began
    return found


def save(family: Family, data: bytes) -> Path:
    """As small as a few attempts make it, where the corpus is."""
    small = smaller(family, data)
    folder = CORPUS / family.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"found-{len(list(folder.iterdir()))}"
    path.write_bytes(small)
    return path


def smaller(family: Family, data: bytes, attempts: int = 300) -> bytes:
    """Without parts that do not matter for the same kind of failure."""
    wanted = failure(family, data)
    size = max(1, len(data) // 2)
    while size and attempts > 0:
        at, is_smaller = 0, False
        while at < len(data) and attempts > 0:
            shorter = data[:at] + data[at + size :]
            attempts -= 1
            if failure(family, shorter) == wanted:
                data, is_smaller = shorter, True
            else:
                at += size
        if not is_smaller:
            size //= 2
    return data


def failure(family: Family, data: bytes) -> tuple[str, int] | None:
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        family.try_one(data)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} {place.filename}", place.lineno or 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None
