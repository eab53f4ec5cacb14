"""`--dry-run` and `--show-reply`: show the first request of a run and its reply instead of running."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from inferometer.base.confined import NotRunError, dry_run
from inferometer.base.errors import UsageError
from inferometer.base.messages import messages_shown
from inferometer.base.text import to_stderr
from inferometer.options.options import Options
from inferometer.report.delivery import FORMS

if TYPE_CHECKING:
    from inferometer.measure.prepare import Setup
    from inferometer.options.command_line import Request

BAD_REPLY = 1
SEVERAL_ADDRESSES = ("measure", "find")
"""Commands that spread their load over several addresses."""


def preview(name: str, request: "Request[Any]") -> int:
    """Show the first request, and its reply if requested; return 1 for an error reply."""
    is_dry = request.asides.dry_run
    if is_dry and request.asides.show_reply:
        raise UsageError(
            "--dry-run sends nothing, but --show-request and --show-reply send one request",
            remedy="give one of them",
        )
    from inferometer.measure.addresses import prepare_shared
    from inferometer.measure.prepare import Habits, prepare
    from inferometer.measure.preview import first_of, reply_text, request_text, send

    if unwritten := [f"--{form}" for form in FORMS if form in request.load]:
        to_stderr(f"{' and '.join(unwritten)}: not written, since nothing is measured")
    is_good, prepare_any = True, prepare_shared if name in SEVERAL_ADDRESSES else prepare
    for title, load in _loads(name, request):
        options = load if isinstance(load, Options) else load.options
        with messages_shown(options.verbose), dry_run() if is_dry else nullcontext(), _not_run(title):
            setup = (
                prepare_any(
                    replace(options, is_dry=is_dry),
                    command=name,
                    habits=Habits(streams_text=name == "measure"),
                )
                if isinstance(load, Options)
                else load.prepared(is_dry=is_dry)
            )
            if not options.quiet:
                for message in setup.messages:
                    to_stderr(message)
            if title:
                print(f"# {title}")
            first = first_of(setup)
            print(request_text(setup, first), end="\n\n", flush=True)
            if not is_dry:
                reply = send(setup, first)
                print(reply_text(setup, reply), end="\n\n", flush=True)
                is_good = is_good and reply.is_good
    return 0 if is_good else BAD_REPLY


@contextmanager
def _not_run(title: str) -> Iterator[None]:
    """Report that a request is not shown if only user code could make it."""
    try:
        yield
    except NotRunError as error:
        to_stderr(f"The first request{f' of {title}' if title else ''} is not shown: {error}")


class PreparedLoad(Protocol):
    """A load whose first request depends on more than options."""

    @property
    def options(self) -> Options: ...
    def prepared(self, *, is_dry: bool) -> "Setup": ...


def _loads(name: str, request: "Request[Any]") -> Iterator[tuple[str, Options | PreparedLoad]]:
    """Return the loads of a run, with their names if there are several."""
    loads: Iterator[tuple[str, Options | PreparedLoad]] = import_module(f"inferometer.cli.{name}").loads(
        request
    )
    return loads
