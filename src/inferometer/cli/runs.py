"""`inferometer runs`: list and manage stored runs."""

import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inferometer.base.errors import UsageError
from inferometer.base.frozen import frozen
from inferometer.base.reading import ANSWER, read_file
from inferometer.base.text import printable
from inferometer.base.writing import write_file, writing
from inferometer.options.asides import CONFIG, STORE
from inferometer.options.command_line import Command, Request
from inferometer.options.stored import RunsOptions
from inferometer.report.delivery import is_stdout
from inferometer.store.filter import parse_filter
from inferometer.store.run import RUNNING, Run, to_plain
from inferometer.store.store import Store, open_store

COMMAND = Command(
    "inferometer runs",
    "[list] [FILTER ...] [options]\nshow RUN\ntag RUN +TAG -TAG ...\nremove RUN ...\n"
    "export RUN|FILTER ... --json DIR | --mlflow DIR\nimport FILE ...",
    "List the stored runs, newest first; show, tag, remove, export or import them. Filters are model=, tag=, since=, "
    "command=, host= and state=; any other word is searched for in command lines, tags and verdicts.",
    RunsOptions,
    shared=(("Keep", (STORE,)), *CONFIG),
    examples=(
        ("list", "the latest 20"),
        ("model=simple since=2d --sort p99", "one model's runs of the last two days, fastest first"),
        ("show 7f3a", "details of one run"),
        ("tag 7f3a +release -draft", "add a tag and remove another"),
        ("remove 7f3a 91c0", "delete two runs permanently"),
        ("import profile_export_aiperf.json", "store a result that another tool wrote"),
    ),
    takes_words=True,
    takes_dashed=True,
)


_MEANT = {
    "rm": "remove",
    "delete": "remove",
    "del": "remove",
    "view": "show",
    "get": "show",
    "load": "import",
}


@frozen
class _Asked:
    store: Store
    words: tuple[str, ...]
    options: RunsOptions


def run(request: Request[RunsOptions]) -> int:
    words, options = request.words, request.own
    verb, rest = (words[0], words[1:]) if words and words[0] in _VERBS else ("list", words)
    if len(words) > 1 and (meant := _MEANT.get(words[0])):
        raise UsageError(
            f"'{words[0]}' is not an action of `runs`",
            remedy=f"write inferometer runs {meant} {shlex.join(words[1:])}",
        )
    store = open_store(request.asides.store)
    useless = [
        f"--{name}"
        for name, verbs in (("json", ("list", "show", "export")), ("mlflow", ("export",)))
        if getattr(options, name) is not None and verb not in verbs
    ]
    for name in useless:
        raise UsageError(f"{name} does not apply to `runs {verb}`", remedy="leave it out")
    _VERBS[verb](_Asked(store, rest, options))
    return 0


def _list(asked: _Asked) -> None:
    store, options = asked.store, asked.options
    for word in asked.words:
        if word.startswith("-"):
            raise UsageError(f"Invalid short option '{word}'", remedy="see --help for the options")
    chosen = parse_filter(asked.words, time.time())
    runs = store.runs(chosen, order=options.sort, limit=options.limit or None)
    if options.json is not None:
        _write_json([_described(store, run) for run in runs], options.json)
        return
    from inferometer.report.terminal import show
    from inferometer.store.run_documents import list_document

    show(list_document(runs, store.count(chosen), store.short))
    if not store.exists:
        print(printable(f"The folder {store.folder} does not exist yet; the first stored run creates it."))


def _show(asked: _Asked) -> None:
    (run,) = _runs(asked, most=1)
    if asked.options.json is not None:
        _write_json(_described(asked.store, run), asked.options.json)
        return
    from inferometer.report.terminal import show
    from inferometer.store.run_documents import run_document

    show(run_document(run))


def _tag(asked: _Asked) -> None:
    wrong = [word for word in asked.words[1:] if word[0] not in "+-" or len(word) < 2]
    if wrong or len(asked.words) < 2:
        raise UsageError(
            f"'{wrong[0]}' starts with neither + nor -" if wrong else "no tag is given",
            remedy="write +TAG to add a tag, -TAG to remove it",
        )
    store = asked.store
    run = store.get(asked.words[0])
    run = store.tag(run, *(word[1:] for word in asked.words[1:] if word[0] == "+"))
    run = store.untag(run, *(word[1:] for word in asked.words[1:] if word[0] == "-"))
    print(printable(f"{store.short(run)}: {' '.join(run.tags) or 'no tags'}"))


def _remove(asked: _Asked) -> None:
    runs = _runs(asked)
    for run in runs:
        if run.state == RUNNING:
            raise UsageError(f"run {run.id} is still running", remedy="stop it first, or wait")
    for run in runs:
        asked.store.remove(run)
        print(f"removed: {run.id}")


def _export(asked: _Asked) -> None:
    options = asked.options
    if (options.json is None and options.mlflow is None) or is_stdout(str(options.json)):
        raise UsageError(
            "no folder for the export is given", remedy="give one with --json DIR or --mlflow DIR"
        )
    runs = _chosen(asked) if asked.words and all("=" in word for word in asked.words) else _runs(asked)
    if options.json is not None:
        _export_json(asked.store, runs, options.json)
    if options.mlflow is not None:
        from inferometer.store.mlflow import export_run

        for run in runs:
            print(printable(str(export_run(run, asked.store.answer_path(run), options.mlflow))))


def _export_json(store: Store, runs: Sequence[Run], folder: Path) -> None:
    """Write the result of each run, and its description next to it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        described = folder / f"{run.id}.run.json"
        _write_json(_described(store, run), described)
        written = [described]
        if (answer := store.answer_path(run)).exists():
            written.append(folder / f"{run.id}.json")
            write_file(written[-1], read_file(answer, ANSWER, "the saved answer"))
        for path in written:
            print(printable(str(path)))


def _import(asked: _Asked) -> None:
    """Store saved answers, ours or those of other tools."""
    from inferometer.report.saved import consistent, read

    if not asked.words:
        raise UsageError("no file is given", remedy="give files written with --json, or by another tool")
    answers = [(name, read(Path(name))) for name in asked.words]
    for name, answer in answers:
        with consistent(name):
            run = asked.store.add(answer, ("runs", "import", name))
        print(printable(f"{asked.store.short(run)}: {name}"))


_VERBS: Mapping[str, Callable[[_Asked], None]] = {
    "list": _list,
    "show": _show,
    "tag": _tag,
    "remove": _remove,
    "export": _export,
    "import": _import,
}


def _runs(asked: _Asked, most: int | None = None) -> Sequence[Run]:
    """Return the runs with the given ids."""
    if not asked.words:
        raise UsageError("no run is given", remedy="give its id: `inferometer runs` lists them")
    if most is not None and len(asked.words) > most:
        raise UsageError(f"unexpected argument '{asked.words[most]}'", remedy="give one run")
    return [asked.store.get(word) for word in dict.fromkeys(asked.words)]


def _chosen(asked: _Asked) -> Sequence[Run]:
    """Return the runs that match the filters."""
    found = asked.store.runs(parse_filter(asked.words, time.time()))
    if not found:
        raise UsageError(
            f"no run matches {' '.join(asked.words)}", remedy="`inferometer runs` lists all runs"
        )
    return found


def _described(store: Store, run: Run) -> Mapping[str, object]:
    return {**to_plain(run), "short_id": store.short(run)}


def _write_json(document: object, path: Path) -> None:
    text = json.dumps(document, indent=1) + "\n"
    if is_stdout(str(path)):
        sys.stdout.write(text)
    else:
        write_file(path, text)
