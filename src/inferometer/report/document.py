"""The content of a report, apart from its looks: terminal, page and Markdown are three renderings of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from enum import Enum

from inferometer.base.errors import Spell, spelled
from inferometer.base.frozen import frozen
from inferometer.report.format import plain_number


class Tone(Enum):
    """The meaning of a sentence or a figure; never shown by colour alone."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"

    @property
    def mark(self) -> str:
        """The sign before a line of text."""
        return {"good": "✓", "warning": "!", "bad": "✗"}.get(self.value, "")


@frozen
class Figure:
    """A number to be shown large, with an explanation."""

    label: str
    value: str
    detail: str = ""
    tone: Tone = Tone.PLAIN


@frozen
class Column:
    """The heading of a column."""

    name: str
    is_number: bool = True
    is_name: bool = False  # its cells are names, whose words are never broken
    rank: int = 0  # above 0: dropped if there is little room, the highest first


def text_columns(*names: str) -> Iterator[Column]:
    """Columns of text rather than numbers."""
    return (Column(name, is_number=False) for name in names)


class Depth(Enum):
    """Prominence of a table."""

    MAIN = "main"  # always open
    DRAWN = "drawn"  # also shown as a chart: folded on a page, open without charts
    DETAIL = "detail"  # folded on a page, omitted on a terminal
    LISTING = "listing"  # folded on a screen, omitted elsewhere


@frozen
class Table:
    """A table of formatted texts."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    depth: Depth = Depth.MAIN
    tones: tuple[Tone, ...] = ()  # one per row, for its last cell
    is_detail: bool = False  # shown on a terminal only if verbose


@frozen
class Facts:
    """Names and their values."""

    caption: str
    rows: tuple[tuple[str, str], ...]


@frozen
class Message:
    """A message of one or several lines, with the action that it calls for."""

    text: str
    advice: str = ""
    tone: Tone = Tone.WARNING

    def spelled(self, spell: Spell) -> "Message":
        return replace(self, text=spelled(self.text, spell), advice=spelled(self.advice, spell))


@frozen
class Messages:
    """A list of messages, numbered if `is_ranked`."""

    rows: tuple[Message, ...]
    is_ranked: bool = False
    is_detail: bool = False  # shown on a terminal only if verbose

    def spelled(self, spell: Spell) -> "Messages":
        return replace(self, rows=tuple(row.spelled(spell) for row in self.rows))


@frozen
class Code:
    """A text to copy."""

    caption: str
    text: str


class Spread(Enum):
    """Layout of values along an axis."""

    LINEAR = "linear"
    LOG = "log"
    TAIL = "tail"  # shares below 1: 90 %, 99 % and 99.9 % are equally far apart


@frozen
class ChartAxis:
    """An axis; `text` formats its values."""

    title: str
    text: Callable[[float], str] = plain_number
    spread: Spread = Spread.LINEAR
    is_whole: bool = False  # only whole numbers have ticks
    is_from_zero: bool = True  # a linear axis includes 0, unless small changes matter
    below: Callable[[float], str] | None = None  # a second line below the text of a tick
    step: float | None = None  # distance between the ticks of a linear axis, if round numbers do not suit it


@frozen
class ChartPoint:
    """A point with its tooltip `tip` and the limits of its error bars."""

    x: float
    y: float
    tip: str
    label: str = ""  # beside it
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    is_doubtful: bool = False  # drawn hollow


@frozen
class ChartLine:
    """Lines of one colour; each run of points is joined separately."""

    name: str
    runs: tuple[tuple[ChartPoint, ...], ...]
    colour: str  # a name in the page's style sheet
    is_dashed: bool = False
    has_marks: bool = True
    is_crossed: bool = False  # its marks are crosses, not dots
    is_thick: bool = False  # the runs are bars along the x axis, without marks
    is_banded: bool = False  # limits are drawn as one band, not as error bars

    @property
    def key(self) -> str:
        """The symbol in a legend: a line, or a mark if no line joins the points."""
        if any(len(run) > 1 for run in self.runs):
            return "dashed" if self.is_dashed else ""
        is_hollow = all(point.is_doubtful for run in self.runs for point in run)
        return "cross" if self.is_crossed else "point hollow" if is_hollow else "point"


@frozen
class Span:
    """A named stretch of the x axis; `is_faded` if it is excluded from the figures, `is_interval` if it is the
    interval of a value."""

    start: float
    end: float
    label: str = ""
    is_faded: bool = False
    is_interval: bool = False


@frozen
class ChartRule:
    """A line across the chart at a value of the y axis."""

    value: float
    label: str


@frozen
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
    confidence: str = "95 %"  # level of the limits of its points

    @property
    def legend(self) -> tuple[tuple[str, str, str], ...]:
        """(name, colour, symbol) of each line."""
        return tuple((row.name, row.colour, row.key) for row in self.series)


@frozen
class Segment:
    """A piece of a bar."""

    name: str
    value: float
    text: str
    colour: str


@frozen
class Bar:
    """A bar of consecutive segments."""

    label: str
    segments: tuple[Segment, ...]
    text: str  # at its end
    detail: str = ""  # below its label


@frozen
class Bars:
    """Bars on one scale, from 0 to the longest, or to `full`."""

    title: str
    rows: tuple[Bar, ...]
    note: str = ""
    full: float | None = None

    @property
    def most(self) -> float:
        """The end of the scale."""
        longest = max((sum(segment.value for segment in row.segments) for row in self.rows), default=0.0)
        return longest if self.full is None else self.full

    @property
    def legend(self) -> tuple[tuple[str, str, str], ...]:
        """(name, colour, symbol) of each segment: each name once, in the order of the bar with the most segments."""
        fullest_first = sorted(self.rows, key=lambda row: -len(row.segments))
        return tuple({s.name: (s.name, s.colour, "") for row in fullest_first for s in row.segments}.values())


@frozen
class DifferenceBar:
    """A relative speed with its interval, on a scale that includes 1; without an interval it is only a dot."""

    label: str
    value: float
    limits: tuple[float, float] | None
    text: str
    tone: Tone
    group: str = ""  # a heading above the first bar of the group


@frozen
class Differences:
    """Relative speeds below each other on one scale."""

    title: str
    rows: tuple[DifferenceBar, ...]
    note: str = ""


Block = Chart | Bars | Differences | Table | Facts | Messages | Code


@frozen
class Section:
    """A question and its answer."""

    name: str  # for links
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    is_detail: bool = False  # omitted on a terminal

    def spelled(self, spell: Spell) -> "Section":
        blocks = (block.spelled(spell) if isinstance(block, Messages) else block for block in self.blocks)
        return replace(self, lead=spelled(self.lead, spell), blocks=tuple(blocks))


def message_section(name: str, title: str, rows: Iterable[Message], lead: str = "") -> Section | None:
    """A section of messages; None if there are none."""
    found = tuple(rows)
    return Section(name, title, lead, (Messages(found),)) if found else None


@frozen
class Document:
    """A complete report."""

    kind: str  # subject of the report, in a word or two
    title: str
    facts: tuple[str, ...]  # below the title
    verdict: str  # one sentence
    sections: tuple[Section, ...]
    tone: Tone = Tone.PLAIN
    figures: tuple[Figure, ...] = ()
    source: str = field(default="", repr=False)  # the JSON it was made from
    source_name: str = "result.json"
    tool: str = ""

    def spelled(self, spell: Spell) -> "Document":
        """Return the document with the options that its leads and messages name spelled by `spell`."""
        return replace(self, sections=tuple(section.spelled(spell) for section in self.sections))
