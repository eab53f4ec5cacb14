import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.base.errors import UsageError
from inferometer.cli.measure import COMMAND, asked_load
from inferometer.dialects.perf_analyzer.options import COMMAND as CLASSIC_COMMAND
from inferometer.dialects.perf_analyzer.options import classic_usage, parse_classic
from inferometer.options.command_line import Ask, read
from inferometer.options.options import DataOptions, Options, Tls
from inferometer.options.values import Range

SECTION_1_AND_6_1 = """
-m -x --service-kind --endpoint --bls-composing-models --model-signature-name -v --version
--measurement-mode -p --measurement-interval --measurement-request-count -s --stability-percentage
-r --max-trials --percentile -l --latency-threshold --concurrency-range --request-rate-range
--request-distribution --request-intervals --periodic-concurrency-range --request-period
--request-count --warmup-request-count --binary-search --max-threads -a --async --sync --streaming
--num-of-sequences --sequence-length --sequence-length-variation --sequence-id-range
--serial-sequences -t -c -d -b --input-data --data-directory -z --shape --string-length
--string-data --shared-memory --output-shared-memory-size --input-tensor-format
--output-tensor-format -u -i -H --grpc-compression-algorithm --ssl-grpc-use-ssl
--ssl-grpc-root-certifications-file --ssl-grpc-private-key-file --ssl-grpc-certificate-chain-file
--ssl-https-verify-peer --ssl-https-verify-host --ssl-https-ca-certificates-file
--ssl-https-client-certificate-file --ssl-https-private-key-file --ssl-https-client-certificate-type
--ssl-https-private-key-type --request-parameter --triton-server-directory --model-repository -f
--verbose-csv --profile-export-file --collect-metrics --metrics-url --metrics-interval --trace-level
--trace-rate --trace-count --log-frequency --enable-mpi --fixed-schedule --session-concurrency
--grpc-method -h --help
"""
CONTRACT = SECTION_1_AND_6_1.split()
OURS = [
    *(
        "--duration",
        "--precision",
        "--seed",
        "--json",
        "--html",
        "--request-timeout",
        "--max-error-rate",
        "--workers",
    ),
    *(
        "--input",
        "--validate-tolerance",
        "--validate-sample",
        "-k",
        "--insecure",
        "--cacert",
        "--cert",
        "--key",
        "--server-name",
        "--connections",
        "--output-tokens",
        "--method",
        "--path",
        "--body",
        "--header",
        "--prompts",
        "--prompt-tokens",
        "--slo",
        "--management-url",
    ),
    *("--replay", "--speed", "--shape-load"),
    *("--proto", "--proto-path"),
    *("--ray", "--clients", "--client-resources"),
]
ROWS = [option for _, options in CLASSIC_COMMAND.groups for option in options]


def parse_measure(words: list[str]) -> Options | Ask:
    found = read(words, COMMAND)
    return found if isinstance(found, Ask) else asked_load(found)[0]


def parse(line: str) -> Options:
    options = parse_classic(shlex.split(line))
    assert isinstance(options, Options)
    return options


def measure(line: str) -> Options:
    options = parse_measure(shlex.split(line))
    assert isinstance(options, Options)
    return options


def refusal(line: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_classic(shlex.split(line))
    caught.value.use_classic_words()
    return str(caught.value)


def test_every_option_of_the_contract_and_ours_is_in_the_tables_and_no_other():
    assert sorted(name for option in ROWS for name in option.names) == sorted(CONTRACT + OURS)


def test_the_usage_of_the_script_mentions_every_option():
    words = set(classic_usage().replace(",", " ").split())
    assert [name for name in CONTRACT + OURS if name not in words] == []


def test_defaults_shown_are_the_defaults():
    parts: dict[str, Any] = {"": Options(model="m"), "data": DataOptions(), "tls": Tls()}
    for option in ROWS:
        part, _, name = option.field.rpartition(".")
        known = {field.name for field in fields(parts[part])}
        if name in known and option.default and option.values is not None:
            shown: Any = option.values.read(option.names[0], option.default)
            actual = getattr(parts[part], name)
            if actual is not None:  # None: decided by the run
                assert actual == ((shown,) if option.combine else shown), option.names


ACCEPTED = [
    # how options are written
    ("--concurrency 2", {"concurrency": Range(2)}),
    ("--measurement-interv 500", {"measurement_interval_ms": 500}),
    ("--measurement-interval=500", {"measurement_interval_ms": 500}),
    ("-p300 -s99", {"measurement_interval_ms": 300, "stability_percentage": 99.0}),
    ("-va", {"verbose": 1, "asynchronous": True}),
    ("-vp300", {"verbose": 1, "measurement_interval_ms": 300}),
    ("-v -v", {"verbose": 2}),
    ("-vv", {"verbose": 2}),
    ("-p 1 --measurement-interval 2", {"measurement_interval_ms": 2}),
    ("-i grpc -i HTTP", {"protocol": "http"}),
    ("--w 5", {"warmup_request_count": 5}),  # ours never make a classic prefix ambiguous
    ("--d DIR", {"data": DataOptions(sources=("DIR",))}),
    ("--string-data --sync", {"data": DataOptions(string_data="--sync")}),
    ("--", {}),
    # target
    ("-x 3 -u localhost:9000", {"version": "3", "url": "localhost:9000"}),
    ("-H A:1 -H 'b: x:y'", {"headers": (("A", "1"), ("b", " x:y"))}),
    ("--bls-composing-models 'a, b:2'", {"bls_composing_models": (("a", ""), ("b", "2"))}),
    (
        "--ssl-https-verify-peer 0 --ssl-https-verify-host 0",
        {"tls": Tls(verify_peer=False, verify_host=False)},
    ),
    ("--ssl-https-verify-host 1", {"tls": Tls()}),
    ("--service-kind triton", {"service_kind": "triton"}),
    # load
    ("--concurrency-range 1:5:2", {"concurrency": Range(1, 5, 2)}),
    ("--concurrency-range 4:4", {"concurrency": Range(4, 4)}),
    ("--concurrency-range 8:4", {"concurrency": Range(8, 4)}),
    ("--concurrency-range 1:0 -l 1000", {"concurrency": Range(1, 0), "latency_limit_ms": 1000}),
    ("-t5", {"concurrency": Range(5)}),
    ("-t 2 -c 4 -d", {"concurrency": Range(2, 4)}),
    ("-d -l 10", {"concurrency": Range(1, 0), "latency_limit_ms": 10}),
    ("-c 4", {}),  # only together with -d
    ("--request-count 4 --concurrency-range 4", {"request_count": 4, "concurrency": Range(4)}),
    ("--request-timeout 500ms --workers 2", {"request_timeout_s": 0.5, "workers": 2}),
    ("--workers auto", {"workers": "auto"}),
    (f"--replay {sys.executable} --speed 2.5x", {"replay": sys.executable, "speed": 2.5}),
    ("--shape-load 'ramp 1..9 over 5s'", {"shape_load": "ramp 1..9 over 5s"}),
    (
        f"--fixed-schedule --input-data {sys.executable}",
        {"fixed_schedule": True, "data": DataOptions(sources=(sys.executable,))},
    ),
    # measure
    ("--percentile -1", {"percentile": None}),
    ("--percentile=95", {"percentile": 95}),
    ("--stability-percentage 0.5", {"stability_percentage": 0.5}),
    ("--measurement-mode count_windows", {"measurement_mode": "count_windows"}),
    ("--duration 90s", {"duration_s": 90.0}),
    ("--duration 2m --precision 5%", {"duration_s": 120.0, "precision": 0.05}),
    ("--precision 0.05", {"duration_s": 10.0, "precision": 0.05}),
    ("--max-error-rate 1%", {"max_error_rate": 0.01}),
    # data
    ("-b4 --input-data zero", {"batch": 4, "data": DataOptions(sources=("zero",))}),
    ("-z", {"data": DataOptions(sources=("zero",))}),
    ("--input-data random --data-directory d", {"data": DataOptions(sources=("d",))}),
    ("--shape a:b:1,2 --shape c:3", {"data": DataOptions(shapes={"a:b": (1, 2), "c": (3,)})}),
    ("--string-length 5 --seed 7", {"data": DataOptions(string_length=5, seed=7)}),
    ("--shared-memory none --input-tensor-format BINARY", {}),
    (
        "--shared-memory system --output-shared-memory-size 0",
        {"shared_memory": "system", "output_shared_memory_size": 0},
    ),
    (
        "--input-tensor-format JSON --output-tensor-format json",
        {"input_format": "json", "output_format": "json"},
    ),
    # report
    ("-f r.csv --verbose-csv --json r.json", {"csv": "r.csv", "verbose_csv": True, "json": "r.json"}),
    ("--html r.html", {"html": "r.html"}),
]


@pytest.mark.parametrize(("line", "changes"), ACCEPTED)
def test_accepted(line: str, changes: dict[str, Any]):
    assert parse(f"-m m {line}") == Options(model="m", **changes)


def test_files_that_exist_are_accepted(tmp_path):
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    one.touch()
    two.touch()
    options = parse(f"-m m --input-data {one} --input-data {two} --ssl-https-ca-certificates-file {one}")
    assert options.data.sources == (str(one), str(two))
    assert options.tls.ca_file == str(one)


REFUSED = [
    # contract 7.1
    ("", "Failed to parse -m (model name). The value must be specified."),
    ("-m ''", "Failed to parse -m (model name). The value must be specified."),
    ("-m m --trace-file x", "Invalid long option '--trace-file'"),
    ("-m m -b 0", "-b (batch size). The value must be > 0"),
    ("-m m --percentile 100", "in range (0, 100), but is 100"),
    ("-m m --percentile 0", "in range (0, 100)"),
    ("-m m --percentile 101", "in range (0, 100)"),
    ("-m m --percentile abc", "Failed to parse --percentile. Invalid value provided: abc"),
    ("-m m --shape INPUT0", "There must be a colon after input name"),
    ("-m m --shape INPUT0:0", "The dimensions of input tensor must be > 0"),
    ("-m m --shape INPUT0:a", "Failed to parse --shape. Invalid value provided: INPUT0:a"),
    ("-m m --shape INPUT0:", "Failed to parse --shape. Invalid value provided: INPUT0:"),
    ("-m m --concurrency-range 1:2:3:4", "does not match <start:end:step>"),
    ("-m m --concurrency-range 1:0", "cannot both be 0"),
    ("-m m --concurrency-range 1 --request-rate-range 1", "Cannot specify more then one inference load mode"),
    ("-m m --streaming", "Streaming is only allowed with gRPC protocol and Triton C API."),
    ("-m m --async --sync", "Cannot specify --async and --sync simultaneously."),
    (
        "-m m --grpc-compression-algorithm gzip",
        "Using compression algorithm is only allowed with gRPC protocol.",
    ),
    (
        "-m m --binary-search --concurrency-range 1:4",
        "The --latency-threshold cannot be 0 for binary search mode.",
    ),
    ("-m m --request-count 1 --concurrency-range 2", "request-count can not be less than concurrency"),
    (
        "-m m --request-count 10 --concurrency-range 2:4",
        "request-count not supported with multiple concurrency",
    ),
    ("-m m --metrics-interval 100", "Must specify --collect-metrics"),
    # words
    ("-m m -q", "Invalid short option '-q'"),
    ("-m m -vq", "Invalid short option '-q'"),
    ("-m m --measurement 5", "Ambiguous option '--measurement'"),
    ("-m m --concurency-range 5", "did you mean --concurrency-range?"),
    ("-m m -p", "Missing value for option '-p'"),
    ("-m m --percentile", "Missing value for option '--percentile'"),
    ("-m m --sync=1", "--sync takes no value"),
    ("-m m simple", "Unexpected argument 'simple'"),
    ("-m m -- -v", "Unexpected argument '-v'"),
    ("-m m -", "Unexpected argument '-'"),
    # numbers
    ("-m m -p 300abc", "Failed to parse -p. Invalid value provided: 300abc"),
    (
        "-m m --measurement-interv 300.9",
        "Failed to parse --measurement-interval. Invalid value provided: 300.9",
    ),
    ("-m m -p 2147483648", "Failed to parse -p. Invalid value provided: 2147483648"),
    (f"-m m -p {'9' * 5000}", "Failed to parse -p. Invalid value provided: 999"),
    ("-m m -p ''", "Failed to parse -p. Invalid value provided: "),
    ("-m m -p -5", "Failed to parse -p. The value must be > 0"),
    ("-m m -s nan", "Failed to parse -s. Invalid value provided: nan"),
    ("-m m -s 1e999", "Failed to parse -s. Invalid value provided: 1e999"),
    ("-m m -s -1", "Failed to parse -s. The value must be >= 0"),
    ("-m m -r 0", "Failed to parse -r. The value must be > 0"),
    ("-m m -l -1", "Failed to parse -l. The value must be >= 0"),
    ("-m m -t 0", "Failed to parse -t (concurrency). The value must be > 0"),
    ("-m m --max-threads 0", "The value must be > 0"),
    ("-m m --request-count -1", "The value must be >= 0"),
    ("-m m --string-length 0", "The value must be > 0"),
    ("-m m --workers 0", "Failed to parse --workers. The value must be > 0"),
    ("-m m --trace-count -2", "The value must be >= -1"),
    ("-m m --concurrency-range 0", "The start of the range must be > 0"),
    ("-m m --concurrency-range -1:2", "The start of the range must be > 0"),
    ("-m m --concurrency-range 1:-2", "The end of the range must be >= 0"),
    ("-m m --concurrency-range 1:4:0", "The step of the range must be > 0"),
    ("-m m --concurrency-range 1::2", "Failed to parse --concurrency-range. Invalid value provided: 1::2"),
    ("-m m --concurrency-range 1.5", "Invalid value provided: 1.5"),
    ("-m m --workers many", "Failed to parse --workers. Invalid value provided: many"),
    ("-m m --speed 0", "--speed needs a factor above 0, but got '0'"),
    ("-m m --speed fast", "Failed to parse --speed. Invalid value provided: fast"),
    ("-m m --speed 2", "--speed is for a trace"),
    ("-m m --replay no.jsonl", "--replay. The path 'no.jsonl' is not an existing file"),
    ("-m m --shape-load 'ramp 1..9'", "piece 1 of --shape-load is 'ramp 1..9', which is not a ramp"),
    ("-m m --shape-load 'hold 1 for 5s' --request-rate-range 5", "more then one inference load mode"),
    ("-m m --shape-load 'hold 1 for 5s' --request-count 5", "request-count not supported with --shape-load"),
    (f"-m m --replay {sys.executable} --request-count 5", "request-count not supported with --replay"),
    ("-m m --fixed-schedule", "--fixed-schedule takes its times from a data file"),
    (f"-m m --fixed-schedule --input-data {sys.executable} -b 2", "Batching is not supported"),
    (f"-m m --fixed-schedule --input-data {sys.executable} --request-count 2", "with --fixed-schedule"),
    ("-m m --periodic-concurrency-range 1:2 --request-period 0", "The value must be > 0"),
    ("-m m --periodic-concurrency-range 1:2", "requires bi-directional gRPC streaming"),
    ("-m m --periodic-concurrency-range 1:2 --streaming -i grpc", "Must provide --profile-export-file"),
    ("-m m --periodic-concurrency-range 1:2 --concurrency-range 2", "more then one inference load mode"),
    ("-m m --request-rate-range 0", "The start of the range must be > 0"),
    ("-m m --periodic-concurrency-range 1", "Both start and end"),
    ("-m m --periodic-concurrency-range 4:1", "The start must not be above the end"),
    ("-m m --periodic-concurrency-range 1:4:2", "multiple of the step"),
    ("-m m --sequence-id-range 5:4", "The end must not be below the start"),
    ("-m m --sequence-id-range -1", "Invalid value provided: -1"),
    ("-m m --sequence-id-range 1:2:3", "Invalid value provided: 1:2:3"),
    # our units
    ("-m m --duration soon", "--duration needs a duration, but got 'soon'"),
    ("-m m --duration 0", "--duration needs a duration above 0"),
    (f"-m m --duration {'9' * 400}", "Failed to parse --duration"),
    ("-m m --precision 0", "--precision needs a share above 0"),
    ("-m m --max-error-rate 200%", "--max-error-rate needs a share from 0 to 1"),
    # choices
    (
        "-m m --request-rate-range 5 --request-distribution gamma",
        "Failed to parse --request-distribution. Unsupported type provided: 'gamma'",
    ),
    ("-m m --burstiness 2", "--burstiness"),
    ("-m m -i tcp", "Failed to parse -i. Unsupported type provided: 'tcp'"),
    ("-m m --measurement-mode Time_Windows", "Unsupported type provided: 'Time_Windows'"),
    ("-m m --service-kind TRITON", "Failed to parse --service-kind. Unsupported type provided: 'TRITON'"),
    ("-m m --ssl-https-verify-peer 2", "the available options are '0' or '1'"),
    ("-m m --ssl-https-private-key-type pem", "'PEM' or 'DER'"),
    # files and names
    ("-m m --input-data nowhere", "Failed to parse --input-data. Unsupported type provided: 'nowhere'"),
    (f"-m m --input-data {'x' * 5000}", "Failed to parse --input-data. Unsupported type provided"),
    ("-m m --ssl-https-ca-certificates-file no.pem", "--ssl-https-ca-certificates-file. The path 'no.pem'"),
    ("-m m --ssl-grpc-private-key-file no.pem", "--ssl-grpc-private-key-file. The path 'no.pem'"),
    ("-m m --request-intervals no.txt", "--request-intervals. The path 'no.txt'"),
    ("-m m --bls-composing-models a,,b", "Failed to parse --bls-composing-models. Invalid value"),
    ("-m m --bls-composing-models a:1:2", "Failed to parse --bls-composing-models. Invalid value"),
    ("-m m --request-parameter a:b", "does not match <name:value:type>"),
    ("-m m -f ''", "Failed to parse -f. The path is empty"),
]


@pytest.mark.parametrize(("line", "sentence"), REFUSED)
def test_refused(line: str, sentence: str):
    assert sentence in refusal(line)


def test_export_file_must_be_new(tmp_path):
    old = tmp_path / "old.json"
    old.touch()
    assert f"--profile-export-file {old}. Path must not already exist." in refusal(
        f"-m m --profile-export-file {old}"
    )


SEVERAL_RANKS = "--enable-mpi runs a single rank, but mpiexec started 2"


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])
def test_several_ranks_of_mpi_are_refused(monkeypatch, name):
    monkeypatch.setenv(name, "2")
    assert SEVERAL_RANKS in refusal("-m m --enable-mpi")


@pytest.mark.parametrize("size", [None, "1", "many"])
def test_a_single_rank_of_mpi_is_a_run_like_any_other(monkeypatch, size):
    if size is not None:
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", size)
    assert parse_classic(["-m", "m", "--enable-mpi"]) == parse_classic(["-m", "m"])


@pytest.mark.parametrize(
    "line",
    [
        "-H hunter2",
        "-H 'Bearer hunter2'",
        "-H ':hunter2'",
        "-H 'my secret:hunter2'",
        "-H 'Authorization:hunter2\n'",
        "-H Authorization: hunter2",
        "-H Authorization: Bearer hunter2",
        "-HAuthorization:hunter2 -b 0",
        "-Hhunter2",
    ],
)
def test_no_message_shows_a_secret(line: str):
    assert "hunter2" not in refusal(f"-m m {line}")


def test_no_repr_shows_a_secret():
    assert "hunter2" not in repr(parse("-m m -H Authorization:hunter2"))


@pytest.mark.parametrize(
    ("line", "ask"),
    [
        ("--help", Ask.HELP),
        ("-h", Ask.HELP),
        ("-?", Ask.HELP),
        ("-vh", Ask.HELP),
        ("-m m --hel", Ask.HELP),
        ("--version", Ask.VERSION),
        ("--version -b 0", Ask.VERSION),  # takes effect immediately
    ],
)
def test_help_and_version_are_recognized(line: str, ask: Ask):
    assert parse_classic(line.split()) is ask
    assert parse_measure(line.split()) is ask


def test_a_mistake_before_version_is_reported_first():
    assert "batch size" in refusal("-b 0 --version")


@pytest.mark.parametrize(
    ("line", "duration_s"),
    [
        ("", 10.0),
        ("-l 5 --percentile 95", 10.0),
        ("--duration 3s -p 100", 3.0),
        ("-p 100", None),
        ("-s 5", None),
        ("--max-trials 5", None),
        ("--measurement-mode count_windows", None),
        ("--measurement-request-count 9", None),
        ("--request-count 9", None),
        ("-s 5 --precision 5%", 10.0),
    ],
)
def test_measure_stops_by_precision_unless_asked_in_the_classic_way(line: str, duration_s: float | None):
    assert measure(f"-m m {line}").duration_s == duration_s


def test_only_measure_times_requests_out_by_default():
    assert measure("-m m").request_timeout_s == 60
    assert measure("-m m --request-timeout 0").request_timeout_s == 0
    assert parse("-m m").request_timeout_s == 0


@given(st.lists(st.one_of(st.sampled_from(CONTRACT + OURS), st.text(max_size=6)), max_size=6))
def test_any_words_give_options_or_a_usage_error(words: list[str]):
    with suppress(UsageError):
        parse_classic(words)


def test_the_parser_imports_nothing_heavy():
    code = (
        "import sys, inferometer.dialects.perf_analyzer.options as u; u.classic_usage();"
        "print([m for m in ('numpy', 'rich', 'pydantic', 'ssl', 'argparse') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_help_of_measure_imports_little():
    heavy = ("numpy", "rich", "pydantic", "ssl", "hashlib", "logging", "json", "subprocess", "tempfile")
    ours = (
        *("measure.checks", "services.kind", "report.progress", "options.config_file"),
        *("options.comparing", "options.diagnosing", "options.machines", "options.stored", "options.tuning"),
    )
    code = (
        "import sys, inferometer.cli.main as m; m.main(['measure', '--help']);"
        f"sys.exit(str([m for m in {(*heavy, *(f'inferometer.{name}' for name in ours))} if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Usage: inferometer measure")
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(("words", "url"), [("", "localhost:8000"), ("-u there:8080", "there:8080")])
def test_the_script_uses_the_classic_port_for_torchserve(words: str, url: str) -> None:
    line = f"-m resnet --service-kind torchserve --input-data {__file__} {words}"
    assert parse(line).url == url
    asked = parse_measure(shlex.split(f"-m resnet --service-kind torchserve --input-data {__file__}"))
    assert isinstance(asked, Options)
    assert not asked.url  # defaults to its own port, 8080


def test_only_the_classic_script_keeps_spaces_around_a_header_value():
    """It sends them over gRPC, although HTTP/2 forbids them."""
    line = "-m m -H 'a: b ' -H c:d"
    assert parse(line).headers == (("a", " b "), ("c", "d"))
    assert measure(line).headers == (("a", "b"), ("c", "d"))
