"""Each planted model diagnosed several times with its suggestions tried: verdict, predicted, measured, kept.

Run it as `python gpu_tests/experiment.py FOLDER [--minutes 7] [--runs 3] [--models launch,mlp]`. It prints one line
per trial and writes into FOLDER each diagnosis, every observation it was made of, and the whole table. `--dry` runs
the same on the CPU with models that only wait, to see that the script works.
"""

import argparse
import json
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from inferometer import api
from inferometer.base.errors import InferometerError
from inferometer.diagnose import run as diagnose_run
from inferometer.diagnose.diagnosis import Diagnosis
from inferometer.observe.host import open_nvml
from inferometer.server.embedded import EmbeddedTriton

sys.path.insert(0, str(Path(__file__).parent.parent))
from gpu_tests.planted import ALL, PlantedLimit, embedded, plant

WORST, CLOSE, EACH = -0.05, 0.2, 0.35
_WAITING = ("self.wait_s = 0.004", "time.sleep(self.wait_s)\nreturn x")


def main() -> int:
    given = _arguments()
    given.folder.mkdir(parents=True, exist_ok=True)
    chosen = [limit for limit in ALL if not given.models or limit.name in given.models.split(",")]
    if given.dry:
        chosen = [_dry(limit) for limit in chosen]
    nvml = open_nvml()
    if nvml is None and not given.dry:
        print("There is no GPU here, or nvidia-ml-py is missing: nothing is measured.")
        return 0
    end = time.monotonic() + 60 * given.minutes
    table: list[dict[str, Any]] = []
    for number, limit in enumerate(chosen):
        left_s = end - time.monotonic()
        slice_end = time.monotonic() + left_s / (len(chosen) - number)
        try:
            table += _examined(limit, given, slice_end)
        except (InferometerError, OSError) as error:
            print(f"{limit.name:10} failed: {error}", flush=True)
            table.append({"model": limit.name, "error": str(error), "traceback": traceback.format_exc()})
        names = dict(nvml.names()) if nvml is not None else {}
        (given.folder / "table.json").write_text(json.dumps({"gpus": names, "rows": table}, indent=1))
    _summary(table)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--models", default="")
    parser.add_argument("--duration", default="800ms")
    parser.add_argument("--budget", default="15s")
    parser.add_argument("--dry", action="store_true")
    return parser.parse_args()


def _dry(limit: PlantedLimit) -> PlantedLimit:
    models = tuple(replace(model, kind="KIND_CPU", code=_WAITING) for model in limit.models)
    return replace(limit, models=models)


def _examined(limit: PlantedLimit, given: argparse.Namespace, end: float) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        repository = plant(Path(folder), (limit,))
        log = given.folder / f"{limit.name}.log"
        began = time.monotonic()
        with embedded(repository, log.resolve()) as server:
            print(f"{limit.name:10} loaded in {time.monotonic() - began:.1f} s", flush=True)
            for number in range(given.runs):
                began = time.monotonic()
                rows.append(_diagnosed(limit, given, server, number))
                took_s = time.monotonic() - began
                rows[-1]["seconds"] = took_s
                _say(rows[-1])
                if time.monotonic() + took_s > end:
                    break
    return rows


def _diagnosed(
    limit: PlantedLimit, given: argparse.Namespace, server: EmbeddedTriton, number: int
) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    observe = diagnose_run.observation

    def recorded(*arguments: Any) -> Any:
        row = observe(*arguments)
        if row is not None:
            seen.append(asdict(row))
        return row

    diagnose_run.observation = recorded  # the rows the model was fitted to are not in a diagnosis
    try:
        found = api.diagnose(
            limit.name,
            url=server.http_address,
            duration_s=given.duration,
            concurrency=limit.concurrency,
            apply=True,
            budget_s=given.budget,
        )
    finally:
        diagnose_run.observation = observe
        (given.folder / f"{limit.name}-{number}-rows.json").write_text(json.dumps(seen))
    api.save(found, given.folder / f"{limit.name}-{number}.json")
    return _row(limit, number, found)


def _row(limit: PlantedLimit, number: int, found: Diagnosis) -> dict[str, Any]:
    return {
        "model": limit.name,
        "run": number,
        "kind": found.verdict.kind,
        "step": found.verdict.step,
        "sentence": found.verdict.sentence,
        "is_right": found.verdict.kind in limit.kinds and found.verdict.step in (limit.culprit, None),
        "throughput": found.throughput,
        "concurrency": found.concurrency,
        "gpu": [asdict(gpu) for gpu in found.machine.gpus],
        "suggested": [
            f"{row.change.kind} {row.change.before} -> {row.change.after}: {row.throughput:.0f}"
            for row in found.suggestions
        ],
        "trials": [
            {
                "change": f"{row.suggestion.change.model} {row.suggestion.change.kind} "
                f"{row.suggestion.change.before} -> {row.suggestion.change.after}",
                "predicted": row.suggestion.throughput,
                "measured": row.throughput,
                "ratio": row.ratio,
                "gain": row.gain,
                "is_kept": row.is_kept,
                "failure": row.failure,
                "lesson": row.lesson,
            }
            for row in found.trials
        ],
        "notes": found.notes,
    }


def _say(row: dict[str, Any]) -> None:
    share = row["gpu"][0]["utilization"] if row["gpu"] else None
    print(
        f"{row['model']:10} {row['run']} {'right' if row['is_right'] else 'WRONG':5} {row['kind']} {row['step']} "
        f"at c{row['concurrency']}: {row['throughput']:.0f} infer/s, GPU {share}, {row['seconds']:.0f} s"
    )
    if not row["is_right"]:
        print(f"      {row['sentence']}")
    for trial in row["trials"]:
        print(
            f"      {trial['change']}: predicted {trial['predicted']:.0f}, measured {trial['measured']:.0f} "
            f"(x{trial['ratio']:.2f}, {trial['gain']:+.0%}) {'kept' if trial['is_kept'] else 'back'} "
            f"{trial['failure']} {trial['lesson']}"
        )
    sys.stdout.flush()


def _summary(table: list[dict[str, Any]]) -> None:
    print("\nmodel      runs right first predicted/measured  worse by > 5 % (most in a run)")
    for name in dict.fromkeys(row["model"] for row in table):
        rows = [row for row in table if row["model"] == name and "error" not in row]
        firsts = [row["trials"][0] for row in rows if row["trials"] and not row["trials"][0]["failure"]]
        off = sorted(abs(trial["predicted"] / trial["measured"] - 1) for trial in firsts)
        worse = max((sum(trial["gain"] < WORST for trial in row["trials"]) for row in rows), default=0)
        median = off[len(off) // 2] if off else 0.0
        verdict = "" if not off else "good" if median <= CLOSE and off[-1] <= EACH else "OFF"
        ratios = " ".join(f"{trial['predicted'] / trial['measured']:.2f}" for trial in firsts) or "-"
        print(
            f"{name:10} {len(rows):4} {sum(row['is_right'] for row in rows):5} {ratios:22} {verdict:4} {worse}"
        )


if __name__ == "__main__":
    sys.exit(main())
