"""No report contradicts itself: random runs through the whole line, every report of them, and a list of rules."""

import dataclasses
import html
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from inferometer.base import status
from inferometer.base.answer_file import from_json, to_json
from inferometer.base.notes import CLIENT_LIMITS, Note
from inferometer.base.units import NS_PER_MS, NS_PER_S, quantity
from inferometer.load.plan import Closed, Constant, Listed, Open
from inferometer.load.sequences import SequencePlan, Sequences
from inferometer.measure.instrument import Instrument, LevelSettings, LoadPoint
from inferometer.measure.level import measure_level
from inferometer.model.spec import ModelSpec
from inferometer.observe.statistics import Counters
from inferometer.options.effective import Effective
from inferometer.report.csv import main_csv
from inferometer.report.format import decimal, level_label
from inferometer.report.saved import document, to_html, to_markdown
from inferometer.report.sentences import level_sentence
from inferometer.report.terminal import show
from inferometer.stats.measurement import Level
from inferometer.stats.result import Result
from inferometer.stats.stopping import Precision, Stability
from inferometer.stats.watcher import Watcher
from tests.support.clock import FakeClock
from tests.support.reports import classic_report
from tests.support.samples import examples
from tests.support.simulation import FakeServer, Reply, SimulatedLoad

EXAMPLES = examples(12)

MODEL = ModelSpec("fake", "", (), ())
FAILURES = (status.CONNECT, status.RESET, status.TIMEOUT, status.MISMATCH, status.HTTP + 500)

# --- a run


@dataclass(frozen=True)
class Behaviour:
    """What the server does with each request."""

    service_ns: int
    spread: int
    fails_one_in: int  # 0: none, 1: all
    failure: int
    breaks_after: int | None  # requests; from then on it is gone, or mute
    is_mute: bool
    responses: int

    def reply(self, number: int, sent_ns: int) -> Reply:
        if self.breaks_after is not None and number >= self.breaks_after:
            return Reply(10**15) if self.is_mute else Reply(1000, status.CONNECT, received=0)
        if self.fails_one_in and number % self.fails_one_in == self.fails_one_in - 1:
            received = 0 if self.failure in status.NO_ANSWER else 100
            return Reply(self.service_ns, self.failure, received=received)
        scattered = self.service_ns * (1 + (number * 2654435761 >> 7) % 100 * self.spread // 100)
        times = tuple(scattered * (place + 1) // self.responses for place in range(self.responses))
        return Reply(scattered, responses_ns=times if self.responses > 1 else ())


behaviours = st.builds(
    Behaviour,
    service_ns=st.sampled_from((50_000, 2 * NS_PER_MS, 40 * NS_PER_MS, 700 * NS_PER_MS)),
    spread=st.sampled_from((0, 1, 20)),
    fails_one_in=st.sampled_from((0, 0, 0, 1, 2, 7, 400)),
    failure=st.sampled_from(FAILURES),
    breaks_after=st.sampled_from((None, None, None, 0, 1, 60)),
    is_mute=st.booleans(),
    responses=st.sampled_from((1, 1, 4)),
)


@dataclass(frozen=True)
class Run:
    """A level that was measured, and what was asked."""

    behaviour: Behaviour
    point: LoadPoint
    level_settings: LevelSettings
    servers: int | None
    others_per_s: int | None  # of other clients; None without counters
    interrupt_after: int
    is_serial: bool


@st.composite
def runs(draw: st.DrawFn) -> Run:
    count = draw(st.sampled_from((None, None, 1, 2, 30)))
    load = draw(st.sampled_from(("closed", "closed", "rate", "capped", "schedule", "serial")))
    rules: tuple[Stability | Precision, ...] = (
        Stability(10.0, 4, 0, True),
        Stability(1.0, 4, 0, False),
        Precision(0.02, 2 * NS_PER_S),
    )
    rule = draw(st.sampled_from(rules))
    limit_ms = draw(st.sampled_from((0, 0, 30)))
    if isinstance(rule, Stability):
        rule = dataclasses.replace(rule, latency_limit_ms=limit_ms)
    how: dict[str, Any] = {"window_ns": 400 * NS_PER_MS}
    if load == "schedule":
        number = count or 20
        gaps = draw(st.sampled_from((10, 90, 500)))
        plan = Open(Listed(tuple(place * gaps * NS_PER_MS for place in range(number))), count=number)
        asked = (number - 1) * NS_PER_S / max(1, (number - 1) * gaps * NS_PER_MS)
        point = LoadPoint("request_rate", round(asked, 3), plan, asked)
        how["is_whole"] = True
    else:
        rate = draw(st.sampled_from((5.0, 100.0)))
        cap = 2 if load == "capped" else None
        point = LoadPoint("request_rate", rate, Open(Constant(rate), cap=cap, count=count), rate)
        if load == "closed":
            concurrency = draw(st.sampled_from((1, 3)))
            point = LoadPoint("concurrency", concurrency, Closed(concurrency, count))
        if count is not None:
            how = {"window_count": count, "is_whole": True}
        elif draw(st.booleans()) and not isinstance(rule, Precision):
            how = {"window_count": 20}
    level_settings = LevelSettings(
        model=MODEL,
        batch=1,
        percentile=draw(st.sampled_from((None, None, 95))),
        rule=rule,
        latency_limit_ms=limit_ms,
        finds_warm_up=isinstance(rule, Precision) and draw(st.booleans()),
        is_serial=load == "serial",
        **how,
    )
    return Run(
        draw(behaviours),
        point,
        level_settings,
        servers=draw(st.sampled_from((None, 1))),
        others_per_s=draw(st.sampled_from((None, 0, 200))),
        interrupt_after=draw(st.sampled_from((10**9, 10**9, 1))),
        is_serial=load == "serial",
    )


class Interrupting(Watcher):
    def __init__(self, interrupt_after: int) -> None:
        self._left = interrupt_after

    def window_finished(self, number: int, window: object) -> None:
        self._left -= 1

    def is_interrupted(self) -> bool:
        return self._left <= 0


def measured(run: Run) -> Level:
    clock = FakeClock()
    server = FakeServer(run.behaviour.reply, run.servers)
    sequences = None
    if run.is_serial:
        plan = SequencePlan(((0,),), False, 5, 0.0, 1, 10**6, lanes=1, is_serial=True)
        sequences = Sequences(plan, 0, 1)
    load = SimulatedLoad(server, clock, sequences=sequences)
    begun_ns = clock()

    def counters() -> dict[tuple[str, str], Counters]:
        count = server.number + (clock() - begun_ns) * (run.others_per_s or 0) // NS_PER_S
        return {("fake", "1"): Counters(success_count=count, success_ns=count * 1000, inference_count=count)}

    read = (lambda: None) if run.others_per_s is None else counters
    return measure_level(
        Instrument(load, clock, read, Interrupting(run.interrupt_after)), run.level_settings, run.point
    )


def result_of(run: Run, level: Level) -> Result:
    mode = "concurrency" if level.mode == "concurrency" else "request_rate"
    return Result(
        tool="inferometer 0",
        command="measure",
        started_at="2025-01-02T03:04:05+00:00",
        asked={},
        effective=Effective(
            batch=1,
            service_kind="triton",
            protocol="http",
            measurement_mode="time_windows",
            measurement_interval_ms=400,
            asynchronous=False,
            percentile=run.level_settings.percentile,
            latency_limit_ms=run.level_settings.latency_limit_ms,
            mode=mode,
            max_error_rate=0.0,
        ),
        host={},
        server={},
        model={"name": "fake", "version": "1", "is_decoupled": False},
        levels=(level,),
    )


@dataclass(frozen=True)
class Seen:
    """One level and all that was said about it."""

    run: Run
    level: Level
    console: str
    classic: str
    csv: str
    markdown: str
    page: str  # what a reader sees of it

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.console, self.classic, self.csv, self.markdown, self.page)

    @property
    def good(self) -> int:
        return 0 if self.level.measurement is None else self.level.measurement.request_count

    def remarks(self, *notes: Note) -> Iterator[str]:
        yield from (remark.text for remark in self.level.remarks if remark.note in notes)


def seen(run: Run) -> Seen:
    level = measured(run)
    result = from_json(to_json(result_of(run, level)), "a file", Result)
    stream = io.StringIO()
    show(document(result), Console(file=stream, width=200))
    page = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", to_html(result))
    return Seen(
        run,
        level,
        console=f"{stream.getvalue()}\n{level_sentence(level)}",
        classic=classic_report(result),
        csv=main_csv(result),
        markdown=to_markdown(result),
        page=html.unescape(re.sub(r"<[^>]+>", " ", page)),
    )


# --- the rules: each gives what is wrong


def odd_numbers(this: Seen) -> Iterator[str]:
    """Nothing is shown that is no number, or that nobody would write."""
    for text in this.texts:
        yield from re.findall(r"(?i:\bnan\b|\binf\b)|\bNone\b|(?<![\w.])-0(?:\.0+)?(?![\w.])", text)


def figures_of_nothing(this: Seen) -> Iterator[str]:
    """Without a good answer there is no latency and no throughput, not even 0."""
    if this.good:
        return
    yield from re.findall(r"(?:avg|p\d\d|Avg|latency:?) 0 (?:ns|usec).*", "\n".join(this.texts))
    yield from re.findall(r"^.*\b0 ns\b.*$", this.console, re.MULTILINE)
    yield from re.findall(r"Throughput: .*|\d+ latency: .*|Avg HTTP time.*", this.classic)
    if this.csv:
        yield this.csv


def shares(this: Seen) -> Iterator[str]:
    """Parts of a whole are between 0 and 100 %, and 100 % is all of it."""
    for text in this.texts:
        for found in re.finditer(r"(±|\+|up by )?(\d+(?:\.\d+)?) ?%", text):
            if found[1] is None and float(found[2]) > 100:
                yield text[max(0, found.start() - 60) : found.end()]
    measurement = this.level.measurement
    if measurement is None or not measurement.failed_count:
        return
    is_all = measurement.failed_count == measurement.ended_count
    line = re.search(r"Failed request count: (\d+) \((.*) %\)", this.classic)
    if line is not None and (line[2] == "100.00") is not is_all:
        yield line[0]
    if line is not None and line[2] == "0.00":
        yield line[0]


def every_request_failed(this: Seen) -> Iterator[str]:
    if this.good and re.search("every request failed", "\n".join(this.texts)):
        yield f"every request failed, and {this.good} were good"


def nothing_answered(this: Seen) -> Iterator[str]:
    for words in (
        "No request was answered",
        "no request finished",
        "gave no successful answer",
        "no request succeeded,",
    ):
        if this.good and words in "\n".join(this.texts):
            yield f"{words}: {this.good} were good"


def one_throughput(this: Seen) -> Iterator[str]:
    """The block, the summary and the rates say the same."""
    found, rates = this.level.measurement, this.level.rates
    named = re.findall(r"[Tt]hroughput: ([\d.e+-]+) infer", this.classic)
    if len(set(named)) > 1:
        yield str(named)
    if found is None or rates is None or found.failed_count or found.empty_count:
        return
    if decimal(rates.answered_per_s) != decimal(found.infer_per_s.value):
        yield f"answered {rates.answered_per_s}, throughput {found.infer_per_s.value}"


def answered_is_not_more_than_ended(this: Seen) -> Iterator[str]:
    found, rates = this.level.measurement, this.level.rates
    if found is None or rates is None:
        return
    if (
        all(group.kind in ("connect", "reset", "timeout") for group in found.failures)
        and not found.request_count
    ):
        if rates.answered_per_s:
            yield f"answered {rates.answered_per_s} requests/s, and nothing was"
        if all(group.kind == "connect" for group in found.failures) and rates.sent_per_s:
            yield f"sent {rates.sent_per_s} requests/s without a connection"


def rates_in_remarks(this: Seen) -> Iterator[str]:
    rates = this.level.rates
    for text in (*this.remarks(Note.OVERLOADED), *this.remarks(Note.NOT_OFFERED)):
        assert rates is not None
        values = (rates.asked_per_s, rates.due_per_s, rates.sent_per_s, rates.answered_per_s)
        shown = [quantity(value) for value in values if value is not None]
        yield from (
            f"{number} is none of {shown}" for number in re.findall(r"\d[\d.,]*", text) if number not in shown
        )


def what_is_apart(this: Seen) -> Iterator[str]:
    for text in this.remarks(Note.NOT_STABLE):
        for low, high in re.findall(r"from ([\d.e+-]+) to ([\d.e+-]+)", text):
            if not float(high) > float(low):
                yield text


def drifts(this: Seen) -> Iterator[str]:
    doubt = this.level.doubt
    found = None if doubt is None else re.search(r"down by (\d+)%", doubt.text)
    if found is not None and int(found[1]) > 100:
        yield found[0]


def limits_of_the_user(this: Seen) -> Iterator[str]:
    """A request that the user lets wait is not held up by the client."""
    plan = this.run.point.plan
    is_held = isinstance(plan, Open) and (plan.cap is not None or this.run.is_serial)
    if is_held and any(this.remarks(*CLIENT_LIMITS)):
        yield "client-limited by what the user asked for"


def requests_not_sent(this: Seen) -> Iterator[str]:
    asked = this.run.point.plan.count
    for text in (*this.remarks(Note.SERVER_GONE), *this.remarks(Note.NO_ANSWER)):
        unsent = re.search(r"(\d+) of (\d+) requests were not sent", text)
        found = this.level.measurement
        ended = 0 if found is None else found.ended_count
        if unsent is not None and (int(unsent[2]) != asked or int(unsent[1]) + ended > asked):
            yield f"{text}; {ended} ended"


def failures_add_up(this: Seen) -> Iterator[str]:
    found = this.level.measurement
    if found is not None and sum(group.count for group in found.failures) != found.failed_count:
        yield f"{found.failures} are not {found.failed_count}"


def verdicts(this: Seen) -> Iterator[str]:
    """Ok is said only of a level that was loaded and answered as asked."""
    found = this.level.measurement
    is_ok = level_sentence(this.level).endswith(", ok")
    if is_ok and (found is None or found.failed_count or not this.level.is_as_asked or not this.good):
        yield level_sentence(this.level)


def other_clients(this: Seen) -> Iterator[str]:
    """Only the server's surplus is other clients' traffic."""
    if this.run.others_per_s == 0 and any(this.remarks(Note.OTHER_CLIENTS)):
        yield next(this.remarks(Note.OTHER_CLIENTS))


def every_level_is_named(this: Seen) -> Iterator[str]:
    """Remarks about the level stand in every report for people."""
    label = level_label(this.level.mode, this.level.value)
    for remark in this.level.remarks:
        if f"{label}: {remark.text}"[:80] not in " ".join(this.console.split()):
            yield f"not on the console: {remark.text}"


RULES: tuple[Callable[[Seen], Iterator[str]], ...] = (
    odd_numbers,
    figures_of_nothing,
    shares,
    every_request_failed,
    nothing_answered,
    one_throughput,
    answered_is_not_more_than_ended,
    rates_in_remarks,
    what_is_apart,
    drifts,
    limits_of_the_user,
    requests_not_sent,
    failures_add_up,
    verdicts,
    other_clients,
    every_level_is_named,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(runs())
def test_no_report_contradicts_itself(run: Run) -> None:
    this = seen(run)
    wrong = [f"{rule.__name__}: {text}" for rule in RULES for text in rule(this)]
    assert not wrong, "\n".join(wrong)
