"""Options without effect are rejected, with a message that begins with the option."""

import pytest

from inferometer.base.errors import UsageError
from inferometer.cli.find import COMMAND as FIND
from inferometer.cli.measure import COMMAND, asked_load
from inferometer.measure.checks import check_model
from inferometer.measure.unused import check_given, check_use
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.command_line import Request, read
from inferometer.options.options import Options


def options_of(line: str) -> Options:
    request = read(["-m", "fake", *line.split()], COMMAND)
    assert isinstance(request, Request)
    return asked_load(request)[0]


@pytest.mark.parametrize(
    ("line", "name", "remedy"),
    [
        ("--request-period 3", "--request-period", "--periodic-concurrency-range"),
        ("-d 3s -s 20", "--stability-percentage", "remove one of them"),
        ("-n 9 --max-trials 4", "--max-trials", "remove it"),
        ("-n 9 -p 100", "--measurement-interval", "remove it"),
        ("--measurement-request-count 9", "--measurement-request-count", "--measurement-mode count_windows"),
        ("--measurement-mode count_windows -p 100", "--measurement-interval", "count_windows"),
        ("-n 9 -d 3s", "--duration", "--time-limit"),
        ("-n 9 --precision 5%", "--precision", "--time-limit"),
        ("-c 1,2,4 -l 9 --binary-search", "--binary-search", "lowest:highest"),
        ("--output-shared-memory-size 9", "--output-shared-memory-size", "--shared-memory system"),
        ("--grpc --input-tensor-format json", "--input-tensor-format", "--grpc"),
        ("--shared-memory system --output-tensor-format json", "--output-tensor-format", "--shared-memory"),
        ("--verbose-csv", "--verbose-csv", "--csv"),
        ("--validate-sample 10%", "--validate-sample", "--data"),
        ("--string-data a --string-length 9", "--string-length", "remove it"),
        ("--tls-cert-type DER", "--tls-cert-type", "--tls-cert"),
        ("--tls-key-type DER", "--tls-key-type", "--tls-key"),
        (f"--tls-key {__file__}", "--tls-key", "--tls-cert"),
        (f"--tls-ca {__file__} --tls-insecure", "--tls-ca", "remove one of them"),
        ("--arrivals poisson", "--arrivals", "--rate"),
        ("--arrivals gamma --burstiness 2", "--arrivals", "--rate"),
        ("--before-level-timeout 5s", "--before-level-timeout", "--before-level"),
        ("--check-sample 5%", "--check-sample", "--check"),
        ("--check regex:a --check-similarity 5%", "--check-similarity", "--check reference:FILE"),
        ("-r 5 --burstiness 2", "--burstiness", "--arrivals gamma"),
        ("-r 5 --arrivals poisson --burstiness 2", "--burstiness", "--arrivals gamma"),
        ("--num-of-sequences 3", "--num-of-sequences", "--rate"),
        ("-c 2 --workers 3", "--workers", "-c"),
        ("--endpoint v1/x", "--endpoint", "remove it"),
        ("--path /x", "--path", "remove it"),
        ("--service-kind triton_c_api --model-repository . -u a:1", "--url", "remove it"),
    ],
)
def test_a_line_with_an_option_that_has_no_effect(line: str, name: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_given(options_of(line), "measure")
    assert caught.value.message.startswith(f"{name} ")
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("line", "said", "remedy"),
    [
        ("-r 5 --arrivals pareto", "'pareto'", "'constant', 'poisson', 'gamma' or 'weibull'"),
        ("-r 5 --arrivals Gamma", "'Gamma'", "'gamma'"),
        ("-r 5 --arrivals gamma --burstiness 0", ">= 0.01", ""),
        ("-r 5 --arrivals gamma --burstiness 1e7", "<= 1,000,000", ""),
        ("-r 5 --arrivals gamma --burstiness bursty", "bursty", ""),
        ("-r 5 --arrivals weibull --burstiness 0.05", "0.1 or more", "--arrivals gamma"),
    ],
)
def test_arrivals_that_do_not_exist(line: str, said: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        options_of(line)
    assert said in caught.value.message
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "line",
    [
        "-c 4 --workers 3",
        "-r 5 --arrivals poisson",
        "-r 5 --arrivals weibull --burstiness 0.7",
        "-d 3s --precision 5%",
        "-s 20",
    ],
)
def test_a_line_whose_options_all_have_one(line: str) -> None:
    check_given(options_of(line), "measure")


def test_find_does_not_know_its_loads_before() -> None:
    check_given(options_of("--workers 3"), "find")
    assert "workers" not in FIND.refused


def spec(datatype: str, shape: tuple[int, ...]) -> ModelSpec:
    return ModelSpec("fake", "1", (TensorSpec("IN", datatype, shape),), (), max_batch_size=8)


@pytest.mark.parametrize(
    ("line", "model", "complaint"),
    [
        ("--sequence-length 5", spec("FP32", (1,)), "--sequence-length applies only to sequence models"),
        (
            "--string-length 5",
            spec("FP32", (1,)),
            "--string-length applies only to generated inputs of datatype BYTES",
        ),
        ("--seed 5 --data zero", spec("FP32", (1,)), "--seed applies only to random values"),
        ("--shape IN:5", spec("FP32", (1,)), "the fixed shape of input 'IN': [1]"),
        ("--shape IN:5", spec("FP32", (-1, -1)), "has 1 dimensions, but input 'IN' has 2"),
        ("--shape IN:3,4", spec("FP32", (-1, 5)), "does not fit input 'IN'"),
    ],
)
def test_an_option_without_effect_on_this_model(line: str, model: ModelSpec, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_use(options_of(line), model)
    assert complaint in caught.value.message
    assert caught.value.remedy


def test_a_batch_may_not_exceed_the_models_limit() -> None:
    with pytest.raises(
        UsageError, match="exceeds the max_batch_size of 'fake', which is 8; use -b 8 or less"
    ):
        check_model(options_of("-b 9"), spec("FP32", (1,)))
    check_model(options_of("-b 8"), spec("FP32", (1,)))
