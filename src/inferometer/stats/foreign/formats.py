"""The table of foreign formats. The command line, the documentation and the tests read it."""

from collections.abc import Callable, Iterator
from typing import Any

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.text import decode_json
from inferometer.stats.foreign import aiperf, guidellm, llm_d, mlperf, vllm
from inferometer.stats.foreign.part import Part
from inferometer.stats.result import Result


@frozen
class DocumentFormat:
    """A format that is one JSON or YAML object."""

    tool: str
    file: str  # name that the tool gives it
    is_one: Callable[[dict[str, Any]], bool]
    read: Callable[[Part], Result]


@frozen
class TextFormat:
    """A format in lines of text."""

    tool: str
    file: str
    is_one: Callable[[str], bool]
    read: Callable[[str, str], Result]  # of the text and the name of the file


def _is_lines(text: str) -> bool:
    """Return whether the first line is a request of aiperf."""
    first = text.lstrip().partition("\n")[0]
    if not first.startswith("{"):
        return False
    try:
        found = decode_json(first)
    except ValueError:
        return False
    return isinstance(found, dict) and aiperf.is_line(found)


def _read_lines(text: str, origin: str) -> Result:
    return aiperf.read_lines(_lines(text, origin))


def _lines(text: str, origin: str) -> Iterator[Part]:
    start, number = 0, 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, start, number = text[start:end], end + 1, number + 1
        if not line.strip():
            continue
        try:
            found = decode_json(line)
        except ValueError as error:
            raise UsageError(
                f"'{origin}' is not a valid result of {aiperf.TOOL}: line {number} is not JSON: {error}",
                remedy=f"use the file as {aiperf.TOOL} wrote it",
            ) from error
        if not isinstance(found, dict):
            raise Part({}, origin, aiperf.TOOL).error(f"line {number}", "is not an object")
        yield Part(found, origin, aiperf.TOOL, f"line {number}:")


DOCUMENTS = (
    DocumentFormat(aiperf.TOOL, "profile_export_aiperf.json", aiperf.is_summary, aiperf.read_summary),
    DocumentFormat(guidellm.TOOL, "benchmarks.json", guidellm.is_one, guidellm.read),
    DocumentFormat(vllm.TITLE, "openai-infqps-concurrency4-model.json", vllm.is_one, vllm.read),
    DocumentFormat(llm_d.TOOL, "benchmark_report_v0.2.yaml", llm_d.is_one, llm_d.read),
)
TEXTS = (
    TextFormat(aiperf.TOOL, "profile_export.jsonl", _is_lines, _read_lines),
    TextFormat(mlperf.TITLE, "mlperf_log_summary.txt", mlperf.is_one, mlperf.read),
)
TOOLS = tuple(dict.fromkeys(row.tool for row in (*DOCUMENTS, *TEXTS)))
