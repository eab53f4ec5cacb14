"""`inferometer ui`: start, watch, store and compare runs in a browser."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.base.errors import UsageError
from inferometer.base.text import to_stderr
from inferometer.options.asides import CONFIG
from inferometer.options.command_line import Command, Request
from inferometer.options.stored import UiOptions
from inferometer.store.private import maybe_open_note
from inferometer.store.store import open_store

if TYPE_CHECKING:
    from inferometer.options.options import Options
    from inferometer.ui.form import Check, Startable
    from inferometer.ui.place import UiPlace

COMMAND = Command(
    "inferometer ui",
    "[options]",
    "Show stored runs in a browser: start runs, watch them live, compare them, see their trend.",
    UiOptions,
    shared=CONFIG,
    examples=(
        ("--open", "the runs of this folder"),
        ("--store /data/runs --host 0.0.0.0", "accessible to others who have the printed token"),
    ),
    epilog="For more, see `inferometer help browser`.",
)
STARTED = ("measure", "find", "diagnose", "compare", "tune", "demo")


def run(request: Request[UiOptions]) -> int:
    asked = request.own
    folder = open_store(asked.store).folder
    check_installed()
    from inferometer.ui.place import maybe_read
    from inferometer.ui.server import UiRequest, serve

    if (there := maybe_read(folder)) is not None:
        print(f"The runs in {folder} are already served at {there.page()}")
        if asked.open:
            _open(there.page())
        return 0

    def announce(place: "UiPlace") -> None:
        proxied = "".join(
            f"\nThrough the proxy: https://{name}/?token={place.token}" for name in asked.allow_host
        )
        print(
            f"The runs in {folder}: {place.page()}{proxied}\nPress Ctrl-C to stop; runs started there continue.",
            flush=True,
        )
        if (note := maybe_open_note(folder)) is not None:
            to_stderr(f"WARNING: {note}")
        if asked.open:
            _open(place.page())

    serve(
        UiRequest(folder, tuple(startables()), asked.host, asked.allow_host, asked.port, asked.idle_s),
        announce,
    )
    return 0


def check_installed() -> None:
    """Raise if the packages of the extra `ui` are not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the browser interface requires the package {error.name}, which is not installed",
            remedy="pip install 'inferometer[ui]'",
        ) from error


def _open(page: str) -> None:
    import webbrowser

    if not webbrowser.open(page):
        to_stderr("could not start a browser; open the address yourself")


def startables() -> "Iterator[Startable]":
    """Yield the commands that the form offers."""
    from inferometer.ui.form import Startable

    for name in STARTED:
        module = import_module(f"inferometer.cli.{name}")
        yield Startable(
            name,
            module.COMMAND,
            _check(getattr(module, "loads", None)),
            takes_words=name in ("measure", "find", "diagnose"),
            has_target=name != "demo",
            takes_many=name == "compare",
            needs_address=name not in ("tune", "demo"),
            places={"tune": ("--journal",), "demo": ("--folder",)}.get(name, ()),
        )


def _check(loads: "Callable[[Request[Any]], Iterator[tuple[str, Options]]] | None") -> "Check":
    """Return a function that makes the first load, which checks all options and their combinations."""
    return lambda request: None if loads is None else next(iter(loads(request)))[1]


def show_live(folder: Path, run: str) -> None:
    """Open the live page of a run, starting the server of its store if necessary."""
    from inferometer.ui.launch import launched

    page = launched(folder).page(f"/runs/{run}/live")
    to_stderr(f"Live: {page}")
    _open(page)
