"""More workers when the client is the limit: the level is then measured again."""

from inferometer.base.notes import Note
from inferometer.load.plan import Closed, Periodic
from inferometer.measure.level import Bench, Point, Recipe, measure_level
from inferometer.stats.measurement import Level


def measure_with_enough_workers(bench: Bench, recipe: Recipe, point: Point) -> Level:
    """The level, by twice as many workers as before as long as they are what limits it and may be more."""
    crew = bench.crew
    level = measure_level(bench, recipe, point)
    if crew is None:
        return level
    most = bench.most_workers
    if isinstance(point.plan, Closed):
        most = min(most, point.plan.concurrency)  # each needs a request of its own
    elif isinstance(point.plan, Periodic):
        most = 1
    while _is_limited(level) and crew.count < most and not bench.watcher.is_interrupted():
        if bench.journal is not None:
            bench.journal.forget_level()
        crew.resize(min(2 * crew.count, most))
        level = measure_level(bench, recipe, point)
    return level


def _is_limited(level: Level) -> bool:
    return not level.is_cut_short and any(remark.note is Note.CLIENT_LIMITED for remark in level.remarks)
