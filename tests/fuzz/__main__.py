"""`PYTHONPATH=. python tests/fuzz --cases 1000000 --seed 1`: very many random inputs for every reader."""

import argparse
import sys
import time

from tests.fuzz.families import FAMILIES
from tests.fuzz.harness import data_of, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument(
        "--cases", type=int, default=20_000, help="of all families together (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", choices=[family.name for family in FAMILIES], action="append")
    parser.add_argument(
        "--case", type=int, help="only this one, of one family: its input is written to stdout"
    )
    asked = parser.parse_args()
    chosen = [family for family in FAMILIES if asked.family is None or family.name in asked.family]
    if asked.case is not None:
        data = data_of(chosen[0], asked.seed, asked.case)
        sys.stdout.buffer.write(data + b"\n")
        chosen[0].try_one(data)
        return 0
    shares = sum(family.share for family in chosen)
    began, total, failed = time.process_time(), 0, 0
    for family in chosen:
        found = run(family, cases=-(-asked.cases * family.share // shares), seed=asked.seed)
        total += found.cases
        failed += len(found.failures)
        rate = found.cases / max(found.seconds, 1e-9)
        print(
            f"{family.name:<22}{found.cases:>10,} cases {rate:>9,.0f}/s {len(found.failures):>3} failed",
            flush=True,
        )
        for failure in found.failures:
            print(f"  --family {family.name} --seed {asked.seed}: {failure}", file=sys.stderr, flush=True)
    seconds = time.process_time() - began
    print(
        f"{'all':<22}{total:>10,} cases {total / seconds:>9,.0f}/s {failed:>3} failed"
        f", seed {asked.seed}, {seconds:.0f} s of processor time"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
