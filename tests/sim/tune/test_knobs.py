"""The search over the command line of a simulated server, whose optimum is computed.

`python -m tests.support.knob_landscape` has a larger sample and slower starts.
"""

from inferometer.tune.search.search import SearchMessage, SkippedProposal
from tests.support.knob_landscape import reached


def test_a_tenth_of_the_time_of_a_grid_finds_95_percent_of_its_best():
    found = [reached(seed, start_s=0.3)[0] for seed in range(10)]
    assert sum(share >= 0.95 for share in found) >= 9, found


def test_the_search_continues_after_failed_starts_and_skips_configurations_beyond_them():
    share, trials, events = reached(0, start_s=0.3, share=0.2)
    failed = [trial for trial in trials.trials if not trial.is_measured]
    assert failed
    assert share >= 0.95
    left_out = [event for event in events if isinstance(event, SkippedProposal) and "beyond" in event.reason]
    assert left_out
    said = [event.text for event in events if isinstance(event, SearchMessage) and event.is_warning]
    assert all("is left out: exited with status 1: out of memory" in text for text in said)
