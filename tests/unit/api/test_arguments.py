"""Arguments of the Python functions: derived from the table, typed for checkers, with clear errors."""

import ast
import inspect
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from inferometer import api
from inferometer.api import keywords
from inferometer.api.arguments import REFUSED, arguments, asked
from inferometer.base.errors import PeerError, UsageError
from inferometer.options.options import MODERN, DataOptions, Tls
from inferometer.options.values import Range
from tests.support.reports import sample_result
from tools import build_api
from tools.build_api import COMMANDS

ELSEWHERE = {"csv", "verbose_csv", "json", "html", "markdown", "junit", "quiet", "verbose", "insecure"}
OWN_SEED = {"tune": {"data.seed"}}


def fields(command):
    """Return the options of our own commands that this function supports."""
    rows = [row for _, members in MODERN for row in members if not row.is_deprecated and not row.instead]
    known = {row.field for row in rows} - ELSEWHERE - {"tls.verify_peer", "tls.verify_host"}
    return known - set(REFUSED[command])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_has_an_effect_is_a_named_argument(command):
    names = {row.field: row.name for row in arguments()}
    parameters = inspect.signature(getattr(api, command)).parameters
    assert [f for f in fields(command) if names[f] not in parameters and f != "model"] == []
    assert not any(row.kind is row.VAR_KEYWORD for row in parameters.values())
    assert all(row.annotation is not row.empty for row in parameters.values())
    refused = {names[f] for f in REFUSED[command] if f in names} - {"duration_s", "slo", "model_repository"}
    assert refused.isdisjoint(parameters)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_explains_every_argument(command):
    function = getattr(api, command)
    known = {row.name for row in arguments()} - {"model", "duration_s", "slo", "url", "seed", "concurrency"}
    for name in known & set(inspect.signature(function).parameters):
        assert f"\n    - {name}: " in function.__doc__
    assert inspect.signature(getattr(api.aio, command)) == inspect.signature(function)
    assert inspect.iscoroutinefunction(getattr(api.aio, command))


def test_the_types_of_shared_arguments_are_up_to_date():
    found, built = build_api.FILE.read_text(), build_api.text()
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(built)), "run python -m tools.build_api"


@pytest.mark.parametrize("command", COMMANDS)
def test_type_checkers_see_every_argument_with_its_type(command):
    function = inspect.getclosurevars(getattr(api, command)).nonlocals["function"]
    own = dict(inspect.signature(function).parameters)
    given = own.pop("given")
    assert given.kind is given.VAR_KEYWORD
    assert given.annotation == f"Unpack[keywords.{build_api.keywords_class(command)}]"
    kind = getattr(keywords, build_api.keywords_class(command))
    assert kind.__total__ is False
    assert not kind.__required_keys__
    seen = {name: row.annotation for name, row in own.items()} | build_api.arguments(command)
    assert seen.keys() == inspect.signature(getattr(api, command)).parameters.keys()
    assert own.keys().isdisjoint(kind.__annotations__)
    names = vars(keywords)
    assert get_type_hints(kind) == {
        name: eval(text, names) for name, text in build_api.arguments(command).items()
    }


def wrong(name, *args, **given):
    return lambda: getattr(api, name)(*args, **given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (wrong("measure", modell="x"), "no argument 'modell'; did you mean 'model'?"),
        (wrong("measure", "m", concurency=4), "did you mean 'concurrency'?"),
        (wrong("measure", "m", colour=4), "no argument 'colour'; see help"),
        (wrong("measure", "m", concurrency="four"), "concurrency: 'four' is not valid"),
        (wrong("measure", "m", concurrency=0), "concurrency: a level must be > 0, but got '0'"),
        (wrong("measure", "m", concurrency=[1, 1]), "contains a level twice"),
        (wrong("measure", "m", concurrency=[]), "concurrency takes int"),
        (wrong("measure", "m", concurrency=True), "concurrency takes int"),
        (wrong("measure", "m", concurrency=1.5), "concurrency: '1.5' is not valid"),
        (wrong("measure", "m", rate=-1), "rate: a level must be > 0"),
        (wrong("measure", "m", data=3), "data takes str"),
        (wrong("measure", "m", url=3), "url takes str | None, but is 3"),
        (wrong("measure", "m", batch=1.5), "batch takes int | None, but is 1.5"),
        (wrong("measure", "m", batch=0), "batch must be 1 or more"),
        (wrong("measure", "m", streaming="yes"), "streaming takes bool"),
        (wrong("measure", "m", headers={"a": 1}), "headers takes Mapping"),
        (wrong("measure", "m", shape={"a": "x"}), "shape takes Mapping"),
        (wrong("measure", "m", duration_s="soon"), "duration_s needs a duration"),
        (
            wrong("measure", "m", json="r.json"),
            "'json' has no effect in api.measure; pass the returned object",
        ),
        (wrong("measure", "m", quiet=True), "follow the run with a watcher"),
        (
            wrong("measure", "m", max_threads=4),
            "'max_threads' has no effect in api.measure; max_outstanding",
        ),
        (wrong("measure", "m", "n"), "too many positional arguments"),
        (wrong("measure", 3), "model takes str, but is 3"),
        (wrong("find", "m"), "argument: 'slo'"),
        (wrong("find", "m", slo="p99<1ms", concurrency=4), "'concurrency' has no effect in api.find"),
        (wrong("find", "m", slo="p99<1ms", by="x"), "by: 'x' is not supported"),
        (wrong("tune", "m", instances=3), "instances takes tuple"),
        (wrong("tune", "m", repositories=3), "repositories takes one or several strings"),
        (wrong("tune", "m", repositories=["/no/models"]), "'/no/models'"),
        (wrong("compare", "a", "b", concurrency=0), "a level must be > 0"),
        (wrong("tune", "m", model_repository="m"), "'model_repository' has no effect in api.tune"),
        (wrong("tune", "m", rate=3), "rate is not supported for models on Triton"),
        (wrong("compare", "a", "b", fail_if=3), "fail_if takes one or several strings"),
        (wrong("compare", 3, 4), "a variant must be a str or Result, but is 3"),
        (wrong("compare", "a", "b", max_error_rate="much"), "max_error_rate needs a share"),
        (wrong("diagnose", "m", cores=-1), "cores must be"),
        (wrong("diagnose", "m", apply="yes"), "apply takes bool"),
        (wrong("load", 3), "path must be a str or Path, but is 3"),
        (wrong("save", "x", "r.json"), "answer must be a Result or"),
        (wrong("to_html", 3), "report must be a Result or"),
        (wrong("load"), "api.load: missing a required argument: 'path'"),
        (wrong("save", 1, 2, 3), "api.save: too many positional arguments"),
        (wrong("to_html", file="x"), "api.to_html: missing a required argument"),
        (wrong("to_markdown"), "api.to_markdown: missing"),
        (wrong("measure"), "no model is given"),
        (
            wrong("measure", "m", rate=1, concurrency=1),
            "these options are mutually exclusive: concurrency, rate, ",
        ),
        (wrong("measure", "m", watcher=3), "watcher has none of the expected methods: 3"),
        (wrong("tune", "m", instances=(3, 1)), "instances is 3:1; the lowest must be at least 1"),
        (wrong("diagnose", "m", rate=3), "give the levels with concurrency"),
    ],
)
def test_invalid_arguments_are_usage_errors(call, words):
    with pytest.raises(UsageError) as caught:
        call()
    assert words in str(caught.value)
    assert caught.value.remedy or any(part in words for part in ("a level", "must be", "mutually exclusive"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"string_length": 0}, "string_length must be 1 or more"),
        ({"prompt_tokens": "normal(a)"}, "prompt_tokens 'normal(a)': normal takes two numbers"),
        ({"shape_load": "rise"}, "piece 1 of shape_load is 'rise'"),
        ({"concurrency": "auto"}, "concurrency: 'auto' is not valid; use sweep,"),
    ],
)
def test_errors_name_the_argument_as_it_is_written(given, words):
    with pytest.raises(UsageError) as caught:
        api.measure("m", url="127.0.0.1:9", **given)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"traffic": "9/s", "stretch_s": 5}, "stretch_s applies to traces only"),
        ({"traffic": "none.csv"}, "traffic is 'none.csv'"),
    ],
)
def test_errors_of_functions_without_a_load_name_arguments_too(given, words):
    with pytest.raises(UsageError) as caught:
        api.capacity(sample_result(), slo="p99<1s", **given)
    assert str(caught.value).startswith(words)


def test_compare_accepts_request_intervals_without_a_concurrency():
    with pytest.raises(PeerError, match="cannot be reached"):
        api.compare("a", "b", urls=["localhost:1"], request_intervals=__file__)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"concurrency": 4}, "concurrency", Range(4)),
        ({"concurrency": [1, 2, 8]}, "concurrency", Range.of([1, 2, 8])),
        ({"concurrency": (1, 4)}, "concurrency", Range(1, 4)),
        ({"concurrency": (1, 9, 2)}, "concurrency", Range(1, 9, 2)),
        ({"concurrency": "1:4:x2"}, "concurrency", Range.of([1, 2, 4])),
        ({"concurrency": np.array([1, 2])}, "concurrency", Range.of([1, 2])),
        ({"batch": np.int64(2)}, "batch", 2),
        ({"concurrency": range(1, 4)}, "concurrency", Range.of([1, 2, 3])),
        ({"rate": 12.5}, "request_rate", Range(12.5)),
        ({"request_rate": Range(10, 20, 5)}, "request_rate", Range(10, 20, 5)),
        ({"duration_s": "500ms"}, "duration_s", 0.5),
        ({"precision": "5%"}, "precision", 0.05),
        ({"headers": {"A": "b"}}, "headers", (("A", "b"),)),
        ({"headers": [("A", "b")]}, "headers", (("A", "b"),)),
        ({"data": "zero"}, "data", DataOptions(sources=("zero",))),
        (
            {"data": Path("zero"), "shape": {"X": [1, 2]}},
            "data",
            DataOptions(("zero",), shapes={"X": (1, 2)}),
        ),
        ({"data": DataOptions(seed=3), "string_length": 4}, "data", DataOptions(seed=3, string_length=4)),
        ({"input": {"X": "1,2"}}, "data", DataOptions(files=(("X", "1,2"),))),
        ({"tls_ca": Path("/etc/hostname")}, "tls", Tls(ca_file="/etc/hostname")),
        ({"tls_verify_peer": False}, "tls", Tls(verify_peer=False)),
        ({"url": None}, "url", None),
        ({"workers": "auto"}, "workers", "auto"),
    ],
)
def test_arguments_set_the_fields_of_the_table(given, field, value):
    assert getattr(asked("measure", {"model": "m", **given}), field) == value
