"""Console output of the tuner's commands, Ctrl-C, and the files written during a search."""

import json
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.base.signals import note_signal
from inferometer.base.text import printable
from inferometer.base.writing import drop_link, write_file, writing
from inferometer.dialects.model_analyzer import checkpoint
from inferometer.dialects.model_analyzer.build import ProfileJob
from inferometer.dialects.model_analyzer.checkpoint import Stored
from inferometer.dialects.model_analyzer.load_generator import ErrorLog
from inferometer.report.documents.study_facts import load_text, trial_line
from inferometer.stats.watcher import Watcher
from inferometer.tune import model_config
from inferometer.tune.search.search import Proposal, SkippedProposal
from inferometer.tune.settings import IN_PROCESS
from inferometer.tune.trial import Trial
from inferometer.tune.variant import ModelVariant, changes

INTERRUPTS = 3


class Console:
    """Printer of lines on stdout, each with the program's mark."""

    def __init__(self, mark: str, *, is_quiet: bool = False, is_verbose: bool = False) -> None:
        self._mark = mark
        self._is_quiet = is_quiet
        self.is_verbose = is_verbose

    def info(self, text: str) -> None:
        if not self._is_quiet:
            self._print(text)

    def warn(self, text: str) -> None:
        self.info(f"WARNING: {text}")

    def error(self, text: str) -> None:
        self._print(f"ERROR: {text}")

    def debug(self, text: str) -> None:
        if self.is_verbose:
            self._print(f"DEBUG: {text}")

    def plain(self, text: str) -> None:
        if not self._is_quiet:
            print(printable(text), flush=True)

    def _print(self, text: str) -> None:
        clock = time.strftime("%H:%M:%S ") if self.is_verbose else ""
        print(printable(f"{clock}[{self._mark}] {text}"), flush=True)


class SearchInterrupts:
    """Handler of Ctrl-C: the first two let the measurement finish, the third exits at once; so do SIGTERM and SIGHUP.

    As in the classic tool, every signal counts, however close to the previous one.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.count = 0

    def receive(self, number: int, frame: object) -> None:
        self.count = self.count + 1 if number == signal.SIGINT else INTERRUPTS
        if number == signal.SIGINT:
            self._say(
                f"Received SIGINT {self.count}/{INTERRUPTS}. Will attempt to exit after current measurement."
            )
        if self.count >= INTERRUPTS:
            note_signal(number)
            raise KeyboardInterrupt


class SearchConsole(Watcher):
    """Reports the progress of a search and writes the files of each step: folders, checkpoint, failures."""

    def __init__(
        self, job: ProfileJob, console: Console, interrupts: SearchInterrupts, known: Stored
    ) -> None:
        self._job = job
        self._console = console
        self._interrupts = interrupts
        launch = job.settings.launch
        self._folders = VariantFolders(
            job.config.output_model_repository_path,
            launch.repositories,
            are_models=launch.mode == IN_PROCESS,
        )
        self._is_made = False
        self._seen: set[str] = set()
        self._is_known = False
        self._variants = {variant.name: variant for variant in known.variants}
        self._known_names = frozenset(self._variants)
        self._trials = list(known.trials)
        self._checkpoint: Path | None = None
        self.failures = 0
        self.error_log = ErrorLog(job.config.export_path / "perf_analyzer_error.log")

    def said(self, text: str, *, is_detail: bool = False, is_warning: bool = False) -> None:
        console = self._console
        (console.warn if is_warning else console.debug if is_detail else console.info)(text)

    def proposed(self, proposal: Proposal, *, is_known: bool) -> None:
        self._is_known = is_known
        self._make_output()
        for variant in proposal.variants:
            self._introduce(variant)
            self._folders.write(variant)
        if is_known:
            self._console.info("Existing measurement found for run config. Skipping profile")
            return
        for variant, load in proposal.parts:
            self._console.info(f"Profiling {variant.name}: {load}")

    def tried(self, trial: Trial) -> None:
        if self._is_known:
            return
        if trial.is_measured:
            self._console.debug(f"Measured {trial_line(trial)} (in {trial.cost_s:.1f} s)")
            self._trials.append(trial)
            self.save()
            return
        self.failures += 1
        self._console.error(f"{trial.name}, {load_text(trial)}: no measurement: {trial.reason}")
        if self._job.generator is None:
            what = f"the built-in load generator on {trial.name}, {load_text(trial)}"
            self.error_log.add(what, trial.reason)

    def skipped(self, skip: SkippedProposal) -> None:
        names = ",".join(variant.name for variant in skip.proposal.variants)
        self._console.debug(f"{names}: {skip.reason}")

    def is_interrupted(self) -> bool:
        return self._interrupts.count > 0

    # --- files written during the search

    def _make_output(self) -> None:
        """Create the output folder once the server is up, so that a search that cannot start leaves nothing."""
        if self._is_made:
            return
        self._is_made = True
        output = self._job.config.output_model_repository_path
        if output.exists():
            self._console.warn(f'Overriding the output model repo path "{output}"')
        with writing(output):
            # Keep a link and replace its target.
            folder = output.resolve() if output.is_symlink() else output
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir()

    def _introduce(self, variant: ModelVariant) -> None:
        for part in (*variant.composing, variant):
            self._variants[part.name] = part
            if part.name in self._seen:
                continue
            self._seen.add(part.name)
            verb = "Found existing" if part.name in self._known_names else "Creating"
            self._console.info(f"{verb} model config: {part.name}")
            for text in changes(part.overrides):
                self._console.info(f"  {text}")

    def save(self) -> None:
        """Write the classic checkpoint, next to the journal."""
        if self._checkpoint is None:
            self._checkpoint = checkpoint.next_path(self._job.config.checkpoint_directory)
        seed = self._job.settings.search.seed
        document = checkpoint.document(tuple(self._variants.values()), self._trials, seed=seed)
        drop_link(self._checkpoint)
        write_file(self._checkpoint, json.dumps(document))

    def report_saved(self) -> None:
        if not self._is_made:
            return
        if self._checkpoint is None:
            self._console.info("No changes made to analyzer data, no checkpoint saved.")
        else:
            self._console.info(f"Saved checkpoint to {self._checkpoint}")


# --- the output model repository


@dataclass(slots=True)
class VariantFolders:
    """Writer of variants, each once: the first of a model copies the model's folder, the others link to it."""

    output: Path
    repositories: Sequence[Path] = ()
    are_models: bool = False  # loaded from here by their own names, otherwise in place of their model
    _written: dict[str, str] = field(default_factory=dict)  # name -> key of the content
    _first: dict[str, Path] = field(default_factory=dict)  # by model

    def write(self, variant: ModelVariant) -> None:
        for member in variant.composing:
            self.write(member)
            self._write(member, member.model)  # the current members, by their own names
        self._write(variant, variant.name)

    def _write(self, variant: ModelVariant, name: str) -> None:
        if self._written.get(name) == variant.key:
            return
        folder = self.output / name
        config = {**variant.config, "name": name if self.are_models else variant.model}
        with writing(folder):
            folder.mkdir(exist_ok=True)
            if name not in self._written:
                self._fill(folder, variant.model)
            write_file(folder / "config.pbtxt", model_config.to_text(config))
        self._written[name] = variant.key

    def _fill(self, folder: Path, model: str) -> None:
        source = model_config.find_model(self.repositories, model)
        if source is None:
            return  # a remote server: only configurations are known here
        first = self._first.get(model)
        for entry in source.iterdir():
            if entry.name == "config.pbtxt":
                continue
            if first is not None:
                (folder / entry.name).symlink_to((first / entry.name).resolve())
            elif entry.is_dir():
                shutil.copytree(entry, folder / entry.name)
            else:
                shutil.copy2(entry, folder / entry.name)
        self._first.setdefault(model, folder)
