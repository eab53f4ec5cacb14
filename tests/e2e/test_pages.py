"""The pages in a real browser: they show the result's numbers, on any screen and on paper."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer.base.answer_file import from_json
from inferometer.base.errors import LocalError
from inferometer.compare.differences import speedup
from inferometer.report.chromium import browsing, find_chromium, pdf, picture
from inferometer.report.documents.breakdown import level_pieces
from inferometer.report.kinds import TYPES
from inferometer.report.saved import to_html, write_page
from inferometer.stats.result import Finding, JudgedLoad
from tests.support.pictures import FOLDER, PAGES, place, taken
from tests.support.reports import (
    WINDOWS,
    sample_comparison,
    sample_diagnosis,
    sample_result,
    sample_study,
)
from tests.support.samples import sample

NASTY = "</title></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
LONG_NAME = "a-model-with-quite-a-long-name_that_has_no_blank_anywhere_in_it"
CUT_IN_BARS = """[...document.querySelectorAll('.segment span')].filter(
    text => getComputedStyle(text).visibility == 'visible' && text.scrollWidth > text.clientWidth
).map(text => text.textContent)"""
BROKEN_NUMBERS = r"""(() => {
    const found = [], range = document.createRange();
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    const number = /\d[\d,.]*(?:[ \u00a0](?:µs|ms|s|%|infer\/s|requests\/s)(?![\w\/]))?/g;
    while (texts.nextNode()) {
        const text = texts.currentNode, own = text.parentElement;
        if (own.closest('svg, pre, td, .facts, .named') || !own.checkVisibility()) { continue; }
        for (const part of text.data.matchAll(number)) {
            range.setStart(text, part.index);
            range.setEnd(text, part.index + part[0].length);
            const boxes = [...range.getClientRects()].filter(box => box.width);
            if (new Set(boxes.map(box => Math.round(box.top / 4))).size > 1) { found.push(part[0]); }
        }
    }
    return found;
})()"""
KINDS = {kind: PAGES[kind] for kind in sample(("measure", "text", "compare", "diagnose"), tuple(PAGES))}
COMPLAINTS = (
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
    "Page.javascriptDialogOpening",
)
DARK = [{"name": "prefers-color-scheme", "value": "dark"}]


@pytest.fixture(scope="module")
def chromium():
    with browsing() as tab:
        yield tab


@pytest.fixture
def shown(chromium, tmp_path):
    """Opens the page of a report."""

    def show(report, **size):
        path = tmp_path / "page.html"
        write_page(path, report)
        chromium.open(path, **size)
        return chromium

    return show


def evaluate(tab, expression):
    """The value of a JavaScript expression in the page."""
    reply = tab.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
    assert "exceptionDetails" not in reply, f"the page failed at {expression}: {reply['exceptionDetails']}"
    return reply["result"].get("value")


def complaints(tab):
    evaluate(tab, "1")  # whatever the page had to say was said before this answer
    return [event for event in tab.events if event.get("method") in COMPLAINTS]


def marks(tab, section, chart=0):
    """(x, y) of the marks of a chart, as the page has them."""
    found = evaluate(
        tab,
        f"[...document.querySelectorAll('#{section} .plot.wide')[{chart}].querySelectorAll('.mark')]"
        ".map(mark => [Number(mark.dataset.x), Number(mark.dataset.y)])",
    )
    return [tuple(pair) for pair in found]


# --- what holds for the page of every kind of report, seen on one page of each: to open one is most of the work


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_every_kind_is_whole_on_any_screen(kind, shown):
    report = KINDS[kind](f"{NASTY}{LONG_NAME}")
    tab = shown(report)
    assert_text_of_others_stays_text(tab)
    assert evaluate(tab, "document.querySelectorAll('.plot.wide, .differences').length") > 0
    assert evaluate(
        tab, "[...document.querySelectorAll('.plot.wide')].every(plot => plot.getBBox().width > 500)"
    )
    assert evaluate(tab, CUT_IN_BARS) == []
    assert evaluate(tab, BROKEN_NUMBERS) == []
    assert_download_is(tab, report)
    evaluate(tab, "document.querySelectorAll('details').forEach(part => { part.open = true; })")
    # What is where follows from the style alone, so the page need not be loaded anew.
    for width in sample((320, 390, 768), (320, 375, 390, 600, 768)):
        tab.resize(width, 900)
        assert_fits(tab, width)
        assert evaluate(tab, CUT_IN_BARS) == [], width
        assert evaluate(tab, BROKEN_NUMBERS) == [], width
    assert complaints(tab) == []


def assert_text_of_others_stays_text(tab):
    assert complaints(tab) == []
    assert NASTY in evaluate(tab, "document.querySelector('h1').textContent")
    assert NASTY in evaluate(tab, "document.title")
    assert evaluate(tab, "document.scripts.length") == 2
    assert evaluate(tab, "document.images.length") == 0


def assert_download_is(tab, report):
    """The button gives the file back."""
    taken = evaluate(
        tab,
        "new Promise(done => {"
        " URL.createObjectURL = blob => { blob.text().then(done); return '#'; };"
        " document.getElementById('download').click(); })",
    )
    assert from_json(taken, "it.json", type(report)) == report
    assert json.loads(taken)


def assert_fits(tab, width):
    assert evaluate(tab, "innerWidth") == width
    assert evaluate(tab, "document.documentElement.scrollWidth") <= width
    may_scroll = "part.closest('.sheet')" if width > 700 else "false"  # a wide table, in its own frame
    outside = (
        "[...document.querySelectorAll('main *')].filter(part => part.getBoundingClientRect().right > "
        f"innerWidth + 1 && getComputedStyle(part).position !== 'absolute' && !{may_scroll})"
        ".map(part => part.outerHTML.slice(0, 80))"
    )
    assert evaluate(tab, outside) == [], width


# --- individual pages


def test_the_charts_have_the_numbers_of_the_result(shown):
    result = sample_result()
    tab = shown(result)
    rows = [level.measurement for level in result.levels]
    loads = [level.value for level in result.levels]  # nearly saturated: drawn by load
    rates = [row.infer_per_s.value for row in rows]
    assert marks(tab, "throughput", 0) == list(zip(loads, rates, strict=True))
    assert marks(tab, "throughput", 1) == [
        (load, row.latency.percentile_ns(p)) for p in (50, 99) for load, row in zip(loads, rows, strict=True)
    ]
    windows = [window for level in result.levels for window in level.windows]
    assert [y for _, y in marks(tab, "timeline", 0)] == [window.infer_per_s for window in windows]
    assert [y for _, y in marks(tab, "timeline", 1)] == [
        *(window.p50_ns for window in windows),
        *(window.p99_ns for window in windows),
    ]
    assert len(windows) == 4 * WINDOWS
    exact = {
        (p / 100, ns) for row in rows for p, ns in row.latency.percentiles if p in (50, 90, 95, 99, 99.9)
    }
    assert set(marks(tab, "distribution")) == exact
    bars = evaluate(
        tab,
        "[...document.querySelectorAll('#time .bars')[0].querySelectorAll('.track')]"
        ".map(track => [...track.children].map(piece => Number(piece.dataset.value)))",
    )
    assert bars == [list(level_pieces(row).values()) for row in rows]


def test_the_keys_of_a_legend_stand_beside_their_names(shown):
    result = sample_result()
    judged = tuple(
        JudgedLoad(load, verdict) for load, verdict in ((1, "kept"), (2, "undecided"), (4, "broken"))
    )
    finding = Finding("p99<50ms", "concurrency", 1.0, 1.0, 4.0, "p99", 1.0, confidence=0.95, judged=judged)
    tab = shown(replace(result, finding=finding))
    looks = evaluate(
        tab,
        "[...document.querySelectorAll('#throughput .legend .key')].filter(key => {"
        " const own = key.getBoundingClientRect(), row = key.parentNode.getBoundingClientRect();"
        " return own.width > 5 && own.left >= row.left && own.bottom <= row.bottom && own.top >= row.top; })"
        ".map(key => key.parentNode.textContent)",
    )
    assert looks == ["p99 at each load", "met", "undecided", "not judged", "violated"]


def test_the_parts_of_a_bar_are_as_wide_as_their_share(shown):
    tab = shown(sample_result())
    last = "[...document.querySelectorAll('#time .bars')[0].querySelectorAll('.track')].at(-1)"
    widths = evaluate(
        tab,
        f"[...{last}.children].map(piece => piece.getBoundingClientRect().width"
        f" / {last}.getBoundingClientRect().width)",
    )
    pieces = level_pieces(sample_result().levels[-1].measurement)
    total = sum(pieces.values())
    assert widths == pytest.approx([ns / total for ns in pieces.values()], abs=0.01)


def test_the_comparison_draws_its_differences(shown):
    comparison = sample_comparison()
    tab = shown(comparison)
    found = evaluate(
        tab, "[...document.querySelectorAll('#differences .dot')].map(dot => Number(dot.dataset.value))"
    )
    rows = [row for level in comparison.contrasts[0].levels for row in level.differences]
    expected = [
        speedup(row).value
        for metric in ("throughput", "p50", "p99", "p99.9")
        for row in rows
        if row.metric == metric
    ]
    assert found == expected
    outside = (
        "[...document.querySelectorAll('.dot, .reach')].filter(part => { const box = part.getBoundingClientRect(), "
        "track = part.parentNode.getBoundingClientRect(); "
        "return box.right < track.left || box.left > track.right; }).length"
    )
    assert evaluate(tab, outside) == 0


def test_the_diagnosis_draws_model_and_measurement(shown):
    diagnosis = sample_diagnosis()
    found = marks(shown(diagnosis), "curve")
    predicted = [(row.concurrency, row.throughput) for row in diagnosis.curve]
    seen = [(row.concurrency, row.measured_throughput) for row in diagnosis.curve if row.measured_throughput]
    assert found == predicted + seen


def test_letters_keep_their_size_on_a_phone(shown):
    tab = shown(sample_result(), width=375)
    assert evaluate(tab, "getComputedStyle(document.querySelector('.plot.wide')).display") == "none"
    scale = "document.querySelector('.plot.narrow').getScreenCTM().a"
    assert evaluate(tab, scale) > 0.85


def test_colours_follow_the_system_and_the_button(shown):
    tab = shown(sample_result())
    paper = "getComputedStyle(document.body).backgroundColor"
    assert evaluate(tab, paper) == "rgb(255, 255, 255)"
    tab.call("Emulation.setEmulatedMedia", features=DARK)
    dark = evaluate(tab, paper)
    assert dark != "rgb(255, 255, 255)"
    press = f"(document.getElementById('theme').click(), {paper})"
    assert evaluate(tab, press) == dark  # from the system's to always dark
    assert evaluate(tab, press) == "rgb(255, 255, 255)"  # always light
    assert evaluate(tab, press) == dark  # the system's again


def test_what_is_pointed_at_is_explained(shown):
    tab = shown(sample_result())
    evaluate(
        tab,
        "new Promise(done => { document.querySelector('#throughput').scrollIntoView();"
        " requestAnimationFrame(() => requestAnimationFrame(done)); })",
    )
    place = evaluate(
        tab,
        "(box => [box.x + box.width / 2, box.y + box.height / 2])"
        "(document.querySelector('#throughput .plot.wide .mark').getBoundingClientRect())",
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0] + 3, y=place[1] + 3)
    assert evaluate(tab, "document.getElementById('tip').hidden") is False
    assert evaluate(tab, "document.getElementById('tip').textContent").startswith(
        "concurrency 1: 40.0 infer/s ±3.0 %"
    )


def test_a_configuration_is_copied_and_can_be_selected_without_a_script(shown, chromium):
    study = sample_study()
    tab = shown(study)
    text = study.variant("classifier_config_2").text
    press = "(document.querySelector('.copy').click(), document.querySelector('.copy').textContent)"
    assert evaluate(tab, press) in ("Copied", "Selected")
    assert evaluate(tab, "getSelection().toString()").strip() == text.strip()
    page = to_html(study)
    assert (
        '<button type="button" class="copy" hidden>' in page
    )  # it is shown by the script that makes it work
    assert evaluate(tab, "getComputedStyle(document.querySelector('pre')).userSelect") == "auto"


def test_paper_is_light_and_shows_what_is_folded(shown):
    tab = shown(sample_result(), width=800)
    tab.call("Emulation.setEmulatedMedia", media="print", features=DARK)
    assert evaluate(tab, "getComputedStyle(document.body).backgroundColor") in (
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    )
    assert evaluate(tab, "document.querySelector('#settings table').getBoundingClientRect().height") > 50
    assert evaluate(tab, "getComputedStyle(document.querySelector('.tools')).display") == "none"
    tab.call("Emulation.setEmulatedMedia", media="")


def test_without_any_script_the_charts_are_there(chromium, tmp_path):
    path = tmp_path / "page.html"
    write_page(path, sample_result())
    text = path.read_text()
    path.write_text(text[: text.rindex("<script>")] + "</body></html>")
    chromium.open(path)
    assert [len(marks(chromium, "throughput", chart)) for chart in (0, 1)] == [4, 8]
    assert evaluate(chromium, "document.querySelector('#throughput .mark title').textContent").startswith(
        "concurrency 1"
    )


def test_the_page_becomes_a_picture_and_a_pdf(chromium, tmp_path):
    page = tmp_path / "page.html"
    write_page(page, sample_comparison())
    width, height = struct.unpack(">II", picture(chromium, page, width=700)[16:24])
    assert width == 700
    assert height > 1500
    assert pdf(chromium, page).startswith(b"%PDF-")


@pytest.mark.parametrize("kind", PAGES)
def test_the_documentation_shows_every_kind_of_page(kind):
    assert len(place(kind).read_bytes()) < 150_000
    assert f"](images/{place(kind).name})" in (FOLDER.parent / "reports.md").read_text()


@pytest.mark.sampled
@pytest.mark.parametrize("kind", sample(["measure", "tune"], list(PAGES)))
def test_pictures_in_the_documentation_have_the_size_of_their_page(kind, chromium):
    """`make pictures` takes them anew."""
    assert place(kind).read_bytes()[16:24] == taken(chromium, kind)[16:24]


def test_every_kind_of_answer_has_a_picture():
    assert {type(make()) for make in PAGES.values()} == set(TYPES)


def test_no_card_of_figures_is_left_alone_in_its_row(shown):
    tab = shown(PAGES["text"](), width=1280)
    rows = "[...document.querySelectorAll('.figures div')].map(card => card.getBoundingClientRect().top)"
    tops = evaluate(tab, rows)
    assert len(tops) > 5
    assert max(tops.count(top) for top in tops) - min(tops.count(top) for top in tops) <= 1


def test_a_long_run_stays_readable(shown):
    result = sample_result()
    level = replace(result.levels[0], windows=result.levels[0].windows * 40)
    tab = shown(replace(result, levels=tuple(replace(level, value=load) for load in range(1, 21))))
    assert complaints(tab) == []
    assert (
        evaluate(tab, "document.querySelectorAll('#time .bars')[0].querySelectorAll('.track').length") == 16
    )


def test_without_chromium_its_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match="install the package chromium"):
        find_chromium()


def test_a_browser_that_ends_at_once_is_reported(monkeypatch, tmp_path):
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LocalError, match="Chromium exited unexpectedly"), browsing() as tab:
        tab.open(Path("/dev/null"))


@pytest.mark.parametrize(
    "command",
    [
        ("perf_analyzer", "-p", "100", "-s", "999999"),
        ("inferometer", "measure", "--duration", "300ms"),
        ("inferometer", "find", "--slo", "p99<10s", "--by", "concurrency", "--duration", "1s"),
        ("inferometer", "diagnose", "--duration", "300ms", "--concurrency-range", "1:2"),
        ("inferometer", "compare", "-m", "fake", "--duration", "500ms"),
    ],
    ids=lambda words: words[1] if words[0] == "inferometer" else words[0],
)
def test_every_command_that_measures_writes_its_page(command, run, tmp_path):
    from inferometer.report.saved import read
    from tests.support.servers import FakeTriton

    page, saved = tmp_path / "page.html", tmp_path / "run.json"
    name, *words = command
    with FakeTriton() as fake:
        ended = run(
            name, *words, "-m", "fake", "-u", fake.server.address, "--html", str(page), "--json", str(saved)
        )
    assert ended.code in (0, 1, 5), (
        ended.stderr
    )  # a search may find nothing in so short a time; the page says so
    assert page.read_text() == to_html(read(saved))


def test_a_page_that_could_not_be_written_is_refused_before_any_load(run, tmp_path):
    ended = run(
        "inferometer",
        "measure",
        "-m",
        "fake",
        "-u",
        "127.0.0.1:1",
        "--html",
        str(tmp_path / "no" / "page.html"),
    )
    assert ended.code == 2
    assert "does not exist" in ended.stderr


def test_the_name_of_a_rule_is_beside_the_lines(shown):
    tab = shown(PAGES["find"](), width=1280)
    covered = """(() => {
        const plot = document.querySelector('#throughput .plot.wide'), line = plot.querySelector('polyline.line');
        const name = plot.querySelector('.rule-name').getBBox(), length = line.getTotalLength();
        return [...Array(500).keys()].some(step => { const at = line.getPointAtLength(length * step / 499);
            return at.x > name.x && at.x < name.x + name.width && at.y > name.y && at.y < name.y + name.height; });
    })()"""
    assert evaluate(tab, covered) is False
