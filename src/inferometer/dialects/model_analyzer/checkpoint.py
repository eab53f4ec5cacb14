"""The checkpoint folder: the journal of all searches, and classic checkpoints next to it.

A classic checkpoint is `<n>.ckpt`, one JSON object. It is read for its measurements, and written for the classic tool.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from inferometer.base.answer_file import plain
from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import ANSWER, read_file
from inferometer.base.text import is_digits
from inferometer.dialects.model_analyzer.config import JOURNAL
from inferometer.dialects.model_analyzer.flags import data_flags
from inferometer.stats.estimate import Estimate
from inferometer.stats.figures import BY_TAG, known_tag
from inferometer.tune import journal as journals
from inferometer.tune import model_config
from inferometer.tune.journal import Journal
from inferometer.tune.scoring import Goal
from inferometer.tune.search.search import Proposal
from inferometer.tune.session import key_of
from inferometer.tune.study import Study
from inferometer.tune.trial import ClientLoad, Figures, Trial, TrialPart
from inferometer.tune.variant import ModelVariant, VariantNames

MARK = "Inferometer.journal"  # in files we wrote, whose content the journal also has


Sent = Mapping[str, tuple[str, Mapping[str, list[str]]]]
"""By model, the protocol and the load generator's flags that determine the data."""


@frozen
class Checkpoint:
    """The content of a checkpoint; `is_ours` if the journal next to it has the same."""

    path: Path
    variants: tuple[ModelVariant, ...]
    trials: tuple[Trial, ...]
    sent: tuple[Sent, ...] = ()  # by trial
    is_ours: bool = False


def _numbered(folder: Path) -> dict[int, Path]:
    return {int(path.stem): path for path in folder.glob("*.ckpt") if is_digits(path.stem)}


def next_path(folder: Path) -> Path:
    return folder / f"{max(_numbered(folder), default=-1) + 1}.ckpt"


# --- reading


_OTHER = "move it away, or give another --checkpoint-directory"
_BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def newest(folder: Path) -> Checkpoint | None:
    found = _numbered(folder)
    return read(found[max(found)]) if found else None


def read(path: Path) -> Checkpoint:
    """Read a checkpoint, ignoring unknown keys; the error for an invalid file names it."""
    text = read_file(path, ANSWER, "the checkpoint", remedy=_OTHER)
    try:
        return _checkpoint(path, json.loads(text))
    except (*_BROKEN, UsageError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the checkpoint '{path}' cannot be read: {reason}",
            remedy=_OTHER,
        ) from error


def _checkpoint(path: Path, document: Mapping[str, Any]) -> Checkpoint:
    results = document["ResultManager.results"]["_results"]
    variants: dict[str, ModelVariant] = {}
    trials: list[Trial] = []
    sent: list[Sent] = []
    for by_variant in results.values():
        for run_config, measurements in by_variant.values():
            rows = tuple(_variants(run_config))
            variants |= {part.name: part for row in rows for part in row.with_members}
            sent += [_sent(run_config)] * len(measurements)
            trials += [
                _trial(place, rows, row) for place, row in enumerate(measurements.values(), len(trials))
            ]
    defaults = {row.model: row for row in variants.values() if row.is_default}
    return Checkpoint(
        path,
        tuple(_with_overrides(row, defaults.get(row.model)) for row in variants.values()),
        tuple(trials),
        tuple(sent),
        is_ours=MARK in document,
    )


def _sent(run_config: Mapping[str, Any]) -> Sent:
    found = {}
    for row in run_config["_model_run_configs"]:
        perf = row.get("_perf_config") or {}
        protocol = str((perf.get("_options") or {}).get("-i") or "")
        found[str(row["_model_name"])] = (protocol, data_flags((perf.get("_args") or {}).items()))
    return found


def _variants(run_config: Mapping[str, Any]) -> Iterator[ModelVariant]:
    for row in run_config["_model_run_configs"]:
        composing = tuple(_variant(part) for part in row.get("_composing_config_variants") or ())
        yield _variant(row["_model_config_variant"], row["_model_name"], composing)


def _variant(
    row: Mapping[str, Any], model: str = "", composing: tuple[ModelVariant, ...] = ()
) -> ModelVariant:
    config = _without_completed(model_config.normal(row["model_config"]))
    name = str(row["variant_name"])
    return ModelVariant(
        model or str(config.get("name") or name.rpartition("_config_")[0]),
        name,
        {},
        config,
        bool(row.get("cpu_only", False)),
        composing,
    )


_COMPLETED: Mapping[str, Any] = {
    "version_policy": {"latest": {"num_versions": 1}},
    "optimization": {"input_pinned_memory": {"enable": True}, "output_pinned_memory": {"enable": True}},
}
_FILES = ("model.py", "model.onnx", "model.plan", "model.pt", "model.savedmodel", "model.graphdef")


def _without_completed(config: model_config.Fields) -> model_config.Fields:
    """Remove defaults filled in by a server, so that a configuration equals its file."""
    kept = {name: value for name, value in config.items() if _COMPLETED.get(name) != value}
    if kept.get("default_model_filename") in _FILES:
        del kept["default_model_filename"]
    if groups := kept.get("instance_group"):
        kept["instance_group"] = [
            {name: value for name, value in group.items() if name != "name"} for group in groups
        ]
    return kept


def _with_overrides(variant: ModelVariant, default: ModelVariant | None) -> ModelVariant:
    if variant.is_default or default is None:
        return variant
    changed = {
        name: value
        for name, value in variant.config.items()
        if name != "name" and default.config.get(name) != value
    }
    return replace(variant, overrides=changed)


def _trial(number: int, variants: Sequence[ModelVariant], row: Mapping[str, Any]) -> Trial:
    parts = tuple(
        TrialPart(
            variant.model,
            variant.name,
            _load(part["_model_specific_pa_params"]),
            _figures(part["_non_gpu_data"]),
        )
        for variant, part in zip(variants, row["_model_config_measurements"], strict=True)
    )
    gpus = tuple((str(uuid), _figures(rows)) for uuid, rows in (row.get("_gpu_data") or {}).items())
    proposal = Proposal(tuple((variant, part.load) for variant, part in zip(variants, parts, strict=True)))
    return Trial(number, parts, gpus=gpus, key=proposal.key)


def _load(row: Mapping[str, Any]) -> ClientLoad:
    batch = int(row.get("batch-size") or 1)
    if row.get("concurrency-range") is not None:
        return ClientLoad(concurrency=int(row["concurrency-range"]), batch=batch)
    if row.get("request-rate-range") is not None:
        return ClientLoad(request_rate=float(row["request-rate-range"]), batch=batch)
    return ClientLoad(intervals=str(row.get("request-intervals") or ""), batch=batch)


def _figures(rows: Iterable[Sequence[Any]]) -> Figures:
    found = {known_tag(str(tag)): row for tag, row in rows}
    return Figures(
        tuple((tag, Estimate(float(row["_value"]))) for tag, row in found.items() if tag in BY_TAG)
    )


# --- writing

# The classic tool rejects a checkpoint with an unknown figure.
_OURS = ("perf_latency_p50", "perf_server_batch", "perf_error_rate", "cpu_utilization")


def document(
    variants: Sequence[ModelVariant], trials: Sequence[Trial], *, seed: int | None
) -> dict[str, Any]:
    """Return measured trials in the classic tool's layout."""
    by_name = {variant.name: variant for variant in variants}
    results: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if not trial.is_measured or trial.repeat or any(part.variant not in by_name for part in trial.parts):
            continue
        entries = results.setdefault(trial.models, {})
        if trial.name not in entries:
            entries[trial.name] = [_run_config(trial, by_name), {}]
        entries[trial.name][1][_key(trial, by_name)] = _measurement(trial)
    found: dict[str, Any] = {
        MARK: True,
        "ModelManager.model_variant_name_manager": _names(variants),
        "ResultManager.results": {"_results": results},
        "ResultManager.server_only_data": {},
        "MetricsManager.gpus": {},
    }
    if seed is not None:
        found["OptunaRunConfigGenerator.seed"] = seed
    return found


def _names(variants: Sequence[ModelVariant]) -> dict[str, Any]:
    configs: dict[str, Any] = {}
    for variant in variants:
        if "ensemble_scheduling" in variant.config and variant.composing:
            configs[variant.name] = {
                "key": ",".join(part.name for part in variant.composing),
                "name": variant.name,
            }
        else:
            configs[variant.name] = dict(variant.config)
    return {"_model_config_dicts": configs, "_model_name_index": VariantNames.of(variants).last}


def _run_config(trial: Trial, variants: Mapping[str, ModelVariant]) -> dict[str, Any]:
    return {
        "_triton_env": {},
        "_model_run_configs": [
            {
                "_model_name": part.model,
                "_model_config_variant": _config_variant(variants[part.variant]),
                "_perf_config": {"_args": _arguments(part.load), "_options": _options(part), "_verbose": {}},
                "_composing_config_variants": [
                    _config_variant(row) for row in variants[part.variant].composing
                ],
            }
            for part in trial.parts
        ],
    }


def _config_variant(variant: ModelVariant) -> dict[str, Any]:
    from google.protobuf import json_format

    config = model_config.from_document(variant.config)
    return {
        "model_config": json_format.MessageToDict(config),
        "variant_name": variant.name,
        "cpu_only": variant.cpu_only,
    }


def _arguments(load: ClientLoad) -> dict[str, Any]:
    return {
        "concurrency-range": load.concurrency,
        "request-rate-range": load.request_rate,
        "request-intervals": load.intervals,
    }


def _options(part: TrialPart) -> dict[str, Any]:
    return {"-m": part.model, "-b": part.load.batch, "-f": f"{part.model}-results.csv"}


def _key(trial: Trial, variants: Mapping[str, ModelVariant]) -> str:
    texts = []
    for part in trial.parts:
        words = [part.variant, *(str(word) for pair in _options(part).items() for word in pair)]
        words += [f"--{name}={value}" for name, value in _arguments(part.load).items() if value is not None]
        members = ",".join(row.name for row in variants[part.variant].composing)
        texts.append(" ".join([*words, *([members] if members else [])]))
    return "".join(texts)


def _measurement(trial: Trial) -> dict[str, Any]:
    return {
        "_model_variants_name": trial.name,
        "_gpu_data": {uuid: _rows(figures) for uuid, figures in trial.gpus},
        "_avg_gpu_data": [],
        "_avg_gpu_data_from_tag": {},
        "_model_config_measurements": [
            {
                "_model_config_name": part.variant,
                "_model_specific_pa_params": {"batch-size": part.load.batch, **_arguments(part.load)},
                "_non_gpu_data": _rows(part.figures),
                "_non_gpu_data_from_tag": {},
            }
            for part in trial.parts
        ],
    }


def _rows(figures: Figures) -> list[list[Any]]:
    return [
        [tag, {"_value": estimate.value, "_timestamp": 0}]
        for tag, estimate in figures.values
        if tag not in _OURS
    ]


# --- the whole folder


@frozen
class Stored:
    """The content of the folder, for all models; `studies` has the searches without their trials."""

    variants: tuple[ModelVariant, ...] = ()
    trials: tuple[Trial, ...] = ()
    studies: Mapping[str, Study] = field(default_factory=dict)

    def study(self, models: str) -> Study:
        """Return the study of one model, or of several joined with commas."""
        goals = tuple(Goal(name) for name in models.split(","))
        return self.whole(self.studies.get(models) or Study("", "online", "", goals))

    def whole(self, study: Study) -> Study:
        """Return the study with all measurements of its models, without duplicates and without those of a former
        configuration or of other data."""
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


def read_folder(folder: Path) -> Stored:
    """Read the journal of a checkpoint folder or, if it has no measurements, the newest classic checkpoint."""
    if (folder / JOURNAL).exists():
        with journals.read(folder / JOURNAL) as journal:
            if journal.has_measured:
                return read_journal(journal)
    found = newest(folder)
    if found is None:
        raise UsageError(
            f"there is no checkpoint in '{folder}'",
            remedy="run profile first, or give its folder with --checkpoint-directory",
        )
    return Stored(found.variants, found.trials)


def read_journal(journal: Journal) -> Stored:
    names = journal.recall("studies") or []
    studies = {name: journal.value(Study, journal.recall(f"study {name}")) for name in names}
    return Stored(journal.variants(), journal.trials(), studies)


def remember(journal: Journal, studies: Sequence[Study]) -> None:
    """Record what reports need in addition to the trials."""
    for study in studies:
        journal.remember(f"study {study.name}", plain(replace(study, trials=(), variants=())))
    names = [*(journal.recall("studies") or ()), *(study.name for study in studies)]
    journal.remember("studies", list(dict.fromkeys(names)))


def take_over(journal: Journal, found: Checkpoint, mark: Callable[[Sent], str]) -> int:
    """Import measurements of a classic checkpoint that the journal lacks; return their number.

    `mark` represents their data in the keys, so that only equal data makes them measurements of this run. Names that
    are free are kept; a name taken by another variant is replaced. A model's outdated own configuration is skipped.
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
        key = key_of(proposal, mark(sent))
        if journal.find(key, with_failed=False) is not None:
            continue
        whole = replace(trial, parts=parts, number=journal.next_number(), key=key)
        journal.add(whole, proposal.variants, study=whole.models)
        count += 1
    return count
