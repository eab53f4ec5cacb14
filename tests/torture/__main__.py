"""Run many cases, several at a time; print every failure with the command that repeats it."""

import argparse
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path

from tests.support.fork_server import fork_server
from tests.torture.case import Case, draw
from tests.torture.run import Report, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time (default: %(default)s)")
    parser.add_argument("--only", type=int, help="only the run with this number, with its output")
    parser.add_argument("--keep", type=Path, help="with --only: keep its files in this folder")
    parser.add_argument("--limit", type=float, default=0, help="start no more runs after this many seconds")
    parser.add_argument("--match", default="", help="only runs whose description contains this text")
    asked = parser.parse_args()
    with fork_server() as address:
        if asked.only is not None:
            return _one(asked.seed, asked.only, address, asked.keep)
        return _many(asked, address)


def _one(seed: int, number: int, address: str, keep: Path | None) -> int:
    print(_brief(draw(seed, number)))
    report = run(seed, number, address, keep=keep)
    print(f"$ {report.command}\n{report.stdout}\n--- stderr\n{report.stderr}")
    print(
        f"exit {report.code} after {report.took_s:.2f} s; {report.seen} requests seen; faults {report.faults}"
    )
    for complaint in report.complaints:
        print(f"WRONG: {complaint}")
    return 1 if report.complaints else 0


def _brief(case: Case) -> str:
    """Describe a case without the contents of its files."""
    faults = "\n".join(f"  {row}" for row in case.faults)
    return f"{case.kind}: {case.command} {shlex.join(case.words)}\n{faults}\n  {case.trouble}"


def _many(asked: argparse.Namespace, address: str) -> int:
    began = time.monotonic()
    faults: Counter[str] = Counter()
    failed, done, seen, slowest = [], 0, 0, (0.0, -1)
    drawn = (number for number in count(asked.first) if asked.match in _brief(draw(asked.seed, number)))
    numbers = _until(islice(drawn, asked.runs), began, asked.limit)
    with get_context("fork").Pool(asked.jobs, initializer=_ignore_interrupts) as pool:
        for report in pool.imap_unordered(partial(_run, asked.seed, address), numbers):
            done += 1
            seen += report.seen
            faults.update(report.faults)
            slowest = max(slowest, (report.took_s, report.number))
            if report.complaints:
                failed.append(report)
                _tell(asked.seed, report)
            if done % 500 == 0:
                print(f"{done} runs, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"{done} runs of seed {asked.seed}: {len(failed)} failed; {seen} requests seen, {len(faults)} kinds of faults "
        f"played {faults.total()} times; {time.monotonic() - began:.0f} s, the slowest took {slowest[0]:.1f} s "
        f"(--only {slowest[1]})"
    )
    return 1 if failed else 0


def _run(seed: int, address: str, number: int) -> Report:
    return run(seed, number, address)


def _until(numbers: Iterable[int], began: float, limit_s: float) -> Iterator[int]:
    for number in numbers:
        if limit_s and time.monotonic() - began > limit_s:
            return
        yield number


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _tell(seed: int, report: Report) -> None:
    for complaint in report.complaints:
        print(f"FAILED python -m tests.torture --seed {seed} --only {report.number}: {complaint}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
