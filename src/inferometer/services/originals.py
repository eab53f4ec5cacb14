"""Original models of a server, and their restoration after changes, even if the run is killed.

    record in a file -> change -> ... -> restore -> remove the file

The file holds the original state before the first change. If the run is killed, its guard (undo.py) restores it; if the
guard was killed too, the next run at this server does. A lock on the file, which the guard shares, shows that one of
them is active.
"""

import contextlib
import fcntl
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from inferometer.base.deadline import UNDO_LAST_S, Deadline, DeadlineError, ending
from inferometer.base.errors import LocalError, PeerError, UsageError
from inferometer.base.processes import maybe_process
from inferometer.base.units import plain_number
from inferometer.base.writing import writing
from inferometer.services.discovery import ModelControl, ready_models
from inferometer.services.kind import Document
from inferometer.services.undo import Guard, Undo

GUARD_S = 600.0  # time for the guard's attempts: loading may take this long
LOCK_S = GUARD_S + 60.0
UNLOADED_S = 10.0  # time for which an unloaded model may still answer
_PAUSE_S = 0.1

Say = Callable[[str], None]


class Originals:
    """Context in which models may be changed; on exit they are restored unless `keep` is set.

    `open` first restores the models that a killed run has left changed.
    """

    def __init__(self, control: ModelControl, server: str, say: Say) -> None:
        self._control = control
        self._server = server
        self._say = say
        self._path = kept_in(server)
        self._file: int | None = None
        self._guard = Guard()
        self._kept: dict[str, Document | None] = {}  # None: not loaded
        self._loaded: frozenset[str] = frozenset()
        self.keep = False
        self.has_put_back = False  # restored something after a killed run

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Self:
        self._file = _locked(self._path, self._server, self._say)
        try:
            left = _read(self._path)
            if left["models"]:
                _put_back(self._control, left["models"], left["loaded"], is_forced=True)
                self.has_put_back = True
                self._say(
                    f"The last run at {self._server} was killed before it could restore the server; restored now: "
                    f"{', '.join(sorted(left['models']))}"
                )
            os.ftruncate(self._file, 0)
            self._write({"process": os.getpid()})
        except BaseException:
            os.close(self._file)
            self._file = None
            raise
        return self

    def note(self, names: Iterable[str]) -> None:
        """Record the models' original state; call this before their first change."""
        fresh = [name for name in names if name not in self._kept]
        if not fresh:
            return
        if not self._kept:
            self._loaded = frozenset(ready_models(self._control))
            self._write({"loaded": sorted(self._loaded)})
        for name in fresh:
            config = self._control.config(name) if name in self._loaded else None
            self._write({"model": name, "config": config})
            if not self._kept:
                assert self._file is not None
                undo = Undo(partial(put_back_kept, self._control, str(self._path)), GUARD_S)
                self._guard.add(undo, keep_open=(self._file,))
            self._kept[name] = config

    def close(self) -> None:
        """Restore the models. May be called twice. Failures are left to the guard and to the next run."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            if not self.keep:
                with ending(last_s=UNDO_LAST_S):
                    _put_back(self._control, self._kept, self._loaded, is_forced=False)
            self._kept.clear()
        except PeerError as error:
            minutes = plain_number(GUARD_S / 60)
            raise PeerError(
                error.message,
                remedy=f"a background process keeps trying for {minutes} min; if it does not succeed, "
                f"{error.remedy}",
            ) from error
        finally:
            if self._kept:
                with contextlib.suppress(LocalError):
                    _append(file, self._path, {"process": None})  # from here on the guard is at work
            else:
                self._path.unlink(missing_ok=True)
            self._guard.close(is_needed=bool(self._kept))
            os.close(file)

    def _write(self, row: Mapping[str, Any]) -> None:
        assert self._file is not None
        _append(self._file, self._path, row)


def put_back_kept(control: ModelControl, path: str) -> None:
    """Restore the models recorded in the file of a killed run, then remove the file."""
    left = _read(Path(path))
    _put_back(control, left["models"], left["loaded"], is_forced=True)
    Path(path).unlink(missing_ok=True)


# --- the file


def kept_in(server: str) -> Path:
    """Return the file of a server in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path("~/.local/state").expanduser()
    name = f"{re.sub(r'[^a-zA-Z0-9.-]+', '_', server)}.jsonl"
    for place in (folder / "inferometer", Path(tempfile.gettempdir()) / f"inferometer-{os.getuid()}"):
        with contextlib.suppress(OSError, RuntimeError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(place, os.W_OK) and place.stat().st_uid == os.geteuid():
                return place / name
    raise LocalError(
        f"cannot record the changes made at {server}: neither '{folder}' nor the temporary folder is "
        "writable",
        remedy="set XDG_STATE_HOME to a writable folder",
    )


def _append(file: int, path: Path, row: Mapping[str, Any]) -> None:
    """Append a row. An incomplete row comes from a run that had not changed anything yet."""
    with writing(path):
        os.write(file, json.dumps(row).encode() + b"\n")
        os.fsync(file)


def _read(path: Path) -> dict[str, Any]:
    """Return `process`, `loaded` and `models`, if they are recorded."""
    found: dict[str, Any] = {"loaded": (), "models": {}}
    with contextlib.suppress(OSError):
        for line in path.read_bytes().splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # incomplete
                break
            if "model" in row:
                found["models"][row["model"]] = row["config"]
            else:
                found.update(row)
    return found


def _locked(path: Path, server: str, say: Say) -> int:
    """Open the file and lock it; wait for an active guard, but not for another run."""
    is_announced = False
    deadline = Deadline.after(LOCK_S)
    while True:
        with writing(path):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            holder = _read(path).get("process")
            if holder is not None and _is_alive(int(holder)):
                raise UsageError(
                    f"another run (process {holder}) is changing the models of {server}",
                    remedy="wait for it to end",
                ) from None
            if not is_announced:
                say(f"The last run at {server} could not restore the models: waiting for its guard to do so")
            is_announced = True
            try:
                deadline.sleep(_PAUSE_S)
            except DeadlineError as late:
                raise PeerError(
                    f"the guard of the last run did not restore the models of {server} {late}",
                    remedy="wait, or reload them by hand",
                ) from late
            continue
        if os.fstat(file).st_nlink:  # otherwise its previous holder removed it
            return file
        os.close(file)


def _is_alive(pid: int) -> bool:
    found = maybe_process(pid)
    return found is not None and not found.is_zombie


# --- restoration


def _put_back(
    control: ModelControl,
    models: Mapping[str, Document | None],
    loaded: Iterable[str],
    *,
    is_forced: bool,
) -> None:
    """Try to restore all models, then raise the first failure. `is_forced` loads the model even if a load of the
    previous run may be in progress: the server processes loads in order, so this one is the last."""
    failures = []
    for name in (name for name, config in models.items() if config is None):
        try:
            if is_forced:
                with contextlib.suppress(PeerError):  # if this fails, it is not loaded
                    control.load_model(name)
            _unload_back(control, name, {*loaded, *models})
        except PeerError as error:
            failures.append(error)
    were_loaded = [(name, config) for name, config in models.items() if config is not None]
    for name, config in sorted(were_loaded, key=lambda row: "ensemble_scheduling" in row[1]):  # members first
        try:
            _load_back(control, name, config, is_forced=is_forced)
        except PeerError as error:
            failures.append(error)
    if failures:
        raise PeerError(
            f"cannot restore the original configuration: {failures[0].message}",
            remedy="reload the model by hand, without an override of its configuration",
        ) from failures[0].__cause__ or failures[0]


def _load_back(control: ModelControl, name: str, original: Document, *, is_forced: bool) -> None:
    """Load with the configuration that the server reported. Triton keeps an overriding configuration when the model is
    loaded without one, and rereads the repository only when its files have changed."""
    if not is_forced and name in ready_models(control) and control.config(name) == original:
        return
    try:
        control.load_model(name, original)
    except PeerError:  # some servers reject their own configuration: load from the repository
        control.unload_model(name)
        control.load_model(name)
    if control.config(name) != original:
        raise PeerError(f"after reloading '{name}' its configuration differs from the original")


def _unload_back(control: ModelControl, name: str, others: Iterable[str]) -> None:
    """Unload the model and the members that an ensemble loaded, except those with their own original."""
    called: tuple[str, ...] = ()
    if name in ready_models(control):
        steps = control.config(name).get("ensemble_scheduling", {}).get("step", ())
        called = tuple(dict.fromkeys(str(step["model_name"]) for step in steps))
    control.unload_model(name)
    _await_unloaded(control, name)
    for member in called:
        if member not in others:
            _unload_back(control, member, others)


def _await_unloaded(control: ModelControl, name: str) -> None:
    """Wait until the model is gone: Triton answers earlier, and the next run would consider it loaded before."""
    limit = Deadline.after(UNLOADED_S)
    while name in ready_models(control) and not limit.has_passed():
        time.sleep(_PAUSE_S)
