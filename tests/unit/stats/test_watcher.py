"""Watchers of users need not have all methods."""

from inferometer.stats.watcher import Watcher, completed


class Starts:
    """As a user of `api.measure` may write it."""

    def __init__(self):
        self.seen = []

    def level_started(self, mode, value):
        self.seen.append((mode, value))


def test_what_a_watcher_does_not_have_is_silent():
    starts = Starts()
    whole = completed(starts)
    whole.level_started("concurrency", 2)
    whole.ticked(1.0, 10, 0)
    whole.said("a warning")
    assert starts.seen == [("concurrency", 2)]
    assert not whole.is_interrupted()


def test_nobody_watches():
    assert not completed(None).is_interrupted()


def test_a_whole_watcher_stays_itself():
    watcher = Watcher()
    assert completed(watcher) is watcher
