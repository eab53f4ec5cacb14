"""`inferometer twin`: its output files and its rejections."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferometer import api
from inferometer.base.answer_file import read, write
from inferometer.cli.main import main
from inferometer.stats.result import Result
from inferometer.twin.twin import Twin
from tests.support.servers import FakeTriton
from tests.support.twins import known_result, sample_twin


def replaced(result: Result, **more: Any) -> Result:
    return replace(result, levels=tuple(replace(level, **more) for level in result.levels))


def without(result: Result, **more: Any) -> Result:
    """Return the result with changed measurements of each level."""
    found = [replace(level.measurement, **more) for level in result.levels if level.measurement is not None]
    rows = zip(result.levels, found, strict=True)
    return replace(result, levels=tuple(replace(level, measurement=row) for level, row in rows))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(known_result(), Path("known.json"))
    plain = without(known_result(), server=None)
    write(plain, Path("plain.json"))
    write(replace(plain, levels=plain.levels[:1]), Path("plain-one.json"))
    write(replaced(plain, mode="request_rate"), Path("plain-rate.json"))
    write(without(known_result(), request_count=0), Path("failed.json"))
    write(replaced(known_result(), mode="phase peak"), Path("phases.json"))
    write(sample_twin("a"), Path("twin.json"))


def test_fit_then_predict_then_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "fit", "known.json", "-f", "made.json"]) == 0
    assert "Written: made.json" in capsys.readouterr().out
    assert [row.model for row in read(Path("made.json"), Twin).forecasts] == ["known", "known"]
    assert (
        main(["twin", "predict", "-f", "made.json", "-c", "1,4", "--json", "said.json", "--html", "p.html"])
        == 0
    )
    said = read(Path("said.json"), Twin)
    assert [row.basis for row in said.forecasts] == ["measured", "extrapolated"]
    assert said.forecasts[1].bands["throughput"].value == pytest.approx(100, rel=0.03)
    assert said.forecasts[1].bands["p99"].value == pytest.approx(40e6, rel=0.05)
    assert 'class="band blue"' in Path("p.html").read_text()
    capsys.readouterr()
    assert (
        main(["twin", "check", "known.json", "-f", "made.json", "-q"]) == 5
    )  # 200 requests do not decide a p99
    assert main(["twin", "check", "known.json", "-f", "made.json", "-q", "--allow-inconclusive"]) == 0
    assert "are inside their 90 % interval" in capsys.readouterr().out


def test_a_server_without_statistics_gets_a_twin_from_latencies_alone() -> None:
    assert main(["twin", "fit", "plain.json", "-f", "made.json", "-q"]) == 0
    twin = read(Path("made.json"), Twin)
    assert "fitted to latencies alone, since the server provides no statistics: 1 in service" in twin.notes[0]
    (row,) = api.twin_predict(twin, concurrency=4).forecasts
    assert row.bands["throughput"].value == pytest.approx(100, rel=0.03)
    assert row.bands["p99"].value == pytest.approx(40e6, rel=0.05)


def test_python_gives_the_same_result() -> None:
    twin = api.twin_fit(known_result())
    (row,) = api.twin_predict(twin, concurrency=4, settings="known_model.instances=2").forecasts
    assert row.bands["throughput"].value == pytest.approx(200, rel=0.05)
    assert row.load.settings[0].text == "known_model.instances=2"
    assert all(row.measured for row in api.twin_check(twin, known_result()).forecasts)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "no action is given"),
        ("guess", "unknown action 'guess'"),
        ("fit", "no run is given to fit"),
        ("fit plain-one.json", "fitted to latencies alone, and one load does not show what saturates"),
        ("fit plain-rate.json", "fitted to latencies alone, which rates do not determine"),
        ("fit failed.json", "failed.json: no request succeeded"),
        ("fit phases.json", "phases.json: no load is a plain concurrency or rate"),
        ("fit known.json -c 4", "--concurrency does not apply to `twin fit`"),
        ("fit twin.json", "is not a result or a diagnosis"),
        ("predict known.json", "unexpected argument 'known.json'"),
        ("predict -f none.json", "the twin file 'none.json' does not exist"),
        ("predict --cores 4", "--cores does not apply to `twin predict`"),
        ("predict -m b -c 1", "'b' is not in the twin; its models are a, other"),
        ("predict -m a -c 1 --set b.instances=2", "'b' is not used by this load, only a"),
        ("predict -m a -c 1 --arrivals poisson", "--arrivals requires --rate"),
        ("check known.json -c 2", "--concurrency does not apply to saved runs"),
        ("check known.json", "'known' is not in the twin"),
    ],
)
def test_refusals_have_a_remedy(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", *words.split()]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "; " in said.partition(sentence)[2]


def test_a_load_that_cannot_be_checked_is_refused_before_any_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    twin = sample_twin("fake")
    first, other = (
        replace(model, asked={"model": model.name, **more})
        for model, more in zip(twin.models, ({}, {"headers": ["x: y"]}), strict=True)
    )
    write(replace(twin, models=(first, other)), Path("twin.json"))
    with FakeTriton() as server:
        words = ("-f", "twin.json", "-u", server.server.address, "-c", "1", "-d", "100ms", "-q")
        assert main(["twin", "check", *words]) == 2
        assert "'other' was measured with headers" in capsys.readouterr().err
        assert not server.inferences
