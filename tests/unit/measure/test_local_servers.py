"""Servers that are found on the ports of this machine."""

import os
import socket

import pytest

from inferometer.base.errors import PeerError
from inferometer.measure import local_servers
from inferometer.measure.local_servers import ListeningPort, find_servers, listening_ports
from tests.support.servers import FakeTriton, Request, ScriptedServer, answer, answer_json


def index(request: Request):
    names = ("second", "first")
    if request.path == "/v2/repository/index":
        return answer_json([{"name": name, "version": "1", "state": "READY"} for name in names])
    return None


def texts(request: Request):
    if request.path == "/v1/models":
        return answer_json({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
    return answer_json({"error": "no such path"}, 404)


def test_known_servers_are_found_and_other_ports_are_left_alone():
    extensions = ("model_repository", "statistics", "model_configuration")
    with (
        FakeTriton(control=index, extensions=extensions) as triton,
        ScriptedServer(texts) as text,
        ScriptedServer(lambda request: answer(b"<html>")) as page,
        socket.create_server(("127.0.0.1", 0)) as closed,
    ):
        numbers = [triton.server.port, text.port, page.port, closed.getsockname()[1]]
        closed.close()
        found = find_servers([ListeningPort(number) for number in numbers])
    rows = [(row.options.service_kind, row.options.model, row.others, row.options.streaming) for row in found]
    assert rows == [("triton", "first", ("second",), False), ("openai", "tiny", (), True)]
    assert found[0].url == f"127.0.0.1:{numbers[0]}"


REFUSED = answer_json({"error": {"message": "messages: field required"}}, 422)
WHOLE = {"choices": [{"message": {"role": "assistant", "content": "one"}}], "model": "small"}


def only(path: str, act, *, method: str = "POST", otherwise=None):
    """A server that knows one path."""
    unknown = answer_json({"detail": "Not Found"}, 404) if otherwise is None else otherwise
    return lambda request: act if (request.method, request.path) == (method, path) else unknown


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (only("/v1/chat/completions", REFUSED), ("chat", "default", True)),
        (only("/v1/chat/completions", answer_json({"detail": []}, 400)), ("chat", "default", True)),
        (only("/v1/completions", answer(b"KeyError", status=500)), ("completions", "default", True)),
        (only("/v1/messages", REFUSED), ("anthropic", "default", True)),
        (only("/v1/embeddings", REFUSED), ("embeddings", "default", False)),
        (lambda request: answer_json(WHOLE), ("chat", "small", True)),  # it answers whatever it is asked
        (
            only("/api/tags", answer_json({"models": [{"name": "own"}]}), method="GET"),
            ("ollama", "own", True),
        ),
        (only("/info", answer_json({"model_id": "own"}), method="GET"), ("tgi", "own", True)),
        (
            only("/info", answer_json({"model_id": "own", "model_type": {"embedding": {}}}), method="GET"),
            ("tei-embed", "own", False),
        ),
        (lambda request: REFUSED, None),  # it refuses everything alike
        (only("/v1/chat/completions", answer(b"no", status=400)), None),  # not JSON
        (only("/v1/chat/completions", answer_json({}, 401)), None),
        (lambda request: answer_json({"ok": True}), None),
        (only("/info", answer_json({"version": "1"}), method="GET"), None),
    ],
)
def test_text_servers_without_the_usual_list_are_found_by_other_answers(script, found):
    with ScriptedServer(script) as server:
        rows = find_servers([ListeningPort(server.port)])
    options = [(row.options.endpoint, row.options.model, row.options.streaming) for row in rows]
    assert options == ([] if found is None else [found])
    assert {row.options.service_kind for row in rows} <= {"openai"}
    assert all(request.body in (b"", b"{}") for request in server.requests)


def test_a_process_with_the_same_models_on_two_ports_is_measured_once():
    with ScriptedServer(texts) as one, ScriptedServer(texts) as other:
        ports = [one.port, other.port]
        assert len(find_servers([ListeningPort(number, process=7) for number in ports])) == 1
        assert len(find_servers([ListeningPort(number, process=number) for number in ports])) == 2
        assert len(find_servers([ListeningPort(number) for number in ports])) == 2  # of another user


def test_ports_of_other_processes_are_listed_and_the_usual_ones_where_that_is_not_allowed(monkeypatch):
    import psutil

    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        assert number not in [port.number for port in listening_ports()]
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert number in [port.number for port in listening_ports()]

    def denied(kind: str):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    assert [port.number for port in listening_ports()] == list(local_servers.USUAL_PORTS)


def test_quick_lists_and_measures_what_it_finds(monkeypatch, tmp_path, capsys):
    from inferometer.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_servers, "listening_ports", list)
    assert main(["quick"]) == PeerError.exit_code
    assert "no inference server answers on the 0 listening ports" in capsys.readouterr().err
    with FakeTriton() as fake:
        monkeypatch.setattr(local_servers, "listening_ports", lambda: [ListeningPort(fake.server.port)])
        models = [{"name": "fake", "version": "1", "state": "READY"}]
        fake._control = lambda request: answer_json(models) if request.path.endswith("/index") else None
        assert main(["quick", "--list"]) == 0
        listed = capsys.readouterr().out
        assert (fake.inferences, listed.count("model 'fake'")) == ([], 1)
        main(["quick", "-d", "1ms"])  # the first level has time for an answer nevertheless
        shown = capsys.readouterr().out
    assert shown.startswith(listed)
    assert "  concurrency 1: " in shown
    assert "█" in shown
    assert f"inferometer measure 127.0.0.1:{fake.server.port} fake --sweep" in shown


def test_quick_without_time_for_an_answer_says_how_to_give_more(monkeypatch, tmp_path, capsys):
    from inferometer.cli import quick
    from inferometer.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quick, "ANSWER_S", 0.0)
    with FakeTriton() as fake:
        monkeypatch.setattr(local_servers, "listening_ports", lambda: [ListeningPort(fake.server.port)])
        models = [{"name": "fake", "version": "1", "state": "READY"}]
        fake._control = lambda request: answer_json(models) if request.path.endswith("/index") else None
        main(["quick", "-d", "1ms"])
    shown = capsys.readouterr().out
    assert "No request was answered in the 0.001 s" in shown
    assert "inferometer quick --duration 1s" in shown
    assert "interrupted" not in shown


@pytest.mark.parametrize("words", [["measure"], ["measure", "-c", "4"]])
def test_measure_without_a_server_names_quick(words, monkeypatch, tmp_path, capsys):
    from inferometer.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "`inferometer quick` find the servers of this machine" in capsys.readouterr().err
