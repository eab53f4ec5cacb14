"""Users' watchers may implement only some of the methods."""

from inferometer.stats.watcher import Watcher, completed


class Starts:
    """A watcher as a user of `api.measure` may write it."""

    def __init__(self):
        self.seen = []

    def level_started(self, mode, value):
        self.seen.append((mode, value))


def test_missing_methods_do_nothing():
    starts = Starts()
    whole = completed(starts)
    whole.level_started("concurrency", 2)
    whole.ticked(1.0, 10, 0)
    whole.said("a warning")
    assert starts.seen == [("concurrency", 2)]
    assert not whole.is_interrupted()


def test_none_becomes_a_silent_watcher():
    assert not completed(None).is_interrupted()


def test_a_complete_watcher_is_returned_unchanged():
    watcher = Watcher()
    assert completed(watcher) is watcher
