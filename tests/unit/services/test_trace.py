"""Trace settings: changed, and restored on every exit."""

from dataclasses import dataclass, field

import pytest

from inferometer.base.errors import MissingError, PeerError, UsageError
from inferometer.options.options import Options
from inferometer.services import undo
from inferometer.services.undo import asked_settings, traced

USUAL = {
    "trace_level": ("OFF",),
    "trace_rate": ("1000",),
    "trace_count": ("-1",),
    "log_frequency": ("0",),
    "trace_file": ("t.json",),
    "trace_mode": ("triton",),
}
WANTED = {"trace_level": ("TIMESTAMPS",), "trace_rate": ("10",)}


@dataclass
class Server:
    """Server with settings; changes raise `faults`, one after another."""

    now: dict = field(default_factory=lambda: dict(USUAL))
    faults: list = field(default_factory=list)
    changes: list = field(default_factory=list)

    def trace_settings(self):
        return dict(self.now)

    def change_trace_settings(self, settings):
        self.changes.append(dict(settings))
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault
        self.now |= settings


class Unheard(Server):
    """Server whose answer to the first change is lost."""

    def change_trace_settings(self, settings):
        super().change_trace_settings(settings)
        if settings == WANTED:
            raise PeerError("timed out") from TimeoutError()


class Untraced(Server):
    def trace_settings(self):
        raise MissingError("no such path")


def test_only_given_settings_are_sent_as_strings() -> None:
    asked = Options(trace_level="TENSORS", trace_rate="10", trace_count=-1, log_frequency=0)
    assert asked_settings(asked) == {
        "trace_level": ("TENSORS",),
        "trace_rate": ("10",),
        "trace_count": ("-1",),
        "log_frequency": ("0",),
    }
    assert asked_settings(Options(trace_count=5)) == {"trace_count": ("5",)}
    assert asked_settings(Options()) == {}


def test_settings_apply_inside_and_not_after() -> None:
    server = Server()
    with traced(server, WANTED):
        assert server.now == USUAL | WANTED
    assert server.now == USUAL
    assert server.changes == [WANTED, {"trace_level": ("OFF",), "trace_rate": ("1000",)}]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, PeerError("gone")])
def test_settings_are_restored_after(error) -> None:
    server = Server()
    with pytest.raises(error if isinstance(error, type) else type(error)), traced(server, WANTED):
        raise error
    assert server.now == USUAL


def test_a_change_without_an_answer_is_restored_too() -> None:
    server = Unheard()
    with pytest.raises(PeerError, match="timed out"), traced(server, WANTED):
        raise AssertionError("never reached")
    assert server.now == USUAL


def test_failed_restorations_are_retried() -> None:
    server = Server(faults=[None, PeerError("busy"), PeerError("busy")])
    with traced(server, WANTED):
        pass
    assert server.now == USUAL


def test_a_failed_restoration_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "OWNER_TIMEOUT_S", 0)
    monkeypatch.setattr(undo, "TRACE_TIMEOUT_S", 0)
    server = Server(faults=[None, PeerError("busy")])
    with pytest.raises(ValueError, match="mine"), traced(server, WANTED):
        raise ValueError("mine")


REFUSALS = (
    ("no trace file", USUAL | {"trace_file": ("",)}, "start Triton with --trace-config triton,file="),
    ("a bad value", USUAL, "give values that the server accepts"),
    (
        "OpenTelemetry needs no file",
        USUAL | {"trace_mode": ("opentelemetry",), "trace_file": ("",)},
        "give values",
    ),
)


@pytest.mark.parametrize(
    ("before", "remedy"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_a_refusal_names_the_setting_and_the_remedy(before, remedy: str) -> None:
    server = Server(dict(before), faults=[PeerError("not with me")])
    with pytest.raises(PeerError) as caught, traced(server, WANTED):
        raise AssertionError("never reached")
    assert "trace_level=TIMESTAMPS, trace_rate=10: not with me" in caught.value.message
    assert remedy in caught.value.remedy
    assert server.changes == [WANTED]


def test_a_server_without_trace_settings_is_left_alone() -> None:
    server = Untraced()
    with pytest.raises(UsageError, match="has no trace settings"), traced(server, WANTED):
        raise AssertionError("never reached")
    assert server.changes == []
