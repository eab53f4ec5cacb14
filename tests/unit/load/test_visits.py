"""A visit in progress: pauses, ends, async generators, and faulty code."""

import asyncio

import pytest

from inferometer.base import status
from inferometer.base.errors import PeerError, UsageError
from inferometer.base.units import NS_PER_MS
from inferometer.load.visit_file import VisitFile
from inferometer.load.visits import Following, VisitError, VisitMessages, VisitRun
from inferometer.services.visit_plan import VisitPlan
from inferometer.visits import call, pause


class Caller:
    def request(self, called):
        return repr(called.body).encode()

    def http_answer(self, body, header_length):
        if not body:
            raise PeerError("nothing came")
        return body.decode()

    def grpc_answer(self, message):
        return self.http_answer(message, None)


def started(make):
    return VisitRun(VisitPlan(make, ("a", "b"), (Caller(), Caller())), 3)


def test_pauses_add_up_until_the_next_request():
    def visit(number):
        yield pause(0.001)
        said = yield call("b", body=number)
        yield pause(0.002)
        yield pause(0.003)
        yield call("a", body=said)
        yield pause(0.004)

    run = started(visit)
    assert run.following(None) == Following(NS_PER_MS, 1, b"3")
    assert run.following("yes") == Following(5 * NS_PER_MS, 0, b"'yes'")
    last = run.following(None)
    assert last.is_over
    assert last.pause_ns == 4 * NS_PER_MS


def test_an_async_generator_is_a_visit_too():
    async def ready():
        return 5

    async def visit(number):
        said = yield call("a", body=await ready())
        yield call("b", body=said)

    run = started(visit)
    assert run.following(None).request == b"5"
    assert run.following("x").request == b"'x'"
    assert run.following(None).is_over
    run.close()


class Never:
    def __await__(self):
        yield


async def waiting(number):
    await Never()
    yield call("a")


async def sleeping(number):
    await asyncio.sleep(0.1)
    yield call("a")


def endless(number):
    while True:
        yield pause(0)


def broken(number):
    yield call("a")
    raise KeyError("x")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (waiting, "awaits something that is not ready"),
        (sleeping, r"awaits something that is not ready.*yield pause\(seconds\)"),
        (endless, "1000 pauses in a row without a request"),
    ],
)
def test_a_visit_that_would_never_continue_is_refused(make, said):
    with pytest.raises(VisitError, match=said):
        started(make).following(None)


def test_an_error_is_reported_with_its_line():
    run = started(broken)
    run.following(None)
    with pytest.raises(VisitError) as caught:
        run.following(None)
    assert str(caught.value).startswith("KeyError: 'x' (")
    assert f"{__file__}:" in str(caught.value)


def test_links_get_the_request_of_a_slot_and_pass_its_reply():
    messages = VisitMessages(VisitPlan(broken, ("a",), (Caller(),)))
    messages.put(7, 0, b"request")
    assert messages[7] == b"request"
    assert messages.wants(7)
    assert messages.judge_http(7, 7, 0, bytearray(b"hi"), None) == (status.OK, "")
    assert messages.answers.pop(7) == "hi"
    assert messages.judge_http(7, 7, 0, bytearray(), None) == (status.MALFORMED, "nothing came")
    assert messages.judge_grpc(7, 7, 0, b"") == "nothing came"


def test_a_file_is_run_once_and_can_import_its_neighbours(tmp_path):
    (tmp_path / "near.py").write_text("STEP = 'a'\n")
    (tmp_path / "shop.py").write_text(
        "from near import STEP\nfrom inferometer.visits import call\n"
        "def visit(number):\n    yield call(STEP, body=number)\n"
        "class Other:\n    def visit(number):\n        yield call('b')\n"
        "if __name__ == '__main__':\n    raise SystemExit\n"
    )
    visit = VisitFile(str(tmp_path / "shop.py"), "visit")
    assert next(visit(4)).body == 4
    assert visit.load() is visit.load()
    assert next(VisitFile(str(tmp_path / "shop.py"), "Other.visit")(1)).step == "b"


def test_a_file_of_a_package_may_import_from_there(tmp_path):
    package = tmp_path / "visited_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text("STEP = 'a'\n")
    (package / "shop.py").write_text("from .names import STEP\ndef visit(number):\n    yield STEP\n")
    assert next(VisitFile(str(package / "shop.py"), "visit")(1)) == "a"


@pytest.mark.parametrize(
    ("text", "function", "said"),
    [
        ("x = 1\n", "visit", "has no function 'visit'"),
        ("1 / 0\n", "visit", "cannot be imported: ZeroDivisionError"),
        ("def\n", "visit", "cannot be imported: SyntaxError"),
    ],
)
def test_a_file_without_the_function_is_refused(text, function, said, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        VisitFile(str(path), function).load()
    assert caught.value.remedy
