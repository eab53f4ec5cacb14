import shlex
from dataclasses import replace
from typing import Any

import pytest

from inferometer.base.errors import UsageError
from inferometer.dialects.perf_analyzer.options import parse_classic
from inferometer.measure.checks import changed, check_model
from inferometer.model.spec import ModelSpec
from inferometer.options.options import DataOptions, Options
from inferometer.options.values import Range

ASKED = Options(model="m")
MODEL = ModelSpec(name="m", version="", inputs=(), outputs=())
LOAD_MODES = "Cannot specify more then one inference load mode"

COMBINATIONS = [
    ("--concurrency-range 1 --request-intervals FILE", LOAD_MODES),
    ("--request-rate-range 1 --request-intervals FILE", LOAD_MODES),
    ("--request-rate-range 1 --periodic-concurrency-range 1:2", LOAD_MODES),
    ("--concurrency-range 1 --fixed-schedule", LOAD_MODES),
    ("-t 1 --concurrency-range 1", "deprecated options -t, -c and -d with --concurrency-range"),
    ("-c 1 --request-rate-range 1", "deprecated options -t, -c and -d with --request-rate-range"),
    ("-d --request-intervals FILE", "deprecated options -t, -c and -d with --request-intervals"),
    ("--streaming -i http", "Streaming is only allowed with gRPC protocol and Triton C API."),
    ("--streaming -i grpc --sync", "can not use streaming with synchronous API"),
    ("-a --sync", "Cannot specify --async and --sync simultaneously."),
    (
        "--grpc-compression-algorithm deflate",
        "Using compression algorithm is only allowed with gRPC protocol.",
    ),
    ("--request-rate-range 1:0", "cannot both be 0"),
    ("-d", "cannot both be 0"),
    ("--binary-search", "The --latency-threshold cannot be 0 for binary search mode."),
    ("--binary-search -l 5 --concurrency-range 1:0", "cannot be 0 for binary search"),
    ("--binary-search -l 5 --concurrency-range 4:2", "cannot be less than start for binary search"),
    ("--binary-search -l 5 --request-rate-range 4", "cannot be less than start for binary search"),
    ("--periodic-concurrency-range 1:2", "requires bi-directional gRPC streaming"),
    (
        "--periodic-concurrency-range 1:2 --streaming --service-kind triton_c_api --model-repository d",
        "only supported with --service-kind triton.",
    ),
    (
        "--periodic-concurrency-range 1:2 --streaming --service-kind openai --input-data FILE",
        "only supported with --service-kind triton.",
    ),
    ("--periodic-concurrency-range 1:2 -i grpc --streaming", "Must provide --profile-export-file"),
    ("--request-parameter a:1:int", "only supported by gRPC"),
    ("--request-count 4 --request-rate-range 5", "request-count can not be less than request-rate"),
    (
        "--request-count 9 --request-rate-range 1:2",
        "request-count not supported with multiple request-rate values",
    ),
    ("--request-count 9 --fixed-schedule", "request-count not supported with --fixed-schedule"),
    ("--metrics-url a", "Must specify --collect-metrics when using the --metrics-url option."),
    ("--metrics-interval 9", "Must specify --collect-metrics when using the --metrics-interval option."),
    ("--collect-metrics --service-kind openai", "only supported with Triton client backend"),
    (
        "--collect-metrics --service-kind torchserve --input-data FILE",
        "only supported with Triton client backend",
    ),
    ("-z --input-data FILE", "zero flag cannot be set when a data directory is provided"),
    ("--input-data zero --data-directory d", "zero flag cannot be set when a data directory is provided"),
    ("--service-kind tfserving", "only grpc"),
    ("--service-kind tfserving -i grpc --streaming", "not support streaming"),
    ("--service-kind tfserving -i grpc -a", "not support the async"),
    ("--service-kind torchserve", "needs an input data file"),
    ("--service-kind torchserve -i grpc --input-data FILE", "gRPC is not supported with TorchServe"),
    ("--service-kind openai -i grpc", "gRPC is not supported with OpenAI"),
    ("--service-kind triton_c_api", "--model-repository should not be empty"),
    (
        "--service-kind triton_c_api --model-repository d -a --shared-memory system",
        "Cannot use --shared-memory",
    ),
    (
        "--service-kind openai --input-data FILE --endpoint v1 -a --streaming",
        "Streaming is only allowed with gRPC",
    ),
    ("--service-kind openai", "Must supply --input-data"),
    ("--service-kind openai --input-data FILE", "Must supply --endpoint"),
    ("--service-kind openai --input-data FILE --endpoint v1", "Only async"),
    ("--service-kind openai --input-data FILE --endpoint v1 -a -b 2", "Batching is not supported"),
    ("--session-concurrency 2", "only supported with --service-kind openai"),
    ("--enable-mpi --concurrency-range 1:2", "Cannot specify a concurrency range in multi-model mode"),
    ("--enable-mpi --request-rate-range 1:2", "Cannot specify a request rate range in multi-model mode"),
    ("--clients 2", "--clients requires clients on a Ray cluster"),
    ("--client-resources CPU=1", "--client-resources requires clients on a Ray cluster"),
    ("--ray local --shared-memory system", "--shared-memory requires a server on the sending machine"),
    ("--ray auto --service-kind triton_c_api --model-repository d", "inside a single client"),
    ("--ray head", "'head' is not the address of a Ray cluster"),
    ("--ray ray://head", "not the address of a Ray cluster"),
    ("--ray local --clients 0", "--clients"),
    ("--ray local --client-resources CPU", "'CPU' does not name any resources"),
    ("--ray local --client-resources '{}'", "does not name any resources"),
    ("--ray local --client-resources '{1}'", "is not JSON"),
    ("--ray local --client-resources CPU=0", "needs an amount above 0"),
    ("--ray local --client-resources CPU=1.5", "Ray accepts fractions only below 1"),
    ("""--ray local --client-resources '{"CPU": "x"}'""", "needs an amount above 0"),
]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("CPU=2", {"CPU": 2.0}),
        ("CPU=0.5, client=1", {"CPU": 0.5, "client": 1.0}),
        ('{"client": 1}', {"client": 1.0}),
    ],
)
def test_resources_of_clients(word: str, found: dict[str, float]) -> None:
    options = parse_classic(["-m", "m", "--ray", "ray://head:10001", "--client-resources", word])
    assert isinstance(options, Options)
    assert options.client_resources == found


@pytest.mark.parametrize(("line", "sentence"), COMBINATIONS)
def test_rejected_combination(line: str, sentence: str, tmp_path):
    file = tmp_path / "file"
    file.touch()
    words = [str(file) if word == "FILE" else word for word in shlex.split(line)]
    with pytest.raises(UsageError) as caught:
        parse_classic(["-m", "m", *words])
    assert sentence in str(caught.value)


def asked(**values: Any) -> Options:
    return changed(Options(), **{"model": "m", **values})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"model": ""}, "no model is given"),
        ({"connections": 2}, "--connections applies only to gRPC"),
        ({"service_kind": "openai", "batch": 2}, "Batching is not supported"),
        ({"service_kind": "openai", "shared_memory": "system"}, "--shared-memory is not supported"),
        ({"service_kind": "tfserving", "streaming": True, "protocol": "grpc"}, "not support streaming"),
        ({"service_kind": "torchserve"}, "TorchServe does not describe its inputs"),
        ({"service_kind": "torchserve", "bodies": ("a",), "protocol": "grpc"}, "gRPC is not supported"),
        (
            {"service_kind": "torchserve", "bodies": ("a",), "data": DataOptions(sources=("a.json",))},
            "cannot be combined",
        ),
        ({"service_kind": "http", "data": DataOptions(sources=("zero",))}, "--input-data is not supported"),
        ({"asynchronous": True, "synchronous": True}, "--async and --sync"),
        ({"concurrency": Range(1, 0)}, "cannot both be 0"),
        ({"concurrency": Range(0)}, "the start of the range must be > 0"),
        ({"concurrency": Range(1, 2, 0)}, "the step of the range must be > 0"),
        ({"concurrency": 4}, "concurrency must be a Range, but is 4"),
        ({"request_rate": Range(-1)}, "the start of the range must be > 0"),
        ({"concurrency": Range(2), "request_count": 1}, "must not be below the highest value of"),
        ({"batch": 0}, "batch must be 1 or more, but is 0"),
        ({"batch": "2"}, "batch must be a whole number, but is '2'"),
        ({"workers": 0}, "workers must be 1 or more"),
        ({"speed": 0}, "speed needs a factor above 0"),
        ({"precision": 2}, "precision must be 1 or less"),
        ({"percentile": 100}, "percentile must be 99 or less"),
        ({"protocol": "tcp"}, "the available options are 'http' or 'grpc'"),
        ({"trace_level": "all"}, "'all' is not supported"),
        ({"shape_load": "ramp 1..9"}, "which is not a ramp"),
        ({"data": DataOptions(sources=("zero", "a.json"))}, "zero cannot be combined with a path"),
        ({"data": DataOptions(string_length=0)}, "data.string_length must be 1 or more"),
    ],
)
def test_options_that_cannot_be_measured(values: dict[str, Any], sentence: str):
    with pytest.raises(UsageError) as caught:
        asked(**values)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"concurrency": Range(1, 4), "batch": 8, "asynchronous": True},
        {"concurrency": Range(1, 0), "latency_limit_ms": 10},
        {"data": DataOptions(sources=("a.json", "b.json"), shapes={"x": (1,)})},
        {"workers": "auto", "service_kind": "auto"},
        {"service_kind": "http", "data": DataOptions(seed=3)},
        {"streaming": False, "synchronous": True, "bodies": (), "slo": None},  # counts as not given
    ],
)
def test_options_that_can_be_measured(values: dict[str, Any]):
    assert asked(**values).model == "m"


def test_given_options_are_recorded():
    found = asked(request_count=0, streaming=False, duration_s=None, data=DataOptions(seed=3))
    assert found.given == {"model", "request_count", "data.seed"}
    assert changed(found, request_count=None, batch=2).given == {"model", "batch", "data.seed"}
    options = parse_classic(["-m", "m", "-t", "2", "-i", "http", "--shape", "a:1"])
    assert isinstance(options, Options)
    assert options.given == {
        "model",
        "concurrency",
        "protocol",
        "data.shapes",
    }


def test_None_unsets_an_option():
    found = asked(metrics_interval_ms=5, collect_metrics=True)
    assert changed(found, collect_metrics=None, metrics_interval_ms=None) == asked()


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="colour"):
        asked(colour="red")


SEQUENCE = replace(MODEL, is_sequence=True, max_batch_size=4)


@pytest.mark.parametrize(
    ("batch", "model", "sentence"),
    [
        (2, MODEL, "can not specify batch size > 1 as the model does not support batching"),
        (2, SEQUENCE, "can not specify batch size > 1 when using a sequence model"),
        (2, replace(MODEL, is_ensemble=True, composing=(SEQUENCE,), max_batch_size=4), "sequence model"),
        (
            None,
            replace(MODEL, is_decoupled=True),
            "Decoupled models must be run with `--async` and `--streaming`",
        ),
    ],
)
def test_unsupported_options_of_a_model(batch: int | None, model: ModelSpec, sentence: str):
    with pytest.raises(UsageError) as caught:
        check_model(replace(ASKED, batch=batch), model)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            replace(ASKED, concurrency=Range(1, 0), latency_limit_ms=10),
            "The 'end' concurrency can not be 0 for sequence models when using asynchronous API.",
        ),
        (
            replace(ASKED, concurrency=Range(1, 8), sequence_ids=(1, 5)),
            "smaller than the maximum possible concurrency, sequence id collision may occur",
        ),
        (
            replace(ASKED, request_rate=Range(10), sequence_ids=(1, 3)),
            "smaller than the maximum possible number of sequences",
        ),
    ],
)
def test_unsupported_options_of_sequences(options: Options, sentence: str):
    with pytest.raises(UsageError) as caught:
        check_model(options, SEQUENCE)
    assert sentence in str(caught.value)
    check_model(options, MODEL)


def test_supported_options_of_a_model():
    check_model(ASKED, SEQUENCE)
    check_model(replace(ASKED, batch=1), MODEL)
    check_model(replace(ASKED, batch=8), replace(MODEL, max_batch_size=8))
