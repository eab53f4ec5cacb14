"""`tune --serve` on a real process, with starts that fail, and its messages about mistakes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer import api
from inferometer.base.errors import PeerError, UsageError
from inferometer.cli.main import main
from tests.support import planted_server
from tests.support.leftovers import left, marked

PLANTED = f"{sys.executable} {planted_server.__file__}"


@pytest.fixture
def token() -> Iterator[str]:
    with marked() as found:
        yield found


def test_a_command_that_never_starts_is_given_up(tmp_path, monkeypatch, token):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PeerError, match=r"the first 3 attempts to measure failed; .* unknown flag --x"):
        api.tune(serve=f"{PLANTED} {token} exits {{port}} {{slots}}", vary="slots=1:16:x2", budget_s=60)
    assert left(token) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"serve": "true {port} {slots}"}, "serve has {slots}, but its values are not given"),
        ({"serve": "true {slots}", "vary": "slots=1,2"}, "serve has no {port}"),
        ({"serve": "true {port}"}, "Nothing is varied: the only placeholders in serve"),
        ({"serve": "true {port}", "vary": "slots=1,2"}, "vary slots is not used"),
        ({"serve": "true {port} {a}", "vary": ("a=1", "a=2")}, "vary names a placeholder twice"),
        ({"serve": "true 'a"}, "cannot be split into words"),
        (
            {"serve": "no-such-program {port} {a}", "vary": "a=1"},
            "'no-such-program' is not an executable program",
        ),
        ({"preset": "vllm"}, "preset vllm needs the command that starts the server"),
        ({"serve": "true {port} {a}", "vary": "a=1", "ready": "soon"}, "ready 'soon' is not a check"),
        ({"serve": "true {port} {a}", "vary": "a=1", "serve_env": "A"}, "serve_env 'A' is not a variable"),
        ({"serve": "true {port} {a}", "vary": "a=1", "serve_file": "f=x"}, "the template"),
        (
            {"serve": "true {port} {a}", "vary": "a=1", "instances": (1, 2)},
            "instances applies to models on Triton",
        ),
        ({"serve": "true {port} {a}", "vary": "a=1", "search": "quick"}, "search quick supports only"),
        ({"serve": "true {port} {a}", "vary": "a=1", "objective": "goodput"}, "but slo is missing"),
        ({"serve": "true {port} {a}", "vary": "a=1", "where": "b > 1"}, "names b, which is not varied"),
        ({"model": "m", "vary": "a=1"}, "vary applies only to a server that serve starts"),
        ({"model": "m", "endpoint": "v1/x"}, "endpoint is not supported for models on Triton"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, given, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        api.tune(**given)
    assert said in str(caught.value)


def test_a_found_file_cannot_run_a_command(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("inferometer.yaml").write_text(
        "tune: {serve: 'touch ran {port} {a}', vary: 'a=1,2', budget: 5s, no-store: true}\n"
    )
    assert main(["tune"]) == 2
    assert not Path("ran").exists()
    assert "trust" in capfd.readouterr().err
