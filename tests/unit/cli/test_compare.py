"""`inferometer compare` on saved results, and its exit codes."""

import pytest

from inferometer.base.answer_file import read, write
from inferometer.base.notes import Note, Remark
from inferometer.cli.main import main as inferometer
from inferometer.compare.comparison import Comparison
from inferometer.options.effective import Effective
from inferometer.stats.estimate import Distribution, Estimate
from inferometer.stats.measurement import ClientCost, FailureGroup, Level, Measurement
from inferometer.stats.result import Result


def level(rate, failed, remarks=()):
    latency = Distribution(1000, 10**6, 10, 1, 9, ((50.0, 10**6), (95.0, 10**6), (99.0, 10**6)))
    found = Measurement(
        batch=1,
        duration_ns=10**10,
        request_count=1000,
        failed_count=failed,
        delayed_count=0,
        infer_per_s=Estimate(rate, rate * 0.99, rate * 1.01),
        send_per_s=rate,
        latency=latency,
        latency_intervals=tuple((name, Estimate(1e6, 0.9e6, 1.1e6)) for name in ("p50", "p95", "p99")),
        service=latency,
        send_ns=1,
        receive_ns=1,
        received_bytes=1,
        client=ClientCost(1, 0.1, 1.0, 0, 0),
        server=None,
        failures=(FailureGroup("http 500", failed, "no", 0.0, 1.0),) if failed else (),
    )
    return Level("concurrency", 1.0, found, (), is_stable=True, is_over_limit=False, remarks=remarks)


@pytest.fixture
def files(tmp_path):
    def save(name, rate=100.0, failed=0, cores=4, remarks=()):
        made = Result(
            tool="inferometer",
            command="measure",
            started_at="2024-01-01T00:00:00+00:00",
            asked={},
            effective=Effective(batch=1),
            host={"cores": cores},
            server={},
            model={"name": "m"},
            levels=(level(rate, failed, remarks),),
        )
        write(made, tmp_path / name)
        return str(tmp_path / name)

    return save


@pytest.mark.parametrize(
    ("new", "words", "code"),
    [
        ({}, [], 0),
        ({"rate": 50.0}, [], 0),  # slower, but no condition is given
        ({}, ["--fail-if", "throughput < -10%"], 0),
        ({"rate": 50.0}, ["--fail-if", "throughput < -10%"], 1),
        ({"rate": 50.0}, ["--fail-if", "snr < 10", "--fail-if", "throughput < -10%"], 1),
        ({}, ["--fail-if", "p99 > +5%"], 2),  # ±10 % is too wide to decide
        ({"failed": 5}, ["--fail-if", "p99 > +50%"], 3),
        ({"failed": 5}, ["--max-error-rate", "2%"], 0),
        ({"cores": 64}, [], 3),
        ({"cores": 64}, ["--force"], 0),
        ({"remarks": (Remark(Note.SERVER_GONE, "gone"),)}, [], 3),
        ({}, ["--fail-if", "p99 > 5"], 64),
        ({}, ["--concurrency-range", "4"], 64),
        ({}, ["-m", "simple"], 64),
        ({}, ["--nonsense"], 64),
        ({}, ["nowhere.json"], 64),
    ],
)
def test_exit_codes(files, new, words, code, capsys):
    assert inferometer(["compare", files("base.json"), files("new.json", **new), *words]) == code
    said = capsys.readouterr()
    assert bool(said.out) != bool(said.err)


@pytest.mark.parametrize(
    "words", [[], ["-m", "a"], ["-m", "a", "-m", "b", "--force"], ["-m", "a", "-m", "b", "-p", "100"]]
)
def test_an_impossible_measurement_is_a_usage_error(words):
    assert inferometer(["compare", *words]) == 64


def test_an_unreachable_server_makes_the_run_invalid():
    assert inferometer(["compare", "-m", "a", "-m", "b", "-u", "127.0.0.1:1"]) == 3


def test_differences_between_runs_are_named(files, capsys):
    assert inferometer(["compare", files("base.json"), files("new.json", cores=64)]) == 3
    assert "host: cores is 4 and 64; measure both in the same way, or use --force" in capsys.readouterr().err


def test_all_reports_are_written(files, tmp_path, capsys):
    names = [str(tmp_path / name) for name in ("c.json", "c.md", "c.xml", "c.html")]
    words = ["--json", names[0], "--markdown", names[1], "--junit", names[2], "--html", names[3]]
    assert (
        inferometer(
            [
                "compare",
                files("base.json"),
                files("new.json", rate=50.0),
                *words,
                "--fail-if",
                "throughput < -1%",
            ]
        )
        == 1
    )
    assert "Regression" in capsys.readouterr().out
    found = read(tmp_path / "c.json", Comparison)
    assert found.exit_code == 1
    assert found.contrasts[0].verdict == "slower"
    assert "| throughput |" in (tmp_path / "c.md").read_text()
    assert "<failure" in (tmp_path / "c.xml").read_text()
    assert "<html" in (tmp_path / "c.html").read_text()


def test_a_report_that_cannot_be_written_is_refused_before_anything_else(files, tmp_path):
    assert (
        inferometer(
            ["compare", files("base.json"), files("new.json"), "--junit", str(tmp_path / "no" / "c.xml")]
        )
        == 64
    )


def test_help_names_the_exit_codes(capsys):
    assert inferometer(["compare", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--fail-if" in shown
    assert "64 wrong usage" in shown
