"""Options, YAML and their rules: refusals, their messages, and that nothing is created then."""

from dataclasses import replace

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from inferometer.base.errors import UsageError
from inferometer.dataset.tokens import COMMON
from inferometer.dialects.model_analyzer.build import profile_job
from inferometer.dialects.model_analyzer.command_line import CLASSIC, OURS, check_tool, read_command
from inferometer.dialects.model_analyzer.config import KEYS, option
from inferometer.dialects.model_analyzer.values import ints
from inferometer.tune.scoring import Constraint
from inferometer.tune.settings import Prompts
from inferometer.tune.space import manual


def job(*words, yaml=None, tmp_path=None, program=CLASSIC):
    given = ["profile", *words]
    if yaml is not None:
        path = tmp_path / "given.yaml"
        path.write_text(yaml)
        given += ["-f", str(path)]
    return profile_job(read_command(given, program), program)


def made(tool):
    return sorted(path.name for path in tool.folder.iterdir() if path.name not in ("repo", "perf.yaml"))


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--version"], "0."),
        ([], "usage:"),
        (["profile", "-h"], "--latency-budget"),
        (["report", "-h"], "-n"),
    ],
)
def test_version_and_help_exit_with_zero(tool, capsys, argv, shown):
    assert tool.main(argv) == 0
    assert shown in capsys.readouterr().out


def test_the_version_is_bare(tool, capsys):
    for argv in (["--version"], ["profile", "--version"]):
        assert tool.main(argv) == 0
        assert capsys.readouterr().out.strip().replace(".", "").isdigit()


@pytest.mark.parametrize(
    "argv",
    [
        ["profile", "--run-config-search-mode", "fast"],
        ["profile", "--client-protocol", "rest"],
        ["profile", "--client-max-retries", "many"],
        ["profile", "--no-such-option"],
        ["-m", "sometimes", "profile"],
        ["bogus"],
    ],
)
def test_usage_errors_exit_with_two(tool, argv, capsys):
    assert tool.main(argv) == 2


QUICK = "run_config_search_mode: quick\n"

# (YAML, words, expected part of the message)
REFUSED = [
    ("no models", None, [], ["profile_models", "--profile-models"]),
    ("two unknown keys", "first: 1\nsecond: 2\n", [], ["'first'", "'second'"]),
    ("YAML that is none", "a: [1\n", [], ["line 2", "perf.yaml"]),
    ("models in both places", "profile_models: W\n", ["--profile-models", "W"], ["--profile-models", "YAML"]),
    ("two loads", None, ["-c", "1", "--request-rate", "5"], ["--concurrency", "--request-rate"]),
    (
        "concurrency and rate search",
        None,
        ["-c", "1", "--request-rate-search-enable"],
        ["--concurrency", "--request-rate-search-enable"],
    ),
    (
        "a bound of the one and a search of the other",
        None,
        ["--run-config-search-max-concurrency", "8", "--request-rate-search-enable"],
        ["--run-config-search-max-concurrency", "--request-rate-search-enable"],
    ),
    (
        "both bounds",
        None,
        ["--run-config-search-max-concurrency", "8", "--run-config-search-min-request-rate", "8"],
        ["max-concurrency", "min-request-rate"],
    ),
    (
        "quick with a list",
        None,
        ["--run-config-search-mode", "quick", "-c", "1,2"],
        ["quick", "--concurrency"],
    ),
    (
        "quick with batches",
        None,
        ["--run-config-search-mode", "quick", "-b", "1"],
        ["quick", "--batch-sizes"],
    ),
    (
        "quick without search",
        None,
        ["--run-config-search-mode", "quick", "--run-config-search-disable"],
        ["quick", "disable"],
    ),
    (
        "quick with a sweep of its own axis",
        QUICK + "profile_models: {W: {model_config_parameters: {instance_group: [{count: [1, 2]}]}}}\n",
        [],
        ["profile_models.W.model_config_parameters.instance_group", "quick"],
    ),
    (
        "quick with two choices",
        QUICK + "profile_models: {W: {model_config_parameters: {dynamic_batching: "
        "{max_queue_delay_microseconds: [1, 2]}}}}\n",
        [],
        ["dynamic_batching has 2 choices"],
    ),
    (
        "a wrong bound",
        "constraints: {perf_latency_p99: {min: 3}}\n",
        [],
        ["constraints.perf_latency_p99", "max"],
    ),
    ("a bound of nothing", "constraints: {gpu_power_usage: {max: 3}}\n", [], ["constraints.gpu_power_usage"]),
    ("a range backwards", "concurrency: {start: 5, stop: 2}\n", [], ["concurrency", "5", "2"]),
    ("a range with another key", "concurrency: {start: 1, end: 2}\n", [], ["concurrency.end", "stop"]),
    (
        "an unknown key of a model",
        "profile_models: {m: {weigting: 1}}\n",
        [],
        ["profile_models.m.weigting", "weighting"],
    ),
    (
        "an unknown field",
        "profile_models: {m: {model_config_parameters: {max_batch: 1}}}\n",
        [],
        ["profile_models.m.model_config_parameters.max_batch", "max_batch_size"],
    ),
    (
        "a wrong kind",
        "profile_models: {m: {model_config_parameters: {instance_group: [{kind: KIND_TPU}]}}}\n",
        [],
        ["KIND_TPU", "KIND_CPU"],
    ),
    (
        "an unknown parameter",
        "profile_models: {m: {parameters: {concurency: 1}}}\n",
        [],
        ["profile_models.m.parameters.concurency"],
    ),
    ("a load with a list of words", "concurrency: [1, many]\n", [], ["concurrency", "many"]),
    ("zero", "num_configs_per_model: 0\n", [], ["num_configs_per_model", "0"]),
    ("a flag that is none", "early_exit_enable: 2\n", [], ["early_exit_enable", "true or false"]),
    ("an unknown metric", "objectives: [perf_speed]\n", [], ["objectives.perf_speed"]),
    (
        "a weight that is none",
        "objectives: {perf_throughput: high}\n",
        [],
        ["objectives.perf_throughput", "high"],
    ),
    ("weighting at the top", "weighting: 3\n", [], ["weighting", "model"]),
    (
        "a flag with underscores",
        "perf_analyzer_flags: {input_data: zero}\n",
        [],
        ["perf_analyzer_flags.input_data", "input-data"],
    ),
    ("an unknown flag", "perf_analyzer_flags: {speed: 3}\n", [], ["perf_analyzer_flags.speed"]),
    (
        "a range of loads that is none",
        "perf_analyzer_flags: {concurrency-range: '1:x'}\n",
        [],
        ["perf_analyzer_flags.concurrency-range", "1:x"],
    ),
    (
        "a bad value of a flag",
        "perf_analyzer_flags: {shape: INPUT}\n",
        [],
        ["perf_analyzer_flags", "does not have the form NAME:SIZES"],
    ),
    ("an unknown server flag", "triton_server_flags: {speed: 3}\n", [], ["triton_server_flags.speed"]),
    ("an unknown docker argument", "triton_docker_args: {speed: 3}\n", [], ["triton_docker_args.speed"]),
    (
        "a plot of nothing",
        "plots: {p: {x_axis: speed, y_axis: perf_throughput}}\n",
        [],
        ["plots.p.x_axis", "speed"],
    ),
    (
        "a plot of two metrics on one axis",
        "plots: {p: {x_axis: [perf_latency_p99, perf_throughput], y_axis: perf_throughput}}\n",
        [],
        ["plots.p.x_axis", "perf_latency_p99"],
    ),
    (
        "top configs without constraints",
        None,
        ["--num-top-model-configs", "2"],
        ["--num-top-model-configs", "constraints"],
    ),
    ("dcgm_disable here", None, ["--dcgm-disable"], ["--dcgm-disable", "remote"]),
    (
        "remote without address",
        None,
        ["--triton-launch-mode", "remote", "--triton-grpc-endpoint", ""],
        ["--triton-grpc-endpoint"],
    ),
    (
        "docker without image",
        None,
        ["--triton-launch-mode", "docker", "--triton-docker-image", ""],
        ["--triton-docker-image"],
    ),
    (
        "a mount without mode",
        None,
        ["--triton-launch-mode", "docker", "--triton-docker-mounts", "/a:/b"],
        ["/a:/b", "host:container:mode"],
    ),
    (
        "bounds in the wrong order",
        None,
        ["--run-config-search-min-concurrency", "9", "--run-config-search-max-concurrency", "8"],
        ["min-concurrency", "max-concurrency"],
    ),
    (
        "a negative bound",
        None,
        ["--run-config-search-max-instance-count", "-1"],
        ["run-config-search-max-instance-count"],
    ),
    (
        "together and brute",
        None,
        ["--run-config-profile-models-concurrently-enable", "--run-config-search-mode", "brute"],
        ["concurrently", "brute"],
    ),
    (
        "BLS and brute",
        None,
        ["--bls-composing-models", "A", "--run-config-search-mode", "brute"],
        ["--bls-composing-models", "brute"],
    ),
    ("an LLM without a text", None, ["--model-type", "LLM"], ["'W'", "text_input", "IN"]),
    (
        "an LLM without a server",
        None,
        ["--model-type", "LLM", "--triton-launch-mode", "c_api"],
        ["LLM", "gRPC"],
    ),
    (
        "an LLM and another load generator",
        None,
        ["--model-type", "LLM", "--perf-analyzer-path", "true"],
        ["--model-type", "--perf-analyzer-path"],
    ),
    (
        "an LLM without streams",
        None,
        ["--model-type", "LLM", "--client-protocol", "http"],
        ["http", "--client-protocol grpc", "genai_perf_flags.streaming"],
    ),
    (
        "flags of an LLM alone",
        "genai_perf_flags: {streaming: true}",
        [],
        ["genai_perf_flags", "--model-type"],
    ),
    *(
        (f"genai_perf_flags {flags}", f"{{model_type: LLM, genai_perf_flags: {flags}}}", [], words)
        for flags, words in (
            ("{tokenizer: gpt2}", ["genai_perf_flags.tokenizer", "'gpt2'", "tokenizer.json"]),
            ("{num-prefix-prompts: 3}", ["genai_perf_flags.num-prefix-prompts", "prefix-prompt-length"]),
            (
                "{input-type: file, input-file: a, prefix-prompt-length: 3}",
                ["genai_perf_flags.prefix-prompt-length", "input-file"],
            ),
            ("{input-dataset: openorca}", ["genai_perf_flags.input-dataset", "input-file"]),
            ("{concurrency: 3}", ["genai_perf_flags.concurrency", "is not a flag"]),
            ("{service-kind: openai}", ["genai_perf_flags.url"]),
            ("{output-tokens-stddev: 3}", ["genai_perf_flags.output-tokens-stddev", "output-tokens-mean"]),
            ("{goodput: 'time_to_first_token:500'}", ["genai_perf_flags.goodput", "constraints"]),
            ("{extra-inputs: temperature}", ["genai_perf_flags.extra-inputs", "temperature:0"]),
            ("{extra-inputs: {since: 2026-11-16}}", ["genai_perf_flags.extra-inputs", "temperature:0"]),
            ("{service-kind: openai, url: 'a:1', backend: vllm}", ["genai_perf_flags.backend"]),
            ("{endpoint: chat}", ["genai_perf_flags.endpoint", "openai"]),
            ("{input-type: file}", ["genai_perf_flags.input-file"]),
            ("{input-type: file, input-file: none.txt}", ["none.txt"]),
            ("{expected-output-tokens: 0}", ["genai_perf_flags.expected-output-tokens", "0"]),
            ("{backend: onnx}", ["genai_perf_flags.backend", "vllm"]),
        )
    ),
    ("no load generator", None, ["--perf-analyzer-path", "no-such-program"], ["no-such-program"]),
    (
        "no library",
        None,
        ["--triton-launch-mode", "c_api", "--triton-install-path", "/no/such/triton"],
        ["/no/such/triton", "lib/libtritonserver.so", "--triton-install-path"],
    ),
    ("no server", None, ["--triton-server-path", "no-such-server"], ["no-such-server"]),
    ("no folder for exports", None, ["-e", "no/such/folder"], ["--export-path", "no/such"]),
    ("no folder for checkpoints", None, ["-s", "no/such/folder"], ["--checkpoint-directory", "no/such"]),
    ("an unknown model", None, ["--profile-models", "X"], ["'X'", "repo"]),
    (
        "a member of nothing",
        None,
        ["--cpu-only-composing-models", "A"],
        ["--cpu-only-composing-models", "'W'"],
    ),
    (
        "an upper-case header over gRPC",
        "perf_analyzer_flags: {http-header: ['X-Key: secret']}",
        [],
        ["W: ", "'X-Key'", "lower case"],
    ),
    (
        "a header that gRPC sets itself",
        "perf_analyzer_flags: {http-header: ['te: x']}",
        [],
        ["W: ", "'te'", "set by gRPC itself"],
    ),
    (
        "data that is no JSON",
        "perf_analyzer_flags: {input-data: perf.yaml}",
        [],
        ["W: ", "perf.yaml"],
    ),
    (
        "a rate among the flags of one of two models",
        "{profile_models: {A: {perf_analyzer_flags: {request-rate-range: 5}}, S: {}}}",
        [],
        ["some models have a request_rate"],
    ),
    ("times that cannot be read", "perf_analyzer_flags: {request-intervals: perf.yaml}", [], ["perf.yaml"]),
    ("a BLS model's member that is not there", None, ["--bls-composing-models", "Z"], ["'Z'", "repo"]),
    (
        "counts of a member that do not fit",
        "{profile_models: E, ensemble_composing_models: {A: {model_config_parameters: {instance_group: "
        "[{kind: KIND_CPU, count: [1, 3]}]}}}}",
        [],
        ["'A'", "powers of two"],
    ),
    ("an ensemble in an ensemble", None, ["--profile-models", "EE"], ["'EE'", "'E'", "ensemble itself"]),
    (
        "an ensemble walked whole",
        None,
        ["--profile-models", "E", "--run-config-search-mode", "brute"],
        ["'E'", "ensemble"],
    ),
]


@pytest.mark.parametrize(("what", "yaml", "words", "shown"), REFUSED, ids=[row[0] for row in REFUSED])
def test_impossible_settings_are_refused_in_one_line(tool, capsys, what, yaml, words, shown):
    is_free = (
        what not in ("no models",)
        and "--profile-models" not in words
        and "profile_models" not in (yaml or "")
    )
    assert tool.profile(*words, models="W" if is_free else None, yaml=yaml) == 1
    error = capsys.readouterr().err
    assert "[Model Analyzer] Model Analyzer encountered an error: " in error
    assert "Traceback" not in error
    for text in shown:
        assert text in error
    assert tool.started == 0
    assert made(tool) == []


def test_llm_flags_determine_the_requests(tmp_path):
    yaml = """
model_type: LLM
genai_perf_flags: {input-tokens-mean: 20, synthetic-input-tokens-stddev: 5, output-tokens-mean: 7, num-prompts: 3,
                   random-seed: 4, backend: vllm}
profile_models:
  A:
  B: {genai_perf_flags: {service-kind: openai, url: "localhost:9000", endpoint: completions, streaming: false}}
  C: {perf_analyzer_flags: {input-data: zero}}
"""
    first, second, third = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models
    assert first.prompts == Prompts(3, 20, 5.0, 4, None, 7, "vllm", True)
    assert (first.options.streaming, first.options.protocol, first.options.service_kind) == (
        True,
        "grpc",
        "triton",
    )
    options = second.options
    assert (options.service_kind, options.protocol, options.url) == ("openai", "http", "localhost:9000")
    assert (options.endpoint, options.streaming, options.collect_metrics) == ("v1/completions", False, False)
    assert (third.makes_text, third.prompts, third.options.data.sources) == (True, None, ("zero",))
    plain = job("-m", "r", "--profile-models", "W")
    assert plain.config.model_type == "generic"


def test_prompts_of_an_llm_have_exact_lengths_by_its_tokenizer(tmp_path):
    words = {word: number for number, word in enumerate(("[UNK]", *COMMON))}
    encoder = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    encoder.pre_tokenizer = WhitespaceSplit()
    encoder.save(str(tmp_path / "tokenizer.json"))
    yaml = f"""
model_type: LLM
genai_perf_flags: {{tokenizer: {tmp_path}, synthetic-input-tokens-mean: 20, num-dataset-entries: 40,
                    prefix-prompt-length: 30, num-prefix-prompts: 2}}
profile_models: [A]
"""
    (model,) = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models
    ids = [encoder.encode(text).ids for text in model.prompts.texts()]
    assert {len(row) for row in ids} == {50}
    assert 0 not in {number for row in ids for number in row}  # the model knows every word
    assert len({tuple(row[:30]) for row in ids}) == 2
    assert len({tuple(row) for row in ids}) == 40


def test_answers_vary_in_length_if_a_deviation_is_given(tmp_path):
    yaml = """
model_type: LLM
genai_perf_flags: {isl: 20, osl: 100, output-tokens-stddev: 20, num-prompts: 50, extra-inputs: {stream: true}}
profile_models:
  A:
  B: {genai_perf_flags: {service-kind: openai, url: "localhost:9000", osl: 100, output-tokens-stddev: 20}}
"""
    triton, openai = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models
    steps = triton.prompts.steps("A", {"text_input", "max_tokens", "stream"})
    lengths = [step["max_tokens"][0] for step in steps]
    assert 90 < sum(lengths) / 50 < 110
    assert len(set(lengths)) > 10
    assert lengths == triton.prompts.output_lengths(50)
    assert steps[0]["stream"] == [True]
    assert openai.options.output_tokens is None  # each prompt has its own length
    assert triton.prompts.texts() == replace(triton.prompts, output_deviation=0.0).texts()
    assert triton.prompts.later != replace(triton.prompts, output_deviation=0.0).later


@pytest.mark.parametrize(
    "given",
    [
        "{temperature: 0, stop: [END]}",
        "[temperature:0, 'stop:[\"END\"]']",
        '[\'{"temperature": 0, "stop": ["END"]}\']',
    ],
)
def test_extra_inputs_are_fields_of_bodies_or_inputs_of_a_model(given, tmp_path):
    yaml = f"""
model_type: LLM
genai_perf_flags: {{extra-inputs: {given}}}
profile_models:
  A:
  B: {{genai_perf_flags: {{service-kind: openai, url: "localhost:9000", extra-inputs: {given}}}}}
  C:
    perf_analyzer_flags: {{input-data: zero}}
    genai_perf_flags: {{service-kind: openai, url: "localhost:9000", extra-inputs: {given}}}
"""
    triton, openai, own = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models
    (step, *_) = triton.prompts.steps("A", {"text_input", "temperature", "stop"})
    assert (step["temperature"], step["stop"]) == ([0], ["END"])
    with pytest.raises(UsageError, match="'A' has no input 'stop', which extra-inputs sets; its inputs are"):
        triton.prompts.steps("A", {"text_input", "temperature"})
    assert openai.options.bodies == own.options.bodies == ("temperature=0", 'stop=["END"]')


def test_prompts_have_the_requested_length_and_depend_on_the_seed():
    prompts = Prompts(count=50, mean=20, deviation=3.0, seed=1)
    lengths = [len(text.split()) for text in prompts.texts()]
    assert len(lengths) == 50
    assert 18 < sum(lengths) / 50 < 22
    assert len(set(lengths)) > 3
    assert prompts.texts() == Prompts(count=50, mean=20, deviation=3.0, seed=1).texts()
    assert {len(text.split()) for text in Prompts(count=5, mean=20).texts()} == {20}


@pytest.mark.parametrize(
    ("prompts", "inputs", "sent"),
    [
        (Prompts(1, 1), {"text_input"}, {"text_input"}),
        (
            Prompts(1, 1),
            {"text_input", "stream", "max_tokens", "bad_words"},
            {"text_input", "stream", "max_tokens"},
        ),
        (
            Prompts(1, 1, output_tokens=5),
            {"text_input", "sampling_parameters"},
            {"text_input", "sampling_parameters"},
        ),
        (
            Prompts(1, 1, output_tokens=5, backend="vllm"),
            {"text_input", "sampling_parameters", "max_tokens"},
            {"text_input", "sampling_parameters"},
        ),
        (Prompts(1, 1, backend="tensorrtllm"), {"text_input"}, None),
        (Prompts(1, 1), {"prompt"}, None),
    ],
)
def test_a_prompt_goes_into_the_inputs_that_the_model_has(prompts, inputs, sent):
    if sent is None:
        with pytest.raises(UsageError, match="'M' has no input"):
            prompts.steps("M", inputs)
    else:
        assert set(prompts.steps("M", inputs)[0]) == sent


def test_metrics_without_a_value_cause_a_warning(tmp_path):
    yaml = "objectives: [time_to_first_token_p99]\nconstraints: {output_token_throughput: {min: 5}}\n"
    found = job("-m", "r", "--profile-models", "W", yaml=yaml, tmp_path=tmp_path)
    assert sum("measured only with" in text for text in found.warnings) == 2
    llm = yaml + "model_type: LLM\ngenai_perf_flags: {streaming: false}\n"
    found = job("-m", "r", "--profile-models", "W", yaml=llm, tmp_path=tmp_path)
    assert sum("without streaming" in text for text in found.warnings) == 2


def test_a_repository_is_needed_except_for_a_remote_server():
    with pytest.raises(UsageError, match="--model-repository"):
        job("--profile-models", "W")
    assert job("--profile-models", "W", "--triton-launch-mode", "remote").settings.launch.repositories == ()


def test_server_settings_without_a_server_cause_a_warning():
    words = ("-m", "r", "--profile-models", "W", "--triton-launch-mode")
    given = (
        "--triton-output-path",
        "log",
        "--triton-server-path",
        "t",
        "--triton-install-path",
        "/opt/other",
    )
    found = job(*words, "c_api", *given, "--gpus", "0,1")
    assert [text.partition(" ")[0] for text in found.warnings] == [
        "--triton-server-path",
        "--triton-output-path",
    ]
    assert found.settings.launch.install_path == "/opt/other"
    assert found.settings.launch.environment == {"CUDA_VISIBLE_DEVICES": "0,1"}
    elsewhere = job(*words, "local", "--triton-install-path", "/opt/other")
    assert [text.partition(" ")[0] for text in elsewhere.warnings] == ["--triton-install-path"]


def test_server_flags_have_no_effect_without_a_server(tmp_path):
    yaml = """
triton_launch_mode: c_api
triton_server_flags: {log-verbose: 1}
profile_models: {W: {triton_server_flags: {http-port: 5}}}
"""
    found = job("-m", "r", yaml=yaml, tmp_path=tmp_path)
    assert [text.partition(" ")[0] for text in found.warnings] == [
        "triton_server_flags",
        "profile_models.W.triton_server_flags",
    ]
    assert found.settings.models[0].server_flags == ()


def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path):
    yaml = "client_protocol: http\nearly_exit_enable: true\nconcurrency: 1,2\nprofile_models: W\n"
    found = job("-m", "r", "-c", "4", yaml=yaml, tmp_path=tmp_path).settings
    assert found.models[0].loads == (4.0,)
    assert found.launch.control.protocol == "http"
    assert found.search.early_exit
    assert found.search.bounds.instances == (1, 5)


def test_a_range_needs_no_quotes(tmp_path):
    yaml = "perf_analyzer_flags: {concurrency-range: 1:4}\nprofile_models: W\nrequest_rate: null\n"
    assert job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models[0].loads == (1.0, 2.0, 3.0, 4.0)
    yaml = "concurrency: 2:8:2\nprofile_models: W\n"
    assert job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models[0].loads == (2.0, 4.0, 6.0, 8.0)


def test_no_option_of_profile_is_taken_for_one_of_another_tool():
    check_tool("profile", [option(name) for name, key in KEYS.items() if key.is_word])


def test_an_empty_file_sets_nothing(tmp_path):
    assert job("-m", "r", "--profile-models", "W", yaml="", tmp_path=tmp_path) == job(
        "-m", "r", "--profile-models", "W", "-f", str(tmp_path / "given.yaml")
    )


@pytest.mark.parametrize("empty", ["", "''", "[]", "{}"])
@pytest.mark.parametrize(
    "key",
    [
        *("concurrency", "request_rate", "constraints", "plots", "perf_analyzer_flags", "genai_perf_flags"),
        *("triton_server_flags", "triton_server_environment", "triton_docker_labels", "triton_docker_args"),
        *("triton_docker_mounts", "cpu_only_composing_models", "perf_output_path", "triton_output_path"),
    ],
)
def test_an_empty_value_is_none_where_none_is_the_default(tmp_path, key, empty):
    words = ("-m", "r", "--profile-models", "W")
    found = job(*words, yaml=f"{key}: {empty}\n", tmp_path=tmp_path)
    assert found.settings == job(*words, yaml="", tmp_path=tmp_path).settings


def test_a_switch_may_be_a_number(tmp_path):
    yaml = "early_exit_enable: 1\nperf_analyzer_flags: {streaming: 0, sync: 1}\nprofile_models: {W: {cpu_only: 1}}\n"
    found = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings
    options = found.models[0].options
    assert (found.search.early_exit, found.models[0].cpu_only) == (True, True)
    assert (options.streaming, options.synchronous, options.asynchronous) == (False, True, False)


def test_a_server_flag_without_a_value_is_left_out(tmp_path):
    yaml = "triton_server_flags: {log_verbose: null, log-info: true}\nprofile_models: W\n"
    launch = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.launch
    assert "log-info" in str(launch)
    assert "log-verbose" not in str(launch)


def test_every_key_can_be_set_in_the_file(tmp_path):
    """One file serves both commands."""
    yaml = "report_model_configs: a_config_0\noutput_formats: [csv]\nprofile_models: W\n"
    assert job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models[0].name == "W"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, (3,)),
        ("1, 2,4", (1, 2, 4)),
        ([1, 2], (1, 2)),
        ({"start": 2, "stop": 6, "step": 2}, (2, 4, 6)),
        ("2:4", (2, 3, 4)),
        ("2:9:3", (2, 5, 8)),
    ],
)
def test_lists_of_numbers_have_many_notations(value, found):
    assert ints("concurrency", value) == found


@pytest.mark.parametrize(
    "value",
    [0, -1, True, None, "", "a", [], [0], "1:2:3:4", {"start": 1}, {"start": 1, "stop": 2, "step": 0}, 1.5],
)
def test_other_lists_of_numbers_are_refused(value):
    with pytest.raises(UsageError, match="concurrency"):
        ints("concurrency", value)


def test_models_inherit_whole_keys_and_single_loads(tmp_path):
    yaml = """
concurrency: [1, 2]
batch_sizes: [4]
objectives: [perf_latency_p99]
constraints: {perf_throughput: {min: 5}}
latency_budget: 2.5
perf_analyzer_flags: {percentile: 95}
profile_models:
  - plain
  - own:
      parameters: {batch_sizes: [2]}
      objectives: {perf_throughput: 3, perf_latency_avg: 1}
      constraints: {perf_latency: {max: 7}}
      weighting: 4
      cpu_only: true
"""
    plain, own = job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models
    assert (plain.loads, plain.batches, plain.goal.weight) == ((1.0, 2.0), (4,), 1.0)
    assert plain.goal.objectives == (("perf_latency_p99", 10.0),)
    assert plain.goal.constraints == (
        Constraint("perf_throughput", low=5.0),
        Constraint("perf_latency_p99", high=2.5),
    )
    assert (own.loads, own.batches, own.goal.weight, own.cpu_only) == ((1.0, 2.0), (2,), 4.0, True)
    assert own.goal.objectives == (("perf_throughput", 3.0), ("perf_latency_avg", 1.0))
    assert own.goal.constraints == (Constraint("perf_latency_p99", high=2.5),)
    assert plain.options.percentile == 95


def test_a_models_own_rate_overrides_the_global_concurrency(tmp_path):
    yaml = "concurrency: [1]\nprofile_models: {m: {parameters: {request_rate: [5]}}}\n"
    found = job("-m", "r", yaml=yaml, tmp_path=tmp_path)
    assert found.settings.models[0].loads == (5.0,)
    assert found.settings.search.by_rate


def test_each_program_has_its_own_default_search_and_ports():
    words = ("-m", "r", "--profile-models", "W")
    classic, ours = job(*words).settings, job(*words, program=OURS).settings
    assert (classic.search.method, ours.search.method) == ("brute", "smart")
    assert classic.launch.ports == (8000, 8001, 8002)
    assert ours.launch.ports == (0, 0, 0)


def test_flags_reach_their_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "blue")
    yaml = """
perf_analyzer_flags: {shape: ["IN:1,2", "B:3"], ssl-grpc-use-ssl: true, concurrency-range: 7, batch-size: 2}
triton_server_flags: {log_verbose: 1, http-port: 5}
triton_server_environment: {COLOUR: $SECRET}
triton_docker_labels: {team: a}
triton_docker_args: {mem_limit: 2g, privileged: true, environment: {A: b}}
triton_docker_shm_size: 1G
gpus: [GPU-1, 2]
profile_models: W
"""
    found = job("-m", "r", yaml=yaml, tmp_path=tmp_path)
    model, launch = found.settings.models[0], found.settings.launch
    assert dict(model.options.data.shapes) == {"IN": (1, 2), "B": (3,)}
    assert (model.loads, model.batches, model.options.grpc_tls) == ((7.0,), (2,), True)
    assert launch.control.grpc_tls
    assert launch.flags == (("log-verbose", "1"), ("http-port", "5"))
    assert launch.environment == {"COLOUR": "blue", "CUDA_VISIBLE_DEVICES": "GPU-1,2"}
    assert launch.docker_words == (
        "--shm-size",
        "1G",
        "--label",
        "team=a",
        "--memory",
        "2g",
        "--privileged",
        "--env",
        "A=b",
    )
    assert any("http-port" in text for text in found.warnings)
    assert any("triton_docker_args" in text for text in found.warnings)


def test_flags_set_by_the_tuner_cause_a_warning(tmp_path):
    yaml = """
perf_analyzer_flags: {model-name: X, verbose: true, verbose-csv: true, latency-report-file: f, binary-search: true,
  latency-threshold: 5, bls-composing-models: A, percentile: null, metrics-interval: 250,
  metrics-url: "http://localhost:7/metrics", url: "localhost:6", concurrency-range: "2:6:2"}
profile_models: [W, N]
"""
    found = job("-m", "r", "-i", "2", yaml=yaml, tmp_path=tmp_path)
    options = found.settings.models[0].options
    assert (options.model, options.url, options.metrics_url) == (
        "W",
        "localhost:6",
        "http://localhost:7/metrics",
    )
    assert options.metrics_interval_ms == 250
    assert found.settings.models[0].loads == (2.0, 4.0, 6.0)
    cautioned = [text.partition(" ")[0] for text in found.warnings]
    assert sorted(cautioned) == [
        f"perf_analyzer_flags.{name}"
        for name in (
            "binary-search",
            "bls-composing-models",
            "latency-report-file",
            "latency-threshold",
            "model-name",
            "verbose",
            "verbose-csv",
        )
    ]


@pytest.mark.parametrize(("words", "timeout_s"), [((), 60.0), (("--perf-analyzer-timeout", "5"), 5.0)])
def test_requests_of_a_measurement_have_a_time_limit(words, timeout_s):
    found = job("-m", "r", "--profile-models", "W", *words)
    assert found.settings.models[0].options.request_timeout_s == timeout_s
    assert not found.warnings


@pytest.mark.parametrize(
    ("given", "loads"),
    [("10.5", (10.5,)), ('"2.5"', (2.5,)), ("40", (40.0,)), ("10:20:5", (10.0, 15.0, 20.0))],
)
def test_a_rate_among_the_flags_may_have_a_fraction(given, loads, tmp_path):
    yaml = f"perf_analyzer_flags: {{request-rate-range: {given}}}\nprofile_models: W\n"
    assert job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.models[0].loads == loads


def test_a_file_of_send_times_is_one_load(tmp_path):
    yaml = "perf_analyzer_flags: {request-intervals: times.txt}\nprofile_models: W\n"
    assert job("-m", "r", yaml=yaml, tmp_path=tmp_path).settings.search.intervals == "times.txt"


def test_values_may_be_quoted(tmp_path):
    yaml = """
objectives: {perf_throughput: "2", perf_latency_p99: 1e1}
constraints: {perf_latency_p99: {max: "3.5"}}
early_exit_enable: "True"
plots: [{a: {x_axis: perf_latency_p99, y_axis: perf_throughput}}, {b: {x_axis: batch_size, y_axis: perf_throughput}}]
profile_models: {W: {cpu_only: "false", model_config_parameters: {max_batch_size: ["4", 8],
  parameters: {threads: {string_value: [1, 2.5, x]}}}}}
"""
    found = job("-m", "r", yaml=yaml, tmp_path=tmp_path)
    model = found.settings.models[0]
    assert model.goal.objectives == (("perf_throughput", 2.0), ("perf_latency_p99", 10.0))
    assert (model.goal.constraints[0].high, model.cpu_only, found.settings.search.early_exit) == (
        3.5,
        False,
        True,
    )
    assert [plot.name for plot in found.config.plots] == ["a", "b"]
    space = manual("W", {"name": "W"}, model.swept, where=model.where, cpu_only=True)
    assert [row.choices for row in space.parameters] == [
        tuple({"threads": {"string_value": text}} for text in ("1", "2.5", "x")),
        (4, 8),
    ]


@pytest.mark.parametrize(
    ("given", "axis"),
    [
        ("concurrency-range", "concurrency"),
        ("request_rate_range", "request_rate"),
        ("batch-size", "batch_size"),
        ("perf_throughput", "perf_throughput"),
    ],
)
def test_a_plot_may_call_the_load_as_the_load_generator_does(tmp_path, given, axis):
    yaml = f"plots: {{p: {{x_axis: {given}, y_axis: perf_latency_p99}}}}\nprofile_models: W\n"
    (plot,) = job("-m", "r", yaml=yaml, tmp_path=tmp_path).config.plots
    assert (plot.x, plot.y) == (axis, "perf_latency_p99")


def test_an_old_name_is_accepted_with_a_warning(tmp_path):
    yaml = "objectives: [perf_latency]\nprofile_models: W\n"
    found = job("-m", "r", yaml=yaml, tmp_path=tmp_path)
    assert found.settings.models[0].goal.objectives == (("perf_latency_p99", 10.0),)
    assert found.warnings == ("perf_latency is deprecated: write perf_latency_p99",)


def test_long_options_may_be_shortened():
    config = read_command(["profile", "--latency", "3", "--profile-mod", "W"], CLASSIC)
    assert config.latency_budget == 3.0


def test_mode_precedes_the_command_and_the_repository_follows_it():
    config = read_command(["-m", "offline", "profile", "-m", "folder"], CLASSIC)
    assert (config.mode, str(config.model_repository)) == ("offline", "folder")
