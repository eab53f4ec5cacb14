"""vLLM on CPUs: a real engine with continuous batching, its own metrics, and four slots as the planted limit."""

import re
import subprocess
from collections.abc import Callable

from inferometer.server.presets import PRESETS
from tests.peers.conftest import Vllm, environment

ASKED = ("--prompt-tokens", "32", "--output-tokens", "16", "--streaming", "--body", "ignore_eos=true")
METRICS = ("--collect-metrics", "--metrics-interval", "200")


def words(server: Vllm, command: str, *more: str) -> tuple[str, ...]:
    return (
        command,
        server.address,
        "tiny",
        "--service-kind",
        "openai",
        *ASKED,
        "--allow-inconclusive",
        *more,
    )


def test_streams_have_the_tokens_that_were_asked_for(vllm: Vllm, run: Callable) -> None:
    extra = ("-c", "2", "-n", "20")
    ended = run("inferometer", *words(vllm, "measure", *extra))
    assert ended.code == 0, ended.stderr + ended.stdout
    found = ended.measurement
    assert (found["request_count"], found["failed_count"], found["blank_count"]) == (20, 0, 0)
    assert (found["tokens"]["output"], found["tokens"]["from_events"]) == (20 * 16, 0)
    assert found["streaming"]["first"]["max_ns"] < found["latency"]["max_ns"]


def test_its_own_metrics_separate_queue_from_prefill(vllm: Vllm, run: Callable) -> None:
    load = str(4 * vllm.slots)
    ended = run("inferometer", *words(vllm, "measure", *METRICS, "-c", load, "-d", "8s"))
    assert ended.code == 0, ended.stderr + ended.stdout
    llm = ended.measurement["metrics"]["llm"]
    assert llm["server"] == "vLLM"
    assert llm["running_max"] == vllm.slots
    assert llm["queue_ns"] > llm["prefill_ns"] > 0
    assert "in the server's queue" in " ".join(ended.stdout.split())


def test_choices_are_separated(vllm: Vllm, run: Callable) -> None:
    """The gaps of two choices that take turns are those of one, not half as long."""
    gaps = []
    for choices in ("1", "2"):
        extra = ("--body", f"n={choices}", "-c", "1", "-n", "10")
        ended = run("inferometer", *words(vllm, "measure", *extra))
        assert ended.code == 0, ended.stderr + ended.stdout
        assert ended.measurement["streaming"]["responses"] == 10 * 16 * int(choices)
        gaps.append(ended.measurement["tokens"]["between"]["mean_ns"])
    assert 0.75 < gaps[1] / gaps[0] < 4


def test_a_sweep_ends_beyond_its_slots(vllm: Vllm, run: Callable) -> None:
    ended = run("inferometer", *words(vllm, "measure", "--sweep"))
    assert ended.code == 0, ended.stderr + ended.stdout
    rates = {
        level["value"]: level["measurement"]["tokens"]["output_per_s"] for level in ended.result["levels"]
    }
    assert 3 <= len(rates) <= 12
    assert max(rates) > vllm.slots
    assert rates[vllm.slots] > 1.3 * rates[1]


def test_the_load_that_meets_an_slo_is_found(vllm: Vllm, run: Callable) -> None:
    ended = run("inferometer", *words(vllm, "find", "--slo", "ttft p90<5s", "-d", "20s"))
    assert ended.code == 0, ended.stderr + ended.stdout
    assert ended.result["finding"]["value"] > 0


def test_its_slots_are_named_as_the_limit(vllm: Vllm, run: Callable) -> None:
    load = f"1,{vllm.slots},{4 * vllm.slots}"
    ended = run("inferometer", *words(vllm, "diagnose", "-c", load, "-d", "5s"))
    assert ended.code == 0, ended.stderr + ended.stdout
    serving = ended.result["serving"]
    assert serving["server"] == "vLLM"
    assert serving["at_once"] == vllm.slots
    states = {row["kind"]: row["state"] for row in serving["checks"]}
    assert states["client"] == "has room"
    assert states["kv cache"] == "has room"
    assert ended.result["verdict"]["kind"] in (
        "queue",
        "decode",
    )  # two cores may make no more of more at once


def test_the_options_of_the_preset_exist() -> None:
    program = environment("vllm").parent / "vllm"
    found = subprocess.run(
        [program, "serve", "--help=all"], capture_output=True, text=True, check=True, timeout=300
    )
    for knob in PRESETS["vllm"].knobs.values():
        for option in (knob.option,) if knob.option else filter(None, knob.values):
            assert re.search(rf"{option}\b", found.stdout), option
