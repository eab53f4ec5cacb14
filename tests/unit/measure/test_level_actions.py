"""Actions before and after a level: shell commands, and named calls to vLLM and SGLang."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.confined import confined_to
from inferometer.base.errors import PeerError, UsageError
from inferometer.measure.instrument import Instrument
from inferometer.measure.level_actions import AFTER, BEFORE, TAIL, Moment, check_actions, take_actions
from inferometer.options.options import Options
from inferometer.report.document import Messages
from inferometer.report.documents.notes import notes_section
from inferometer.services.endpoint import Endpoint, parse_endpoint
from inferometer.stats.measurement import ActionTaken
from inferometer.stats.watcher import Watcher, until
from tests.support.clock import FakeClock
from tests.support.reports import sample_result
from tests.support.servers import ScriptedServer, answer, answer_json

UNPACKED: Any = "true"
NOWHERE = parse_endpoint("localhost:9", default_port=9, tls=Options().tls)


@dataclass
class DrainingLoad:
    """A load whose requests end one per collection."""

    outstanding: int = 0
    applied: list[Any] = field(default_factory=list)

    def apply(self, plan: Any) -> int:
        self.applied.append(plan)
        return 0

    def collect(self, until_ns: int) -> "DrainingLoad":
        found = replace(self)
        self.outstanding = max(0, self.outstanding - 1)
        return found


def taken(
    *actions: str,
    endpoint: Endpoint = NOWHERE,
    load: DrainingLoad | None = None,
    watcher: Watcher | None = None,
    moment: Moment = BEFORE,
    **more: Any,
) -> tuple[ActionTaken, ...]:
    chosen: dict[str, Any] = {moment.field: actions}
    options = replace(Options(service_kind="openai", **more), **chosen)
    check_actions(options)
    draining: Any = load or DrainingLoad()
    instrument = Instrument(draining, FakeClock(), lambda: None, watcher or Watcher())
    return take_actions(moment, instrument, options, (endpoint,))


def test_commands_run_in_order_with_exit_code_and_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first, second = taken(f"echo one >> {log}; echo out; echo last >&2", f"echo two >> {log}")
    assert log.read_text() == "one\ntwo\n"
    assert (first.exit_code, first.last_line, second.last_line) == (0, "last", "")
    assert first.action.endswith("echo last >&2")
    assert first.duration_ns > 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no such cache; exit 3", "exit code 3; its last line was: no such cache"),
        ("exit 9", "'exit 9' of --before-level ended with exit code 9"),
        ("kill -9 $$", "exit code -9"),
        ("no-such-program-here", "exit code 127"),
    ],
)
def test_a_failing_command_ends_the_run(command: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        taken(command, "echo never")
    assert said in caught.value.message
    assert "by itself" in caught.value.remedy


def test_long_output_is_cut_to_its_last_line() -> None:
    (found,) = taken(f"head -c {20 * TAIL} /dev/zero | tr '\\0' x; echo; echo end")
    assert found.last_line == "end"


def test_a_command_may_leave_a_process_behind() -> None:
    (found,) = taken("sleep 60 & echo $!")
    os.kill(int(found.last_line), 9)


def test_a_command_past_its_time_is_killed_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "pid"
    with pytest.raises(UsageError, match=r"did not end within 0.3 s; its last line was: hi"):
        taken(f"echo hi; sleep 60 & echo $! > {log}; wait", before_level_timeout_s=0.3)
    assert _ends(int(log.read_text()))


def _ends(pid: int) -> bool:
    """Return whether the process ends soon; it may remain as a zombie of another parent."""
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_an_interrupt_ends_the_command_and_skips_the_rest(tmp_path: Path) -> None:
    marker = tmp_path / "begun"
    watcher = until(Watcher(), marker.exists)
    assert taken(f"touch {marker}; sleep 60", f"touch {tmp_path / 'second'}", watcher=watcher) == ()
    assert not (tmp_path / "second").exists()


def test_actions_after_a_level_are_taken_even_after_an_interrupt(tmp_path: Path) -> None:
    """They may undo what was done before the level."""
    watcher = until(Watcher(), lambda: True)
    (found,) = taken(f"touch {tmp_path / 'stopped'}", watcher=watcher, moment=AFTER)
    assert (found.exit_code, (tmp_path / "stopped").exists()) == (0, True)


@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_requests_in_flight_end_before_the_actions(moment: Moment) -> None:
    load = DrainingLoad(outstanding=5)
    taken("true", load=load, moment=moment)
    assert (load.outstanding, len(load.applied)) == (0, 1)


def test_without_actions_the_load_continues() -> None:
    load = DrainingLoad(outstanding=5)
    assert taken(load=load) == ()
    assert (load.outstanding, load.applied) == (5, [])


# --- named calls


@pytest.fixture
def server() -> Iterator[Callable[..., tuple[Endpoint, ScriptedServer]]]:
    running: list[ScriptedServer] = []

    def start(**statuses: int) -> tuple[Endpoint, ScriptedServer]:
        def choose(request: Any) -> Any:
            status = statuses.get(request.path.lstrip("/"), 404)
            return answer(b"", 200) if status == 200 else answer_json({"error": "busy"}, status)

        made = ScriptedServer(choose)
        made.__enter__()
        running.append(made)
        return parse_endpoint(f"http://127.0.0.1:{made.port}/v1", default_port=1, tls=Options().tls), made

    yield start
    for made in running:
        made.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("action", "path"),
    [
        ("reset-prefix-cache", "reset_prefix_cache"),
        ("reset-prefix-cache", "flush_cache"),
        ("start-profile", "start_profile"),
        ("stop-profile", "stop_profile"),
    ],
)
def test_a_named_call_is_sent_to_the_servers_root_with_its_headers(server, action, path) -> None:
    endpoint, made = server(**{path: 200})
    (found,) = taken(action, endpoint=endpoint, headers=(("Authorization", "Bearer abcdefgh"),))
    assert (found.action, found.call, found.status) == (action, f"POST /{path}", 200)
    sent = made.requests[-1]
    assert (sent.method, sent.path) == ("POST", f"/{path}")
    assert sent.header("authorization") == "Bearer abcdefgh"


def test_a_server_without_the_call_is_an_error(server) -> None:
    endpoint, _ = server()
    with pytest.raises(PeerError, match="POST /reset_prefix_cache or POST /flush_cache") as caught:
        taken("reset-prefix-cache", endpoint=endpoint)
    assert "VLLM_SERVER_DEV_MODE=1" in caught.value.remedy


def test_a_rejected_call_is_an_error(server) -> None:
    endpoint, made = server(reset_prefix_cache=500, flush_cache=200)
    with pytest.raises(PeerError, match="POST /reset_prefix_cache with status 500: busy"):
        taken("reset-prefix-cache", endpoint=endpoint)
    assert len(made.requests) == 1


# --- refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(before_level=(" ",)), "empty"),
        (Options(before_level=UNPACKED), "tuple"),
        (Options(before_level=("reset-prefix-cache",), service_kind="triton"), "the kind is triton"),
        (Options(before_level=("prime-prefixes",), service_kind="openai"), "add --prefix-tokens"),
        (
            Options(after_level=("stop-profile",), service_kind="triton"),
            "--after-level stop-profile is an HTTP",
        ),
    ],
)
def test_impossible_actions_are_rejected_before_the_load(options: Options, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_actions(options)


def test_a_run_from_a_browser_executes_no_command(tmp_path: Path) -> None:
    with confined_to(tmp_path), pytest.raises(UsageError, match="started from a browser"):
        check_actions(Options(before_level=("true",)))


def test_the_notes_name_the_actions() -> None:
    result = sample_result()
    calls = ActionTaken("reset-prefix-cache", 2_000_000, call="POST /flush_cache", status=200)
    level = replace(result.levels[0], before=(calls, ActionTaken("./clear.sh", 5_000_000, 0, last_line="ok")))
    level = replace(level, after=(ActionTaken("./end.sh", 3_000_000, 0),))
    section = notes_section(replace(result, levels=(level, replace(level, before=(calls,)))))
    assert section is not None
    words = [row.text for block in section.blocks if isinstance(block, Messages) for row in block.rows]
    assert "before each level: reset-prefix-cache (POST /flush_cache, status 200, 2 runs, 2.00 ms)" in words
    assert "before each level: ./clear.sh (exit code 0, 1 run, 5.00 ms; last line: ok)" in words
    assert "after each level: ./end.sh (exit code 0, 2 runs, 3.00 ms)" in words
