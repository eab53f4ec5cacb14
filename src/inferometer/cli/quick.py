"""`inferometer quick`: find the inference servers of this machine, and measure each with a short sweep."""

import math
import sys
from typing import TYPE_CHECKING

from inferometer.base.errors import InferometerError, PeerError
from inferometer.base.text import printable, to_stderr
from inferometer.base.units import plain_number
from inferometer.options.command_line import Command, Request
from inferometer.options.machines import QuickOptions

if TYPE_CHECKING:
    from inferometer.measure.local_servers import FoundServer
    from inferometer.stats.measurement import Level
    from inferometer.stats.result import Result

COMMAND = Command(
    "inferometer quick",
    "[options]",
    "Look for inference servers on the ports of this machine, and measure each with a short sweep: one sentence and a "
    "curve per server.",
    QuickOptions,
    examples=(
        ("", "every server that is found, in about a minute"),
        ("--list", "only list them"),
    ),
    epilog="For a server with several models, the first one is measured. Servers that need a key or TLS are not found: "
    "name them with `inferometer measure`.",
)
MOST_LEVELS = 12  # of a sweep
SHORTEST_S = 1.0  # of a level
ANSWER_S = 20.0  # least time for the first level of each server, however short the requested time


def run(request: Request[QuickOptions]) -> int:
    from inferometer.measure.local_servers import find_servers, listening_ports

    ports = listening_ports()
    servers = find_servers(ports)
    if not servers:
        raise PeerError(
            f"no inference server answers on the {len(ports)} listening ports of this machine",
            remedy="give an address: inferometer measure localhost:8000 MODEL",
        )
    for server in servers:
        print(printable(_found_words(server)), flush=True)
    if request.own.list:
        return 0
    codes = [_measured(server, request.own.duration_s, len(servers)) for server in servers]
    return next((code for code in codes if code), 0)


def _found_words(server: "FoundServer") -> str:
    from inferometer.services.kind import KINDS

    options = server.options
    more = f" and {len(server.others)} more" if server.others else ""
    title = KINDS[options.service_kind].title
    return f"{server.url}: {title} over {options.protocol}, model '{options.model}'{more}"


def _api_words(server: "FoundServer") -> str:
    return f" --service-kind openai --endpoint {server.api}" if server.api else ""


def _measured(server: "FoundServer", duration_s: float, servers: int) -> int:
    """Sweep one of several servers within its part of the time; return the exit code."""
    from inferometer.cli.reporting import exit_code, progress_shown
    from inferometer.measure.checks import changed
    from inferometer.measure.prepare import STREAMING_HABITS, prepare
    from inferometer.measure.run import run as measure

    level_s = max(SHORTEST_S, duration_s / servers / MOST_LEVELS)
    options = changed(server.options, sweep=True, duration_s=level_s, time_limit_s=duration_s / servers)
    command = f"inferometer measure {server.url} {options.model}{_api_words(server)} --sweep"
    try:
        setup = prepare(options, command="measure", habits=STREAMING_HABITS)
        with progress_shown(is_quiet=not sys.stderr.isatty()) as progress:
            *_, result = setup.result, *measure(setup, progress, first_level_s=ANSWER_S)
            if progress.is_interrupted():
                raise KeyboardInterrupt
    except InferometerError as error:
        to_stderr(f"{COMMAND.program}: {server.url}: {error}")
        return error.exit_code
    print(
        printable("\n".join(["", *_lines(result, duration_s, servers), f"For the full report: {command}"])),
        flush=True,
    )
    return exit_code(result, options.max_error_rate)


def _lines(result: "Result", duration_s: float, servers: int) -> list[str]:
    """Return the summary of a sweep: a sentence, and the curve as one bar per level."""
    from inferometer.report.format import bar
    from inferometer.report.saved import document
    from inferometer.report.sentences import level_sentence

    levels = [level for level in result.levels if level.measurement is not None]
    most = max(map(_rate, levels), default=0.0) or 1.0
    if result.is_out_of_time and not result.failed_share and not any(map(_rate, levels)):
        spent_s = max(ANSWER_S, duration_s / servers)
        more_s = math.ceil(2 * spent_s * servers)
        return [
            f"No request was answered in the {plain_number(spent_s)} s for this server, which may be too "
            f"short if it is slow or the machine is busy: give it more time, such as {COMMAND.program} "
            f"--duration {more_s}s."
        ]
    shown = [(level_sentence(level, with_ok=False), bar(_rate(level) / most)) for level in levels]
    width = max((len(text) for text, _ in shown), default=0)
    return [document(result).verdict, *(f"  {text:<{width}}  {drawn}" for text, drawn in shown)]


def _rate(level: "Level") -> float:
    found = level.measurement
    if found is None:
        return 0.0
    return found.tokens.output_per_s if found.tokens is not None else found.infer_per_s.value
