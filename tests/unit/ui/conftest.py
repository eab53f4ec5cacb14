"""The browser interface of a store, called without a browser."""

from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.base.answer_file import Answer
from inferometer.cli.ui import startables
from inferometer.store.run import Run
from inferometer.store.store import Store
from inferometer.ui.app import application, no_token
from inferometer.ui.security import Gatekeeper, names_of
from inferometer.ui.site import Site
from tests.support.asgi import Answered, asked
from tests.support.reports import sample_result

HOST = "127.0.0.1:8700"
TOKEN = "the-token"
TRUSTED = {"host": HOST, "cookie": f"inferometer-8700={TOKEN}", "origin": f"http://{HOST}"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "store", startables())


@pytest.fixture
def guarded(site: Site) -> Gatekeeper:
    return Gatekeeper(application(site), TOKEN, names_of("127.0.0.1"), 8700, no_token)


@pytest.fixture
def ask(guarded: Gatekeeper) -> Callable[..., Answered]:
    """Send a request as from one of our pages, unless headers say otherwise."""

    def ask(path: str, **more) -> Answered:
        headers = TRUSTED | more.pop("headers", {})
        return asked(guarded, path, headers={key: value for key, value in headers.items() if value}, **more)

    return ask


@pytest.fixture
def kept(site: Site) -> Callable[..., Run]:
    """A run that has ended."""

    def keep(
        answer: Answer | None = None,
        *,
        words: tuple[str, ...] = (),
        tags: tuple[str, ...] = (),
        code: int = 0,
    ) -> Run:
        words = words or ("measure", "localhost:8000", "simple", "--concurrency", "1,2,4,8")
        with Store(site.folder).begin(words[0], words, tags=tags) as keeper:
            keeper.save(sample_result() if answer is None else answer)
            keeper.end(code)
        return keeper.run

    return keep
