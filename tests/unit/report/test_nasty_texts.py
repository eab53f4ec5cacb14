"""Foreign texts stay text in every format of every report, whatever they contain."""

import csv
import io
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from inferometer.base.text import printable
from inferometer.dialects.perf_analyzer import report as classic
from inferometer.report import csv as classic_table
from inferometer.report.markdown import markdown_block, markdown_line
from inferometer.report.saved import document, to_html, to_junit, to_markdown
from inferometer.report.terminal import plain_text, show
from inferometer.stats.measurement import FailureGroup
from tests.support.nasty import NASTY, with_texts
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result
from tests.support.samples import sample

SEEDS = range(sample(4, 12))
STYLES = re.compile(r"\x1b\[[0-9;]*m")
FAILURE = FailureGroup("HTTP 500", 3, "words of the server", 0.1, 0.2, 1000, 2000)

REPORTS: dict[str, Callable[[], Any]] = {
    "result": lambda: sample_result(failures=(FAILURE,)),
    "diagnosis": sample_diagnosis,
    "comparison": sample_comparison,
}


@cache
def nasty(kind: str, seed: int) -> Any:
    draw = random.Random(seed)
    return with_texts(REPORTS[kind](), lambda _: draw.choice(NASTY))


def benign(kind: str, seed: int) -> Any:
    """Texts that are as different from each other as the nasty ones."""
    draw = random.Random(seed)
    return with_texts(REPORTS[kind](), lambda _: f"word{NASTY.index(draw.choice(NASTY))}")


every_report = pytest.mark.parametrize("kind", REPORTS)
every_seed = pytest.mark.parametrize("seed", SEEDS)


@pytest.mark.sampled
@every_seed
@every_report
def test_a_terminal_is_not_controlled(kind: str, seed: int) -> None:
    sink = io.StringIO()
    screen = Console(file=sink, width=120, force_terminal=True, color_system="truecolor")
    show(document(nasty(kind, seed)), screen)
    printed = STYLES.sub("", sink.getvalue())
    strange = {char for char in printed if not char.isprintable()} - {"\n"}
    assert strange == set()
    printed.encode()


def test_terminal_markup_is_shown_literally() -> None:
    sink = io.StringIO()
    screen = Console(file=sink, width=200)
    screen.print(plain_text("[bold red]x[/bold red] \x1b[31m"))
    assert sink.getvalue().strip() == r"[bold red]x[/bold red] \x1b[31m"


# --- Markdown


def unmarked(tokens: list[Any]) -> Iterator[Any]:
    for token in tokens:
        yield token
        yield from unmarked(token.children or [])


OURS = re.compile(r"</?(?:details|summary)>")


@pytest.mark.sampled
@every_seed
@every_report
def test_markdown_has_only_our_own_markup(kind: str, seed: int) -> None:
    text = to_markdown(nasty(kind, seed))
    assert "\x1b" not in text
    tokens = list(unmarked(MarkdownIt("commonmark").enable("table").parse(text)))
    kinds = {token.type for token in tokens}
    assert kinds.isdisjoint({"link_open", "image", "code_inline", "em_open", "s_open"})
    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            assert "<" not in OURS.sub("", token.content)


@pytest.mark.sampled
@every_seed
@every_report
def test_every_row_of_a_table_has_the_cells_of_its_head(kind: str, seed: int) -> None:
    """Markdown readers drop surplus cells, so the written ones are counted."""
    ends = re.compile(r"(?<!\\)(?:\\\\)*\|")
    text = to_markdown(nasty(kind, seed))
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:
        assert len({len(ends.findall(row)) for row in table.splitlines()}) == 1


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_a_nasty_text_alone_is_a_paragraph_of_text(text: str) -> None:
    parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    for made in (
        markdown_block(text),
        f"- {markdown_block(text)}",
        f"a {markdown_line(text)}",
    ):
        kinds = {token.type for token in unmarked(parser.parse(made))}
        expected = {"paragraph_open", "inline", "text", "paragraph_close"}
        assert kinds <= expected | {
            "bullet_list_open",
            "list_item_open",
            "list_item_close",
            "bullet_list_close",
        }
        if not made.startswith("- "):
            assert kinds <= expected
    shown = [token.content for token in unmarked(parser.parse(markdown_block(text))) if token.type == "text"]
    assert "".join(shown) == printable(" ".join(text.split()))


def test_bare_addresses_do_not_become_links() -> None:
    made = markdown_line("see http://a.example, www.b.example or c@d.example")
    assert made == r"see http\://a.example, www\.b.example or c\@d.example"


# --- HTML


class Tags(HTMLParser):
    """Tags with the names of their attributes, and everything executable."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.scripts = 0
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(sorted(name for name, _ in attrs))))
        self.scripts += tag in ("script", "style", "iframe", "img", "object", "a")
        self.values += [
            value or "" for name, value in attrs if name in ("href", "src", "style", "class", "id")
        ]


def tags(page: str) -> Tags:
    found = Tags()
    found.feed(page)
    found.close()
    return found


@cache
def usual_tags(kind: str) -> set[tuple[str, tuple[str, ...]]]:
    return tags(to_html(REPORTS[kind]())).found


@pytest.mark.sampled
@every_seed
@every_report
def test_a_page_has_only_our_tags(kind: str, seed: int) -> None:
    page, plain = tags(to_html(nasty(kind, seed))), tags(to_html(benign(kind, seed)))
    assert page.found <= plain.found | usual_tags(kind)
    assert page.scripts == plain.scripts
    assert not any("evil" in value or "alert" in value for value in page.values)


@every_report
def test_a_page_has_no_control_characters(kind: str) -> None:
    page = to_html(nasty(kind, 1))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", page)


# --- JUnit


@pytest.mark.sampled
@every_seed
def test_junit_is_xml(seed: int) -> None:
    suite = ET.fromstring(to_junit(nasty("comparison", seed)).encode())
    plain = ET.fromstring(to_junit(benign("comparison", seed)).encode())
    assert [part.tag for part in suite.iter()] == [part.tag for part in plain.iter()]


# --- CSV


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_no_cell_is_a_formula(text: str) -> None:
    assert classic_table.spreadsheet_cell(text)[:1] not in tuple("=+-@\t\r|%")


@pytest.mark.parametrize("text", ["-1", "+5.25", "-1.5e-3", "-12%", "1,000", "-", "", "simple_config_1"])
def test_numbers_and_names_stay_as_they_are(text: str) -> None:
    assert classic_table.spreadsheet_cell(text) == text


@pytest.mark.sampled
@every_seed
def test_the_classic_table_keeps_its_cells(seed: int) -> None:
    result = nasty("result", seed)
    texts = [classic_table.main_csv(result), *(text for _, text in classic_table.composing_csvs(result))]
    for text in texts:
        widths = {len(row) for row in csv.reader(io.StringIO(text))}
        assert len(widths) == 1
    for prefix, _ in classic_table.composing_csvs(result):
        assert "/" not in prefix
        assert len(prefix.encode()) < 250


@pytest.mark.sampled
@every_seed
def test_the_classic_report_accepts_any_text(seed: int) -> None:
    result = nasty("result", seed)
    for level in result.levels:
        classic.level_block(result, level)
    classic.summary(result)
