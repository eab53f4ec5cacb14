"""llama.cpp's server on a small random model: a real OpenAI-style server, with its habits."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.server.presets import PRESETS
from tests.peers.conftest import HERE, environment

SHORT = ("--prompt-tokens", "5", "--output-tokens", "4")


def test_an_address_alone_streams_tokens(llama: str, run: Callable) -> None:
    ended = run("inferometer", "measure", llama, "--streaming", "--duration", "1s", *SHORT)
    assert ended.code == 0, ended.stderr + ended.stdout
    assert "looks like an OpenAI-style server, model 'tiny'" in ended.stderr
    found = ended.measurement
    tokens, streaming = found["tokens"], found["streaming"]
    assert (found["failed_count"], tokens["from_events"]) == (0, 0)
    assert 1 <= tokens["per_answer"]["max_ns"] <= 4
    assert tokens["output"] >= streaming["responses"]  # half a character is a token without text
    assert tokens["prompt"] > 0


def test_connections_that_it_closes_are_opened_again(llama: str, run: Callable) -> None:
    """It closes after a hundred requests; streamed answers it does not even announce to be the last."""
    words = ("--service-kind", "openai", "-m", "tiny", "-u", llama, *SHORT)
    for more, count in (((), 250), (("--streaming",), 60)):
        ended = run("inferometer", "measure", *words, *more, "--request-count", str(count))
        assert ended.code == 0, ended.stderr + ended.stdout
        assert (ended.measurement["request_count"], ended.measurement["failed_count"]) == (count, 0)


@pytest.mark.parametrize("endpoint", ["v1/chat/completions", "v1/completions"])
def test_answers_in_one_piece_have_their_tokens_counted(endpoint: str, llama: str, run: Callable) -> None:
    words = ("--service-kind", "openai", "-m", "tiny", "-u", llama, "--endpoint", endpoint)
    ended = run("inferometer", "measure", *words, *SHORT, "--request-count", "20")
    assert ended.code == 0, ended.stderr + ended.stdout
    assert ended.measurement["tokens"]["per_answer"]["count"] == 20


@pytest.mark.parametrize("endpoint", ["responses", "anthropic"])
@pytest.mark.parametrize("words", [(), ("--streaming",)], ids=["whole", "stream"])
def test_other_apis_have_their_tokens_counted(
    endpoint: str, words: tuple[str, ...], llama: str, run: Callable
) -> None:
    asked = ("--endpoint", endpoint, *SHORT, *words, "--request-count", "20")
    ended = run("inferometer", "measure", llama, *asked)
    assert ended.code == 0, ended.stderr + ended.stdout
    found = ended.measurement
    tokens = found["tokens"]
    assert (found["request_count"], found["failed_count"], tokens["from_events"]) == (20, 0, 0)
    assert 1 <= tokens["per_answer"]["max_ns"] <= 4
    assert tokens["prompt"] > 0
    assert (found["streaming"] is not None) == bool(words)


def test_embeddings_count_only_prompts(llama_embeddings: str, run: Callable) -> None:
    asked = ("--endpoint", "embeddings", "--prompt-tokens", "5", "--request-count", "20")
    ended = run("inferometer", "measure", llama_embeddings, *asked)
    assert ended.code == 0, ended.stderr + ended.stdout
    found = ended.measurement
    assert (found["request_count"], found["failed_count"], found["tokens"]["output"]) == (20, 0, 0)
    assert found["tokens"]["per_prompt"]["min_ns"] >= 5


@pytest.mark.parametrize("endpoint", ["rerank", "/rerank", "/v1/reranking"])
def test_documents_are_ranked(endpoint: str, llama_rerank: str, run: Callable, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query": "the of", "documents": ["and", "to in is"]}))
    for words in (("--prompts", str(rows)), ("--prompt-tokens", "30")):
        asked = ("--endpoint", endpoint, *words, "--request-count", "10")
        ended = run("inferometer", "measure", llama_rerank, *asked)
        assert ended.code == 0, ended.stderr + ended.stdout
        found = ended.measurement
        assert (found["request_count"], found["failed_count"], found["tokens"]["output"]) == (10, 0, 0)
        assert found["tokens"]["per_prompt"]["min_ns"] >= 5


def test_an_endpoint_that_it_lacks_is_a_failure_in_its_words(llama: str, run: Callable) -> None:
    ended = run("inferometer", "measure", llama, "--endpoint", "embeddings", "--request-count", "3")
    assert ended.code == 1, ended.stderr + ended.stdout
    (group,) = ended.measurement["failures"]
    assert (group["kind"], group["count"]) == ("http 501", 3)
    assert "does not support embeddings" in group["example"]


def test_fields_of_the_command_line_reach_it(llama: str, run: Callable) -> None:
    """--body wins over --output-tokens, and what it cannot read it refuses in its own words."""
    words = ("--streaming", *SHORT, "--request-count", "10")
    ended = run(
        "inferometer", "measure", llama, *words, "--body", "max_tokens=2", "--body", "ignore_eos=true"
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    answers = ended.measurement["tokens"]["per_answer"]
    assert (answers["min_ns"], answers["max_ns"]) == (2, 2)
    ended = run("inferometer", "measure", llama, *words, "--body", "response_format.type=nonsense")
    assert ended.code == 1, ended.stderr + ended.stdout
    assert "response_format" in ended.measurement["failures"][0]["example"]


def test_an_image_goes_to_it_and_a_model_of_text_refuses_it(llama: str, run: Callable) -> None:
    ended = run("inferometer", "measure", llama, *SHORT, "--image", "32x32", "--request-count", "3")
    assert ended.code == 1, ended.stderr + ended.stdout
    (group,) = ended.measurement["failures"]
    assert group["count"] == 3
    assert "image input is not supported" in group["example"]


def payload(stream: bool) -> dict[str, object]:
    messages = [{"role": "user", "content": "the of and"}]
    return {"model": "tiny", "messages": messages, "max_tokens": 4, "stream": stream}


@pytest.mark.parametrize("stream", [True, False])
def test_the_command_line_of_a_classic_client(
    stream: bool, llama: str, run: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"data": [{"payload": [payload(stream)]}] * 3}))
    ended = run(
        *("perf_analyzer", "-m", "tiny", "--async", "--input-data", str(path), "-i", "http"),
        *("--concurrency-range", "2", "--endpoint", "v1/chat/completions", "--service-kind", "openai"),
        *("-u", f"http://{llama}", "--measurement-interval", "300", "--stability-percentage", "999"),
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    assert "  Service Kind: OPENAI\n" in ended.stdout
    assert ("Time to first token: " in ended.stdout) == stream


def test_sessions_are_chats(llama: str, run: Callable, tmp_path: Path) -> None:
    rows = [
        {"session_id": [name], "delay": [0], "payload": [payload(stream=False)]}
        for name in "abc"
        for _ in range(3)
    ]
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps({"data": rows}))
    words = ("--service-kind", "openai", "-m", "tiny", "-u", llama, "--input-data", str(path))
    ended = run("inferometer", "measure", *words, "--session-concurrency", "2")
    assert ended.code == 0, ended.stderr + ended.stdout
    found = ended.measurement
    assert (found["request_count"], found["sequences"]["count"]) == (9, 3)
    assert found["tokens"]["per_prompt"]["max_ns"] > found["tokens"]["per_prompt"]["min_ns"]


def test_what_it_says_of_itself_is_read(llama: str, run: Callable) -> None:
    """It has four slots, and more requests than that are deferred. Of its KV cache it says nothing."""
    words = ("--streaming", "--collect-metrics", "--metrics-interval", "20", "-c", "8", "--duration", "2s")
    ended = run("inferometer", "measure", llama, *words, "--prompt-tokens", "20", "--output-tokens", "40")
    assert ended.code == 0, ended.stderr + ended.stdout
    found = ended.measurement["metrics"]["llm"]
    assert (found["server"], found["running_max"], found["was_restarted"]) == ("llama.cpp", 4, False)
    assert 1 <= found["waiting_max"] <= 4
    assert found["present_max"] <= 8
    assert (found["kv_cache_max"], found["kv_tokens"], found["preemptions"]) == (None, None, None)
    # Both count the same tokens, over nearly the same time; requests end in waves.
    assert found["generated_per_s"] == pytest.approx(ended.measurement["tokens"]["output_per_s"], rel=0.5)
    assert found["prompt_per_s"] > 0
    assert "The metrics of llama.cpp" in ended.stdout


def test_it_is_diagnosed(llama: str, run: Callable) -> None:
    words = ("-c", "1,2,4,16", "--duration", "1s", "--prompt-tokens", "20", "--output-tokens", "40")
    ended = run("inferometer", "diagnose", llama, *words)
    assert ended.code == 0, ended.stderr + ended.stdout
    assert ended.result["serving"]["server"] == "llama.cpp"
    assert ended.result["serving"]["levels"][-1]["server"]["running_max"] == 4
    checks = {row["kind"]: row["state"] for row in ended.result["serving"]["checks"]}
    assert checks["kv cache"] == "not known"
    # On a small CPU either its slots or its tokens are what limits; never prompts of 20 tokens.
    assert ended.result["verdict"]["kind"] in ("queue", "decode", "client")


def test_the_options_of_the_preset_exist() -> None:
    """The library has the table of options of `llama-server`."""
    code = "import xllamacpp.xllamacpp as x; print(x.__file__)"
    found = subprocess.run([environment("llama"), "-c", code], capture_output=True, text=True, check=True)
    library = Path(found.stdout.strip()).read_bytes()
    for knob in PRESETS["llamacpp"].knobs.values():
        for option in (knob.option,) if knob.option else knob.values:
            assert f"{option}\0".encode() in library


def test_its_command_line_is_tuned(run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = f"{environment('llama')} {HERE / 'llama_command.py'} -m tiny.gguf --port {{port}}"
    options = "--parallel {parallel} --batch-size {batch_size} --ubatch-size {ubatch_size}"
    ended = run(
        *("inferometer", "tune", "-m", "tiny", "--preset", "llamacpp", "--serve", f"{command} {options}"),
        *("--vary", "parallel=1:8:x2", *SHORT, "--slo", "ttft p99<5s", "--load", "1:16", "--budget", "30s"),
        *("--no-store", "--allow-inconclusive"),
    )
    assert ended.code == 0, ended.stderr + ended.stdout
    measured = [trial for trial in ended.result["trials"] if trial["status"] == "measured"]
    assert measured
    assert all(
        "output_token_throughput" in dict(trial["parts"][0]["figures"]["values"]) for trial in measured
    )
    assert "tokens/s" in ended.stdout
    assert ended.result["account"]["loading_s"] > 0
