"""More workers when the client is the limit: the level is then measured again."""

from inferometer.base.notes import Note
from inferometer.load.plan import Closed, Periodic
from inferometer.measure.level import Instrument, LevelSettings, LoadPoint, measure_level
from inferometer.stats.measurement import Level


def measure_with_enough_workers(
    instrument: Instrument, level_settings: LevelSettings, point: LoadPoint
) -> Level:
    """The level, by twice as many workers as before as long as they are what limits it and may be more."""
    crew = instrument.crew
    level = measure_level(instrument, level_settings, point)
    if crew is None:
        return level
    most = instrument.most_workers
    if isinstance(point.plan, Closed):
        most = min(most, point.plan.concurrency)  # each needs a request of its own
    elif isinstance(point.plan, Periodic):
        most = 1
    while _is_limited(level) and crew.count < most and not instrument.watcher.is_interrupted():
        if instrument.journal is not None:
            instrument.journal.forget_level()
        crew.resize(min(2 * crew.count, most))
        level = measure_level(instrument, level_settings, point)
    return level


def _is_limited(level: Level) -> bool:
    return not level.is_cut_short and any(remark.note is Note.CLIENT_LIMITED for remark in level.remarks)
