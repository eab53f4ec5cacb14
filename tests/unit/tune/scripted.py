"""A search driven by a formula, with its proposals in order."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from inferometer.stats.estimate import Estimate
from inferometer.tune import model_config
from inferometer.tune.search.search import Proposal, SearchMessage, SearchSteps, SkippedProposal
from inferometer.tune.trial import ClientLoad, Figures, Status, Trial
from inferometer.tune.variant import ModelVariant
from tests.support.landscape import driven

W = model_config.parse_text(
    """name: "W" backend: "python" max_batch_size: 8 dynamic_batching { }
    input { name: "IN" data_type: TYPE_FP32 dims: [64] }
    instance_group { count: 1 kind: KIND_CPU }""",
    "config.pbtxt",
)
N = {name: value for name, value in W.items() if name not in ("max_batch_size", "dynamic_batching")}

Formula = Callable[[ModelVariant, ClientLoad], tuple[float, float] | None]
"""(throughput, p99 in ms) of a variant under a load; None fails."""


@dataclass(slots=True)
class Driven:
    """The outcome of a search."""

    trials: list[Trial] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    ended: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the variants, in the order they were first measured."""
        return list(dict.fromkeys(trial.name for trial in self.trials))

    def loads(self, name: str) -> list[float]:
        return [trial.load.value for trial in self.trials if trial.name == name]


def drive(steps: SearchSteps[str], formula: Formula) -> Driven:
    """Trials measured once each, as in the journal."""
    found = Driven()
    known: dict[str, Trial] = {}

    def measure(proposal: Proposal) -> Trial:
        if proposal.key not in known:
            known[proposal.key] = answer(proposal, formula, len(known))
            found.trials.append(known[proposal.key])
            found.proposals.append(proposal)
        return known[proposal.key]

    events, found.ended = driven(steps, measure)
    found.said = [event.text for event in events if isinstance(event, SearchMessage)]
    found.skipped = [event.reason for event in events if isinstance(event, SkippedProposal)]
    return found


def answer(proposal: Proposal, formula: Formula, number: int) -> Trial:
    bare = proposal.trial(number, Status.MEASURED)
    parts = []
    for part, (variant, load) in zip(bare.parts, proposal.parts, strict=True):
        figures = formula(variant, load)
        if figures is None:
            return replace(bare, status=Status.FAILED, reason="scripted")
        rate, p99 = figures
        rows = (("perf_throughput", Estimate(rate)), ("perf_latency_p99", Estimate(p99)))
        parts.append(replace(part, figures=Figures(rows)))
    return replace(bare, parts=tuple(parts), cost_s=1.0)


def server(variant: ModelVariant, load: ClientLoad) -> tuple[float, float]:
    """A server with 3 ms + 0.25 ms per row, as the contract's model W."""
    k, b = model_config.total_instances(variant.config), max(1, model_config.max_batch_size(variant.config))
    batch = min(max(load.value / (k + 1), 1.0), b)
    service_s = 0.003 + 0.00025 * batch
    rate = min(min(k, load.value) * batch / service_s, load.value / service_s)
    return rate, 1000 * load.value / rate * 1.2
