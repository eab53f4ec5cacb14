"""Options of a measurement: the one table shared by command lines, the Python API and results.

Each field is an option: its name and type in Python, its default, its command-line spelling, its help and its values.
Fields of a group are adjacent; the first one carries the group's title in the help.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from inferometer.base.frozen import frozen
from inferometer.base.slo import Slo
from inferometer.options.checking import answer_check, check_function
from inferometer.options.lengths import lengths
from inferometer.options.option import (
    Groups,
    Option,
    appended,
    counted,
    modern,
    named,
    only_ours,
    option,
    ours,
    part,
    rows,
)
from inferometer.options.reach import Reach
from inferometer.options.values import (
    Range,
    above_zero,
    api_or_path,
    body,
    choice,
    cluster,
    data_source,
    decimal,
    drawn_time,
    duration,
    existing_file,
    existing_path,
    header,
    identifiers,
    label,
    levels,
    members,
    named_source,
    new_file,
    objective,
    output_file,
    parameter,
    percentile,
    picture_size,
    ramp,
    resources,
    server_url,
    shape,
    share,
    span,
    switch,
    template,
    text,
    tolerance,
    whole,
    workers,
)

SERVICE_KINDS = ("triton", "triton_c_api", "tfserving", "torchserve", "openai", "dynamic_grpc", "http")
"""All service kinds, in display order; `services.kind.KINDS` defines each."""

BALANCES = ("round-robin", "least-outstanding", "session-affinity")
"""Ways to spread requests over several addresses; `load.balance` defines each."""

ENDPOINTS = (
    *("chat", "completions", "responses", "embeddings", "rerank", "transcriptions", "anthropic"),
    *("ollama", "ollama-generate", "ollama-embed", "tgi", "triton-generate"),
    *("tei-embed", "tei-rerank", "cohere-embed", "cohere-rerank"),
)
"""Named endpoints of text servers; `services.apis` defines each."""

AUTO = "auto"
"""Detect the service kind by probing the address."""

REQUEST_TIMEOUT_S = 60.0  # for our own commands and the API; the classic tool never times out
DURATION_S = 10.0  # at most, to measure one level precisely


@frozen
class Tls:
    """TLS certificates and verification. The defaults verify against the system's certificate authorities."""

    verify_peer: bool = option(
        "--ssl-https-verify-peer",
        "Whether to verify the server's certificate: 0 or 1.",
        switch("NUMBER", "0", on=("1",)),
        default=True,
        reach=Reach.WEAKENS_TLS,
        shown="1",
        own="",
    )
    verify_host: bool = option(
        "--ssl-https-verify-host",
        "Whether the certificate must be for this host: 0 (no), 1 or 2 (yes).",
        switch("NUMBER", "0", on=("1", "2")),
        default=True,
        reach=Reach.WEAKENS_TLS,
        shown="2",
        own="",
    )
    ca_file: str | None = option(
        "--ssl-https-ca-certificates-file",
        "Authorities to trust instead of the system's.",
        existing_file,
        own="--tls-ca",
        own_help="CA certificates to trust instead of the system's.",
        also=(
            Option(
                ("--ssl-grpc-root-certifications-file",), "Authorities to trust, PEM.", existing_file, own=()
            ),
            Option(("--cacert",), "Authorities to trust, PEM.", existing_file, own=(), is_ours=True),
        ),
    )
    certificate_file: str | None = option(
        "--ssl-https-client-certificate-file",
        "Our own certificate.",
        existing_file,
        own="--tls-cert",
        own_help="Client certificate.",
        also=(
            Option(
                ("--ssl-grpc-certificate-chain-file",), "Our own certificate, PEM.", existing_file, own=()
            ),
            Option(("--cert",), "Our own certificate, PEM.", existing_file, own=(), is_ours=True),
        ),
    )
    key_file: str | None = option(
        "--ssl-https-private-key-file",
        "The key of our certificate.",
        existing_file,
        own="--tls-key",
        own_help="Private key of the client certificate.",
        also=(
            Option(
                ("--ssl-grpc-private-key-file",), "The key of our certificate, PEM.", existing_file, own=()
            ),
            Option(("--key",), "The key of our certificate, PEM.", existing_file, own=(), is_ours=True),
        ),
    )
    certificate_type: str = option(
        "--ssl-https-client-certificate-type",
        "Format of our certificate: PEM or DER.",
        choice("TYPE", "PEM", "DER"),
        default="PEM",
        own="--tls-cert-type",
        own_help="Format of the client certificate: PEM or DER (default PEM).",
    )
    key_type: str = option(
        "--ssl-https-private-key-type",
        "Format of the key: PEM or DER.",
        choice("TYPE", "PEM", "DER"),
        default="PEM",
        own="--tls-key-type",
    )
    server_name: str | None = ours(
        "--server-name",
        "Host name to expect in the server's certificate, if it differs from the address.",
        text("NAME", Reach.WEAKENS_TLS),
        own="--tls-server-name",
    )


@frozen
class DataOptions:
    """Input data of the requests.

    `sources` holds "random", "zero", the paths of JSON files, or the path of a directory.
    """

    sources: tuple[str, ...] = option(
        "--input-data",
        "What to send: random, zero, a JSON file of requests, or a directory with a file for each input. "
        "JSON files may be given several times. A number that does not fit the datatype of its input, such as 256 for "
        "UINT8, is refused: the classic tool sends it truncated.",
        data_source,
        default=("random",),
        shown="random",
        combine=appended,
        own="--data",
        is_main=True,
        also=(
            Option(
                ("--data-directory",),
                "Directory of data; use --input-data.",
                text("DIR", Reach.READS_FILES),
                instead="give the folder with {--data}",
                combine=appended,
                is_deprecated=True,
            ),
            Option(
                ("-z",),
                "Send zeros; use --input-data zero.",
                instead="write {--data:zero} for zeros, or {-d} 10s for a duration",
                value="zero",
                combine=appended,
                is_deprecated=True,
            ),
        ),
    )
    files: tuple[tuple[str, str], ...] = ours(  # (input, `@` and a path or pattern, or the values themselves)
        "--input",
        "Data for one input: NAME=@photo.jpg, NAME=@'photos/*.jpg' (one request per file), or NAME=value,value. "
        ".npy, .npz, .wav and .txt files (one request per line) are decoded, others sent as they are. May be given "
        "several times.",
        named_source,
        combine=appended,
        is_main=True,
    )
    shapes: Mapping[str, tuple[int, ...]] = option(
        "--shape",
        "Shape of an input with variable size, as name:d1,d2. May be given several times.",
        shape,
        combine=named,
        is_main=True,
    )
    string_length: int = option("--string-length", "Length of random strings.", whole(least=1), default=128)
    string_data: str | None = option(
        "--string-data", "Send this string in every element of BYTES inputs.", label("STRING")
    )
    seed: int = ours(
        "--seed",
        "Seed of the random values; the same seed sends the same bytes.",
        whole("NUMBER", least=0),
        default=0,
    )
    pool: int = 8  # distinct random requests
    prompts: str | None = ours(
        "--prompts",
        "Prompts to send with --service-kind openai: a file with one per line, JSON lines with "
        '"prompt", "messages" or "body" (OpenAI batch files), ShareGPT JSON, CSV or Parquet.',
        existing_file,
    )
    prompt_column: str | None = only_ours(
        "--prompt-column",
        "Column or field that holds the prompts in the --prompts or --data file, if not named prompt.",
        label("NAME"),
    )
    prompt_tokens: int | str | None = ours(
        "--prompt-tokens",
        "Length in tokens of the prompts generated for --service-kind openai: a number, 'normal(512, 128)' or "
        "'lognormal(512, 128)' (mean and standard deviation of the lengths), 'uniform(100, 200)', a weighted list "
        "'128:60, 2048:40', a weighted list of prompt/answer pairs '128/128:60, 2048/256:40', or @FILE with a "
        "number or a pair per line. Without --tokenizer, a token is a common word.",
        lengths(pairs=True),
        shown="100",
    )
    tokenizer: str | None = only_ours(
        "--tokenizer",
        "Tokenizer of the model, for prompts with an exact number of tokens: a local tokenizer.json or its folder. "
        "Tokens that the server adds, such as those of a chat template, are not counted.",
        existing_path,
    )
    prefix_tokens: int | None = only_ours(
        "--prefix-tokens",
        "Start every generated prompt with a shared prefix of this many tokens, like a system prompt; --prompt-tokens "
        "follow it.",
        whole(least=1),
    )
    prefix_pool: int | None = only_ours(
        "--prefix-pool",
        "Number of different shared prefixes; each prompt starts with one of them.",
        whole(least=1),
        shown="1",
    )
    prefix_zipf: float | None = only_ours(
        "--prefix-zipf",
        "Skew of the prefixes' popularity: the n-th is used in proportion to 1/n^S.",
        decimal("S", least=0),
        shown="0, uniform",
    )
    unique_prompts: bool = only_ours(
        "--unique-prompts",
        "Start every request with unique words, so that no prefix cache can match it. Generated prompts are unique "
        "anyway after their shared prefix; with this option, prompts from files become unique too, at the cost of a "
        "few extra tokens.",
    )
    repeat_prompts: bool = only_ours(
        "--repeat-prompts",
        "Send the same generated prompts repeatedly, so that a prefix cache can match them.",
    )


@frozen
class Options:
    """Options of a measurement. The defaults are the classic tool's; `None` means not given.

    `given` lists the fields that the user set, prefixed with "data." or "tls." if they belong to a part; the rules
    about combinations use it. Options without effect are refused unless `is_lenient`, as in the classic
    scripts. `measure.checks.make` and `changed` make options whose values and combinations are checked.
    """

    model: str = option(
        "-m",
        "Name of the model to measure.",
        label("NAME"),
        own_help="Model to measure; the second word on the command line.",
        default="",
        group="Model and server",
        own="-m --model",
        is_main=True,
    )
    version: str = option(
        "-x",
        "Version of the model. Without it the server takes the latest.",
        label("VERSION"),
        default="",
        own="-x --model-version",
    )
    url: str | None = option(
        "-u",
        "Address of the server: host:port, or https://host:port with TLS.",
        server_url(),
        shown="localhost:8000",
        own="-u --url",
        is_main=True,
    )
    balance: str | None = only_ours(
        "--balance",
        "With several addresses, as in -u a:8000,b:8000: send each request to the next address (round-robin), to the "
        "one with the fewest requests in flight (least-outstanding), or all requests of a user, session or sequence to "
        "the same one (session-affinity). Default: round-robin, and session-affinity for sequences.",
        choice("POLICY", *BALANCES),
    )
    protocol: str = option(
        "-i",
        "Protocol: http or grpc, in any case.",
        choice("PROTOCOL", "http", "grpc", any_case=True),
        default="http",
        own="-i --protocol",
        also=(Option((), "Use gRPC.", own=("--grpc",), value="grpc", is_ours=True, is_main=True),),
    )
    service_kind: str = option(
        "--service-kind",
        f"Kind of server: {', '.join(SERVICE_KINDS)}. Any KServe v2 server is of kind triton.",
        choice("KIND", *SERVICE_KINDS, unsaid=(AUTO,)),
        default="triton",
        own="--service-kind",
        own_help=f"Kind of server: {', '.join(SERVICE_KINDS)}. Any KServe v2 server is of kind triton. By default the "
        "server is probed to detect its kind.",
    )
    bls_composing_models: tuple[tuple[str, str], ...] = option(  # (name, version)
        "--bls-composing-models",
        "Models a BLS model may call: name[:version], separated by commas.",
        members,
        default=(),
    )
    headers: tuple[tuple[str, str], ...] = option(
        "-H",
        "Header for every request, as Name:Value. May be given several times.",
        header,
        combine=appended,
        is_secret=True,
        own="-H --header",
        is_main=True,
        also=(
            Option(
                ("--header",),
                "The same as -H.",
                header,
                own=(),
                combine=appended,
                is_secret=True,
                is_ours=True,
            ),
        ),
    )
    api_key_env: str | None = only_ours(
        "--api-key-env",
        "Environment variable that holds the API key, which is sent as a bearer token.",
        text("NAME", Reach.SENDS_SECRETS),
    )
    api_key_file: str | None = only_ours(
        "--api-key-file",
        "File that holds the API key, which is sent as a bearer token.",
        existing_file,
        reach=Reach.READS_FILES | Reach.SENDS_SECRETS,
    )
    request_parameters: tuple[tuple[str, str, str], ...] = option(  # (name, value, bool | int | string)
        "--request-parameter",
        "Parameter of every gRPC request, as name:value:type with type bool, int or string. "
        "May be given several times.",
        parameter,
        combine=appended,
    )
    tls: Tls = part(
        Tls,
        also=(
            Option(
                ("-k", "--insecure"),
                "Do not verify the server's certificate.",
                own=("-k", "--tls-insecure"),
                field="insecure",
                reach=Reach.WEAKENS_TLS,
                is_ours=True,
            ),
        ),
    )
    grpc_compression: str = option(
        "--grpc-compression-algorithm",
        "Compression of gRPC requests: none, gzip or deflate.",
        choice("ALGORITHM", "none", "gzip", "deflate"),
        default="none",
    )
    grpc_tls: bool = option(
        "--ssl-grpc-use-ssl", "Speak TLS to the gRPC server.", own="--tls", own_help="Use TLS for gRPC."
    )
    validate_tolerance: tuple[float, float] = ours(  # absolute and relative
        "--validate-tolerance",
        "Tolerance for floats compared with the validation data: absolute[,relative].",
        tolerance,
        default=(0.0, 0.0),
        shown="0,0",
    )
    validate_sample: float = ours(
        "--validate-sample",
        "Share of the replies to compare with the validation data, such as 10%.",
        share(zero=False),
        default=1.0,
        shown="100%",
    )
    check: tuple[str, ...] = only_ours(
        "--check",
        "Check a sample of the answers, and report the share of wrong ones: exact (as the data expects), exact:TEXT, "
        "choice:A|B, regex:PATTERN, schema:FILE (a JSON Schema) or reference:FILE (similar to the answers in an "
        "export of requests). May be given several times; a right answer passes all.",
        answer_check,
        default=(),
        combine=appended,
    )
    check_python: str | None = only_ours(
        "--check-python",
        "Check a sample of the answers with a Python function, which gets the answer and the body of the request. It "
        "returns True or None if the answer is right, otherwise False or a description of the error.",
        check_function,
    )
    check_sample: float = only_ours(
        "--check-sample",
        "Share of the answers to check, drawn at random before requests are sent, such as 5%.",
        share(zero=False),
        default=0.01,
        shown="1%",
    )
    check_similarity: float = only_ours(
        "--check-similarity",
        "Minimum similarity to the answers of --check reference:FILE: for texts, the share of common words in order; "
        "for floats, the cosine similarity; for other values, the share of equal elements.",
        share(zero=False),
        default=0.9,
        shown="90%",
    )
    connections: int | None = ours(
        "--connections",
        "Number of connections shared by the requests of a gRPC run (default: one per four requests).",
        whole(least=1),
    )
    grpc_method: str = ours(
        "--grpc-method",
        "Method to call with --service-kind dynamic_grpc: package.Service/Method.",
        text("METHOD", Reach.CHOOSES_CALLS),
        default="",
    )
    proto: str | None = ours(
        "--proto",
        "File that describes the method of --grpc-method: .proto, or a compiled descriptor set (.pb). "
        "Without it, server reflection is used.",
        existing_file,
    )
    proto_paths: tuple[str, ...] = ours(
        "--proto-path",
        "Folder to search for the imports of --proto, before the file's own folder. May be given several times.",
        text("DIR", Reach.READS_FILES),
        combine=appended,
    )
    endpoint: str = option(
        "--endpoint",
        "Path appended to the address with --service-kind openai (inferometer: v1/chat/completions).",
        api_or_path(*ENDPOINTS),
        default="",
        own="--endpoint",
        own_help=f"API of a text server: {', '.join(ENDPOINTS)}, or a path (default chat).",
    )
    body_template: str | None = only_ours(
        "--body-template",
        "Body of each request to an API without a name for --endpoint: JSON, or a file that contains it, with "
        '"{{prompt}}" or "{{messages}}", and optionally "{{model}}", "{{max_tokens}}" and "{{stream}}" as values.',
        template,
    )
    reply_paths: tuple[str, ...] = only_ours(
        "--reply-path",
        "Where a part of the reply to --body-template is: NAME=PATH with the name text, reasoning, tool, tokens, "
        "prompt_tokens, reasoning_tokens, cached_tokens, end or error, and a path such as choices.0.text. May be given "
        "several times.",
        label("NAME=PATH"),
        combine=appended,
    )
    output_tokens: int | str | None = ours(
        "--output-tokens",
        "Maximum tokens per answer in the requests generated for --service-kind openai: a number, or a distribution, "
        "list or file as for --prompt-tokens, but without pairs.",
        lengths(pairs=False),
    )
    images: tuple[tuple[int, int], ...] = only_ours(  # (width, height)
        "--image",
        "Add an image of this size to every chat prompt, a different one each time. May be given several times. To "
        "send a file, name it in the prompt: @photo.jpg.",
        picture_size,
        combine=appended,
    )
    audio_s: float | None = only_ours(
        "--audio",
        "Add a sound of this length, such as 5s, to every chat prompt, a different one each time. To send a file, name "
        "it in the prompt: @speech.wav.",
        duration(zero=False),
    )
    method: str | None = ours(
        "--method",
        "Method of the request with --service-kind http (default: POST with a body, GET without).",
        text("METHOD", Reach.CHOOSES_CALLS),
    )
    path: str = ours(
        "--path",
        "Path of the request with --service-kind http, appended to the address.",
        text("PATH", Reach.CHOOSES_CALLS),
        default="",
    )
    bodies: tuple[str, ...] = ours(
        "--body",
        "Body of the request with --service-kind http or torchserve, or its message as JSON with dynamic_grpc: text, "
        "or @FILE. If given several times, the requests take turns. With openai, a field to set in every body, also in "
        "given payloads: key=value, where the value is JSON or text; outer.inner=value sets a nested field.",
        body,
        combine=appended,
    )
    signature: str = option(
        "--model-signature-name",
        "Signature to call with --service-kind tfserving.",
        label("NAME"),
        default="serving_default",
    )
    management_url: str | None = ours(
        "--management-url",
        "Address of TorchServe's management API (default: the port after the one of -u).",
        server_url(),
    )
    triton_directory: str | None = option(
        "--triton-server-directory",
        "Triton's installation, for --service-kind triton_c_api.",
        text("DIR", Reach.RUNS_CODE),
        shown="/opt/tritonserver",
    )
    model_repository: str | None = option(
        "--model-repository", "Models to load with --service-kind triton_c_api.", text("DIR", Reach.RUNS_CODE)
    )

    concurrency: Range | None = option(
        "--concurrency-range",
        "Requests in flight, as start[:end[:step]]. An end of 0 is open and needs --latency-threshold.",
        span(),
        group="Load",
        shown="1:1:1",
        own="-c --concurrency",
        own_values=levels(),
        own_help="Requests in flight: 4, or levels such as 1,2,4,8 or 1:16 or 1:16:4 or 1:64:x2.",
        is_main=True,
    )
    sweep: bool = only_ours(
        "--sweep",
        "Raise the load from one request at a time to saturation, in about ten levels.",
        is_main=True,
    )
    request_rate: Range | None = option(
        "--request-rate-range",
        "Requests per second, as start[:end[:step]].",
        span(decimals=True),
        own="-r --rate",
        own_values=levels(decimals=True),
        own_help="Requests per second, each sent when due however many are outstanding; levels as with -c.",
        is_main=True,
    )
    request_distribution: str = option(
        "--request-distribution",
        "Gaps between requests at a rate: constant or poisson.",
        choice("NAME", "constant", "poisson"),
        default="constant",
        own="--arrivals",
        own_values=choice("NAME", "constant", "poisson", "gamma", "weibull"),
        own_help="Gaps between requests at a rate: constant, or random: poisson, gamma or weibull, the last two with "
        "--burstiness (default constant).",
    )
    burstiness: float = only_ours(
        "--burstiness",
        "Shape of gamma or Weibull gaps: 1 is Poisson, less is burstier, more is more regular, as in vllm bench serve.",
        decimal("SHAPE", least=0.01, most=1_000_000),
        default=1.0,
    )
    request_intervals: str | None = option(
        "--request-intervals", "File of gaps between requests in microseconds, one per line.", existing_file
    )
    periodic_concurrency: Range | None = option(
        "--periodic-concurrency-range", "Ramp of streaming requests, as start:end[:step].", ramp
    )
    request_period: int = option(
        "--request-period",
        "Responses of a request before the next step of the ramp.",
        whole(least=1),
        default=10,
    )
    fixed_schedule: bool = ours(
        "--fixed-schedule",
        "Send each step of the data file at its own timestamp, in milliseconds after the start.",
    )
    replay: str | None = ours(
        "--replay",
        "Trace to replay: one JSON object per line with a timestamp (milliseconds) or timestamp_s (seconds).",
        existing_file,
    )
    speed: float = ours(
        "--speed",
        "Replay speed: 2 takes half the time.",
        above_zero("FACTOR", "factor", "write it like 2 or 0.5", suffix="x"),
        default=1.0,
    )
    shape_load: str | None = ours(
        "--shape-load",
        "Rate over time, such as 'ramp 10..500 over 60s then hold 500 for 2m'; see docs/load.md.",
        label("SHAPE"),
    )
    session_concurrency: int | None = ours(
        "--session-concurrency",
        "Chat sessions in parallel with --service-kind openai; each session of the file runs once, its turns in order.",
        whole(least=1),
    )
    request_count: int = option(
        "--request-count",
        "Send exactly this many requests and stop; 0 is no limit.",
        whole(least=0),
        default=0,
        own="-n --requests",
        own_help="Send exactly this many requests and stop; 0 means no limit (default 0).",
        is_main=True,
    )
    warmup_request_count: int = option(
        "--warmup-request-count",
        "Requests sent and finished before measuring.",
        whole(least=0),
        default=0,
        own="--warmup-requests",
    )
    warmup_s: float = only_ours(
        "--warmup",
        "Load each level for this time before measuring, such as 10s.",
        duration(zero=False),
        default=0.0,
        shown="",
        is_main=True,
    )
    ramp_s: float | None = only_ours(
        "--ramp",
        "Time over which the users of -c start one after the other, such as 5s; 0 starts all at once. By default, if "
        "answers take more than 250 ms, users start over about the time of one answer to avoid running in lockstep.",
        duration(zero=True),
    )
    think_time: str | None = only_ours(
        "--think-time",
        "Time that each user of -c pauses between an answer and the next request: such as 2s, uniform(1s, 3s), "
        "exponential(2s) or lognormal(2s, 0.5).",
        drawn_time,
    )
    before_level: tuple[str, ...] = only_ours(
        "--before-level",
        "Shell command to run before each level and its warm-up, or a call to vLLM or SGLang: reset-prefix-cache, "
        "start-profile, stop-profile; or prime-prefixes, which sends each prefix of --prefix-tokens once. The run ends "
        "if it fails. May be given several times.",
        text("COMMAND|CALL", Reach.RUNS_CODE | Reach.CHANGES_SERVER),
        default=(),
        combine=appended,
    )
    after_level: tuple[str, ...] = only_ours(
        "--after-level",
        "Shell command to run after each level, or a call to vLLM or SGLang, as with --before-level. The run ends if "
        "it fails. May be given several times.",
        text("COMMAND|CALL", Reach.RUNS_CODE | Reach.CHANGES_SERVER),
        default=(),
        combine=appended,
    )
    before_level_timeout_s: float = only_ours(
        "--before-level-timeout",
        "Time that each action of --before-level or --after-level may take, such as 30s.",
        duration(zero=False),
        default=300.0,
        shown="5m",
    )
    time_limit_s: float | None = only_ours(
        "--time-limit",
        "Stop after this time, such as 5m, with the levels measured so far.",
        duration(zero=False),
    )
    request_timeout_s: float = ours(
        "--request-timeout",
        "Time a request may take before it counts as failed, such as 500ms or 60s; 0 means no limit. The run is "
        "aborted if nothing is answered for 60s, or for this time if it is longer.",
        duration(zero=True),
        default=0.0,
        shown="",
        own="--timeout",
        own_help="Time a request may take before it counts as failed, such as 500ms (default 60s); 0 means no limit. "
        "The run is aborted if nothing is answered for 60s, or for this time if it is longer.",
        is_main=True,
    )
    cancel_after_s: float | None = only_ours(
        "--cancel-after",
        "Cancel requests this long after they were sent, such as 2s, like users who give up. Cancelled requests are "
        "counted separately and excluded from all other figures.",
        duration(zero=False),
    )
    cancel_share: float | None = only_ours(
        "--cancel-share",
        "Share of the requests that --cancel-after applies to, drawn with --seed (default: all).",
        share(zero=False),
    )
    max_outstanding: int | None = only_ours(
        "--max-outstanding",
        "At a rate, send no more while this many requests are outstanding; the rest wait, and their wait counts.",
        whole(least=1),
    )
    workers: int | Literal["auto"] = ours(
        "--workers",
        "Processes that generate the load; auto adds more when one cannot keep up.",
        workers,
        default=1,
    )
    ray: str | None = ours(
        "--ray",
        "Send the load from clients on a Ray cluster that act as one: auto (the cluster of this machine), host:port, "
        "ray://host:port, or local, which starts a cluster here and stops it at the end.",
        cluster,
    )
    clients: int | None = ours(
        "--clients",
        "Number of clients with --ray, each with --workers processes. Ray spreads them over its nodes (default: one "
        "per node, two with local).",
        whole(least=1),
    )
    client_resources: Mapping[str, float] | None = ours(
        "--client-resources",
        "Resources that Ray reserves for each client: CPU=2, or '{\"client\": 1}' for nodes that have such a resource.",
        resources,
        shown="CPU=1",
    )
    max_threads: int | None = option(
        "--max-threads",
        "Threads of the classic tool: the end of an open range without --async, the most streams (by rate 4).",
        whole(least=1),
        shown="16",
        instead="{--max-outstanding} limits the requests outstanding at a rate; other loads need no limit",
    )
    asynchronous: bool = option("-a --async", "Use asynchronous calls: each request carries an id.")
    synchronous: bool = option(
        "--sync",
        "Use synchronous calls, also where asynchronous ones are the default.",
        instead="leave it out; {--max-outstanding} limits the requests outstanding at a rate",
    )
    streaming: bool = option(
        "--streaming",
        "Send requests on bidirectional gRPC streams that stay open. Needed for decoupled models.",
    )
    no_streaming: bool = only_ours(
        "--no-streaming",
        "Request whole answers from a text server. By default, `measure` streams them.",
    )
    sequences: int = option(
        "--num-of-sequences",
        "Live sequences when loading by rate.",
        whole(least=1),
        default=4,
        own="--num-of-sequences",
        own_help="Number of concurrent sequences at a rate (default 4).",
    )
    sequence_length: int | None = option("--sequence-length", "Requests in a sequence.", whole(), shown="20")
    sequence_length_variation: float = option(
        "--sequence-length-variation",
        "Spread around the sequence length, in percent.",
        decimal("PERCENT", least=0),
        default=20.0,
    )
    sequence_ids: tuple[int, int | None] | None = option(  # first and, not included, last
        "--sequence-id-range",
        "Ids of sequences, as start[:end]. The script perf_analyzer starts at 1, inferometer at a random one.",
        identifiers,
    )
    serial_sequences: bool = option(
        "--serial-sequences",
        "At most one live request per sequence when loading by rate.",
        own="--serial-sequences",
        own_help="Allow at most one request in flight per sequence at a rate.",
        also=(
            Option(
                ("--enable-mpi",),
                "Run under MPI, as its only rank; several models, one per rank, are not supported.",
                instead="for load from several machines use {--ray} and {--clients}; for several models their "
                "weights: {-m} a:3 {-m} b:1",
                field="mpi",
            ),
            Option(
                ("-t",),
                "First concurrency; use --concurrency-range.",
                whole(least=1, noun="concurrency"),
                instead="write the levels with {-c}, such as {-c} 1:8, and a number of threads with {--workers}",
                field="old_start",
                is_deprecated=True,
            ),
            Option(
                ("-c",),
                "Last concurrency, only together with -d; use --concurrency-range.",
                whole(least=0, noun="maximum concurrency"),
                instead="write the levels with {-c}, such as {-c} 1:8",
                field="old_end",
                is_deprecated=True,
            ),
            Option(
                ("-d",),
                "Sweep from -t to -c; use --concurrency-range.",
                instead="write the levels with {-c}, such as {-c} 1:8",
                field="old_sweep",
                is_deprecated=True,
            ),
        ),
    )

    measurement_mode: str = option(
        "--measurement-mode",
        "What ends a window: time_windows or count_windows.",
        choice("MODE", "time_windows", "count_windows"),
        default="time_windows",
        group="Measurement",
    )
    measurement_interval_ms: int = option(
        "-p --measurement-interval",
        "Length of a time window in milliseconds.",
        whole("MSEC", least=1),
        default=5000,
    )
    measurement_request_count: int = option(
        "--measurement-request-count", "Requests in a count window.", whole(least=1), default=50
    )
    stability_percentage: float = option(
        "-s --stability-percentage",
        "Spread of the last three windows that counts as stable, in percent.",
        decimal("PERCENT", least=0),
        default=10.0,
    )
    max_trials: int = option(
        "-r --max-trials",
        "Most windows per level.",
        whole(least=1),
        default=10,
        own="--max-trials",
        own_help="Maximum number of windows per level (default 10).",
    )
    percentile: int | None = option(
        "--percentile",
        "Judge by this percentile of the latency, 1 to 99, instead of the mean (-1).",
        percentile,
        shown="-1",
    )
    latency_limit_ms: int = option(
        "-l --latency-threshold",
        "Stop raising the load when a level's latency reaches this many milliseconds; 0 is no limit.",
        whole("MSEC", least=0),
        default=0,
        own="-l --latency-threshold",
        own_help="Stop raising the load when a level's latency reaches this many milliseconds; 0 means no limit "
        "(default 0).",
    )
    duration_s: float | None = ours(  # given: stop by precision or time instead of the classic stability rule
        "--duration",
        "Measure each level until it is precise or this time has passed, such as 90s or 2m, "
        "instead of judging windows.",
        duration(zero=False),
        own="-d --duration",
        own_help="Measure each level until it is precise, for at most this time, such as 30s (default 10s).",
        is_main=True,
    )
    precision: float = ours(
        "--precision",
        "Target precision: half width of the 95 % confidence interval, relative to the value.",
        share(zero=False),
        default=0.02,
        shown="2%",
    )
    slo: Slo | None = ours(
        "--slo",
        "SLO for each request, such as 'latency<2s, ttft<200ms, tpot<20ms'; the share and the rate of requests that "
        "meet it are reported as goodput.",
        objective(),
        own="--slo",
        own_help="SLO that every level must meet, such as 'p99<50ms, errors<0.1%, throughput>100'. If one violates it, "
        "the exit code is 4. latency, ttft, tpot and gap without a percentile are means. Requests that meet all time "
        "limits count as goodput, whose share can be limited too: 'latency<2s, ttft<200ms, goodput>95%'.",
        is_main=True,
    )
    max_error_rate: float = ours(
        "--max-error-rate",
        "Acceptable share of failed requests, such as 1% or 0.01.",
        share(zero=True),
        default=0.0,
    )
    binary_search: bool = option(
        "--binary-search", "Search the range by halving it instead of stepping through."
    )

    batch: int | None = option(
        "-b",
        "Items per request.",
        whole(least=1, noun="batch size"),
        group="Input data",
        shown="1",
        own="-b --batch",
        is_main=True,
    )
    data: DataOptions = part(DataOptions)
    shared_memory: str = option(
        "--shared-memory",
        "Pass tensors in memory shared with the server: none, system or cuda.",
        choice("KIND", "none", "system", "cuda"),
        default="none",
    )
    output_shared_memory_size: int = option(
        "--output-shared-memory-size",
        "Bytes for an output of unknown size in shared memory.",
        whole("BYTES", least=0),
        default=102400,
    )
    input_format: str = option(
        "--input-tensor-format",
        "How HTTP requests carry tensors: binary or json, in any case.",
        choice("FORMAT", "binary", "json", any_case=True),
        default="binary",
    )
    output_format: str = option(
        "--output-tensor-format",
        "How HTTP replies carry tensors: binary or json, in any case.",
        choice("FORMAT", "binary", "json", any_case=True),
        default="binary",
    )

    csv: str | None = option(
        "-f",
        "Write the CSV report to this file.",
        output_file,
        group="Output",
        own="-f --csv",
        own_help="Write a CSV table to this file; - means standard output, here and below.",
        is_main=True,
    )
    verbose_csv: bool = option("--verbose-csv", "Write more columns to the CSV report.")
    json: str | None = ours(
        "--json", "Write the full result to this file, as JSON.", output_file, is_main=True
    )
    html: str | None = ours(
        "--html", "Write a self-contained HTML report to this file.", output_file, is_main=True
    )
    markdown: str | None = only_ours("--markdown", "Write the report to this file, as Markdown.", output_file)
    junit: str | None = only_ours(
        "--junit", "Write test cases for CI to this file, as JUnit XML.", output_file
    )
    quiet: bool = only_ours("-q --quiet", "Print one sentence only, or the output to -.", is_main=True)
    verbose: int = option(
        "-v",
        "Say more; twice for every message.",
        combine=counted,
        own="-v --verbose",
        own_help="Print more messages; give it twice for all of them.",
    )
    profile_export: str | None = option(
        "--profile-export-file",
        "Write every request to this file, which must not exist yet: JSON, or Parquet if its name ends so.",
        new_file,
        own="--export",
        own_help="Write every request to this file, which must not exist yet: JSON, or Parquet if its name ends in "
        ".parquet.",
    )
    collect_metrics: bool = option("--collect-metrics", "Collect the server's Prometheus metrics.")
    metrics_url: str | None = option(
        "--metrics-url",
        "Where the metrics are.",
        server_url(),
        shown="port 8002 of a Triton, /metrics of an LLM server",
        own="--metrics-url",
        own_help="Address of the metrics (default: port 8002 of a Triton server, /metrics of an LLM server).",
    )
    metrics_interval_ms: int = option(
        "--metrics-interval",
        "Milliseconds between two looks at the metrics.",
        whole("MSEC", least=1),
        default=1000,
        own="--metrics-interval",
        own_help="Milliseconds between two reads of the metrics (default 1000).",
    )
    trace_level: str | None = option(
        "--trace-level",
        "What the server traces: OFF, TIMESTAMPS or TENSORS.",
        choice("LEVEL", "OFF", "TIMESTAMPS", "TENSORS"),
        reach=Reach.CHANGES_SERVER,
    )
    trace_rate: str | None = option(
        "--trace-rate",
        "The server traces one of so many requests.",
        text("RATE", Reach.CHANGES_SERVER),
        own="--trace-rate",
        own_help="Have the server trace one request out of this many.",
    )
    trace_count: int | None = option(
        "--trace-count",
        "Most traces; -1 is no limit.",
        whole(least=-1),
        reach=Reach.CHANGES_SERVER,
        own="--trace-count",
        own_help="Maximum number of traces; -1 means no limit.",
    )
    log_frequency: int | None = option(
        "--log-frequency",
        "Traces per file of the server's trace log; 0 is one file.",
        whole(least=0),
        reach=Reach.CHANGES_SERVER,
    )

    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    is_lenient: bool = field(default=False, repr=False, compare=False)  # accept options without effect
    is_dry: bool = field(default=False, repr=False, compare=False)  # send no inference

    @property
    def has_checks(self) -> bool:
        """Whether a sample of the answers is checked."""
        return bool(self.check) or self.check_python is not None

    @property
    def has_ids(self) -> bool | None:
        """Whether requests carry ids, as asynchronous ones do; None (the default) if only those of sequences do."""
        return True if self.asynchronous else False if self.synchronous else None

    @property
    def compression(self) -> str | None:
        return None if self.grpc_compression == "none" else self.grpc_compression


OPTIONS: Groups = rows(Options)
MODERN = modern(OPTIONS)
"""The options of our own commands; `classic` makes those of the script perf_analyzer."""
PARTS: Mapping[str, type] = {"data": DataOptions, "tls": Tls}


def value_of(options: Options, name: str) -> Any:
    """Return the value of a field; names of a part's fields start with "data." or "tls."."""
    first, dot, rest = name.partition(".")
    found = getattr(options, first)
    return getattr(found, rest) if dot else found
