"""What is finished survives any end of the ui and of other runs; `python -m tests.support.kills` does it 50 times."""

from tests.support.kills import kills


def test_nothing_finished_is_lost_when_processes_are_killed(tmp_path):
    told = kills(tmp_path, count=3, seed=5)
    assert sum(told.victims.values()) == 3
    assert sum(told.states.values()) >= 1
