"""Attempt to measure a proposal on a server: load its variants and apply the load."""

from collections.abc import Callable
from dataclasses import replace

from inferometer.base.errors import InferometerError, UsageError
from inferometer.base.frozen import frozen
from inferometer.base.units import NS_PER_S, monotonic_ns
from inferometer.tune.deployment import Deployment
from inferometer.tune.meter import Meter, TrialError, TrialFigures
from inferometer.tune.search.search import Proposal
from inferometer.tune.trial import Status, Trial


@frozen
class Attempt:
    """The outcome of an attempt: figures, or the reason why there are none."""

    figures: TrialFigures | None
    loading_s: float = 0.0
    measuring_s: float = 0.0  # including the time to warm up
    reason: str = ""
    mistake: UsageError | None = None  # the user's mistake, if it may be the reason
    is_running: bool = True  # whether the server is still running

    def trial(self, proposal: Proposal, number: int) -> Trial:
        """Return the trial, without its cost and key."""
        if self.figures is None:
            return replace(
                proposal.trial(number, Status.FAILED, self.reason),
                loading_s=self.loading_s,
                measuring_s=self.measuring_s,
            )
        bare = proposal.trial(number, Status.MEASURED)
        parts = tuple(
            replace(part, figures=found) for part, found in zip(bare.parts, self.figures.parts, strict=True)
        )
        warming_s = min(self.figures.warming_s, self.measuring_s)
        return replace(
            bare,
            parts=parts,
            gpus=self.figures.gpus,
            loading_s=self.loading_s,
            warming_s=warming_s,
            measuring_s=self.measuring_s - warming_s,
            startup_s=self.figures.startup_s,
            note=self.figures.note,
            is_client_limited=self.figures.is_client_limited,
            is_host_busy=self.figures.is_host_busy,
            is_cold=self.figures.is_cold,
        )

    def check_mistake(self, proposal: Proposal) -> None:
        """Raise the user's mistake, if any, naming the models."""
        if self.mistake is not None:
            models = ", ".join(variant.model for variant in proposal.variants)
            raise UsageError(
                f"{models}: {self.mistake.message}", remedy=self.mistake.remedy
            ) from self.mistake


def attempted(
    proposal: Proposal, deployment: Deployment, meter: Meter, say: Callable[[str], None] = lambda text: None
) -> Attempt:
    """Make one attempt, restarting the server first if it died, or if its configuration requires it."""
    begun_ns, loaded_ns = monotonic_ns(), None
    is_fresh = True  # if loading fails
    try:
        is_revived = deployment.revive()
        if is_revived or deployment.restarts_for(proposal.variants):
            meter.forget()  # before the server stops, because it may wait for open connections
        is_fresh = deployment.apply(proposal.variants) or is_revived
        loaded_ns = monotonic_ns()
        if is_fresh:
            loaded = [part.name for variant in proposal.variants for part in variant.with_members]
            say(f"Loaded {', '.join(loaded)}")
        figures = meter.measure(proposal, deployment, is_fresh=is_fresh)
    except (TrialError, InferometerError) as error:
        reason = " ".join(str(error).split())  # a server's message may have several lines
        is_running = deployment.is_running()
        if not is_running:
            reason = f"the server {deployment.end_words()}: {reason}"
        mistake = error if isinstance(error, UsageError) else None
        return Attempt(None, *_times(begun_ns, loaded_ns, is_fresh=is_fresh), reason, mistake, is_running)
    return Attempt(figures, *_times(begun_ns, loaded_ns, is_fresh=is_fresh))


def _times(begun_ns: int, loaded_ns: int | None, *, is_fresh: bool) -> tuple[float, float]:
    """Return the seconds of loading and of measuring. If nothing had to be loaded, all of them count as measuring."""
    now_ns = monotonic_ns()
    if not is_fresh:
        return 0.0, (now_ns - begun_ns) / NS_PER_S
    loaded_ns = now_ns if loaded_ns is None else loaded_ns
    return (loaded_ns - begun_ns) / NS_PER_S, (now_ns - loaded_ns) / NS_PER_S
