"""The server in `transformers`: it ends streams without [DONE], and sends usage with the reason for the end.

Its tokenizer knows one word as one token and its chat template adds none, so every count is known beforehand.
"""

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest

from inferometer.server.presets import PRESETS
from tests.peers.conftest import Transformers, environment

CHAT, COMPLETIONS = "v1/chat/completions", "v1/completions"


def words(server: Transformers, endpoint: str, *more: str) -> tuple[str, ...]:
    address = ("measure", "--service-kind", "openai", "-u", server.address, "-m", server.model)
    return (*address, "--endpoint", endpoint, "--prompt-tokens", "7", "--output-tokens", "6", *more)


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS])
def test_streams_have_exactly_the_tokens_that_were_asked_for(
    endpoint: str, transformers: Transformers, run: Callable
) -> None:
    ended = run("inferometer", *words(transformers, endpoint, "--streaming", "-c", "2", "-n", "20"))
    assert ended.code == 0, ended.stderr + ended.stdout
    found = ended.measurement
    tokens, streaming = found["tokens"], found["streaming"]
    assert (found["request_count"], found["failed_count"], tokens["from_events"]) == (20, 0, 0)
    assert (tokens["output"], tokens["prompt"]) == (20 * 6, 20 * 7)
    assert streaming["responses"] == 20 * 6  # the role, and the reason for the end, are none
    assert streaming["first"]["max_ns"] < found["latency"]["max_ns"]


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS])
def test_answers_in_one_piece_have_the_same_tokens(
    endpoint: str, transformers: Transformers, run: Callable
) -> None:
    ended = run("inferometer", *words(transformers, endpoint, "-n", "5"))
    assert ended.code == 0, ended.stderr + ended.stdout
    tokens = ended.measurement["tokens"]
    assert (tokens["output"], tokens["prompt"]) == (5 * 6, 5 * 7)


def test_a_model_that_it_does_not_have_is_refused_in_its_words(
    transformers: Transformers, run: Callable
) -> None:
    command = words(replace(transformers, model="other"), CHAT, "--streaming", "-n", "3")
    ended = run("inferometer", *command)
    assert ended.code == 1, ended.stderr + ended.stdout
    (failure,) = ended.measurement["failures"]
    assert (failure["kind"], failure["count"]) == ("http 400", 3)
    assert "requested 'other'" in failure["example"]


def test_the_options_of_the_preset_exist() -> None:
    program = environment("transformers").parent / "transformers"
    found = subprocess.run(
        [program, "serve", "--help"], capture_output=True, text=True, check=True, timeout=300
    )
    for knob in PRESETS["transformers"].knobs.values():
        for option in (knob.option,) if knob.option else filter(None, knob.values):
            assert re.search(rf"{option}\b", found.stdout), option
