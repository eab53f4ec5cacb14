"""A whole search by `tune --serve` on real processes, with starts that fail."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer import api
from inferometer.cli.main import main
from inferometer.tune.knobs import knobs_of
from inferometer.tune.study import recommend
from tests.support import planted_server
from tests.support.leftovers import left, marked

PLANTED = f"{sys.executable} {planted_server.__file__}"


@pytest.fixture
def token() -> Iterator[str]:
    with marked() as found:
        yield found


def test_a_search_finds_the_best_values_despite_failed_starts(tmp_path, monkeypatch, token, capfd):
    monkeypatch.chdir(tmp_path)
    Path("inferometer.yaml").write_text("tune: {vary: ['slots=1,4,16', 'behaviour=cold,exits']}\n")
    words = (
        "--serve",
        f"{PLANTED} {token} {{behaviour}} {{port}} {{slots}}",
        "-u",
        "http://127.0.0.1:{port}/",
    )
    saved = ("--json", "study.json", "--output", "best.txt", "--no-store", "--config", "inferometer.yaml")
    code = main(["tune", *words, *saved, "-c", "8", "--search", "brute", "--allow-inconclusive"])
    said = capfd.readouterr()
    assert code == 0, said.err
    study = api.load("study.json")
    found = recommend(study)
    assert found is not None
    assert knobs_of(study.variant(found.best.name).config) == {"slots": 4, "behaviour": "cold"}
    failed = {trial.reason.partition("; see its log")[0] for trial in study.not_done if trial.number >= 0}
    assert "the server exited with status 1 instead of starting; unknown flag --x" in failed
    assert left(token) == []
    assert " requests/s, p99" in said.err
    assert "infer/s" not in said.err + said.out
    # the report; other tests may run beside one side of the comparison
    verdict = " ".join(said.out.split())
    assert re.match(
        "Run it with slots=4 behaviour=cold|Inconclusive: the best figures are those of slots=4", verdict
    )
    line = f"{PLANTED} {token} cold {{port}} 4"
    assert Path("best.txt").read_text() == f"{line}\n"
    # the server counts when it is warm
    best = found.best.best
    warm_per_s = planted_server.MOST_USEFUL / planted_server.SERVICE_S
    assert best.combined("perf_throughput") > warm_per_s / 2
    cold_s = planted_server.COLD_REQUESTS / 4 * planted_server.COLD * planted_server.SERVICE_S
    assert study.startup_s(best.name) > cold_s
    assert re.search(r"Start-up of the best one +[\d.]+ s until it was ready and warm", said.out)
    assert not any(trial.note for trial in study.trials)
    # the account of the time
    account = study.account
    parts = (account.loading_s, account.warming_s, account.measuring_s, account.searching_s)
    assert account.total_s == pytest.approx(sum(parts))
    assert min(parts) > 0
    assert re.search(r"Time +[\d.]+ s: starting the server [\d.]+ s, warming up", said.out)
    starts = sum(trial.loading_s > 0 for trial in study.trials)
    assert len(list(Path("inferometer-tune-logs").iterdir())) == starts
