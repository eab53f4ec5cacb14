"""Servers that make text and say something of themselves: `--collect-metrics` and `inferometer diagnose`."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.answer_file import read
from inferometer.cli.main import main
from inferometer.diagnose.diagnosis import QUEUE, Diagnosis
from inferometer.observe.llm_metrics import VLLM
from tests.support.llm_engine import DIALECTS, EngineSettings
from tests.support.llm_server import LlmServer
from tests.support.openai import FakeOpenAi
from tests.support.servers import Act, Request, answer

QUICK = EngineSettings(slots=2, step_s=0.01, step_per_sequence_s=0.0001)


def run(tmp_path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    path = tmp_path / "answer.json"
    code = main([*words, "--json", str(path)])
    return code, json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.machine(reason="a limit is found by measured throughput, which other processes lower")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_limit_of_slots_is_found_out(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LlmServer(QUICK, dialect=dialect, answer_tokens=8) as server:
        code, _ = run(tmp_path, "diagnose", server.address, "-c", "1,2,8", "-d", "600ms")
    assert code == 0
    found = read(tmp_path / "answer.json", Diagnosis)
    assert (found.verdict.kind, found.serving.server, found.serving.at_once) == (QUEUE, dialect, 2)
    assert found.suggestions[0].change.before == "2"
    shown = capsys.readouterr().out
    assert "What would help" in shown
    assert "2 requests run at once" in shown.replace("\n", " ")


@pytest.mark.machine(reason="a limit is found by measured throughput, which other processes lower")
def test_without_metrics_it_is_found_out_by_what_the_client_sees(tmp_path: Path) -> None:
    with LlmServer(QUICK, dialect=None, answer_tokens=8) as server:
        code, found = run(tmp_path, "diagnose", server.address, "-c", "1,2,4,8", "-d", "600ms")
    assert code == 0
    assert found["verdict"]["kind"] == QUEUE
    assert found["serving"]["server"] is None
    first_rounds = [level["first_round"] is not None for level in found["results"][0]["levels"]]
    # Answers are long where eight share two slots.
    assert (first_rounds[0], first_rounds[-1]) == (False, True)
    assert "answered with status 404" in found["notes"][0]


@pytest.mark.parametrize("words", [("--apply",), ("--cores", "4")])
def test_what_cannot_be_asked_of_such_a_server_is_refused(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAi() as fake:
        code, _ = run(tmp_path, "diagnose", fake.server.address, *words)
    assert code == 2
    assert words[0] in capsys.readouterr().err
    assert not fake.calls


def test_a_measurement_shows_what_the_server_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("-c", "4", "-d", "600ms", "--streaming", "--collect-metrics", "--metrics-interval", "50")
    with LlmServer(QUICK, dialect=VLLM, answer_tokens=8) as server:
        code, found = run(tmp_path, "measure", server.address, *words)
    assert code == 0
    llm = found["levels"][0]["measurement"]["metrics"]["llm"]
    assert (llm["server"], llm["running_max"], llm["present_max"]) == (VLLM, 2.0, 4.0)
    assert llm["waiting_max"] >= 2.0  # more between two steps
    assert (llm["kv_tokens"], llm["accepted_share"], llm["was_restarted"]) == (1_000_000, None, False)
    assert llm["generated_per_s"] > 0
    shown = capsys.readouterr().out
    assert "Server metrics" in shown
    assert "Not reported: Drafts accepted." in shown.replace("\n", " ")


def test_metrics_that_were_asked_for_and_are_not_there_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAi() as fake:
        code, _ = run(tmp_path, "measure", fake.server.address, "--collect-metrics")
    assert code == 3
    assert "set their address with --metrics-url" in capsys.readouterr().err
    assert not fake.calls


def test_a_restart_and_other_clients_are_reported(tmp_path: Path) -> None:
    """Its counter falls from look to look, and it runs more than we ask for."""

    class Restarting(FakeOpenAi):
        looks = 0

        def _act(self, request: Request) -> Act:
            if request.path != "/metrics":
                return super()._act(request)
            self.looks += 1
            lines = (
                "vllm:num_requests_running 9",
                "vllm:num_requests_waiting 0",
                f"vllm:generation_tokens_total {1000 - self.looks}",
            )
            return answer("\n".join(lines).encode())

    words = ("-c", "2", "-d", "500ms", "--collect-metrics", "--metrics-interval", "20")
    with Restarting() as fake:
        code, found = run(tmp_path, "measure", fake.server.address, *words)
    assert code == 0
    (level,) = found["levels"]
    assert level["measurement"]["metrics"]["llm"]["was_restarted"]
    assert level["measurement"]["metrics"]["llm"]["generated_per_s"] is None
    texts = [remark["text"] for remark in level["remarks"]]
    assert any("it was restarted" in text for text in texts)
    assert any(
        "the server had 9 requests in flight, but at most 2 came from this client" in text for text in texts
    )
