"""Bodies of OpenAI-style requests: from JSON files, from prompt files, and generated."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.dataset.build import build
from inferometer.dataset.dataset import Dataset
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import DataOptions

MODEL = ModelSpec("gpt", "", (TensorSpec("payload", "JSON", (1,)),), ())


@pytest.fixture
def file(tmp_path: Path):
    def write(content: Any, name: str = "data.json") -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


def texts(dataset: Dataset) -> list[list[dict[str, str]]]:
    return [
        [{tensor.name: tensor.data.decode() for tensor in step} for step in stream]
        for stream in dataset.streams
    ]


def test_payloads_are_sent_compactly_and_otherwise_unchanged(file):
    path = file('{"data": [{"payload": [{"b": [1, 2.5, "é"],  "a": null}]}]}')
    assert texts(build(MODEL, DataOptions(sources=(path,)))) == [[{"payload": '{"b":[1,2.5,"é"],"a":null}'}]]


def test_flat_files_add_steps_and_nested_ones_streams(file):
    one, two = {"payload": [{"n": 1}]}, {"payload": [{"n": 2}]}
    flat, more = file({"data": [one, two]}, "a.json"), file({"data": [one]}, "b.json")
    nested = file({"data": [[one], [two, two]]}, "c.json")
    lengths = {
        (flat,): [2],
        (flat, more): [3],
        (nested,): [1, 2],
        (flat, nested): [2, 1, 2],
    }
    for sources, expected in lengths.items():
        dataset = build(MODEL, DataOptions(sources=sources))
        assert dataset.origin == "json"
        assert [len(stream) for stream in dataset.streams] == expected


def test_a_turn_has_its_session_and_its_delay(file):
    path = file({"data": [{"payload": [{}], "session_id": ["s"], "delay": [12.5]}]})
    assert texts(build(MODEL, DataOptions(sources=(path,)))) == [
        [{"payload": "{}", "session_id": "s", "delay": "12.5"}]
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "failed to parse the specified json file"),
        ("[]", "doesn't contain data field"),
        ({"data": []}, "'data' must be a list of steps"),
        ({"data": {}}, "'data' must be a list of steps"),
        ({"data": [1]}, "A step is not an object"),
        ({"data": [{}, []]}, "'data' must be a list of steps"),
        ({"data": [[]]}, "a stream of 'data' is empty"),
        ({"data": [{}]}, "'payload' must be a list with exactly one object"),
        ({"data": [{"payload": {}}]}, "'payload' must be a list with exactly one object"),
        ({"data": [{"payload": [{}, {}]}]}, "'payload' must be a list with exactly one object"),
        ({"data": [{"payload": ["a"]}]}, "'payload' must be a list with exactly one object"),
        ({"data": [{"payload": [{}], "INPUT0": [1]}]}, "'INPUT0' is not an input of an OpenAI-style request"),
        ({"data": [{"payload": [{}], "delay": ["a"]}]}, "'delay' must be a list with a number"),
        ({"data": [{"payload": [{}], "delay": [-1]}]}, "'delay' must be a list with a number"),
        ({"data": [{"payload": [{}], "session_id": [None]}]}, "'session_id' must be a list with a name"),
    ],
)
def test_files_that_are_refused(content: Any, sentence: str, file):
    with pytest.raises(UsageError) as caught:
        build(MODEL, DataOptions(sources=(file(content),)))
    assert sentence in str(caught.value)


def test_prompts_one_per_line(file):
    path = file("one\n\nzwei Wörter\r\n[3]\n", "prompts.txt")
    prompts = texts(build(MODEL, DataOptions(prompts=path)))
    assert prompts == [[{"prompt": "one"}, {"prompt": "zwei Wörter"}, {"prompt": "[3]"}]]


def test_prompts_in_lines_of_json(file):
    path = file('{"prompt": "a"}\n{"text_input": "b"}\n{"messages": [{"role": "user"}]}\n', "prompts.jsonl")
    prompts = texts(build(MODEL, DataOptions(prompts=path)))
    assert prompts == [[{"prompt": "a"}, {"prompt": "b"}, {"messages": '[{"role":"user"}]'}]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("{no\n", "line 1 of .* begins like JSON"),
        ('a\n{"x": 1}\n', "line 2 of .* has neither 'prompt' nor 'messages'"),
    ],
)
def test_prompts_that_are_refused(content: str, sentence: str, file):
    with pytest.raises(UsageError, match=sentence):
        build(MODEL, DataOptions(prompts=file(content)))


def test_generated_prompts_have_their_length_and_differ():
    (prompts,) = texts(build(MODEL, DataOptions(prompt_tokens=7, repeat_prompts=True)))
    assert {len(row["prompt"].split()) for row in prompts} == {7}
    assert len({row["prompt"] for row in prompts}) == len(prompts) > 100


def test_the_same_seed_gives_the_same_prompts():
    same, again, other = (texts(build(MODEL, DataOptions(seed=seed))) for seed in (3, 3, 4))
    assert same == again
    assert not {row["prompt"] for row in same[0]} & {row["prompt"] for row in other[0]}


def test_only_one_source_can_be_given(file):
    with pytest.raises(UsageError, match="--prompts cannot be combined with --prompt-tokens"):
        build(MODEL, DataOptions(prompts=file("a"), prompt_tokens=1))
