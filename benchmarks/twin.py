"""`python -m benchmarks.twin --folder F`: a twin of the real Triton, fitted at concurrency 1 to 8, at loads held out.

Four models: the three planted pipelines (one slow step, one that forms no batches, one that has too few cores) and the
image ensemble. Forty held-out points: other concurrencies, rates, mixes of two models at the same time, and settings
that were not measured. What is in the folder is not measured again, so a run that was ended goes on where it was; on a
machine of its own the whole takes about eight minutes.
"""

import argparse
import http.client
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import this_machine
from inferometer import api
from inferometer.api.arguments import asked
from inferometer.base.answer_file import read, write
from inferometer.base.units import duration, quantity
from inferometer.cli.demo import write_input
from inferometer.options.options import DataOptions, Options
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_repository
from inferometer.stats.result import Result
from inferometer.stats.watcher import Watcher
from inferometer.twin.check import checked_together, measure_together
from inferometer.twin.fit import fit_twin, load_part
from inferometer.twin.twin import LoadForecast, Twin, TwinLoad
from tests.support.planted import NO_BATCHES, NO_CORES, PLANTED, SLOW_FIRST, plant

FITTED = [1, 2, 4, 8]
WITHIN = {"throughput": 0.15, "p99": 0.30}
COVERED = 0.8
IMAGES = "ensemble_image"
MODELS = (SLOW_FIRST.name, NO_BATCHES.name, NO_CORES.name, IMAGES)
SECONDS = {SLOW_FIRST.name: 9.0, NO_BATCHES.name: 7.0, NO_CORES.name: 6.0, IMAGES: 6.0}
RANDOM_S = {SLOW_FIRST.name: 20.0, NO_BATCHES.name: 15.0, NO_CORES.name: 8.0, IMAGES: 8.0}
SETTLING_S = 1.0  # before each load, so that a cold start is in no figure
DEADLINE_S = 60.0
_WHOLE_TIME = 1e-6  # a precision that is never reached


@dataclass(frozen=True, slots=True)
class ModelLoad:
    """The load of one model: its options beside those that all have."""

    model: str
    given: tuple[tuple[str, Any], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Loads that run at the same time, under a name for their file; with a setting of a step, if any."""

    name: str
    loads: tuple[ModelLoad, ...]
    setting: tuple[str, dict[str, Any]] | None = None


def flying(model: str, count: int, seconds: float | None = None) -> ModelLoad:
    return ModelLoad(model, (("concurrency", count),), seconds or SECONDS[model])


def due(model: str, per_s: float, *, is_random: bool = False) -> ModelLoad:
    more = (("request_distribution", "poisson"),) if is_random else ()
    return ModelLoad(model, (("rate", round(per_s, 2)), *more), (RANDOM_S if is_random else SECONDS)[model])


def held_out(most: dict[str, float]) -> Iterator[HeldOut]:
    """`most` is the throughput of each model at the heaviest load of the fit."""
    for model in MODELS:
        for count in (3, 6, 12):
            yield HeldOut(f"{model}-c{count}", (flying(model, count),))
        for share in (50, 80):
            yield HeldOut(f"{model}-r{share}", (due(model, most[model] * share / 100),))
        yield HeldOut(f"{model}-p60", (due(model, most[model] * 0.6, is_random=True),))
    slow, batches, cores = SLOW_FIRST.name, NO_BATCHES.name, NO_CORES.name
    for first, second in (
        (flying(slow, 2), flying(batches, 3)),
        (flying(slow, 4), flying(cores, 2)),
        (flying(batches, 2), flying(IMAGES, 2)),
        (flying(cores, 1), flying(IMAGES, 1)),
        (flying(cores, 2), flying(IMAGES, 3)),
        (due(slow, most[slow] / 2), due(IMAGES, most[IMAGES] / 2)),
    ):
        seconds = max(first.seconds, second.seconds)
        pair = tuple(ModelLoad(row.model, row.given, seconds) for row in (first, second))
        words = "-".join(f"{row.model}_{row.given[0][0][0]}{row.given[0][1]:g}" for row in pair)
        yield HeldOut(f"mix-{words}", pair)
    two = {"instance_group": [{"kind": "KIND_CPU", "count": 2}]}
    for count in (4, 8):
        yield HeldOut(f"{slow}-2x-c{count}", (flying(slow, count),), ("first_fetch", two))
    yield HeldOut(f"{batches}-batching-c8", (flying(batches, 8),), ("batch_model", {"dynamic_batching": {}}))
    yield HeldOut(f"{cores}-2x-c4", (flying(cores, 4),), ("cores_model", two))


# --- measuring, with what is measured already left alone


@dataclass(frozen=True, slots=True)
class Bench:
    folder: Path
    server: EmbeddedTriton
    data: DataOptions
    scale: float = 1.0  # of durations

    def options(self, load: ModelLoad, **more: Any) -> Options:
        given: dict[str, Any] = {"model": load.model, "url": self.server.http_address, **dict(load.given)}
        if load.model == IMAGES:
            given["data"] = self.data
        given |= {
            "duration_s": self.scale * load.seconds,
            "precision": _WHOLE_TIME,
            "warmup_s": SETTLING_S,
            **more,
        }
        return asked("measure", given)

    def kept(self, name: str, measure: Callable[[], Sequence[Result]], count: int) -> list[Result]:
        """From the files of an earlier run, or measured now; all of them, or none is kept."""
        paths = [self.folder / f"{name}.{number}.json" for number in range(count)]
        if not all(path.exists() for path in paths):
            print(f"measuring {name} ...", flush=True)
            for path, result in zip(paths, measure(), strict=True):
                write(result, path)
        return [read(path, Result) for path in paths]

    def fitted(self) -> list[Result]:
        """Of each model the loads of the fit; first what a batch of eight costs, where there are batches."""
        found = []
        for model in MODELS:
            if model != IMAGES:
                one = ModelLoad(model, (("concurrency", 1), ("batch", 8)), 3.0)
                found += self.kept(
                    f"fit-{model}-b8", lambda one=one: measure_together([self.options(one)], Watcher()), 1
                )
            load = ModelLoad(model, (("concurrency", FITTED),), SECONDS[model])
            found += self.kept(
                f"fit-{model}", lambda load=load: measure_together([self.options(load)], Watcher()), 1
            )
        return found

    def held_out(self, point: HeldOut) -> list[Result]:
        def measure() -> Sequence[Result]:
            with self._set(point.setting):
                return measure_together([self.options(load) for load in point.loads], Watcher())

        return self.kept(point.name, measure, len(point.loads))

    @contextmanager
    def _set(self, setting: tuple[str, dict[str, Any]] | None) -> Iterator[None]:
        """A model with another configuration, and the one it had again."""
        if setting is None:
            yield
            return
        name, changes = setting
        before = json.loads(self._asked("GET", f"/v2/models/{name}/config"))
        self._load(name, before | changes)
        try:
            yield
        finally:
            self._load(name, before)

    def _load(self, name: str, config: dict[str, Any]) -> None:
        body = json.dumps({"parameters": {"config": json.dumps(config)}})
        self._asked("POST", f"/v2/repository/models/{name}/load", body)

    def _asked(self, method: str, path: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection(self.server.http_address, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:200]!r}")
        return text


# --- judging


def checked(twin: Twin, results: Sequence[Result]) -> list[LoadForecast]:
    load = TwinLoad(tuple(load_part(result, result.levels[-1]) for result in results))
    return checked_together(twin, load, results)


def table(rows: Sequence[LoadForecast]) -> list[str]:
    head = ("model", "load", "data", "figure", "predicted", "90 % interval", "measured", "off", "inside")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        beside = "; ".join(f"{part.model} {part.text}" for part in row.load.parts if part.model != row.model)
        settings = ", ".join(setting.text for setting in row.load.settings)
        load = "; ".join(word for word in (row.part.text, beside, settings) if word)
        for figure, most in WITHIN.items():
            error, band = row.error(figure), row.bands.get(figure)
            if error is None or band is None or row.measured is None:
                lines.append(f"| {row.model} | {load} | {row.basis} | {figure} | none | | | OFF | NO |")
                continue
            text = (lambda value: f"{quantity(value)}/s") if figure == "throughput" else duration
            off = f"{error:+.1%}" + ("" if abs(error) <= most else " OFF")
            cells = (
                text(band.value),
                f"{text(band.low)} to {text(band.high)}",
                text(row.measured[figure]),
                off,
            )
            inside = "yes" if row.is_covered(figure) else "NO"
            lines.append(
                f"| {row.model} | {load} | {row.basis} | {figure} | {' | '.join(cells)} | {inside} |"
            )
    return lines


def verdicts(rows: Sequence[LoadForecast]) -> Iterator[tuple[bool, str]]:
    """What must hold, and whether it does."""
    for figure, most in WITHIN.items():
        errors = [abs(error) for row in rows if (error := row.error(figure)) is not None]
        good = sum(error <= most for error in errors)
        worst = max(errors, default=0.0)
        yield (
            good == len(rows),
            f"{figure} within {most:.0%}: {good} of {len(rows)} points, at worst off by {worst:.1%}",
        )
    for figure in WITHIN:
        inside = sum(bool(row.is_covered(figure)) for row in rows)
        yield (
            inside >= COVERED * len(rows),
            f"{figure} inside its 90 % interval: {inside} of {len(rows)} points",
        )


def busiest_others(results: Sequence[Result]) -> float:
    """Cores that other programs kept busy, at the worst load."""
    hosts = [level.host for result in results for level in result.levels if level.host is not None]
    return max((host.others or 0.0 for host in hosts), default=0.0)


def run(folder: Path, scale: float) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="inferometer-twin-") as place:
        repositories = (plant(Path(place) / "models"), example_repository())
        steps = (IMAGES, "preprocessing", "classifier", "postprocessing")
        names = (*(name for pipeline in PLANTED for name in pipeline.models()), *steps)
        arguments = ("--disable-auto-complete-config", "--exit-timeout-secs", "0")
        with EmbeddedTriton(repositories, load_models=names, extra_args=arguments) as server:
            data = DataOptions(sources=(str(write_input(Path(place) / "data")),))
            bench = Bench(folder, server, data, scale)
            results = bench.fitted()
            most = {
                str(row.model["name"]): _throughput(row) for row in results if len(row.levels) == len(FITTED)
            }
            points = [(point, bench.held_out(point)) for point in held_out(most)]
    twin = fit_twin(results)
    rows = [row for _, found in points for row in checked(twin, found)]
    return _reported(folder, twin, rows, [*results, *(result for _, found in points for result in found)])


def _throughput(result: Result) -> float:
    """Requests per second at the heaviest load."""
    found = result.levels[-1].measurement
    if found is None:
        raise RuntimeError(f"'{result.model['name']}' answered nothing at its heaviest load")
    return found.infer_per_s.value / found.batch


def _reported(folder: Path, twin: Twin, rows: Sequence[LoadForecast], results: Sequence[Result]) -> int:
    answer = replace(twin, command="twin check", forecasts=tuple(rows))
    api.save(twin, folder / "twin.json")
    api.save(answer, folder / "check.json")
    (folder / "check.html").write_text(api.to_html(answer))
    found = list(verdicts(rows))
    lines = [
        "# The twin at loads held out from its fit",
        "",
        this_machine([busiest_others(results)]).line,
        "",
        *table(rows),
        "",
        *(f"- {'holds' if is_kept else 'DOES NOT HOLD'}: {text}" for is_kept, text in found),
    ]
    text = "\n".join(lines) + "\n"
    (folder / "report.md").write_text(text)
    print(text, end="")
    return 0 if all(is_kept for is_kept, _ in found) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.twin", description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times the duration of each load, such as 0.2 for a try"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("dist/twin"), help="what is measured goes here, and stays"
    )
    given = parser.parse_args()
    return run(given.folder, given.scale)


if __name__ == "__main__":
    sys.exit(main())
