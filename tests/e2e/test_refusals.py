"""What cannot work is said in a sentence before any load: no request is sent, no traceback is shown."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from inferometer.services.http_control import HttpControl
from tests.support.servers import (
    FakeModel,
    FakeTriton,
    ScriptedServer,
    Wire,
    answer,
    answer_json,
    raw,
)

DYNAMIC = FakeModel(inputs=(("IMAGE", "FP32", (3, -1, -1)),))
GOOD = '{"data": [{"INPUT0": [1]}]}'

REFUSED = (
    ("an unknown model", ("-m", "nope"), ("failed to get model metadata", "'nope' is not found")),
    ("an unknown version", ("-x", "7"), ("failed to get model metadata",)),
    (
        "a folder that does not exist for -f",
        ("-f", "{tmp}/none/r.csv"),
        ("r.csv' cannot be written", "mkdir -p"),
    ),
    (
        "a folder that does not exist for --json",
        ("--json", "{tmp}/none/r.json"),
        ("r.json' cannot be written",),
    ),
    ("a place where nothing can be made", ("-f", "/proc/r.csv"), ("'/proc/r.csv' cannot be written",)),
    ("a folder as -f", ("-f", "{tmp}"), ("cannot be written: it is a folder",)),
    ("a folder as --json", ("--json", "{tmp}"), ("cannot be written: it is a folder",)),
    ("data that is no JSON", ("--input-data", "{tmp}/cut.json"), ("cut.json",)),
    ("data without the key data", ("--input-data", "{tmp}/nokey.json"), ("data field",)),
    ("data for another input", ("--input-data", "{tmp}/other.json"), ("'OTHER' is not found",)),
    ("data of the wrong size", ("--input-data", "{tmp}/size.json"), ("INPUT0", "4 bytes", "8 bytes")),
    ("data of the wrong type", ("--input-data", "{tmp}/type.json"), ("INPUT0",)),
    ("data with the wrong shape", ("--input-data", "{tmp}/shape.json"), ("INPUT0", "incompatible")),
    ("a data file that does not exist", ("--input-data", "{tmp}/absent.json"), ("absent.json",)),
    ("an address without a port number", ("-u", "localhost:http"), ("localhost:http", "host:port")),
    ("an address of another scheme", ("-u", "ftp://localhost:1"), ("ftp",)),
    ("a host nobody knows", ("-u", "no-such-host.invalid:8000"), ("no-such-host.invalid",)),
    ("a port nobody listens on", ("-u", "127.0.0.1:1"), ("127.0.0.1:1", "Connection refused")),
    ("no CA file", ("--ssl-https-ca-certificates-file", "{tmp}/absent.pem"), ("absent.pem",)),
)
FILES = {
    "cut.json": GOOD[:-5],
    "nokey.json": '{"dat": []}',
    "other.json": '{"data": [{"OTHER": [1]}]}',
    "size.json": '{"data": [{"INPUT0": [1, 2]}]}',
    "type.json": '{"data": [{"INPUT0": ["one"]}]}',
    "shape.json": '{"data": [{"INPUT0": {"content": [1, 2], "shape": [2]}}]}',
}


@pytest.mark.parametrize("command", ["perf_analyzer", "measure"])
@pytest.mark.parametrize(("words", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_before_any_load(
    words: tuple[str, ...], says: tuple[str, ...], command: str, run: Callable, tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    with FakeTriton() as fake:
        usual = {"-m": "fake", "-u": fake.server.address}
        asked = [word for name, value in usual.items() if name not in words for word in (name, value)]
        asked += [word.format(tmp=tmp_path) for word in words]
        ended = (
            run("perf_analyzer", *asked)
            if command == "perf_analyzer"
            else run("inferometer", command, *asked)
        )
        assert fake.inferences == []
    assert ended.code == 99 if command == "perf_analyzer" else ended.code in (2, 3)
    sentence = ended.stderr.splitlines()[0]
    assert all(part in sentence for part in says), sentence
    assert "Traceback" not in ended.stderr
    assert "Client" not in ended.stdout


def test_a_dynamic_shape_names_a_working_option(run: Callable) -> None:
    with FakeTriton(model=DYNAMIC) as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--request-count", "2")
        refused = run("perf_analyzer", *words)
        assert fake.inferences == []
        assert refused.code == 99
        assert "contains dynamic shape, provide shapes" in refused.stderr
        assert "IMAGE" in refused.stderr
        assert "--input-data FILE" in refused.stderr
        assert "--input " not in refused.stderr
        offered = [word.strip(",.;'`") for word in refused.stderr.split() if word.startswith("IMAGE:3,")]
        assert offered, refused.stderr
        accepted = run("perf_analyzer", *words, "--shape", offered[0])
    assert accepted.code == 0, accepted.stderr


SERVERS = (
    ("is not JSON", answer(b"<html>hello</html>"), "not JSON"),
    ("is JSON but no object", answer_json([1, 2]), "must have an object in it, but has [1, 2]"),
    ("is an empty object", answer_json({}), ""),
    ("is no HTTP", raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "does not speak HTTP"),
    ("is nothing", Wire.close, "cannot be reached"),
    ("is a status without words", answer(b"", 502), "502"),
    ("is another shape of metadata", answer_json({"inputs": 5, "outputs": {"a": 1}}), ""),
)


@pytest.mark.parametrize(("act", "says"), [row[1:] for row in SERVERS], ids=[row[0] for row in SERVERS])
def test_a_server_whose_answer(act, says: str, run: Callable) -> None:
    with ScriptedServer(lambda request: act) as server:
        ended = run("perf_analyzer", "-m", "fake", "-u", server.address, "--request-count", "1")
    assert ended.code == 99
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not any(request.path.endswith("/infer") for request in server.requests)


@pytest.mark.parametrize("path", ["/v2", "/v2/models/fake/config"])
@pytest.mark.parametrize("document", [[1], 5, None, {"extensions": 5, "max_batch_size": "many"}], ids=repr)
def test_invalid_bytes_during_the_first_calls_give_no_traceback(path: str, document, run: Callable) -> None:
    act = answer_json(document)
    with FakeTriton(control=lambda request: act if request.path == path else None) as fake:
        ended = run("perf_analyzer", "-m", "fake", "-u", fake.server.address, "--request-count", "10")
    assert ended.code in (0, 99)
    assert "Traceback" not in ended.stderr


def test_a_port_that_accepts_and_says_nothing_is_given_up(
    run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferometer.services.detect.TIMEOUT_S", 0.1)
    for asks in (HttpControl.get, HttpControl.exchange):
        monkeypatch.setitem(asks.__kwdefaults__, "timeout_s", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = run("perf_analyzer", "-m", "fake", "-u", f"127.0.0.1:{listener.getsockname()[1]}")
    assert ended.code == 99
    assert "did not send a complete reply within 0.1 s" in ended.stderr


def test_the_data_that_was_read_is_named_also_where_the_run_fails_after_it(
    run: Callable, steps: Callable
) -> None:
    with FakeTriton() as fake:
        words = ("-m", "fake", "-u", fake.server.address, "--input-data", steps(1, 2))
        ended = run("perf_analyzer", *words, "--collect-metrics", "--metrics-url", "127.0.0.1:1/metrics")
    assert ended.code == 99
    assert ended.stdout == " Successfully read data for 1 stream/streams with 2 step/steps.\n"
    assert fake.inferences == []
