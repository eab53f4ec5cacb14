"""The list of runs: its columns, its filters, and bulk changes."""

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from inferometer.base.notes import Note, Remark
from inferometer.compare.comparison import GateOutcome
from inferometer.report.format import quantity
from inferometer.report.saved import document, to_junit
from inferometer.stats.measurement import FailureGroup
from inferometer.stats.slo_outcome import PromiseOutcome, TermOutcome
from inferometer.stats.verdict import INCONCLUSIVE
from inferometer.store.run import FAILED, FINISHED, Run, to_plain
from inferometer.store.store import Store
from inferometer.tune.study import Recommendation
from inferometer.ui.app import _state
from inferometer.ui.pages import Badge, badge, loads
from tests.support.capacity_plans import sample_capacity
from tests.support.planted_store import planted_figures, planted_history
from tests.support.reports import (
    sample_comparison,
    sample_diagnosis,
    sample_interference,
    sample_regression,
    sample_result,
    sample_search,
    sample_study,
)
from tests.support.twins import sample_twin


def with_slo(verdict, limit="p99<5ms"):
    term = TermOutcome("p99", limit, 5e6, None, verdict)
    outcome = PromiseOutcome(limit, verdict, (term,))
    result = sample_result()
    return replace(result, levels=tuple(replace(level, promise=outcome) for level in result.levels))


def interrupted(result):
    remark = Remark(Note.INTERRUPTED, "interrupted")
    return replace(result, levels=tuple(replace(level, remarks=(remark,)) for level in result.levels))


def all_failed():
    result = sample_result()
    levels = tuple(
        replace(
            level,
            measurement=replace(level.measurement, request_count=0, failed_count=40),
        )
        for level in result.levels
    )
    return replace(result, levels=levels)


def searched(*, value, verdict):
    result = sample_search()
    judged = tuple(replace(row, verdict=verdict) for row in result.finding.judged)
    return replace(result, finding=replace(result.finding, value=value, judged=judged))


@pytest.mark.parametrize(
    ("answer", "code", "tone", "words"),
    [
        (with_slo("kept"), 0, "plain", "finished"),
        (with_slo("broken"), 4, "bad", "SLO violated"),
        (interrupted(with_slo("broken")), 130, "bad", "stopped, SLO violated"),
        (interrupted(with_slo("broken")), 143, "bad", "stopped, SLO violated"),
        (interrupted(with_slo("kept")), 130, "warning", "stopped"),
        (all_failed(), 1, "bad", "all requests failed"),
        (all_failed(), 0, "bad", "all requests failed"),
        (interrupted(all_failed()), 130, "bad", "stopped, all requests failed"),
        (
            sample_result(failures=(FailureGroup("http 503", 12, "queue is full", 0.1, 3.2),)),
            1,
            "bad",
            "requests failed",
        ),
    ],
    ids=lambda value: str(value) if not hasattr(value, "levels") else "",
)
def test_the_badge_shows_the_outcome_of_a_run(ask, kept, site, answer, code, tone, words):
    run = kept(answer, code=code)
    assert badge(site.store.get(run.id)) == Badge(tone, words)
    shown = f'<span class="state {tone}">{words}</span>'
    assert shown in ask(f"/runs/{run.id}").text
    assert (shown in ask("/").text) == (words != "finished")
    told = ("finished", tone, words, site.store.get(run.id).verdict)
    assert _state(site, run) == "\t".join(told)  # for the live page


@pytest.mark.parametrize(
    ("command", "code", "badge_of"),
    [
        ("measure", 5, Badge("warning", "inconclusive")),
        ("find", 5, Badge("warning", "inconclusive")),
        ("tune", 5, Badge("warning", "inconclusive")),
        ("compare", 2, Badge("warning", "inconclusive")),
        ("compare", 1, Badge("bad", "regression")),
    ],
)
def test_an_inconclusive_verdict_has_a_badge_of_its_own(command, code, badge_of):
    assert badge(Run("abcd1234", command, state=FINISHED, code=code)) == badge_of


UNDECIDED_GATE = GateOutcome("p99 > +5%", "new", INCONCLUSIVE, "too wide")


@pytest.mark.parametrize(
    ("command", "answer", "is_ruled"),
    [
        ("measure", with_slo("undecided"), False),
        ("find", searched(value=0.0, verdict="undecided"), False),
        ("compare", replace(sample_comparison(), gates=(UNDECIDED_GATE,), problems=()), False),
        ("gate", replace(sample_regression(), good_ids=(), judgements=(), problems=()), False),
        ("tune", sample_study(), True),
        ("diagnose", sample_diagnosis(), True),
        ("interfere", sample_interference(), True),
        ("capacity", sample_capacity(), True),
        ("twin", replace(sample_twin(), command="twin check"), True),
    ],
)
def test_an_inconclusive_answer_has_its_badge_also_where_that_is_allowed(kept, command, answer, is_ruled):
    with ExitStack() as stack:
        if is_ruled:
            ruled = Recommendation if command == "tune" else type(answer)
            stack.enter_context(patch.object(ruled, "ruling", property(lambda _: INCONCLUSIVE)))
        allowed = kept(answer, words=(command,), code=0)
        assert badge(allowed) == Badge("warning", "inconclusive")
        assert badge(replace(allowed, code=70)).words == "exit code 70"
    assert badge(kept(sample_result(), words=(command,))).words == "finished"


def test_a_run_that_was_stopped_before_it_had_a_result_is_not_a_failure():
    for code, found in ((130, Badge("warning", "stopped")), (3, Badge("bad", "failed"))):
        assert badge(Run("abcd1234", "measure", state=FAILED, code=code)) == found


def test_a_search_that_is_undecided_at_its_lightest_load_is_not_marked_as_broken(kept, site):
    found = sample_search()
    verdicts = ("undecided", "undecided", "broken", "broken")
    judged = tuple(
        replace(row, verdict=verdict) for row, verdict in zip(found.finding.judged, verdicts, strict=True)
    )
    found = replace(found, finding=replace(found.finding, value=0.0, low=0.0, judged=judged))
    assert badge(kept(found, words=("find",), code=5)) == Badge("warning", "inconclusive")
    assert "skipped" in to_junit(found)
    assert "failure m" not in to_junit(found)


def test_a_search_with_some_violations_is_not_marked_as_broken(kept, site):
    assert badge(kept(sample_search(), words=("find",))).words == "finished"
    assert badge(kept(searched(value=0.0, verdict="broken"), words=("find",), code=1)).words == "SLO violated"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("measure", 4, "SLO violated"),
        ("measure", 130, "stopped"),
        ("gate", 3, "invalid"),
        ("find", 0, "finished"),
    ],
)
def test_runs_of_earlier_versions_get_a_badge_from_their_exit_code(command, code, words):
    run = Run("abcd1234", command, state=FINISHED, code=code)
    assert badge(run).words == words
    assert json.loads(json.dumps(to_plain(run)))["tone"] == ""


def test_the_list_shows_load_server_and_duration(ask, kept, site):
    run = site.store.get(kept().id)
    row = re.search(r"<tbody.*?</tbody>", ask("/").text, re.S)[0]
    cells = dict(re.findall(r'<td data-name="([^"]+)"[^>]*>([^<]*)', row))
    assert cells["Load"] == "concurrency 1 to 4"
    assert cells["Server"] == run.server != ""
    assert cells["Duration"] != ""
    assert loads(run.points[:1]) == "concurrency 1"
    for order in ("server", "-duration"):
        assert "aria-sort" in ask(f"/?order={order}").text


def rows_of(page):
    return set(re.findall(r'name="run" value="(\w+)"', page))


def test_menus_filter_the_list(ask, site):
    figures = planted_figures(1, seed=1)
    known: list[dict[str, Any]] = [
        {"command": "measure", "model": "simple", "server": "triton 2.51.0", "tags": ("a", "b")},
        {"command": "find", "model": "simple,other", "server": "triton 2.5", "tags": ("b",)},
        {"command": "measure", "model": "sim", "server": "vllm 0.6,triton 2.5", "state": "failed"},
    ]
    one, two, three = (
        planted_history(site.folder, figures, first=day, **own)[0].id for day, own in enumerate(known)
    )
    page = ask("/").text
    for name, values in {
        "command": ["find", "measure"],
        "model": ["other", "sim", "simple"],
        "server": ["triton 2.5", "triton 2.51.0", "vllm 0.6"],
        "tag": ["a", "b"],
        "state": ["failed", "finished"],
    }.items():
        menu = re.search(rf'<select name="{name}">(.*?)</select>', page)[1]
        assert re.findall(r"<option>([^<]*)", menu) == values
    for query, found in {
        "command=measure": {one, three},
        "model=sim": {three},
        "model=simple&command=find": {two},
        "server=triton+2.5": {two, three},
        "server=triton+2.51.0": {one},
        "tag=b&q=tag%3Da": {one},
        "state=failed": {three},
        "state=": {one, two, three},
        "q=server%3Dtriton": {one, two, three},
        "q=server%3Dvllm": {three},
    }.items():
        assert rows_of(ask(f"/?{query}").text) == found, query
    shown = ask("/?server=triton+2.5&order=model").text
    assert "<option selected>triton 2.5</option>" in shown
    assert (
        "server=triton+2.5" in re.search(r'aria-sort.*?href="([^"]*)"', shown)[1]
    )  # sorting keeps the filter
    assert "No matching runs" in ask("/?model=gone").text


def chosen(*runs, **more):
    return "&".join(
        [*(f"run={run.id}" for run in runs), *(f"{key}={value}" for key, value in more.items())]
    ).encode()


def test_several_runs_are_tagged_and_deleted_at_once(ask, kept, site):
    one, two, three = (kept() for _ in range(3))
    done = ask(
        "/chosen/tags?model=pipeline", method="POST", body=chosen(one, three, tag="nightly,b", act="add")
    )
    assert (done.status, done.headers["location"]) == (303, "/?model=pipeline")
    assert [site.store.get(run.id).tags for run in (one, two, three)] == [
        ("nightly", "b"),
        (),
        ("nightly", "b"),
    ]
    ask("/chosen/tags", method="POST", body=chosen(one, three, tag="b", act="remove"))
    assert site.store.get(three.id).tags == ("nightly",)
    assert ask("/chosen/delete", method="POST", body=chosen(one, two)).headers["location"] == "/"
    assert [run.id for run in site.store.runs()] == [three.id]


def test_a_bulk_change_applies_to_all_runs_or_none(ask, kept, site):
    one = kept()
    with Store(site.folder).begin("measure", ("measure",)) as keeper:
        assert ask("/chosen/delete", method="POST", body=chosen(one, keeper.run)).status == 400
        assert {run.id for run in site.store.runs()} == {one.id, keeper.run.id}
        keeper.end(0, "over")
    for path, body, status in [
        ("/chosen/delete", b"", 400),
        ("/chosen/delete", chosen(one) + b"&run=beef0000", 404),
        ("/chosen/delete", chosen(one) + b"&run=../../etc", 404),
        ("/chosen/tags", chosen(one), 400),
        ("/chosen/tags", chosen(one, tag="a%3Db"), 400),
        ("/chosen/tags", chosen(one, tag="a", act="shout"), 400),
    ]:
        assert ask(path, method="POST", body=body).status == status, (path, body)
    assert site.store.get(one.id).tags == ()


def test_any_of_the_compared_runs_can_be_the_baseline(ask, kept):
    runs = [kept() for _ in range(3)]
    query = "&".join(f"run={run.id}" for run in runs)
    page = ask(f"/compare?{query}").text
    assert re.findall(r'<option value="(\w+)"', page) == [run.id for run in runs]
    for run in runs:
        page = ask(f"/compare?{query}&baseline={run.id}").text
        assert f'<option value="{run.id}" selected>' in page
        report = ask(re.search(r'data-place="([^"]*)', page)[1].replace("&amp;", "&")).text
        title = re.search(r"<title>([^<]*)", report)[1]
        assert title.index(run.id[:4]) < min(title.index(other.id[:4]) for other in runs if other is not run)
    assert ask(f"/compare?{query}&baseline=beef0000").status == 400


def test_the_list_has_the_figures_of_the_page(kept, site):
    result = sample_result()
    lighter, heavier = result.levels[-2:]
    rate = replace(lighter.measurement.infer_per_s, value=heavier.measurement.infer_per_s.value * 0.99)
    lighter = replace(lighter, measurement=replace(lighter.measurement, infer_per_s=rate))
    run = site.store.get(kept(replace(result, levels=(lighter, heavier))).id)
    card = document(replace(result, levels=(lighter, heavier))).figures[0]
    assert card.value.startswith(quantity(run.figures["throughput"].value))
    assert "concurrency 3" in card.detail
