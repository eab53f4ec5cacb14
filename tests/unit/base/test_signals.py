import os
import signal
import subprocess
import sys

import pytest

from inferometer.base import signals
from inferometer.base.deadline import INTERRUPT
from inferometer.base.signals import Interrupts, handled_by
from inferometer.base.units import NS_PER_S

TOO_LATE = """
import os, signal
from inferometer.base.signals import interruptible
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a shell, whatever started the tests
with interruptible():
    print("the answer")
os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_signal_after_the_command_neither_loses_the_answer_nor_shows_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", TOO_LATE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "the answer\n", "")


@pytest.fixture
def sent(monkeypatch):
    """Send signals to a run's handler at these times, in seconds; return whether the run counts as interrupted."""
    now = [0.0]
    monkeypatch.setattr(signals, "monotonic_ns", lambda: round((100 + now[0]) * NS_PER_S))
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(signals, "_RECEIVED", signals._Received())
    monkeypatch.setattr(INTERRUPT, "at_ns", None)

    def send(*rows: tuple[float, int], **settings) -> tuple[bool, list[int]]:
        interrupts = Interrupts(os.open(os.devnull, os.O_WRONLY), **settings)
        for now[0], number in rows:
            interrupts._receive(number, None)
        os.close(interrupts._fd)
        return interrupts.asked, codes

    return send


TWICE: tuple[tuple[str, list[tuple[float, signal.Signals]], list[int]], ...] = (
    ("once", [(0, signal.SIGINT)], []),
    ("twice within half a second", [(0, signal.SIGINT), (0.4, signal.SIGINT)], []),
    ("again and again in that time", [(0.1 * n, signal.SIGTERM) for n in range(5)], []),
    ("twice", [(0, signal.SIGINT), (0.6, signal.SIGINT)], [130]),
    ("two different ones", [(0, signal.SIGINT), (0.1, signal.SIGTERM)], [130]),
    ("a terminal that closes after Ctrl-C", [(0, signal.SIGINT), (0.1, signal.SIGHUP)], [129]),
)


@pytest.mark.parametrize(("rows", "codes"), [row[1:] for row in TWICE], ids=[row[0] for row in TWICE])
def test_a_signal_repeated_within_half_a_second_counts_once(sent, rows, codes):
    assert sent(*rows) == (True, codes)


@pytest.mark.parametrize(
    ("number", "is_patient", "is_hurried"),
    [(signal.SIGINT, False, True), (signal.SIGINT, True, False), (signal.SIGTERM, True, True)],
)
def test_calls_are_cut_short_unless_ctrl_c_lets_the_classic_tool_finish_its_window(
    sent, number, is_patient, is_hurried
):
    sent((0, number), is_patient=is_patient)
    assert (INTERRUPT.at_ns is not None) == is_hurried


def test_sighup_ends_a_run_and_stays_ignored_under_nohup():
    handler = lambda number, frame: None  # noqa: E731
    before = signal.getsignal(signal.SIGHUP)
    try:
        for usual, inside in ((signal.SIG_DFL, handler), (signal.SIG_IGN, signal.SIG_IGN)):
            signal.signal(signal.SIGHUP, usual)
            with handled_by(handler):
                assert signal.getsignal(signal.SIGHUP) is inside
            assert signal.getsignal(signal.SIGHUP) is usual
    finally:
        signal.signal(signal.SIGHUP, before)
