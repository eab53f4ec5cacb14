"""What a terminal shows while a command runs, and what is left on it."""

import re
import subprocess
import sys
import time

import pytest

from inferometer.base.signals import INTERRUPTED
from tests.support.samples import sample
from tests.support.screen import Seen, on_terminal
from tests.support.servers import FakeTriton


def blocks(seen: Seen) -> list[str]:
    """The screens with a block on them, without what stood above it."""
    found = [shot[shot.index("▸") :] for shot in seen.shots if "▸" in shot]
    assert found, seen.shots
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("columns", sample([60], [60, 100]))
def test_a_sweep_shows_a_bar_and_figures_and_leaves_only_its_answer(columns: int) -> None:
    with FakeTriton() as fake:
        words = ["measure", fake.server.address, "fake", "-c", "1,2", "-d", "2s", "--precision", "0.01"]
        seen = on_terminal(words, columns=columns)
    whole = "\n".join(blocks(seen))
    assert "▸ concurrency 1 · level 1 of 2" in whole
    assert "▸ concurrency 2 · level 2 of 2" in whole
    assert re.search(r"━+─+  at most \d s left", whole)
    for figure in (
        r"rate +[▁-█ ]* [\d,]+ requests/s",
        r"p50 .* [µm]s",
        r"p99 .* [µm]s",
        "no errors · 2 outstanding",
    ):
        assert re.search(figure, whole), whole
    assert not [line for block in blocks(seen) for line in block.splitlines() if len(line) > columns]
    # The block is gone: the answer is followed by the table.
    assert "▸" not in seen.last
    assert not re.search(r"at most \d+ s left", seen.last)
    assert seen.screen.is_cursor_shown
    answer = seen.last.index(" at concurrency ")
    assert answer < seen.last.index("All levels") < seen.last.index("Conc.")
    assert max(len(line) for line in seen.last[answer:].splitlines()[1:]) <= columns


def test_without_colours_none_are_used() -> None:
    with FakeTriton() as fake:
        seen = on_terminal(["measure", fake.server.address, "fake", "-d", "1s"], NO_COLOR="1")
    assert blocks(seen)
    assert seen.screen.styles <= {"", "0", "1", "2"}


def test_a_terminal_that_cannot_go_back_gets_lines() -> None:
    with FakeTriton() as fake:
        seen = on_terminal(["measure", fake.server.address, "fake", "-d", "1s"], columns=60, TERM="dumb")
    assert max(map(len, seen.shots[0].splitlines())) <= 60
    assert "▸" not in "".join(seen.shots)
    assert "concurrency 1: " in seen.last


def test_ctrl_c_ends_in_order_and_gives_the_terminal_back() -> None:
    with FakeTriton(lambda number, request: time.sleep(1)) as fake:  # so that the end is waited for
        seen = on_terminal(
            ["measure", fake.server.address, "fake", "-d", "60s", "--precision", "0.001"],
            interrupt_at="no errors",
        )
    assert seen.code == INTERRUPTED
    assert any("stopping; press Ctrl-C again to stop at once" in block for block in blocks(seen)[-3:])
    assert "interrupted" in seen.last
    assert "▸" not in seen.last
    assert seen.screen.is_cursor_shown


def test_without_a_terminal_each_level_is_a_line_and_quiet_prints_none() -> None:
    def stderr(*more: str) -> str:
        with FakeTriton() as fake:
            words = ["measure", fake.server.address, "fake", "-c", "1,2", "-d", "1s", *more]
            ended = subprocess.run(
                [sys.executable, "-m", "inferometer.cli.main", *words],
                check=False,
                capture_output=True,
                text=True,
                timeout=120,
            )
        assert " at concurrency " in ended.stdout
        return ended.stderr

    lines = [line for line in stderr().splitlines() if line.startswith("concurrency")]
    assert [line.partition(":")[0] for line in lines] == ["concurrency 1", "concurrency 2"]
    assert all(re.fullmatch(r"concurrency \d: [\d,]+ requests/s.*, p99 .*", line) for line in lines)
    assert stderr("-q") == ""
