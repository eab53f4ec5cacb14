"""Values in informal notation: accepted by our own commands, but not by the classic script."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.base.units import NS_PER_S, parse_duration_ns
from inferometer.dialects.perf_analyzer.options import parse_classic
from inferometer.options.command_line import Command, Request, read
from inferometer.options.option import modern, rows
from inferometer.options.options import Options
from inferometer.options.values import Range

COMMAND: Command[None] = Command("test", "", "", shared=modern(rows(Options)), takes_words=True)


def given(*words):
    found = read(words, COMMAND)
    assert isinstance(found, Request)
    return found.values


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("90s", 90), ("1.5m", 90), ("250ms", 0.25), ("1m30s", 90), ("1h2m3s", 3723), ("1m 30s", 90),
        ("10 s", 10), ("10sec", 10), ("10 secs", 10), ("10seconds", 10), ("2min", 120), ("2 minutes", 120),
        ("1hr", 3600), ("2hours", 7200), ("500us", 0.0005), ("500µs", 0.0005), ("500usec", 0.0005), ("10S", 10),
        ("2Min", 120), ("1s500ms", 1.5), (".5s", 0.5), ("20msec", 0.02),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration_ns(text, "-d") == round(seconds * NS_PER_S)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("1:30", "write -d 1m30s"), ("00:01:30", "write -d 1m30s"), ("01:00:00", "write -d 1h"),
        ("1,5s", "write -d 1.5s"), ("10M", "write -d 10m"),
        ("", "1m30s"), ("s", "1m30s"), ("30s1m", "1m30s"), ("10 parsecs", "1m30s"), ("10s5", "1m30s"),
        ("1m1m", "1m30s"), ("-5s", "1m30s"), ("ten", "1m30s"), ("10 20", "1m30s"), ("1d", "1m30s"),
    ],
)  # fmt: skip
def test_refused_durations_suggest_a_notation(text, remedy):
    with pytest.raises(UsageError) as caught:
        parse_duration_ns(text, "-d")
    assert remedy in caught.value.remedy


LEVELS = (
    ("-c", "1-8", Range(1, 8)),
    ("-c", "1..8", Range(1, 8)),
    ("-c", "1...8", Range(1, 8)),
    ("-c", "1–8", Range(1, 8)),
    ("-c", "1 to 8", Range(1, 8)),
    ("-c", "1 - 8", Range(1, 8)),
    ("-c", "1-9:4", Range(1, 9, 4)),
    ("-c", "1..9:4", Range(1, 9, 4)),
    ("-c", "1 to 9 step 4", Range(1, 9, 4)),
    ("-c", "2-8:x2", Range.of([2, 4, 8])),
    ("-c", "2-8 by 2x", Range.of([2, 4, 8])),
    ("-r", "10-30:10", Range(10, 30, 10)),
    ("-c", "1,2,", Range.of([1, 2])),
    ("-c", "4,", Range(4)),
    ("-c", "1 2 4", Range.of([1, 2, 4])),
    ("-c", "1, 2, 4", Range.of([1, 2, 4])),
    ("-c", "1;2;4", Range.of([1, 2, 4])),
    ("-c", "[1,2,4]", Range.of([1, 2, 4])),
    ("-c", "(1, 2)", Range.of([1, 2])),
    ("-c", "1k", Range(1000)),
    ("-c", "1:1k:x10", Range.of([1, 10, 100, 1000])),
    ("-c", "=4", None),
    ("-c=4", None, Range(4)),
    ("-r", "100/s", Range(100)),
    ("-r", "100/sec", Range(100)),
    ("-r", "100/1s", Range(100)),
    ("-r", "100rps", Range(100)),
    ("-r", "100 QPS", Range(100)),
    ("-r", "100 req/s", Range(100)),
    ("-r", "100 requests per second", Range(100)),
    ("-r", "6000/m", Range(100)),
    ("-r", "6000/min", Range(100)),
    ("-r", "7200/h", Range(2)),
    ("-r", "6000rpm", Range(100)),
    ("-r", "7200 rph", Range(2)),
    ("-r", "1.5k", Range(1500)),
    ("-r", "1k/s", Range(1000)),
    ("-r", "10-100", Range(10, 100)),
    ("-r", "10,20/s", Range.of([10, 20])),
    ("-r", "0.5..2", Range(0.5, 2)),
    ("-r", "100r/s", Range(100)),
    ("-c", "1:8:2x", Range.of([1, 2, 4, 8])),
)


@pytest.mark.parametrize(("option", "word", "levels"), LEVELS)
def test_levels(option, word, levels):
    words = [option] if word is None else [option, word]
    if levels is None:
        with pytest.raises(UsageError):
            given(*words)
        return
    (found,) = given(*words).values()
    assert found == levels


@pytest.mark.parametrize("word", ["1k", "1K", "1_000", "1,000", "1e3", "1.0e3", "1 000", "1000"])
def test_counts(word):
    assert list(given("-n", word).values()) == [1000]


@pytest.mark.parametrize("word", ["99", "p99", "P99", "99%", "99th"])
def test_percentiles(word):
    assert list(given("--percentile", word).values()) == [99]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-n", "10s"], "-d 10s"),
        (["-c", "30s"], "-d 30s"),
        (["-t", "10s"], "-d 10s"),
        (["-z", "10s"], "-d 10s"),
        (["-n", "1.5"], "whole number"),
        (["-n", "1,5"], "whole number"),
        (["-c", "8x"], "whole number"),
        (["-c", "8-1"], "lowest first"),
        (["-c", "1-"], "1-"),
        (["\u2014c", "4"], "write -c"),
        (["\u2013\u2013concurrency", "4"], "write --concurrency"),
        (["\u2014duration=5s"], "write --duration=5s"),
        (["--json", "--quiet"], "Missing value for option '--json'"),
        (["-c", "-d", "10s"], "Missing value for option '-c'"),
        (["--vus", "3"], "it is -c here"),
        (["--arrival-rate", "3"], "it is --rate here"),
        (["-R", "3"], "it is --rate here"),
        (["--benchmark-duration", "3"], "it is --duration here"),
        (["--spawn-rate", "3"], "it is --shape-load here"),
        (["--headers", "A:b"], "did you mean --header?"),
        (["--concurrencies", "1"], "did you mean --concurrency?"),
        (["--request_timeout", "1"], "did you mean --"),
        (["--output", "json"], "it is --json here: --json FILE"),
        (["--save", "x.json"], "it is --json here: --json FILE"),
        (["--json"], "give one, --json FILE"),
        (["--html-report", "x"], "it is --html here: --html FILE"),
        (["--model-name", "x"], "it is -m here: -m NAME"),
        (["--max-tokens", "9"], "it is --output-tokens here"),
        (["--token", "secret"], "it is -H here"),
        (["--latency", "50ms"], "it is --slo here"),
        (["--latency-threshold", "1.5s"], "write --latency-threshold 1500, in milliseconds"),
        (["-c", "auto"], "use --sweep"),
        (["-r", "inf"], "use --sweep"),
        (["-n", "1.000"], "whole number"),
        (["-n", "12.500"], "whole number"),
        (["-c", "1:4,8"], "write a list, such as -c 1,2,4, or a range"),
        (["-c", "1-4,8"], "write a list, such as -c 1,2,4, or a range"),
        (["-c", "1..4..8"], "write a list, such as -c 1,2,4, or a range"),
        (["-r", "1:10:2:3"], "write a list, such as -r 1,2,4, or a range"),
        (["-d", '{"x": 1}'], """write --body '{"x": 1}'"""),
        (["-p", "@body.json"], "write --body @body.json"),
        (["-D", "body.json"], "it is --body here"),
        (["-T", "text/plain"], "it is -H here"),
        (["-t", "2"], "a number of threads with --workers"),
        (["--temperature", "0"], "--body temperature=VALUE"),
        (["--top-p", "0.9"], "--body top_p=VALUE"),
        (["--service-kind", "vllm"], "did you mean 'openai'?"),
        (["--service-kind", "Triton"], "did you mean 'triton'?"),
        (["--service-kind", "grpc"], "did you mean 'dynamic_grpc'?"),
        (["--arrivals", "poison"], "did you mean 'poisson'?"),
        (["--arrivals", "exponential"], "did you mean 'poisson'?"),
        (["--endpoint", "chatt"], "did you mean 'chat'?"),
        (["--endpoint", "embedding"], "did you mean 'embeddings'?"),
        (["--prompt-tokens", "100-200"], "write 'uniform(100, 200)'"),
        (["--prompt-tokens", "512±64"], "write 'normal(512, 64)'"),
        (["--no-such-thing-of-ours"], "docs/coming-from.md"),
    ],
)
def test_unreadable_values_suggest_a_notation(words, says):
    with pytest.raises(UsageError) as caught:
        given(*words)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["h:1", "m", "30s"], "write -d 30s"),
        (["h:1", "m", "1m30s"], "write -d 1m30s"),
        (["h:1", "m", "-d", "30", "s"], "write the unit without a space, such as 10s"),
        (["h:1", "m", "concurrency=4"], "write --concurrency 4"),
        (["h:1", "m", "c=4"], "write -c 4"),
        (["h:1", "m", "p99<5ms"], "write --slo 'p99<5ms'"),
        (["10.0.0.1", "8000", "m"], "write the port after a colon: 10.0.0.1:8000"),
        (["localhost", "m", "8000"], "write the port after a colon: localhost:8000"),
        (["h:1", "p99<5ms"], "write --slo 'p99<5ms'"),
        (["load.yaml"], "write --scenario load.yaml"),
        (["h:1", "load.yml"], "write --scenario load.yml"),
        (["script.js"], "scripts of other tools are not run"),
        (["./locustfile.py"], "scripts of other tools are not run"),
        (["result.json"], "inferometer view result.json"),
        (["h:1", "prompts.txt"], "add --prompts prompts.txt"),
        (["h:1", "m:2"], "version 2 of a model is written m -x 2"),
        (["help"], "write test --help"),
    ],
    ids=str,
)
def test_values_without_their_option(words, says):
    found = read(words, COMMAND)
    assert isinstance(found, Request)
    with pytest.raises(UsageError) as caught:
        found.target()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "word",
    ["IMAGE:3,224,224", "IMAGE:[3,224,224]", "IMAGE:(3, 224, 224)", "IMAGE:3x224x224", "IMAGE=3,224,224"],
)
def test_shapes(word):
    assert list(given("--shape", word).values()) == [{"IMAGE": (3, 224, 224)}]


def test_values_in_brackets():
    assert list(given("--input", "X=[1, 2.5,-3e2]").values()) == list(
        given("--input", "X=1,2.5,-3e2").values()
    )


@pytest.mark.parametrize("model", ["resnet50", "3s", "x=1", "gpt-4o", "org/llama-3.1:8b"])
def test_models_with_unusual_names(model):
    found = read(["h:1", model], COMMAND)
    assert isinstance(found, Request)
    assert found.target().model == model


@pytest.mark.parametrize(
    "words",
    [
        ["--concurrency-range", "1-8"],
        ["--concurrency-range", "1..8"],
        ["--concurrency-range", "1,2,4"],
        ["--concurrency-range", "1k"],
        ["--request-rate-range", "100/s"],
        ["--request-count", "1k"],
        ["--request-count", "1_000"],
        ["--request-count", "1e3"],
        ["--percentile", "p99"],
        ["--percentile", "99%"],
        ["-b", "1,000"],
        ["--shape", "IMAGE:[3,4]"],
        ["-b=4"],
    ],
    ids=" ".join,
)
def test_the_classic_script_keeps_its_dialect(words):
    with pytest.raises(UsageError) as caught:
        parse_classic(["-m", "m", *words])
    assert "-d" not in caught.value.remedy.split()


def test_the_classic_script_accepts_an_option_name_as_a_value():
    options = parse_classic(["-m", "--percentile"])
    assert isinstance(options, Options)
    assert options.model == "--percentile"
