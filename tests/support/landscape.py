"""A simulated server to tune: seeded landscapes of instances, batches, delay and load, with cores and noise.

The figures come from a separate formula with more effects than the tuner's forecast: a nonlinear service time,
instances that disturb each other, a tail that grows with the load.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from inferometer.stats.estimate import Estimate
from inferometer.tune import model_config
from inferometer.tune.search.search import Proposal, SearchMessage, SearchSteps, SkippedProposal
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial
from inferometer.tune.variant import ModelVariant

LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Landscape:
    """Costs of a model on one machine."""

    fixed_s: float
    item_s: float
    bend: float  # exponent of the service time over the batch size: below 1 it flattens
    outside_s: float
    cores: float
    sharing: float  # 0: instances never disturb each other, 1: they share the cores exactly
    friction: float  # per additional instance
    crowding: float  # throughput lost per doubling of the load beyond saturation
    tail: float  # ratio of p99 to mean when idle
    tail_growth: float
    noise: float
    tail_noise: float
    tile: int = 1  # batch sizes are rounded up to a multiple

    @classmethod
    def drawn(cls, seed: int) -> "Landscape":
        draw = random.Random(seed)
        return cls(
            fixed_s=10 ** draw.uniform(-3.7, -1.7),
            item_s=10 ** draw.uniform(-4.7, -2.3),
            bend=draw.uniform(0.8, 1.15),
            outside_s=10 ** draw.uniform(-4, -2.7),
            cores=draw.choice((2, 4, 8, 64)),
            sharing=draw.uniform(0.3, 1.0),
            friction=draw.uniform(0.0, 0.06),
            crowding=draw.uniform(0.0, 0.03),
            tail=draw.uniform(1.1, 1.8),
            tail_growth=draw.uniform(0.0, 0.12),
            noise=draw.uniform(0.005, 0.03),
            tail_noise=draw.uniform(0.02, 0.08),
        )

    @classmethod
    def varied(cls, seed: int) -> "Landscape":
        """Vary by seed: cores, cores, a shared device on which a batch costs hardly more than one inference, and a
        service time with kinks."""
        plain, draw = cls.drawn(seed), random.Random(-seed - 7)
        if seed % 4 == 2:
            fixed_s = 10 ** draw.uniform(-3.3, -2.3)
            return replace(
                plain, fixed_s=fixed_s, item_s=fixed_s * draw.uniform(0.002, 0.03), cores=1.0, sharing=1.0
            )
        return replace(plain, tile=draw.choice((2, 4, 8))) if seed % 4 == 3 else plain

    def truth(self, variant: ModelVariant, load: ClientLoad) -> tuple[float, float]:
        """Return the throughput and the p99 in ms, without noise."""
        config = variant.config
        k = model_config.total_instances(config)
        batching = model_config.has_dynamic_batching(config)
        b = max(1, model_config.max_batch_size(config)) if batching else 1
        delay_s = model_config.queue_delay_us(config) / 1e6
        if load.request_rate is not None:
            return self._by_rate(load.request_rate, k, b, delay_s)
        n = float(load.concurrency or 1)
        outside_s, most, service_of = self.outside_s, float(k), self._service
        rate = n / (outside_s + service_of(1.0, min(k, n)))
        for _ in range(30):  # comparisons are faster than calls of min and max
            inside = n - rate * outside_s
            inside = inside if inside > 0.01 else 0.01
            busy = most if most < inside else inside
            waits = delay_s and inside / k < b
            batch = inside / (k if waits else k + 1)
            batch = 1.0 if batch < 1.0 else b if batch > b else batch
            service = service_of(batch, busy) + (delay_s if waits else 0.0)
            served, sent = busy * batch / service, n / (outside_s + service)
            rate = 0.5 * rate + 0.5 * (served if served < sent else sent)
        excess = max(0.0, (n / (2.0 * k * b)))
        if excess > 1:
            rate *= 1 - min(0.3, self.crowding * math.log2(excess))
        mean_s = n / rate
        depth = n / k
        return rate, 1000 * mean_s * (self.tail + self.tail_growth * depth**0.5 / (1 + 0.02 * depth))

    def _by_rate(self, asked: float, k: int, b: int, delay_s: float) -> tuple[float, float]:
        """Figures of an open loop: batches are as large as necessary, and beyond the capacity the queue grows for as
        long as it is measured."""
        capacity = k * b / self._service(b, k)
        if asked >= capacity:
            return capacity, 1000 * self.tail * (self.outside_s + LOOK_S * (1.1 - capacity / asked))
        batch, service = 1.0, self._service(1.0, 1.0)
        for _ in range(30):
            busy = min(float(k), asked * service / batch)
            service = self._service(batch, busy)
            batch = 0.5 * batch + 0.5 * min(max(asked / k * (service + delay_s), 1.0), float(b))
        use = asked / capacity
        mean_s = self.outside_s + (delay_s if batch < b else 0.0) + service * (1 + use**k / (k * (1 - use)))
        return asked, 1000 * mean_s * (self.tail + self.tail_growth / (1 - use) ** 0.5)

    def _service(self, batch: float, busy: float) -> float:
        slow = 1.0 if busy <= self.cores else (busy / self.cores) ** self.sharing
        if busy > 1:
            slow *= 1 + self.friction * (busy - 1)
        if self.tile > 1:
            batch = math.ceil(batch / self.tile) * self.tile
        return float((self.fixed_s + self.item_s * batch**self.bend) * slow)


def driven(
    steps: SearchSteps[str], measure: Callable[[Proposal], Trial]
) -> tuple[list[SearchMessage | SkippedProposal], str]:
    """Drive a search with these measurements; return its messages, skipped candidates, and why it ended."""
    events: list[SearchMessage | SkippedProposal] = []
    told: Trial | None = None
    while True:
        try:
            event = steps.send(told)
        except StopIteration as stop:
            return events, stop.value
        told = measure(event) if isinstance(event, Proposal) else None
        if isinstance(event, SearchMessage | SkippedProposal):
            events.append(event)


@dataclass(slots=True)
class SimulatedTrials:
    """Trials computed from the landscape. The same proposal always gives the same trial."""

    landscape: Landscape
    seed: int = 0
    loaded: str = ""
    count: int = 0
    fails: tuple[str, ...] = ()  # variants that cannot be loaded
    loading: float = 2.5  # cost of loading a variant with one instance, in measurements

    def answer(self, proposal: Proposal) -> Trial:
        number, self.count = self.count, self.count + 1
        bare = proposal.trial(number, Status.MEASURED)
        count = model_config.total_instances(proposal.variants[0].config)
        loading_s = self.loading * LOOK_S * (0.8 + 0.2 * count) if bare.name != self.loaded else 0.0
        duration_s = LOOK_S if proposal.effort is None else proposal.effort.duration_s
        bare = replace(bare, cost_s=loading_s + duration_s, loading_s=loading_s)
        self.loaded = bare.name
        if bare.name in self.fails:
            return replace(bare, status=Status.FAILED, reason="it cannot be loaded")
        parts = []
        for part, (variant, load) in zip(bare.parts, proposal.parts, strict=True):
            rate, p99 = self.landscape.truth(variant, load)
            draw = random.Random(f"{self.seed} {proposal.key}")
            calm = (LOOK_S / duration_s) ** 0.5
            rate *= 1 + calm * self.landscape.noise * draw.gauss(0, 1)
            mean_ms = 1000 * load.value / rate if load.concurrency else p99 / self.landscape.tail
            p99 *= 1 + calm * self.landscape.tail_noise * draw.gauss(0, 1)
            width = 2 * calm * self.landscape.noise
            figures = Figures(
                (
                    ("perf_throughput", Estimate(rate, rate * (1 - width), rate * (1 + width))),
                    ("perf_latency_avg", Estimate(mean_ms)),
                    ("perf_latency_p99", Estimate(max(p99, mean_ms))),
                )
            )
            parts.append(replace(part, figures=figures))
        return replace(bare, parts=tuple(parts))
