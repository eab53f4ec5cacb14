"""`inferometer ui` in a real browser, with the embedded Triton: one day of its user."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferometer.base.units import NS_PER_S
from inferometer.report.chromium import Tab, browsing
from inferometer.store.live import PERIOD_NS
from inferometer.store.store import Store
from tests.support.accessibility import faults
from tests.support.browser import colours, complaints, evaluate, press, type_text, wait_until
from tests.support.planted_store import planted_figures, planted_history
from tests.support.samples import sample

pytestmark = pytest.mark.live

# Screens that axe-core looks at, which takes a second each: both colours, both layouts. The suite has one of them.
LOOKED_AT = sample((("dark", 390),), (("light", 1280), ("dark", 390)))
SCREENS = sample(LOOKED_AT, tuple((scheme, width) for scheme in ("light", "dark") for width in (1280, 390)))
LIVE = "location.pathname.endsWith('/live')"
FOCUSED = (
    "(e => [e.tagName, e.id, e.name || '', e.textContent.slice(0, 40)].join(' '))(document.activeElement)"
)


class Shown:
    """A ui process on a store, and a browser that it let in."""

    def __init__(self, folder: Path, tab: Tab) -> None:
        self.store = Store(folder)
        self.tab = tab
        command = (sys.executable, "-m", "inferometer.cli.main", "ui", "--store", str(folder), "--port", "0")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        self.url, _, self.token = said.split()[-1].partition("/?token=")
        tab.visit(f"{self.url}/?token={self.token}", width=1280)

    def visit(self, path: str, width: int = 1280) -> None:
        evaluate(self.tab, "window.isLeft = true")
        self.tab.visit(self.url + path, width=width, height=900)
        wait_until(self.tab, "!window.isLeft && document.readyState === 'complete'")

    def measured(self, address: str, *words: str) -> str:
        """The id of a run that was started in a terminal and has ended."""
        command = (sys.executable, "-m", "inferometer.cli.main", "measure", address, "simple", "-q", *words)
        subprocess.run(
            (*command, "--store", str(self.store.folder)), check=True, timeout=60, capture_output=True
        )
        return self.store.runs(limit=1)[0].id

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def browser():
    with browsing() as tab:
        yield tab


@pytest.fixture
def shown(browser, tmp_path):
    """With a store of its own."""
    found = Shown(tmp_path / "store", browser)
    try:
        yield found
    finally:
        found.end()


def tab_to(tab, wanted, most=60):
    """Press Tab until that has the focus, and see on the way that one can see where it is."""
    for _ in range(most):
        press(tab, "Tab")
        if evaluate(
            tab, "document.activeElement !== document.body && document.activeElement.tagName !== 'IFRAME'"
        ):
            width = evaluate(tab, "parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
            assert width >= 1, f"no one sees where the focus is: {evaluate(tab, FOCUSED)}"
        if evaluate(tab, f"document.activeElement.matches({json.dumps(wanted)})"):
            return
    raise AssertionError(f"{wanted} cannot be reached; the focus is on {evaluate(tab, FOCUSED)}")


def check_page(shown, path, wait="true"):
    """On every screen: nothing goes wrong, nothing is wider than the screen, nothing is hard to use."""
    for scheme, width in SCREENS:
        shown.visit(path, width=width)
        colours(shown.tab, scheme)
        wait_until(shown.tab, wait)
        assert complaints(shown.tab) == []
        assert evaluate(shown.tab, "document.documentElement.scrollWidth <= innerWidth"), (
            path,
            scheme,
            width,
        )
        if (scheme, width) in LOOKED_AT:
            assert faults(shown.tab) == [], (path, scheme, width)


def assert_shows_all(shown, run, count=12):
    """The page shows the figures as often as the run tells them, which is four times a second where there is time."""
    assert PERIOD_NS <= NS_PER_S / 4

    def told():
        lines = shown.store.live_path(shown.store.get(run)).read_text().splitlines()
        return sum('"sample"' in line for line in lines)

    def seen():
        return int(evaluate(shown.tab, "document.documentElement.dataset.updates"))

    def wait_for(updates):
        wait_until(shown.tab, f"Number(document.documentElement.dataset.updates) >= {updates}")

    told_before, seen_before = told(), seen()
    wait_for(seen_before + count)
    told_since = told() - told_before
    assert told_since > 0
    wait_for(seen_before + told_since - 1)


@pytest.mark.machine(reason="a browser shows figures of a run before its deadlines only with a core")
@pytest.mark.sampled
def test_a_run_is_started_watched_stopped_read_and_compared(shown, triton):
    tab = shown.tab
    before = shown.measured(triton.http_address, "-c", "1,2", "-d", "500ms")

    # By keyboard alone: from the list to the form, and through it.
    shown.visit("/")
    press(tab, "Tab")
    assert evaluate(tab, "document.activeElement.className") == "skip"
    tab_to(tab, "main a[href='/new']")
    press(tab, "Enter")
    wait_until(tab, "location.pathname === '/new' && document.querySelector('#form')")
    tab_to(tab, "#url")
    type_text(tab, triton.http_address)
    models = wait_until(
        tab, "[...document.querySelectorAll('#choices button')].map(button => button.textContent)"
    )
    assert "simple" in models
    assert "Triton" in evaluate(tab, "document.querySelector('#seen').textContent")
    tab_to(tab, "#model")
    type_text(tab, "simple")
    shapes = wait_until(tab, "document.querySelector('#tensors:not([hidden]) tbody')?.textContent")
    assert "INPUT0" in shapes
    assert "INT32" in shapes
    tab_to(tab, "[name='--concurrency']", most=120)
    type_text(tab, "1,2,x")
    wait_until(
        tab, "document.querySelector('[name=\"--concurrency\"]').getAttribute('aria-invalid') === 'true'"
    )
    evaluate(tab, "document.activeElement.select()")
    type_text(tab, "1,2,4,8")
    tab_to(tab, "[name='--duration']")
    type_text(tab, "20s")
    tab_to(tab, "[name='--tag']")
    type_text(tab, "by-form")
    tab_to(tab, "details:has([name='--precision']) summary")
    press(tab, "Enter")
    tab_to(tab, "[name='--precision']")
    type_text(tab, "0.01%")
    line = (
        f"inferometer measure {triton.http_address} simple -c 1,2,4,8 -d 20s --precision 0.01% --tag by-form"
    )
    wait_until(tab, f"document.querySelector('#line').textContent === {json.dumps(line)}")
    tab_to(tab, "#go", most=120)
    press(tab, "Enter")
    wait_until(tab, LIVE)

    # Figures change, as often as the run tells them, and levels come one by one.
    figure = "document.querySelector('[data-tile=per_s] strong')?.textContent"
    wait_until(tab, f"/[0-9]/.test({figure})")
    first = json.dumps(evaluate(tab, figure))
    wait_until(tab, f"{figure} !== {first}")
    run = evaluate(tab, "document.querySelector('#live').dataset.run")
    assert_shows_all(shown, run)
    assert evaluate(tab, "document.querySelectorAll('#time svg path.line').length") >= 5
    check_page(shown, f"/runs/{run}/live", wait="document.querySelector('#time svg path.line')")

    # Stopped as by Ctrl-C: it ends in order, and what it measured is kept.
    tab_to(tab, "#stop button")
    press(tab, "Enter")
    wait_until(tab, f"document.querySelector('#now a') || !{LIVE}")
    stopped = shown.store.get(run)
    assert (stopped.state, stopped.code, stopped.tags) == ("finished", 130, ("by-form",))
    shown.visit(f"/runs/{run}")
    wait_until(tab, "document.querySelector('iframe.report').style.height")
    check_page(shown, f"/runs/{run}", wait="document.querySelector('iframe.report').style.height")

    # Beside the earlier one.
    shown.visit("/")
    assert evaluate(tab, "document.querySelector('#compare').disabled")
    for name in (before, run):
        tab_to(tab, f"[name=run][value='{name}']")
        press(tab, " ")
    tab_to(tab, "#compare")
    press(tab, "Enter")
    wait_until(
        tab, "location.pathname === '/compare' && document.querySelector('iframe.report')?.style.height"
    )
    assert complaints(tab) == []
    check_page(shown, f"/compare?run={before}&run={run}")

    # And both in the trend of their model.
    shown.visit(f"/runs/{run}")
    tab_to(tab, "a[href^='/trend']")
    press(tab, "Enter")
    wait_until(tab, "location.pathname === '/trend' && document.querySelector('iframe.report')?.style.height")
    assert evaluate(tab, "document.querySelectorAll('.trend-runs li').length") == 2
    check_page(shown, "/trend?model=simple")


@pytest.mark.sampled
def test_a_planted_regression_is_seen_in_the_trend_and_where_there_is_none_none_is(shown):
    folder = shown.store.folder
    runs = planted_history(folder, planted_figures(20, seed=1, step=-0.08, at=12))
    planted_history(folder, planted_figures(20, seed=2), first=20, model="steady")
    earlier, later = (shown.store.short(run) for run in runs[11:13])
    between = f"between runs {earlier} and {later}"
    for model, is_said in (("simple", True), ("steady", False)):
        path = f"/trend?model={model}"
        shown.visit(path)
        assert evaluate(shown.tab, "document.querySelectorAll('.trend-runs li').length") == 20
        report = evaluate(shown.tab, "document.querySelector('iframe.report').getAttribute('src')")
        if is_said:
            check_page(shown, path, wait="document.querySelector('iframe.report').style.height")
        shown.visit(report)
        text = evaluate(shown.tab, "document.body.innerText")
        assert (between in text, "between runs" in text) == (is_said, is_said)


@pytest.mark.sampled
def test_every_other_page_is_fit_for_use(shown, triton):
    check_page(shown, "/")
    check_page(
        shown,
        f"/new?url={triton.http_address}&model=simple",
        wait="document.querySelector('#tensors').hidden === false",
    )
    check_page(shown, "/?q=no-such-run")


def test_the_list_shows_the_first_run_by_itself_and_keeps_its_selection(shown):
    tab = shown.tab
    shown.visit("/")
    assert "No runs yet" in evaluate(tab, "document.body.innerText")
    planted_history(shown.store.folder, planted_figures(2, seed=1))
    wait_until(tab, "document.querySelectorAll('#chosen [name=run]').length === 2")
    evaluate(tab, "document.querySelectorAll('#chosen [name=run]').forEach(box => box.click())")
    assert evaluate(tab, "document.querySelector('#all').checked")
    evaluate(tab, "document.querySelector('#compare').click()")
    wait_until(tab, "location.pathname === '/compare'")
    evaluate(tab, "history.back()")
    wait_until(tab, "location.pathname === '/' && document.querySelector('#chosen-count')")
    wait_until(tab, "document.querySelector('#chosen-count').textContent === '2 selected'")
    assert not evaluate(tab, "document.querySelector('#compare').disabled")


def test_the_focus_leaves_every_page_again(shown):
    """No trap: who goes on pressing Tab comes back to the beginning."""
    for path in ("/", "/new?command=demo"):
        shown.visit(path)
        press(shown.tab, "Tab")
        for _ in range(200):
            press(shown.tab, "Tab")
            if evaluate(
                shown.tab,
                "document.activeElement === document.body || document.activeElement.className === 'skip'",
            ):
                break
        else:
            raise AssertionError(f"the focus does not leave {path}")


def test_names_that_are_markup_stay_text(shown):
    from dataclasses import replace

    from tests.support.reports import sample_result

    nasty = "</title></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
    result = sample_result()
    with shown.store.begin("measure", ("measure", "h:1", nasty), tags=("<b>bold</b>",)) as keeper:
        keeper.save(replace(result, model={**result.model, "name": nasty}))
        keeper.end(0)
    for path in (
        "/",
        f"/runs/{keeper.run.id}",
        f"/new?from={keeper.run.id}",
        f"/runs/{keeper.run.id}/report",
    ):
        shown.visit(path)
        assert complaints(shown.tab) == []
        assert "owned" not in evaluate(shown.tab, "document.title").split("·")[-1]
        assert evaluate(shown.tab, "document.querySelectorAll('img, main b').length") == 0
    shown.store.remove(keeper.run)
