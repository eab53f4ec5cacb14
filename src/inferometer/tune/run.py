"""The shell around a search: load what it proposes, measure, write it down, tell it."""

from dataclasses import dataclass, replace

from inferometer.base.clock import Clock
from inferometer.base.errors import InferometerError, PeerError, UsageError
from inferometer.base.units import NS_PER_S
from inferometer.measure.watcher import Watcher
from inferometer.tune.journal import Journal
from inferometer.tune.launch.site import Site
from inferometer.tune.meter import Meter, MeterError
from inferometer.tune.search.search import Proposal, Search
from inferometer.tune.study import Study
from inferometer.tune.trial import Status, Trial
from inferometer.tune.variant import Names

FIRST_ATTEMPTS = 2  # when so many fail in a row at the start, nothing will ever succeed


@dataclass(slots=True)
class Lab:
    """What trials are made with."""

    site: Site
    meter: Meter
    journal: Journal
    names: Names
    clock: Clock
    watcher: Watcher
    has_measured: bool = False  # another model of this session: so the set-up works


def run(lab: Lab, search: Search, study: Study) -> Study:
    """The study with the trials of the search. Whatever stops it, what was measured is in the journal."""
    retry = lab.journal.recall(f"ended {study.name}") is not None
    trials: list[Trial] = []
    attempts, successes = 0, int(lab.has_measured)
    ended = ""
    while True:
        proposal = search.ask()
        for said in search.take_said():
            lab.watcher.said(said.text, is_detail=said.is_detail, is_warning=said.is_warning)
        for skip in search.take_skipped():
            lab.watcher.skipped(skip)
            trials.append(skip.proposal.trial(-1, Status.SKIPPED, skip.reason))
        if proposal is None:
            ended = search.ended
            break
        if lab.watcher.is_interrupted():
            return _with(study, lab, trials, "interrupted")
        trial = _known(lab, proposal, retry=retry)
        lab.watcher.proposed(proposal, is_known=trial is not None)
        if trial is None:
            fresh = _attempts(lab, proposal, study.name)
            attempts += 1
        else:
            fresh = [trial]
        for trial in fresh:
            lab.watcher.tried(trial)
        listed = {known.number for known in trials}  # a search may look at one again
        trials += [trial for trial in fresh if trial.number not in listed]
        trial = fresh[-1]
        successes += trial.is_measured
        if attempts >= FIRST_ATTEMPTS and not successes:
            raise PeerError(
                f"the first {FIRST_ATTEMPTS} attempts to measure failed; the last: {trial.reason}",
                remedy="mend the model or its settings, and look at the server's log",
            )
        search.tell(trial)
    lab.journal.remember(f"ended {study.name}", ended)
    return _with(study, lab, trials, ended)


def _known(lab: Lab, proposal: Proposal, *, retry: bool) -> Trial | None:
    key = stored_key(lab, proposal)
    found = lab.journal.find(key, with_failed=not retry)
    if found is None:
        return None
    # Names may have changed hands since: what counts is the content.
    parts = tuple(
        replace(part, variant=variant.name)
        for part, variant in zip(found.parts, proposal.variants, strict=True)
    )
    return replace(found, parts=parts, predicted=proposal.predicted)


def stored_key(lab: Lab, proposal: Proposal) -> str:
    return key_of(proposal, lab.meter.fingerprint([variant.model for variant in proposal.variants]))


def key_of(proposal: Proposal, sent: str) -> str:
    """What trials are kept under: equal for those that can stand for each other."""
    return f"{proposal.key} {sent}".strip()


def _with(study: Study, lab: Lab, trials: list[Trial], ended: str) -> Study:
    used = {part.variant for trial in trials for part in trial.parts}
    variants = tuple(variant for variant in lab.names.known.values() if variant.name in used)
    sent = lab.meter.fingerprint(study.models)
    return replace(study, trials=tuple(trials), variants=variants, ended=ended, sent=sent)


def _attempts(lab: Lab, proposal: Proposal, study: str) -> list[Trial]:
    """One, or two where the server died in the first: that may be no fault of the variant's."""
    found: list[Trial] = []
    while not found or (len(found) == 1 and not found[0].is_measured and not lab.site.is_running()):
        found.append(attempt(lab, proposal))
        lab.journal.add(found[-1], proposal.variants, study=study)
    return found


def attempt(lab: Lab, proposal: Proposal) -> Trial:
    """One trial, with its figures or its reason. A user's mistake ends the search, unless other models worked."""
    number = lab.journal.next_number()
    begun_ns = lab.clock()
    try:
        if lab.site.revive():
            lab.meter.forget()
        is_fresh = lab.site.apply(proposal.variants)
        if is_fresh:
            loaded = [part.name for variant in proposal.variants for part in (*variant.composing, variant)]
            lab.watcher.said(f"Loaded {', '.join(loaded)}", is_detail=True)
        reading = lab.meter.measure(proposal, lab.site, is_fresh=is_fresh)
    except (MeterError, InferometerError) as error:
        if isinstance(error, UsageError) and not lab.has_measured:
            models = ", ".join(variant.model for variant in proposal.variants)
            raise UsageError(f"{models}: {error.message}", remedy=error.remedy) from error
        reason = " ".join(str(error).split())  # a server's words may have lines
        if not lab.site.is_running():
            reason = f"the server ended: {reason}"
        trial = proposal.trial(number, Status.FAILED, reason)
    else:
        bare = proposal.trial(number, Status.MEASURED)
        parts = tuple(
            replace(part, figures=found) for part, found in zip(bare.parts, reading.parts, strict=True)
        )
        trial = replace(bare, parts=parts, gpus=reading.gpus)
    cost_s = (lab.clock() - begun_ns) / NS_PER_S
    return replace(trial, cost_s=cost_s, key=stored_key(lab, proposal))
