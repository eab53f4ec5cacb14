"""Start of a level: apply its load, and read the server's counters at the start of its first window."""

from dataclasses import replace

from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_MS
from inferometer.load.plan import Arrivals, Closed, open_plans
from inferometer.load.workers import Collected
from inferometer.measure.class_windows import ClassCourses, rules_of
from inferometer.measure.counters import LevelCounters
from inferometer.measure.expense import ExpenseMeter
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.ramp import Start
from inferometer.records.records import join
from inferometer.stats.stopping import Precision
from inferometer.stats.windows import Lateness, Window, WindowRules

SETTLE_STEP_NS = 100 * NS_PER_MS  # interval of checks for an interruption


@frozen
class Started:
    """A level whose load has been applied."""

    rules: WindowRules
    counters: LevelCounters  # read at the start of the first window
    expense: ExpenseMeter
    start_ns: int  # when the first window begins
    collected: Collected
    first_round: Window | None = None  # requests that ended during a staggered start


def start_level(instrument: Instrument, settings: LevelSettings, point: LoadPoint) -> Started:
    """Apply the load of the level. In a whole plan and in a timed level, every request counts, including the first."""
    plans = open_plans(point.plan)
    classes = ClassCourses(instrument, settings, point)
    caps = [plan.cap for plan in plans]
    cap = None if not caps or None in caps else sum(each for each in caps if each is not None)
    rules = rules_of(settings, is_open=bool(plans), classes=classes.is_due, cap=cap)
    counters, arrivals = LevelCounters(instrument, classes), tuple(map(Arrivals, plans))
    load, clock = instrument.load, instrument.clock
    if settings.is_whole or settings.is_timed:
        _watch_host(instrument)
    if settings.is_whole:
        counters.before = counters.read()
        earlier = load.collect(clock())
        start_ns = clock()  # earlier ends do not belong to this level
        expense = ExpenseMeter(arrivals, load.apply(point.plan), earlier.cost, start_ns)
        return Started(rules, counters, expense, start_ns, load.collect(start_ns))
    schedule_ns, first_round = _apply(instrument, settings, point, rules)
    if settings.is_timed:  # its time is that of the schedule
        load.wait(schedule_ns)
    else:
        _watch_host(instrument)  # no request before the first window counts, so this delays none that does
    collected = load.collect(clock())
    counters.before = counters.read_closely()
    start_ns = clock() if counters.before is None else counters.before.middle_ns
    expense = ExpenseMeter(arrivals, schedule_ns, collected.cost, collected.seen_ns)
    return Started(
        rules, counters, expense, schedule_ns if settings.is_timed else start_ns, collected, first_round
    )


def _apply(
    instrument: Instrument, settings: LevelSettings, point: LoadPoint, rules: WindowRules
) -> tuple[int, Window | None]:
    """Apply the load and return when it began; with a staggered start, wait until all users have started, and return
    the window of the requests that have ended by then."""
    plan, rule, ramp = point.plan, settings.rule, settings.ramp
    if ramp is None or not isinstance(plan, Closed) or not isinstance(rule, Precision):
        begun_ns = instrument.load.apply(plan)
        _settle(instrument, begun_ns + (settings.settle_ns if open_plans(plan) else 0))
        return begun_ns, None
    start = Start(instrument, ramp, rule.duration_ns)
    begun_ns = start.apply(plan)
    if not start.ended:
        return begun_ns, None
    rules = replace(rules, follows_work=False, lateness=Lateness())
    window = rules.new_window(begun_ns)
    rules.add(window, join(start.ended))
    window.end_ns = max(instrument.clock(), begun_ns + 1)
    return begun_ns, window


def _settle(instrument: Instrument, until_ns: int) -> None:
    """Discard records until this time."""
    while instrument.clock() < until_ns and not instrument.watcher.is_interrupted():
        instrument.load.collect(min(until_ns, instrument.clock() + SETTLE_STEP_NS))


def _watch_host(instrument: Instrument) -> None:
    if instrument.host is not None:
        instrument.host.begin()
