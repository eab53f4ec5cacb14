"""Invariants that must hold after any run."""

import json
import re
import signal
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer.base.answer_file import read
from inferometer.base.errors import InferometerError
from inferometer.stats import result as results
from inferometer.stats.result import Result
from tests.torture.case import Case
from tests.torture.log import Log, Seen
from tests.torture.matching import match

CODES = {"inferometer": {0, 1, 3}, "perf_analyzer": {0, 2, 3, 99}}
FAILED_ALTOGETHER = ("server gone", "the last successful answer came", "no request finished", "no answer")
USAGE, INCONCLUSIVE, LOCAL, INTERRUPTED = 2, 5, 70, 130
# A probe whether the server needs TLS, caused by an alert.
CLIENT_HELLO = ("preface b'\\x16\\x03", 'preface b"\\x16\\x03')
LEFT_OUT, CUT_OFF = "left out, failed", "cut off"  # counts of an account without individual outcomes
PEER = {"inferometer": 3, "perf_analyzer": 99}


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished run."""

    code: int | None  # None if it had to be killed
    took_s: float
    stdout: str
    stderr: str
    folder: Path
    left: list[str]  # resources that it left behind


def complaints(case: Case, log: Log, ended: Ended) -> list[str]:
    """Everything that is wrong with a run; empty if nothing is."""
    if ended.code is None:
        return [f"still running after {ended.took_s:.0f} s"]
    has_alert = any(row.fault == "connect: TLS alert" for row in case.faults)
    misuse = [row for row in log.misuse if not (has_alert and row.startswith(CLIENT_HELLO))]
    found = [*_shell(case, ended), *ended.left, *misuse]
    path = ended.folder / "result.json"
    if not path.exists():
        if ended.code in (0, 1) and case.command == "inferometer" and case.trouble is None:
            found.append(f"exit {ended.code} without a result")
        return found
    try:
        result = read(path, results.Result)
    except InferometerError as error:
        return [*found, f"the result cannot be read again: {error}"]
    if case.trouble is not None and (case.trouble.kills_command or case.trouble.is_shortage):
        return found  # the file may be from an earlier level
    return found + _figures(case, log, result, ended.folder)


def _shell(case: Case, ended: Ended) -> list[str]:
    found = []
    for name, text in (("stderr", ended.stderr), ("stdout", ended.stdout)):
        if "Traceback" in text or "Exception ignored" in text:
            found.append(f"a traceback on {name}: {text[-600:]}")
    if ended.code not in _codes(case):
        found.append(f"exit code {ended.code}: {ended.stderr[-300:]}")
    elif "Usage: " in ended.stderr:
        found.append(f"options that do not go together: {ended.stderr[:200]}")
    elif ended.code == PEER[case.command] and case.command == "inferometer" and _is_well(case, ended):
        found.append(f"exit code {ended.code} though the server was well: {ended.stderr[-300:]}")
    return found


def _is_well(case: Case, ended: Ended) -> bool:
    """Whether the server answered all control calls, was not considered gone, and answered in time."""
    is_there = case.trouble is None or not case.trouble.refuses_s
    said = " ".join(ended.stdout.split() + ended.stderr.split())
    return is_there and not case.has_control_faults and not any(text in said for text in FAILED_ALTOGETHER)


def _codes(case: Case) -> set[int]:
    """Exit codes that a run may have."""
    codes = set(CODES[case.command])
    if case.command == "inferometer" and "--slo" in case.words:
        codes |= {INCONCLUSIVE}
    trouble = case.trouble
    if case.has_control_faults:
        codes |= {USAGE}  # the data does not match the model's description
    if trouble is None:
        return codes
    if trouble.is_shortage or trouble.kills_worker:
        codes |= {LOCAL}
    if trouble.is_interrupting:
        codes |= {
            INTERRUPTED,
            *(-number for number in trouble.signals),
        }  # before the load, signals have their default effect
    if trouble.kills_command:
        codes |= {-signal.SIGKILL}
    return codes


def _figures(case: Case, log: Log, result: Result, folder: Path) -> list[str]:
    found = []
    for level in result.levels:
        measurement = level.measurement
        if measurement is None:
            continue
        groups = sum(group.count for group in measurement.failures)
        if groups != measurement.failed_count:
            found.append(f"{measurement.failed_count} failed, and {groups} in groups")
    reported = outcomes(result)
    total = sum(reported.values())
    is_cut = any(level.is_cut_short for level in result.levels) or _is_disturbed(case)
    is_count = total >= case.count if case.has_sequences else total == case.count
    if case.count and not is_count and not is_cut:
        found.append(f"asked for {case.count} requests, reported {total}")
    return found + _accounted(case, log, result, reported) + _exported(case, log, reported, folder)


def _is_disturbed(case: Case) -> bool:
    """Whether the run, or a part of it, was ended early."""
    return case.trouble is not None and (case.trouble.is_interrupting or case.trouble.kills_worker)


def _accounted(case: Case, log: Log, result: Result, reported: Counter[str]) -> list[str]:
    """Check that every received request is in exactly one count, and nothing else is counted."""
    account = result.account
    if account is None:
        return [] if _is_disturbed(case) else ["a result without an account of its requests"]
    if case.trouble is not None and case.trouble.kills_worker:
        return []  # its requests in flight are in no count
    found = []
    if not account.is_complete:
        found.append(f"the account does not add up: {account}")
    counted = reported + Counter(
        {"ok": account.left_out_good, LEFT_OUT: account.left_out_failed, CUT_OFF: account.cut_off}
    )
    left = match(
        [(row, _counts_of(case, row)) for row in log.seen], counted, log.unseen | {LEFT_OUT, CUT_OFF}
    )
    if left.lost:
        rows = [
            f"#{row.number} step {row.step} {row.fault or 'usual'} {sorted(row.allowed)}" for row in left.lost
        ]
        found.append(
            f"received, but in no count: {len(rows)} of {len(log.seen)}: {rows[:5]}; counted {dict(counted)}, {account}"
        )
    if left.invented:
        found.append(
            f"counted, but never received: {dict(left.invented)}; counted {dict(counted)}, {account}"
        )
    if left.repeated > account.resent:
        found.append(f"sent again {left.repeated} times, and {account.resent} by its own account")
    return found


def _outcomes_of(case: Case, row: Seen) -> set[str]:
    """Outcomes of a request; a short timeout may expire before a busy machine answers."""
    return row.allowed | {"timeout"} if case.has_timeout else row.allowed


def _counts_of(case: Case, row: Seen) -> set[str]:
    """Counts that a request may be in; for those left out, only failure or success is known."""
    allowed = _outcomes_of(case, row)
    return allowed | {CUT_OFF} | ({LEFT_OUT} if allowed - {"ok"} else set())


def outcomes(result: Result) -> Counter[str]:
    """Number of requests of all levels by outcome."""
    found: Counter[str] = Counter()
    for level in result.levels:
        measurement = level.measurement
        if measurement is None:
            continue
        found["ok"] += measurement.request_count + measurement.empty_count
        for group in measurement.failures:
            found[group.kind] += group.count
    return +found


# --- the export of every request


def _exported(case: Case, log: Log, reported: Counter[str], folder: Path) -> list[str]:
    if (folder / "requests.parquet").exists():
        rows = _parquet_rows(folder / "requests.parquet")
    elif (folder / "requests.json").exists():
        rows = _json_rows(folder / "requests.json")
        reported = Counter({"ok": reported["ok"]})
    else:
        return []
    found = []
    kinds = Counter(kind for _, kind in rows)
    is_whole = case.trouble is None or not case.trouble.kills_worker  # otherwise some were not written yet
    if case.is_whole and is_whole and kinds != reported:
        found.append(f"exported {dict(kinds)}, reported {dict(reported)}")
    by_step: dict[int, Counter[str]] = defaultdict(Counter)
    for step, kind in rows:
        by_step[step][kind] += 1
    if any(row.step < 0 for row in log.seen) or -1 in by_step:
        return found
    for step, kinds in by_step.items():
        left = match(
            [(row, _outcomes_of(case, row)) for row in log.seen if row.step == step], kinds, log.unseen
        )
        if left.invented:
            found.append(f"step {step}: exported, but never received: {dict(left.invented)}")
    return found


def _parquet_rows(path: Path) -> list[tuple[int, str]]:
    from pyarrow import parquet

    table = parquet.read_table(path, columns=["step", "status"])
    return list(zip(table["step"].to_pylist(), table["status"].to_pylist(), strict=True))


def _json_rows(path: Path) -> list[tuple[int, str]]:
    document: Any = json.loads(path.read_text())
    return [
        (_step(request["request_inputs"]), "ok")
        for experiment in document["experiments"]
        for request in experiment["requests"]
    ]


def _step(inputs: dict[str, Any]) -> int:
    if "INPUT0" in inputs:
        return int(inputs["INPUT0"])
    digits = re.search(r"request (\d+)", str(inputs))
    return int(digits[1]) if digits else -1
