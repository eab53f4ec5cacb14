"""The search over the command line of a simulated server, whose optimum is computed.

`python -m tests.support.knob_landscape` has a larger sample and slower starts.
"""

import pytest

from inferometer.tune.search.search import SearchMessage, SkippedProposal
from tests.support.knob_landscape import Batcher, Slots, reached
from tests.support.samples import sample


@pytest.mark.sampled
@pytest.mark.parametrize("start_s", sample([2.0], [0.3, 2.0, 20.0]))
def test_a_tenth_of_the_time_of_a_grid_finds_95_percent_of_its_best(start_s):
    """The optimum is in the middle of the ranges, and a load at which one configuration has reached its limit says
    nothing about that of another."""
    count = sample(6, 40)
    found = [reached(Batcher.drawn(seed), seed, start_s, warm_s=1.5)[0] for seed in range(count)]
    assert sum(share >= 0.95 for share in found) >= 0.8 * count, found


@pytest.mark.sampled
def test_starts_that_fail_for_lack_of_memory_leave_time_for_better_ones():
    count = sample(6, 40)
    found = [reached(Slots.drawn(seed), seed, start_s=0.3, warm_s=0.5)[0] for seed in range(count)]
    assert sum(share >= 0.85 for share in found) >= 0.9 * count - 1, found


def test_the_search_continues_after_failed_starts_and_skips_configurations_beyond_them():
    share, trials, events = reached(Slots.drawn(0), 0, start_s=0.3, warm_s=0.0, share=0.2)
    failed = [trial for trial in trials.trials if not trial.is_measured]
    assert failed
    assert share >= 0.95
    left_out = [event for event in events if isinstance(event, SkippedProposal) and "beyond" in event.reason]
    assert left_out
    said = [event.text for event in events if isinstance(event, SearchMessage) and event.is_warning]
    assert all("is left out: exited with status 1: out of memory" in text for text in said)
