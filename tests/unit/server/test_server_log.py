"""The log of a session's servers: emptied once, then continued by every server of the session."""

import sys

import pytest

from inferometer.base.errors import UsageError
from inferometer.server.guarded import GuardedProcess, empty_log
from inferometer.tune.servers import InstalledServer
from inferometer.tune.settings import LaunchSettings


def _logged(log, text):
    guarded = GuardedProcess("test", log)
    with guarded.starting([sys.executable, "-c", f"print({text!r})"], {}):
        guarded.open_log()
    guarded.process.wait()
    guarded.end()
    return guarded.log_text()


def test_a_second_server_continues_the_log_and_is_judged_by_its_own_lines(tmp_path):
    log = tmp_path / "triton.log"
    log.write_text("an earlier session\n")
    empty_log(log)
    assert _logged(log, "error: of the first") == "error: of the first\n"
    assert _logged(log, "of the second") == "of the second\n"
    assert log.read_text() == "error: of the first\nof the second\n"


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    log = tmp_path / "none" / "triton.log"
    with pytest.raises(UsageError, match=r"none/triton\.log"):
        empty_log(log)
    server = InstalledServer(LaunchSettings(executable=sys.executable, log=log))
    with pytest.raises(UsageError, match=r"none/triton\.log"):
        server.start()
