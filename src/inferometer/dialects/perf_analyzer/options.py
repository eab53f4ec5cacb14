"""Options of the script `perf_analyzer`: parsing, refused combinations, and the usage text."""

import os
import textwrap
from collections.abc import Sequence

from inferometer.base.errors import UsageError
from inferometer.measure.checks import KindRules, make
from inferometer.options.command_line import Ask, Command, read
from inferometer.options.option import Given, Option, Rule, classic, is_async, is_grpc, names_data
from inferometer.options.options import OPTIONS, Options
from inferometer.services.kind import KINDS

COMMAND: Command[None] = Command(
    "perf_analyzer", "-m NAME [options]", "", shared=classic(OPTIONS), takes_last=True
)
_URL = "localhost:8000"  # for every kind over HTTP, although TorchServe listens on 8080
_INDENT = " " * 8
_WIDTH = 100


def _is_without_data(given: Given) -> bool:
    return not names_data(given) and "data.prompts" not in given and "data.prompt_tokens" not in given


_no_grpc, _no_batches, *_ = KINDS["openai"].rules
_only_grpc, _no_method, *_others = KINDS["dynamic_grpc"].rules
_no_metrics = Rule(
    lambda given: "collect_metrics" in given,
    "The --collect-metrics option is only supported with Triton client backend.",
)
_KIND_RULES: KindRules = {
    "tfserving": (
        Rule(lambda given: not is_grpc(given), "tfserving supports only grpc. Use -i grpc."),
        *KINDS["tfserving"].rules,
        Rule(is_async, "tfserving does not support the async API."),
    ),
    "torchserve": (
        Rule(
            lambda given: not names_data(given),
            "torchserve needs an input data file. Give one with --input-data.",
        ),
        *KINDS["torchserve"].rules,
        _no_metrics,
    ),
    "openai": (
        _no_metrics,
        Rule(
            lambda given: "streaming" in given,
            "Streaming is only allowed with gRPC protocol and Triton C API.",
        ),
        _no_grpc,
        Rule(_is_without_data, "Must supply --input-data FILE with --service-kind openai."),
        Rule(
            lambda given: not given.get("endpoint"),
            "Must supply --endpoint with --service-kind openai.",
        ),
        Rule(
            lambda given: not is_async(given),
            "Only async calls are supported with --service-kind openai. Use --async.",
        ),
        _no_batches,
    ),
    "dynamic_grpc": (
        _only_grpc,
        _no_method,
        Rule(
            lambda given: "asynchronous" in given,
            "Only sync calls are supported with --service-kind dynamic_grpc. Leave out --async.",
        ),
        *_others,
    ),
}
"""Rules of service kinds for which the classic tool is stricter than our commands."""


def _count_of_one(field: str) -> tuple[Rule, Rule]:
    """Return rules for a request count: only for a single level, and not below it."""
    name = field.replace("_", "-")

    def counts(given: Given) -> int:
        return int(given.get("request_count", 0)) if field in given else 0

    return (
        Rule(
            lambda given: 0 < counts(given) < int(given[field].start),
            f"request-count can not be less than {name}",
        ),
        Rule(
            lambda given: counts(given) > 0 and given[field].start < (given[field].end or 0),
            f"request-count not supported with multiple {name} values in one run",
        ),
    )


_COUNT_RULES = (*_count_of_one("concurrency"), *_count_of_one("request_rate"))


_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Environment variables in which Open MPI and MPICH tell a process the number of ranks."""


def _refuse_several_ranks() -> None:
    """Raise if mpiexec started several ranks, which would each run without waiting for the others."""
    ranks = next((size for name in _RANKS if (size := os.environ.get(name, "")).isdecimal()), "1")
    if int(ranks) > 1:
        raise UsageError(
            f"--enable-mpi runs a single rank, but mpiexec started {ranks}, which would not wait for each other. For "
            "load from several machines use --ray and --clients; for several models inferometer measure -m a:3 -m b:1."
        )


def parse_classic(argv: Sequence[str]) -> Options | Ask:
    """Parse the command line of the script."""
    request = read(argv, COMMAND)
    if isinstance(request, Ask):
        return request
    given = request.load
    for rule in _COUNT_RULES:
        if given.get("model") and rule.is_broken(given):
            raise UsageError(rule.message)
    if "mpi" in given:
        _refuse_several_ranks()
    defaults = {"url": _URL} if given.get("service_kind") == "torchserve" else {}
    return make(given, defaults=defaults, kind_rules=_KIND_RULES, is_lenient=True)


def most_outstanding(options: Options) -> int | None:
    """Return the limit of outstanding requests at a rate: synchronous callers wait for their answers."""
    from inferometer.measure.points import RATE_THREADS, load_mode

    if options.asynchronous:
        return None
    if load_mode(options) in ("replay", "shape_load") and not options.synchronous:
        return options.max_threads  # not in the classic tool, so its default of four callers does not apply
    return options.max_threads or RATE_THREADS


def classic_usage() -> str:
    """Return the usage text with all options."""
    blocks = [f"Usage: {COMMAND.program} {COMMAND.usage}\n"]
    for title, options in COMMAND.groups:
        blocks.append(f"{title}:\n" + "\n".join(_entry(option) for option in options) + "\n")
    return "\n".join(blocks)


def _entry(option: Option) -> str:
    names = ", ".join(option.names)
    head = f"  {names} {option.metavar}".rstrip()
    lines = textwrap.wrap(option.text, width=_WIDTH - len(_INDENT), break_on_hyphens=False)
    return "\n".join([head, *(_INDENT + line for line in lines)])
