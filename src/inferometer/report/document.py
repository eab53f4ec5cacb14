"""What a report says, apart from how it looks: terminal, page and Markdown are three ways of writing it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from inferometer.report.format import plain_number


class Tone(Enum):
    """How a sentence or a figure is meant; never the only sign of it."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"

    @property
    def mark(self) -> str:
        """Its sign before a line of text."""
        return {"good": "✓", "warning": "!", "bad": "✗"}.get(self.value, "")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that deserves to be large, and a line that explains it."""

    label: str
    value: str
    detail: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a table's column."""

    name: str
    is_number: bool = True
    is_name: bool = False  # its cells are names: lines are never broken inside a word of them
    rank: int = 0  # above 0: it can be spared where there is little room, the highest first


def text_columns(*names: str) -> Iterator[Column]:
    """Of words, not of numbers."""
    return (Column(name, is_number=False) for name in names)


class Depth(Enum):
    """How far a reader has to go to see a table."""

    MAIN = "main"  # open everywhere
    DRAWN = "drawn"  # drawn beside it: folded on a page, open where nothing can be drawn
    DETAIL = "detail"  # folded, and left out of a terminal
    LISTING = "listing"  # folded on a screen, left out elsewhere


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of ready texts."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    depth: Depth = Depth.MAIN
    tones: tuple[Tone, ...] = ()  # of each row, shown at its last cell


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they stand for."""

    caption: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """Something to know, perhaps in several lines, and what to do about it."""

    text: str
    advice: str = ""
    tone: Tone = Tone.WARNING


@dataclass(frozen=True, slots=True)
class Messages:
    """`is_ranked` when the order says which comes first."""

    rows: tuple[Message, ...]
    is_ranked: bool = False
    is_detail: bool = False  # a terminal shows it only to those who want to know more


@dataclass(frozen=True, slots=True)
class Code:
    """A text to be copied as it is."""

    caption: str
    text: str


class Spread(Enum):
    """How values are laid out along an axis."""

    LINEAR = "linear"
    LOG = "log"
    TAIL = "tail"  # shares below 1, so that 90 %, 99 % and 99.9 % are equally far apart


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """`text` writes a value of the axis."""

    title: str
    text: Callable[[float], str] = plain_number
    spread: Spread = Spread.LINEAR
    is_whole: bool = False  # there is nothing between whole numbers
    is_from_zero: bool = True  # a linear one has 0 in it; where small changes matter it need not
    below: Callable[[float], str] | None = None  # a second line below the text of a tick


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """`tip` is said when it is pointed at; the limits are of its error bars."""

    x: float
    y: float
    tip: str
    label: str = ""  # beside it
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    is_doubtful: bool = False  # drawn hollow


@dataclass(frozen=True, slots=True)
class ChartLine:
    """Lines of one colour; each run of points is joined by itself."""

    name: str
    runs: tuple[tuple[ChartPoint, ...], ...]
    colour: str  # a name the page's style knows
    is_dashed: bool = False
    has_marks: bool = True
    is_crossed: bool = False  # its marks are crosses, not dots
    is_thick: bool = False  # the runs are bars along the x axis, and their marks are not seen
    is_banded: bool = False  # the limits of its points are drawn as one band, not as error bars

    @property
    def key(self) -> str:
        """How it looks in a legend: as a line, or as its marks where nothing joins them."""
        if any(len(run) > 1 for run in self.runs):
            return "dashed" if self.is_dashed else ""
        is_hollow = all(point.is_doubtful for run in self.runs for point in run)
        return "cross" if self.is_crossed else "point hollow" if is_hollow else "point"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the x axis with a name; `is_faded` where nothing counts, `is_interval` where a value lies."""

    start: float
    end: float
    label: str = ""
    is_faded: bool = False
    is_interval: bool = False


@dataclass(frozen=True, slots=True)
class ChartRule:
    """A line across the chart at a value of the y axis."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Points over two axes."""

    title: str
    x: ChartAxis
    y: ChartAxis
    series: tuple[ChartLine, ...]
    spans: tuple[Span, ...] = ()
    rules: tuple[ChartRule, ...] = ()
    height: int = 320
    note: str = ""
    confidence: str = "95 %"  # of the limits of its points

    @property
    def legend(self) -> tuple[tuple[str, str, str], ...]:
        """(name, colour, how its key looks) of each line."""
        return tuple((row.name, row.colour, row.key) for row in self.series)


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a bar."""

    name: str
    value: float
    text: str
    colour: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Segments one after the other."""

    label: str
    segments: tuple[Segment, ...]
    text: str  # at its end
    detail: str = ""  # below its label


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars on one scale, from 0 to the longest of them, or to `full`."""

    title: str
    rows: tuple[Bar, ...]
    note: str = ""
    full: float | None = None

    @property
    def most(self) -> float:
        """Where the scale ends."""
        longest = max((sum(segment.value for segment in row.segments) for row in self.rows), default=0.0)
        return longest if self.full is None else self.full

    @property
    def legend(self) -> tuple[tuple[str, str, str], ...]:
        """As of a chart: each name once, in the order of the bar that has most of them."""
        fullest_first = sorted(self.rows, key=lambda row: -len(row.segments))
        return tuple({s.name: (s.name, s.colour, "") for row in fullest_first for s in row.segments}.values())


@dataclass(frozen=True, slots=True)
class DifferenceBar:
    """How many times as fast, with its interval, on a line that has 1 in it; one without an interval is only a dot."""

    label: str
    value: float
    limits: tuple[float, float] | None
    text: str
    tone: Tone
    group: str = ""  # a heading above the first of them


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences below each other on one scale."""

    title: str
    rows: tuple[DifferenceBar, ...]
    note: str = ""


Block = Chart | Bars | Differences | Table | Facts | Messages | Code


@dataclass(frozen=True, slots=True)
class Section:
    """One question with its answer."""

    name: str  # for links
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    is_detail: bool = False  # a terminal leaves it out


def message_section(name: str, title: str, rows: Iterable[Message], lead: str = "") -> Section | None:
    """None where there is nothing to say."""
    found = tuple(rows)
    return Section(name, title, lead, (Messages(found),)) if found else None


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    kind: str  # what it is a report of, in a word or two
    title: str
    facts: tuple[str, ...]  # below the title
    verdict: str  # one sentence
    sections: tuple[Section, ...]
    tone: Tone = Tone.PLAIN
    figures: tuple[Figure, ...] = ()
    source: str = field(default="", repr=False)  # the JSON it was made from
    source_name: str = "result.json"
    tool: str = ""
