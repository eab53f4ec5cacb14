"""`python -m benchmarks.text_twin`: a twin of text servers with known steps, at held-out loads, lengths and settings.

The servers are those of `tests.support.llm_engine`: continuous batching, stepped token by token. Each is measured at
four loads through the real line; the fit sees only the saved result. The held-out loads are run by a loop that shares
no code with the twin.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from inferometer.diagnose.text_lengths import requested_pairs
from inferometer.twin.fit import fit_twin
from inferometer.twin.predict import forecast
from inferometer.twin.simulate import MeasuredAs
from inferometer.twin.twin import LoadForecast, LoadPart, StepSetting, TextLengths, Twin, TwinLoad
from tests.support.llm_engine import EngineSettings
from tests.support.text_runs import KnownText, random_arrivals, text_result, truth

SEED = 2
SECONDS = 30.0
# At random arrivals of 80 % of the capacity, the p99 of the TTFT of four runs of 1,500 s was 771 to 930 ms.
HELD_OUT_S = {"concurrency": 900.0, "request_rate": 3000.0}
FIGURES = ("throughput", "mean", "p99", "ttft p50", "ttft p99", "tpot")
LIMITS = {"mean": 0.06, "ttft p99": 0.12}


class Server(NamedTuple):
    """A server and the loads that it is fitted at."""

    name: str
    known: KnownText
    users: tuple[int, ...]
    capacity: float  # requests per second, roughly


SERVERS = (
    Server(
        "20 ms + 0.2 ms per answer, 32 slots",
        KnownText(
            EngineSettings(prefill_per_s=10_000, step_s=0.0202, step_per_sequence_s=0.0002, slots=32),
            (64, 192),
            (32, 96),
        ),
        (1, 8, 24, 64),
        15.0,
    ),
    Server(
        "8 ms + 0.5 ms per answer, 16 slots",
        KnownText(
            EngineSettings(prefill_per_s=20_000, step_s=0.0085, step_per_sequence_s=0.0005, slots=16),
            (100, 900),
            (20, 120),
        ),
        (1, 4, 12, 32),
        10.5,
    ),
    Server(
        "30 ms + 0.1 ms per answer, 64 slots",
        KnownText(
            EngineSettings(prefill_per_s=5_000, step_s=0.0301, step_per_sequence_s=0.0001, slots=64),
            (20, 300),
            (10, 60),
        ),
        (1, 8, 48, 128),
        19.2,
    ),
    Server(
        "5 ms + 1 ms per answer, 8 slots",
        KnownText(
            EngineSettings(prefill_per_s=8_000, step_s=0.006, step_per_sequence_s=0.001, slots=8),
            (50, 150),
            (40, 200),
        ),
        (1, 2, 6, 16),
        4.8,
    ),
)


class HeldOut(NamedTuple):
    """A load with the lengths and slots of its server, unless given."""

    users: int = 0
    load: float = 0.0  # Poisson arrivals, as a share of the capacity
    prompts: tuple[int, int] | None = None
    answers: tuple[int, int] | None = None
    slots: float = 1.0  # factor


def held_out(server: Server) -> tuple[HeldOut, ...]:
    """Ten loads of a server: others in flight, by rate, with other lengths and with other slots."""
    slots, (low, high), (least, most) = (
        server.known.settings.slots,
        server.known.prompts,
        server.known.answers,
    )
    return (
        HeldOut(users=2 if 2 not in server.users else 3),
        HeldOut(users=slots // 2),
        HeldOut(users=slots),
        HeldOut(users=3 * slots),
        HeldOut(load=0.5),
        HeldOut(load=0.8),
        HeldOut(users=slots // 2, prompts=(2 * low, 2 * high)),
        HeldOut(users=slots // 2, answers=(2 * least, 2 * most)),
        HeldOut(users=slots, slots=0.5),
        HeldOut(users=2 * slots, slots=2.0),
    )


def fitted(server: Server, seed: int = 1) -> Twin:
    return fit_twin([text_result(server.known, server.users, SECONDS, seed=seed)])


def compared(server: Server, twin: Twin, case: HeldOut, seed: int) -> LoadForecast:
    """Return the forecast of a held-out load beside its true figures."""
    settings = server.known.settings
    known = replace(
        server.known,
        settings=replace(settings, slots=round(settings.slots * case.slots)),
        prompts=case.prompts or server.known.prompts,
        answers=case.answers or server.known.answers,
    )
    rate = case.load * server.capacity
    model = twin.models[0]
    changed = () if case.slots == 1 else (StepSetting(model.name, "slots", float(known.settings.slots)),)
    lengths = _lengths(known)
    if rate:
        part = LoadPart(model.name, "request_rate", rate, "poisson", lengths)
    else:
        part = LoadPart(model.name, "concurrency", float(case.users), lengths=lengths)
    (row,) = forecast(twin, TwinLoad((part,), changed), MeasuredAs(HELD_OUT_S[part.mode]))
    settle_s = 6 * row.bands["mean"].value / 1e9 if rate else 4 * row.bands["mean"].value / 1e9
    seconds = HELD_OUT_S[part.mode]
    due_s = random_arrivals(rate, settle_s + seconds, seed) if rate else ()
    found = truth(known, users=case.users, due_s=due_s, seconds=seconds, settle_s=settle_s, seed=seed)
    return replace(row, measured=found.figures)


def _lengths(known: KnownText) -> TextLengths:
    """Return the lengths as `--prompt-tokens 'uniform(..)' --output-tokens 'uniform(..)'` draws them."""
    prompt, answer = ("uniform({}, {})".format(*pair) for pair in (known.prompts, known.answers))
    return TextLengths(requested_pairs(prompt, answer, ((1, 1),)))


def study(servers: Iterable[Server] = SERVERS, seed: int = SEED) -> Iterator[tuple[Server, LoadForecast]]:
    for server in servers:
        twin = fitted(server, seed)
        for number, case in enumerate(held_out(server)):
            yield server, compared(server, twin, case, seed=1000 * seed + number)


def table(rows: Sequence[tuple[Server, LoadForecast]]) -> Iterator[str]:
    """Table of the errors and of the coverage of the intervals."""
    yield "| figure | median error | largest error | within the limit | in the 90 % interval |\n|---|---|---|---|---|\n"
    for name in FIGURES:
        errors = [abs(error) for _, row in rows if (error := row.error(name)) is not None]
        covered = [bool(row.is_covered(name)) for _, row in rows if row.error(name) is not None]
        limit = LIMITS.get(name)
        within = (
            ""
            if limit is None
            else f"{sum(error <= limit for error in errors)} of {len(errors)} in {limit:.0%}"
        )
        yield f"| {name} | {median(errors):.1%} | {max(errors):.1%} | {within} | {sum(covered)} of {len(covered)} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_twin", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help="of all random times (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    for server, row in study(seed=options.seed):
        rows.append((server, row))
        said = ", ".join(
            f"{name} {error:+.1%}{'' if row.is_covered(name) else ' outside'}"
            for name in FIGURES
            if (error := row.error(name)) is not None
        )
        print(f"{server.name}, {row.part.text}: {said}", flush=True)
    print("".join(table(rows)))


if __name__ == "__main__":
    main()
