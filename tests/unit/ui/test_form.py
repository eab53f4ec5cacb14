"""The form and the command line correspond to each other."""

import json
import shlex

import pytest

from inferometer.cli.ui import STARTED, startables
from inferometer.options.command_line import Request, read
from inferometer.options.reach import Reach
from inferometer.ui.form import checked, filled, groups, offered

COMMANDS = {row.name: row for row in startables()}


@pytest.mark.parametrize("name", STARTED)
def test_every_field_is_exactly_one_option(name):
    fields = [field.name for group in groups(COMMANDS[name]) for field in group.fields]
    assert len(fields) == len(set(fields))
    assert all(field in COMMANDS[name].command.by_name for field in fields)


def test_the_most_important_options_come_first():
    first, *others = groups(COMMANDS["measure"])
    assert [field.name for field in first.fields[:4]] == ["--concurrency", "--rate", "--requests", "--warmup"]
    assert {"--data", "--slo", "--grpc", "--tag"} < {field.name for field in first.fields}
    assert [group.title for group in others] == [
        "Model and server",
        "Load",
        "Measurement",
        "Input data",
        "Output",
    ]


@pytest.mark.parametrize(
    ("name", "fields", "line"),
    [
        ("measure", {"url": "localhost:8000"}, "measure localhost:8000"),
        (
            "measure",
            {
                "url": " localhost:8000 ",
                "model": "simple",
                "--concurrency": "1,2,4",
                "--grpc": True,
                "--tag": "nightly",
            },
            "measure localhost:8000 simple -c 1,2,4 --grpc --tag nightly",
        ),
        ("measure", {"url": "https://a/b", "model": "x:1"}, "measure -u https://a/b -m x:1"),
        ("measure", {"url": "localhost:8000", "model": "-m"}, "measure -u localhost:8000 --model=-m"),
        (
            "measure",
            {"url": "h:1", "model": "m", "--header": "A: b c\nD: e"},
            "measure h:1 m -H 'A: b c' -H 'D: e'",
        ),
        ("find", {"url": "h:1", "model": "m", "--slo": "p99<50ms"}, "find h:1 m --slo 'p99<50ms'"),
        ("compare", {"url": "h:1", "model": "a.json\nb"}, "compare -u h:1 -m a.json -m b"),
        ("tune", {"model": "simple", "--budget": "1m"}, "tune -m simple --budget 1m"),
        ("demo", {}, "demo"),
    ],
)
def test_a_filled_form_is_a_command_line_and_back(name, fields, line, tmp_path):
    found = checked(COMMANDS[name], fields, tmp_path)
    assert found.errors == {}
    assert sorted(found.words) == sorted(shlex.split(line))
    assert isinstance(read(found.words[1:], COMMANDS[name].command), Request)
    again = filled(COMMANDS[name], found.words[1:])
    assert checked(COMMANDS[name], again, tmp_path).words == found.words


@pytest.mark.parametrize(
    ("name", "fields", "where", "words"),
    [
        ("measure", {}, "url", "enter the address"),
        ("measure", {"url": "h:1", "--concurrency": "no"}, "--concurrency", "no"),
        ("measure", {"url": "h:1", "--duration": "10 parsecs"}, "--duration", "parsecs"),
        ("measure", {"url": "h:1", "--service-kind": "cobol"}, "--service-kind", "cobol"),
        ("measure", {"url": "h:1", "--concurrency": "1", "--rate": "5"}, "--concurrency", ""),
        ("find", {"url": "h:1"}, "--slo", "is required"),
        ("find", {"url": "h:1", "--slo": "p99<fast"}, "--slo", "fast"),
        ("measure", {"url": "h:1", "--header": "no colon"}, "--header", "Header: the header has no colon"),
        ("measure", {"url": "h:1", "--fixed-schedule": True}, "--fixed-schedule", "Give one with Data"),
        ("measure", {"url": "h:1", "--speed": "2"}, "--speed", "Speed is for a trace. Give one with Replay"),
        ("compare", {"url": "h:1", "model": "one"}, "", "two"),
        ("measure", {"url": "h:1", "--made-up": "x"}, "", "--made-up"),
    ],
)
def test_errors_appear_at_their_field(name, fields, where, words, tmp_path):
    errors = checked(COMMANDS[name], fields, tmp_path).errors
    assert where in errors, errors
    assert words in errors[where]


def test_an_uploaded_file_may_be_read(tmp_path):
    file = tmp_path / "abc" / "data.json"
    file.parent.mkdir()
    file.write_text('{"data": []}')
    fields = {"url": "h:1", "model": "m", "--data": str(file), "--input": f"IN=@{file}", "--body": f"@{file}"}
    assert "--data" not in checked(COMMANDS["measure"], {"url": "h:1", "--data": str(file)}, tmp_path).errors
    errors = checked(COMMANDS["measure"], fields, tmp_path).errors
    assert not any("uploaded" in text for text in errors.values())


def test_no_option_with_a_path_is_offered_unguarded():
    """A new option that reads or writes files must be considered in form.py."""
    from inferometer.ui.form import _FILE_FIELDS, _FILE_MARK_FIELDS

    # Paths of addresses, resources of nodes, places in a reply.
    harmless = {"endpoint", "path", "client_resources", "reply_paths"}
    for startable in COMMANDS.values():
        for _, row in offered(startable):
            if any(word in row.metavar for word in ("FILE", "DIR", "PATH", "SOURCE")):
                assert row.field in _FILE_FIELDS | _FILE_MARK_FIELDS | harmless, row.names


def test_no_option_that_runs_a_command_is_offered():
    """Files that may name code are confined instead; a Ray cluster cannot be at an arbitrary address."""
    confined = {"data.sources", "ray"}
    for startable in COMMANDS.values():
        for _, row in offered(startable):
            reach = row.most_reach
            assert reach is not None, row.names
            assert Reach.RUNS_CODE not in reach or row.field in confined, row.names


def test_the_check_of_the_page(ask):
    body = json.dumps({"command": "measure", "fields": {"url": "h:1", "--concurrency": "x"}}).encode()
    answer = ask("/new/check", method="POST", body=body, headers={"content-type": "application/json"})
    assert json.loads(answer.text)["line"] == "inferometer measure h:1 -c x"
    assert list(json.loads(answer.text)["errors"]) == ["--concurrency"]
    for nonsense in (b"", b"[]", b'{"command": 1}', b'{"command": "rm", "fields": {}}', b"\xff"):
        reply = ask("/new/check", method="POST", body=nonsense, headers={"content-type": "application/json"})
        assert reply.status == 400
        assert json.loads(reply.text)["error"]
