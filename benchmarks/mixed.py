"""CPU per request of a mixed load against a plain one: the same command, the same server."""

import contextlib
from collections.abc import Iterator

from benchmarks.arithmetic import Usage, marginal_us
from benchmarks.bar import Contest, Sample, Setting
from benchmarks.children import run
from benchmarks.parts import our_script

PLAIN = ("-m", "simple")
MIXED = ("-m", "simple:3", "-m", "identity_fp32:1")
PER_SECOND = 1500  # requests that a round has for every second of its setting
SHORT = 0.1
MARGIN_S = 120


@contextlib.contextmanager
def mixed_cpu(setting: Setting) -> Iterator[Contest]:
    """Marginal CPU of one more request by weight, against one more of a single model."""
    from inferometer.server.embedded import EmbeddedTriton

    with EmbeddedTriton(load_models=("simple", "identity_fp32")) as server:

        def spend(count: int, models: tuple[str, ...]) -> Usage:
            command = [our_script("inferometer"), "measure", server.http_address, *models]
            command += ["-c", "8", "-n", str(count), "-q", "--no-store", "--config", "none"]
            ended = run(command, timeout_s=MARGIN_S + count / 100)
            return Usage(ended.cpu_s, count)

        def measure(models: tuple[str, ...]) -> Sample:
            count = round(PER_SECOND * setting.seconds)
            return Sample(marginal_us(spend(round(count * SHORT), models), spend(count, models)))

        spend(100, MIXED)  # the very first start takes longer
        yield Contest(ours=lambda: measure(MIXED), theirs=lambda: measure(PLAIN))
