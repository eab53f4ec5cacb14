"""A few runs of one seed. `make torture` runs more, and `python -m tests.torture --only` repeats one of them."""

import pytest

from tests.support.commands import fork_server_address
from tests.torture.run import run

SEED, RUNS, PARTS = 1, 20, 5


@pytest.mark.machine(reason="real processes meet deadlines of milliseconds only with a core that is free")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_request_that_the_server_saw_is_in_the_result(part: int) -> None:
    wrong = {
        f"python -m tests.torture --seed {SEED} --only {number}": report.complaints
        for number in range(part, RUNS, PARTS)
        if (report := run(SEED, number, fork_server_address())).complaints
    }
    assert not wrong
