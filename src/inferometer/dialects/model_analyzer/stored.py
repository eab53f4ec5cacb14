"""Variants and trials of earlier searches, read from the journal or from a classic checkpoint."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from inferometer.base.answer_file import plain
from inferometer.base.errors import UsageError
from inferometer.dialects.model_analyzer import checkpoint
from inferometer.dialects.model_analyzer.config import JOURNAL
from inferometer.tune import journal as journals
from inferometer.tune.journal import Journal
from inferometer.tune.scoring import Goal
from inferometer.tune.search.search import Proposal
from inferometer.tune.session import key_of
from inferometer.tune.study import Study
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant, VariantNames


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything, of all models; `studies` is what is known about each search besides its trials."""

    variants: tuple[ModelVariant, ...] = ()
    trials: tuple[Trial, ...] = ()
    studies: Mapping[str, Study] = field(default_factory=dict)

    def study(self, models: str) -> Study:
        """Of one model, or of several joined with commas."""
        goals = tuple(Goal(name) for name in models.split(","))
        return self.whole(self.studies.get(models) or Study("", "online", "", goals))

    def whole(self, study: Study) -> Study:
        """The study with all measurements of its models, each content once; those of a former configuration, or of
        which something else was sent, are left out."""
        by_name = {row.name: row for row in (*self.variants, *study.variants)}
        kept = list(study.trials)
        seen = {trial.key for trial in kept if trial.is_measured}
        for trial in self.trials:
            is_new = trial.is_measured and trial.models == study.name and trial.key not in seen
            if is_new and _is_current(trial, by_name, study.sent):
                seen.add(trial.key)
                kept.append(trial)
        used = {part.variant for trial in kept for part in trial.parts}
        variants = tuple(row for name, row in by_name.items() if name in used)
        return replace(study, trials=tuple(kept), variants=variants)


def _is_current(trial: Trial, variants: Mapping[str, ModelVariant], sent: str | None) -> bool:
    if any(part.variant not in variants for part in trial.parts):
        return False
    parts = tuple((variants[part.variant], part.load) for part in trial.parts)
    proposal = Proposal(parts, repeat=trial.repeat)
    return trial.key.startswith(proposal.key) if sent is None else trial.key == key_of(proposal, sent)


def read(folder: Path) -> Stored:
    """The journal of a checkpoint folder; where that has no measurement, its newest classic checkpoint."""
    if (folder / JOURNAL).exists():
        with journals.read(folder / JOURNAL) as journal:
            if journal.has_measured:
                return of_journal(journal)
    found = checkpoint.newest(folder)
    if found is None:
        raise UsageError(
            f"there is no checkpoint in '{folder}'",
            remedy="run profile first, or give its folder with --checkpoint-directory",
        )
    return Stored(found.variants, found.trials)


def of_journal(journal: Journal) -> Stored:
    names = journal.recall("studies") or []
    studies = {name: journal.value(Study, journal.recall(f"study {name}")) for name in names}
    return Stored(journal.variants(), journal.trials(), studies)


def remember(journal: Journal, studies: Iterable[Study]) -> None:
    """What reports need besides the trials."""
    names = list(journal.recall("studies") or [])
    for study in studies:
        bare = replace(study, trials=(), variants=())
        journal.remember(f"study {study.name}", plain(bare))
        names += [study.name] if study.name not in names else []
    journal.remember("studies", names)


@dataclass(frozen=True, slots=True)
class SentData:
    """What this run sends, to tell which measurements can stand for its own."""

    protocol: str
    flags: Mapping[str, Mapping[str, list[str]]]  # by model
    fingerprint: Callable[[Sequence[str]], str]  # of the load generator

    def is_same(self, sent: Mapping[str, checkpoint.Sent]) -> bool:
        return all(
            protocol in ("", self.protocol) and flags == self.flags.get(model, {})
            for model, (protocol, flags) in sent.items()
        )


def take_in(journal: Journal, found: checkpoint.Checkpoint, sent_data: SentData) -> int:
    """Measurements of a classic checkpoint the journal does not have yet; how many there were.

    Names stay where they are free. A name that stands for something else here is given anew; a model's own
    configuration that is no longer its own is left out.
    """
    names = VariantNames.of(journal.variants())
    renamed: dict[str, ModelVariant] = {}
    for variant in found.variants:
        known = names.known.get(variant.name)
        if known is None:
            names.add(variant)
            renamed[variant.name] = variant
        elif known.key == variant.key:
            renamed[variant.name] = known
        elif not variant.is_default:
            base = names.known.get(f"{variant.model}_config_default", variant)
            renamed[variant.name] = names.variant(
                variant.model, base.config, variant.overrides or variant.config, cpu_only=variant.cpu_only
            )
    count = 0
    for trial, sent in zip(found.trials, found.sent, strict=True):
        if any(part.variant not in renamed for part in trial.parts):
            continue
        parts = tuple(replace(part, variant=renamed[part.variant].name) for part in trial.parts)
        proposal = Proposal(tuple((renamed[part.variant], part.load) for part in trial.parts))
        models = [part.model for part in parts]
        mark = sent_data.fingerprint(models) if sent_data.is_same(sent) else "other data"
        key = key_of(proposal, mark)
        if journal.find(key, with_failed=False) is not None:
            continue
        whole = replace(trial, parts=parts, number=journal.next_number(), key=key)
        journal.add(whole, proposal.variants, study=whole.models)
        count += 1
    return count
