"""The whole self-test, shortened: what it says, in both forms, and that nothing stays behind."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

DEADLINE_S = 120
PARTS = ["machine", "ceiling", "schedule", "stall", "faults"]
FIGURES = {
    "ceiling": {"requests_per_s", "p50_us", "client_cpu_us_per_request", "limited_by"},
    "stall": {"p95_ms", "p95_true_ms"},
    "faults": {"asked", "ended", "http_503", "reset", "timeout", "malformed"},
}


@pytest.fixture(scope="module")
def selftest(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], dict]:
    """One run for all tests, as a process without a terminal."""
    path = tmp_path_factory.mktemp("selftest") / "found.json"
    command = [sys.executable, "-m", "inferometer.cli.main", "selftest", "--quick", "--json", str(path)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    return done, json.loads(path.read_text())


def checks(document: dict, part: str) -> list[dict]:
    return [check for check in document["checks"] if check["part"] == part]


def test_every_part_is_in_the_table_and_in_the_file(selftest: tuple) -> None:
    done, document = selftest
    assert "Traceback" not in done.stderr
    assert list(dict.fromkeys(check["part"] for check in document["checks"])) == PARTS
    for part in PARTS:
        assert f"\n{part}\n" in done.stdout
    for check in document["checks"]:
        assert check["verdict"] in ("pass", "noisy", "warn", "shown", "fail")
        assert check["text"]
        assert f"{check['part']}: {check['name']}: " in done.stderr


def test_the_exit_code_is_the_verdict(selftest: tuple) -> None:
    done, document = selftest
    found = {check["verdict"] for check in document["checks"]}
    verdict = "failed" if "fail" in found else "inconclusive" if "noisy" in found else "passed"
    assert document["verdict"] == verdict
    assert done.returncode == {"failed": 1, "inconclusive": 5, "passed": 0}[verdict]
    words = {"failed": "failed", "inconclusive": "Inconclusive: ", "passed": "No check failed"}[verdict]
    assert words in done.stdout


@pytest.mark.parametrize("part", FIGURES)
def test_figures_have_names(part: str, selftest: tuple) -> None:
    _, document = selftest
    for check in checks(document, part):
        assert check["figures"].keys() >= FIGURES[part]


def test_ceilings_are_of_both_protocols_and_all_payloads(selftest: tuple) -> None:
    _, document = selftest
    found = checks(document, "ceiling")
    names = [
        f"{protocol}, {size}" for protocol in ("HTTP/1.1", "gRPC") for size in ("64 B", "64 KiB", "1 MiB")
    ]
    assert [check["name"] for check in found] == names
    assert all(check["figures"]["requests_per_s"] > 0 for check in found)
    assert all(check["figures"]["failed"] == 0 for check in found)


def test_schedules_send_every_request_once(selftest: tuple) -> None:
    _, document = selftest
    found = {check["name"]: check["figures"] for check in checks(document, "schedule")}
    requests = {name: figures["requests"] for name, figures in found.items() if "requests" in figures}
    assert requests == {
        "constant 100/s": 50,
        "constant 1,000/s": 500,
        "constant 2,000/s": 1000,
        "poisson 1,000/s": 500,
    }
    assert found["poisson 1,000/s, gaps at server"]["gaps"] == 499


def test_the_stall_is_seen_through(selftest: tuple) -> None:
    _, document = selftest
    from_due, from_send = checks(document, "stall")
    assert from_due["verdict"] in ("pass", "noisy"), from_due["text"]
    assert from_due["figures"]["p95_ms"] > 0.9 * from_due["figures"]["p95_true_ms"]
    assert from_send["verdict"] == "shown"
    assert from_send["figures"]["p95_ms"] < from_send["figures"]["p95_true_ms"]


def test_the_faults_are_counted(selftest: tuple) -> None:
    _, document = selftest
    (found,) = checks(document, "faults")
    assert found["verdict"] in ("pass", "noisy"), found["text"]


def test_a_file_that_cannot_be_written_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from inferometer.cli.main import main

    assert main(["selftest", "--json", str(tmp_path / "none" / "found.json")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_children_end_with_a_killed_self_test() -> None:
    command = [sys.executable, "-m", "inferometer.cli.main", "selftest", "--quick"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("ceiling"):
                break  # servers and workers are there
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.kill()
        process.stderr.close()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []
