"""`python -m benchmarks.side_by_side`: our perf_analyzer and the real one, on the same server, figure by figure.

Ten models, two protocols, three loads. The question is whether figures with the same name mean the same, not which
tool is faster, so each model is slowed down by PLANTED_S, compared with which the clients cost little. In each cell
both tools run in turns, and the medians of every figure that both print (and every column of both CSV files) are
compared. A figure **agrees** if the medians are close, or if the ranges over the rounds overlap; it is **explained** if
it is one of RULINGS; otherwise it **differs**, and the command exits with 1. For our tool alone, client and server must
have counted the same requests, except for those in flight when the counters were read.
"""

import argparse
import contextlib
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.bar import BenchError
from benchmarks.children import ROOT, end_group
from benchmarks.classic_output import csv_figures, duration_s, printed_figures
from benchmarks.parts import real_perf_analyzer

# Time of a call for the counters. A request that ends during the call may or may not be counted; with a server that
# keeps both cores busy, half of the calls take 1.5 ms, and one in ten 6 ms.
READING_S = 0.003
FIXTURE_MODELS = ROOT / "tests" / "live" / "models"
RATE = 30  # requests per second
DEADLINE_S = 60
PLANTED_S = 0.01
PLANT = f"""

def _slowly(execute):
    import time

    def wait_and_execute(self, requests):
        time.sleep({PLANTED_S})
        return execute(self, requests)

    return wait_and_execute


TritonPythonModel.execute = _slowly(TritonPythonModel.execute)
"""
CLOSE = 0.20  # medians this close, as a share of the larger, agree
CLOSE_US = 1500.0  # and times this close
CLOSE_PER_S = 3.0  # and rates
WIDE = 5.0  # factor for tails and spreads, which depend on the noise of the machine

VERDICTS = ("agrees", "explained", "differs")
REPEATED = '{"data": [{"IN": [1, 2, 3], "DELAY": [2, 2, 2], "WAIT": [4]}]}'
REPEAT_SHAPES = ("--shape", "IN:3", "--shape", "DELAY:3")


@dataclass(frozen=True, slots=True)
class Model:
    """A model to measure, with its options."""

    title: str
    name: str
    words: tuple[str, ...] = ()
    batch: int = 1
    data: str = ""  # content of an --input-data file
    only_grpc: tuple[str, ...] | None = None  # required options; HTTP is rejected


MODELS = (
    Model("plain", "nobatch"),
    Model("batching", "addsub", ("-b", "4"), batch=4),
    Model("ensemble", "ens"),
    Model("BLS", "bls", ("--bls-composing-models", "addsub")),
    Model("sequence", "accumulator"),
    Model("decoupled", "repeat", REPEAT_SHAPES, data=REPEATED, only_grpc=("--streaming",)),
    Model("strings", "str"),
    Model("variable shape", "varint", ("--shape", "INPUT0:4,4")),
    Model("cached", "cached", ("--input-data", "zero")),
    Model("failing", "fail"),
)
CALLED = {"addsub", "addsub_b"}  # called by the ensemble and the BLS model
LOADS = {
    "concurrency 1": ("--concurrency-range", "1"),
    "concurrency 4": ("--concurrency-range", "4"),
    f"rate {RATE}": ("--request-rate-range", str(RATE)),
}
PROTOCOLS = ("http", "grpc")


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the table: a model under a load over a protocol."""

    model: Model
    protocol: str
    load: str

    def __str__(self) -> str:
        return f"{self.model.title}, {self.protocol}, {self.load}"

    @property
    def is_by_rate(self) -> bool:
        return self.load.startswith("rate")


@dataclass(frozen=True, slots=True)
class Ruling:
    """A figure that differs on purpose."""

    figure: str  # pattern of its full name
    reason: str
    holds: Callable[[Cell], bool] = lambda cell: True


RULINGS = (
    Ruling(
        r"Client: Avg (HTTP|gRPC) time, (send/recv|\(un\)marshal request/response)|CSV: Client (Send|Recv)",
        "ours is encoding and the send call alone; theirs also copies the tensors into the request",
    ),
    Ruling(
        r"Client: (Avg latency.*|p\d+ latency)|CSV: (p\d+ latency|Avg latency|.*Send/Recv)",
        "by rate ours counts from the time a request was due",
        lambda cell: cell.is_by_rate,
    ),
    Ruling(
        r"Server: Avg request latency, (overhead|queue|compute)",
        "our members are weighted by their calls, and the model's own computation is not overhead",
        lambda cell: cell.model.title in ("BLS", "ensemble"),
    ),
    Ruling(
        r"CSV: (Network\+Server Send/Recv|Server (Queue|Compute \w+))",
        "theirs is the model's own share; ours includes its members",
        lambda cell: cell.model.title in ("BLS", "ensemble"),
    ),
    Ruling(
        r"Server addsub\w*: Avg request latency(, queue)?",
        "requests queue at one of the two members at random",
        lambda cell: cell.model.title == "ensemble" and cell.load == "concurrency 4",
    ),
    Ruling(
        r"(Client|Server): .* count per second|Client: .*|CSV: .*",
        "nothing is planted into the cache: the client that costs less gets more answers",
        lambda cell: cell.model.title == "cached" and not cell.is_by_rate,
    ),
    Ruling(r"Client: Avg send request rate", "shown only if more than 1 % were delayed"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one tool."""

    code: int
    figures: Mapping[str, float]
    last_words: str


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a cell, in both tools."""

    cell: Cell
    figure: str
    ours: str
    theirs: str
    verdict: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Tools:
    """How to start the two tools, and the folder for their files."""

    addresses: Mapping[str, str]  # addresses of the server by protocol
    folder: Path
    window_ms: int
    commands: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = field(default_factory=dict)

    def run(self, tool: str, cell: Cell) -> Run:
        command, environment = self.commands[tool]
        table = self.folder / f"{tool}.csv"
        table.unlink(missing_ok=True)
        words = [*command, "-m", cell.model.name, "-i", cell.protocol, "-u", self.addresses[cell.protocol]]
        words += [*LOADS[cell.load], *cell.model.words, "-f", str(table), "--verbose-csv"]
        words += ["-p", str(self.window_ms), "-s", "99999", "-r", "3"]
        if cell.protocol == "grpc" and cell.model.only_grpc is not None:
            words += cell.model.only_grpc
        if cell.model.data:
            data = self.folder / f"{cell.model.name}.json"
            data.write_text(cell.model.data)
            words += ["--input-data", str(data)]
        code, stdout, stderr = _outcome(words, environment)
        columns = csv_figures(table.read_text()) if table.exists() else {}
        said = [line for line in stderr.splitlines() if line.strip()]
        return Run(code, {**printed_figures(stdout), **columns}, said[-1] if said else "")


def _outcome(words: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        stdout, stderr = child.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise BenchError(f"'{' '.join(words)}' did not end within {DEADLINE_S} s") from None
    finally:
        end_group(child.pid)
        child.wait()
    return child.returncode, stdout, stderr


# --- judging a cell


def judge(cell: Cell, ours: Sequence[Run], theirs: Sequence[Run]) -> Iterator[Row]:
    """Judge the runs of a cell: exit codes, our counts, and every figure that the real tool has."""
    mine, other = ({run.code for run in runs} for runs in (ours, theirs))
    yield Row(cell, "exit code", _codes(mine), _codes(other), "agrees" if mine == other else "differs")
    if any(run.code for run in (*ours, *theirs)):
        return
    yield _counted(cell, ours)
    for name in theirs[0].figures:
        yield _compared(cell, name, _values(cell, name, ours), _values(cell, name, theirs))


def _codes(found: set[int]) -> str:
    return " ".join(map(str, sorted(found)))


def _counted(cell: Cell, runs: Sequence[Run]) -> Row:
    """Row of the requests that only one side counted, in the worst run, and the number in flight."""
    rows = [(_difference(run.figures), outstanding(cell, run.figures)) for run in runs]
    difference, allowed = max(rows, key=lambda row: row[0] - row[1])
    verdict = "agrees" if difference <= allowed else "differs"
    return Row(
        cell, "requests counted by client or server only", f"{difference:g}", f"at most {allowed:g}", verdict
    )


def _difference(figures: Mapping[str, float]) -> float:
    return abs(figures.get("Server: Successful request count", 0.0) - figures["Client: Request count"])


def outstanding(cell: Cell, figures: Mapping[str, float]) -> float:
    """Number of requests in flight, or ending while counters are read, at both ends of the measured time."""
    if not cell.is_by_rate:
        rate = figures["Client: Request count"] / (duration_s(figures, cell.model.batch) or math.inf)
        return 2 * (float(cell.load.split()[1]) + math.floor(rate * READING_S))
    longest_s = figures.get("Client: p99 latency", 0.0) / 1e6
    return 2 * math.ceil(RATE * longest_s + 1)


def _values(cell: Cell, name: str, runs: Sequence[Run]) -> list[float]:
    """Values of the runs that have the figure; counts are per second, since the tools' windows differ in length."""
    found = [run.figures for run in runs if name in run.figures]
    if not name.endswith(" count"):
        return [figures[name] for figures in found]
    spans = [duration_s(figures, cell.model.batch) for figures in found]
    return [figures[name] / span if span else 0.0 for figures, span in zip(found, spans, strict=True)]


def _compared(cell: Cell, name: str, ours: list[float], theirs: list[float]) -> Row:
    label = f"{name} per second" if name.endswith(" count") else name
    if not ours:
        return _unlike(Row(cell, label, "none", f"{statistics.median(theirs):.6g}", "differs"))
    mine, other = statistics.median(ours), statistics.median(theirs)
    row = partial(Row, cell, label, f"{mine:.6g}", f"{other:.6g}")
    if is_alike(name, mine, other) or (min(ours) <= max(theirs) and min(theirs) <= max(ours)):
        return row("agrees")
    return _unlike(row("differs"))


def is_alike(name: str, mine: float, other: float) -> bool:
    is_rate = name.endswith(" count") or re.search("hroughput|/sec|/Second", name) is not None
    is_tail = re.search("p9[059] |deviation", name) is not None
    allowed = max(CLOSE * max(mine, other), CLOSE_PER_S if is_rate else CLOSE_US)
    return abs(mine - other) <= allowed * (WIDE if is_tail else 1.0)


def _unlike(row: Row) -> Row:
    for ruling in RULINGS:
        if re.fullmatch(ruling.figure, row.figure) and ruling.holds(row.cell):
            return Row(row.cell, row.figure, row.ours, row.theirs, "explained", ruling.reason)
    return row


# --- all cells


def cells(models: Sequence[str], protocols: Sequence[str]) -> Iterator[Cell]:
    for model in MODELS:
        for protocol in protocols:
            for load in LOADS:
                if not models or model.title in models:
                    yield Cell(model, protocol, load)


def compare(tools: Tools, chosen: Sequence[Cell], rounds: int, most: int) -> Iterator[Row]:
    """Compare each cell; a cell with a difference is measured again, up to `most` rounds, to rule out noise."""
    for cell in chosen:
        ours: list[Run] = []
        theirs: list[Run] = []
        rows: list[Row] = []
        while len(ours) < rounds or (len(ours) < most and any(row.verdict == "differs" for row in rows)):
            ours.append(tools.run("ours", cell))
            theirs.append(tools.run("theirs", cell))
            rows = list(judge(cell, ours, theirs))
        print(f"{cell}: {_summary(rows)}, {len(ours)} rounds", file=sys.stderr, flush=True)
        yield from rows


def _summary(rows: Sequence[Row]) -> str:
    verdicts = [row.verdict for row in rows]
    return ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)


def markdown(rows: Sequence[Row]) -> str:
    """Format the figures that differ or are explained, by cell, and the number that agree."""
    lines = [
        "| model | protocol | load | figure | ours | theirs | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.verdict != "agrees" or row.figure.startswith("requests only"):
            cell = row.cell
            verdict = f"{row.verdict}: {row.reason}" if row.reason else row.verdict
            parts = (cell.model.title, cell.protocol, cell.load, row.figure, row.ours, row.theirs, verdict)
            lines.append(f"| {' | '.join(parts)} |")
    cells_seen = len({row.cell for row in rows})
    return "\n".join((*lines, "", f"{len(rows)} comparisons in {cells_seen} cells: {_summary(rows)}."))


def plant(folder: Path, repositories: Sequence[Path]) -> Path:
    """Write a repository of the models and of those they call, each slowed down."""
    models = folder / "models"
    for name in {model.name for model in MODELS} | CALLED:
        (source,) = (repository / name for repository in repositories if (repository / name).is_dir())
        shutil.copytree(source, models / name)
        for code in models.glob(f"{name}/1/model.py"):
            code.write_text(code.read_text() + PLANT)
    return models


@contextlib.contextmanager
def opened(window_ms: int) -> Iterator[Tools]:
    from inferometer.server.embedded import EmbeddedTriton
    from inferometer.server.repository import example_repository

    real = real_perf_analyzer()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        models = plant(Path(folder), (example_repository(), FIXTURE_MODELS))
        server = stack.enter_context(EmbeddedTriton(models))
        yield Tools(
            {"http": server.http_address, "grpc": server.grpc_address},
            Path(folder),
            window_ms,
            {
                "ours": ((sys.executable, "-m", "inferometer.dialects.perf_analyzer.main"), {}),
                "theirs": ((str(real.executable),), real.environment),
            },
        )


def main() -> int:
    options = _options()
    try:
        with opened(options.window_ms) as tools:
            chosen = list(cells(options.model, options.protocol))
            rows = list(compare(tools, chosen, options.rounds, options.most))
    except BenchError as error:
        print(f"side by side: {error}", file=sys.stderr)
        return 2
    print(markdown(rows))
    return 1 if any(row.verdict == "differs" for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side", description="Our perf_analyzer next to the real one."
    )
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="runs of each tool (default 2)")
    parser.add_argument(
        "--most", type=int, default=6, metavar="N", help="where something differs (default 6)"
    )
    parser.add_argument("--window-ms", type=int, default=500, metavar="MS", help="as -p (default 500)")
    titles = [model.title for model in MODELS]
    parser.add_argument("--model", action="append", choices=titles, default=[], help="only these")
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS, default=[], help="only these")
    options = parser.parse_args()
    options.protocol = options.protocol or list(PROTOCOLS)
    return options


if __name__ == "__main__":
    sys.exit(main())
