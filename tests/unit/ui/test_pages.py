"""Pages of a store, and changes to it."""

import json
import re
from dataclasses import replace

import pytest

from inferometer.report.page import render
from inferometer.store.run import Run
from inferometer.store.store import Store
from inferometer.ui.jobs import Jobs
from inferometer.ui.trends import document_of, trend_view
from tests.support.planted_store import planted_figures, planted_history
from tests.support.reports import sample_comparison, sample_diagnosis, sample_result, sample_study


def test_an_empty_store_suggests_what_to_do(ask):
    assert "Start one here" in ask("/").text


def test_the_list_shows_and_finds_every_run(ask, kept):
    one, two = kept(tags=("nightly",)), kept(words=("measure", "localhost:8000", "other"))
    page = ask("/").text
    assert all(run.id in page for run in (one, two))
    assert page.count("<polyline") == 2
    assert "2 runs" in page
    found = ask("/?q=tag%3Dnightly").text
    assert one.id in found
    assert two.id not in found
    assert "runs cannot be filtered by" in ask("/?q=colour%3Dred").text
    assert "No matching runs" in ask("/?q=nothing-like-it").text


def test_the_list_is_sorted_and_comes_in_pages(ask, kept, monkeypatch):
    monkeypatch.setattr("inferometer.ui.app.PER_PAGE", 2)
    runs = [kept() for _ in range(3)]
    first, second = ask("/").text, ask("/?page=2").text
    assert sum(f'value="{run.id}"' in first for run in runs) == 2
    assert sum(f'value="{run.id}"' in second for run in runs) == 1
    assert 'aria-sort="descending"' in ask("/?order=-throughput").text
    for odd in ("/?order=;drop", "/?page=-1", "/?page=x", "/?page=99999999999"):
        assert ask(odd).status == 200


@pytest.mark.parametrize("make", [sample_result, sample_comparison, sample_diagnosis, sample_study])
def test_a_run_of_any_kind_has_its_page_and_its_files(ask, kept, make):
    run = kept(make())
    page = ask(f"/runs/{run.id}")
    assert page.status == 200
    assert f'data-place="/runs/{run.id}/report"' in page.text
    report = ask(f"/runs/{run.id}/report?theme=dark")
    assert '<html lang="en" data-framed="yes" data-theme="dark">' in report.text
    assert json.loads(ask(f"/runs/{run.id}/download/json").text)
    for form in ("csv", "md", "html"):
        assert (
            ask(f"/runs/{run.id}/download/{form}")
            .headers["content-disposition"]
            .endswith(f'{run.id}.{form}"')
        )
    assert ask(f"/runs/{run.id}/download/exe").status == 404


def test_advice_names_the_fields_of_the_form_and_in_downloads_the_options(ask, kept):
    run = kept()
    assert (
        "measure longer with Duration or Requests, or relax Precision" in ask(f"/runs/{run.id}/report").text
    )
    download = ask(f"/runs/{run.id}/download/html").text
    assert "measure longer with --duration or -n, or relax --precision" in download


def test_only_the_script_of_a_report_may_run(ask, kept):
    """The digest in the policy matches the script on the page, in any colour theme."""
    run = kept()
    for theme in ("", "light", "dark", "</script>"):
        answer = ask(f"/runs/{run.id}/report?theme={theme}")
        assert len(re.findall(r"<script>", answer.text)) == 1
        assert "sha256-" in answer.headers["content-security-policy"]


def test_a_run_with_a_damaged_answer_still_has_a_page(ask, kept, site):
    run = kept()
    site.store.answer_path(run).write_text('{"kind": "res')
    page = ask(f"/runs/{run.id}")
    assert page.status == 200
    assert "verdict bad" in page.text
    assert ask(f"/runs/{run.id}/report").status == 400


def form(**fields):
    return "&".join(f"{name}={value}" for name, value in fields.items()).encode()


def test_tags_are_added_and_removed(ask, kept, site):
    run = kept()
    assert ask(f"/runs/{run.id}/tags", method="POST", body=form(add="good+base,line")).status == 303
    assert site.store.get(run.id).tags == ("good", "base", "line")
    ask(f"/runs/{run.id}/tags", method="POST", body=form(remove="base"))
    assert site.store.get(run.id).tags == ("good", "line")
    assert ask(f"/runs/{run.id}/tags", method="POST", body=form(add="a%3Db")).status == 400


def test_a_run_is_deleted(ask, kept, site):
    run, other = kept(), kept()
    assert ask(f"/runs/{run.id}/delete", method="POST").headers["location"] == "/"
    assert ask(f"/runs/{run.id}").status == 404
    assert [row.id for row in site.store.runs()] == [other.id]


def test_a_run_that_was_told_to_stop_says_so_and_can_be_stopped_at_once(ask, site, monkeypatch):
    told: list[Run] = []
    monkeypatch.setattr("inferometer.ui.app.interrupt", told.append)
    with Store(site.folder).begin("measure", ("measure", "localhost:8000", "simple")) as keeper:
        page = ask(f"/runs/{keeper.run.id}/live").text
        assert ("data-stopping" in page, ">Stop<" in page) == (False, True)
        place = ask(f"/runs/{keeper.run.id}/stop", method="POST").headers["location"]
        page = ask(place).text
        assert ("data-stopping" in page, ">Stop at once<" in page) == (True, True)
        assert "waiting for the requests in flight" in page
        ask(f"/runs/{keeper.run.id}/stop", method="POST")
        assert [run.id for run in told] == 2 * [keeper.run.id]
        keeper.end(130)


def test_a_comparison_has_the_earlier_run_as_its_baseline(ask, kept, monkeypatch):
    two = kept()
    monkeypatch.setattr("inferometer.store.store.now", lambda: "2026-01-01T00:00:00+00:00")
    one = kept()
    page = ask(f"/compare?run={two.id}&run={one.id}")
    assert page.status == 200
    assert "/compare/report?" in page.text
    assert (
        f" {one.id[:4]} vs {two.model} {two.id[:4]}" in ask(f"/compare/report?run={two.id}&run={one.id}").text
    )


def test_different_runs_are_compared_only_on_request(ask, kept):
    result = sample_result()
    one, two = kept(), kept(replace(result, host={**result.host, "cores": 999}))
    refused = ask(f"/compare?run={one.id}&run={two.id}").text
    assert "measure both in the same way, or use &#39;Compare anyway&#39;" in refused
    assert "999" in refused
    assert "measured under different conditions" in ask(f"/compare?run={one.id}&run={two.id}&force=1").text
    assert "has no levels" in ask(f"/compare?run={one.id}&run={kept(sample_diagnosis()).id}").text


def test_jobs_run_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    busy = [True]
    jobs = Jobs(tmp_path, lambda: busy[0], lambda pid: False)
    first, second = (jobs.add(("measure", url), f"inferometer measure {url}") for url in "ab")
    assert [job.number for job in jobs.waiting] == [first, second]
    jobs.remove(second)
    busy[0] = False
    jobs.step()
    assert jobs.waiting == ()
    assert jobs.current.number == first
    jobs._started[1].wait()
    jobs.step()
    assert jobs.current is None
    assert [job.failure for job in jobs.failed] == ["exited with code 1 without output"]
    jobs.remove(first)
    assert jobs.failed == ()


def test_a_rerun_without_its_secrets_goes_through_the_form(ask, kept, site):
    run = kept(words=("measure", "localhost:8000", "simple", "--header", "Authorization:***"))
    assert ask(f"/runs/{run.id}/rerun", method="POST").headers["location"] == f"/new?from={run.id}"
    assert site.jobs.waiting == ()
    assert "Authorization:***" in ask(f"/new?from={run.id}").text


def test_a_trend_shows_a_model_at_one_load_and_its_changes(ask, kept, monkeypatch, site):
    assert "There are none yet" in ask("/trend").text
    assert ask("/trend/report").status == 404
    for day in range(1, 21):
        monkeypatch.setattr("inferometer.store.store.now", lambda day=day: f"2026-01-{day:02}T03:00:00+00:00")
        spread = 0.002 * (day * 7 % 5)
        kept(slower(sample_result(), (1.0 if day <= 12 else 0.92) * (1 + spread)))
    page = ask("/trend?model=pipeline&load=nonsense&setting=0")
    assert page.status == 200
    assert page.text.count("<option") == 1 + (4 + 1) + 1
    report = ask("/trend/report?" + re.search(r"/trend/report\?([^\"]*)", page.text)[1].replace("&amp;", "&"))
    runs = {run.started_at[8:10]: site.store.short(run) for run in site.store.runs()}
    assert f"between runs {runs['12']} and {runs['13']}" in report.text


def test_the_trends_of_20_stores_without_a_change_name_none(tmp_path):
    for seed in range(20):
        folder = tmp_path / str(seed)
        planted_history(folder, planted_figures(20, seed=seed))
        view = trend_view(Store(folder), {"model": "simple"})
        assert len(view.runs) == 20
        assert "between runs" not in render(document_of(view, Store(folder).shorts(view.runs), "us")), seed


def slower(result, factor):
    """A result of a server that is slower by that factor."""
    levels = tuple(
        replace(
            level,
            measurement=replace(level.measurement, infer_per_s=scaled(level.measurement.infer_per_s, factor)),
        )
        for level in result.levels
    )
    return replace(result, levels=levels)


def scaled(found, factor):
    low, high = (None if end is None else end * factor for end in (found.low, found.high))
    return replace(found, value=found.value * factor, low=low, high=high)
