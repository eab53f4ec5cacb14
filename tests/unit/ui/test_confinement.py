"""No value of any form field opens a file outside the uploads.

A path outside is spliced into the values of every option in many ways. Both the form's own check and the run that it
would start are tested, the latter up to its first request.
"""

import contextlib
import json
from random import Random

import pytest

from inferometer.base import confined
from inferometer.base.errors import InferometerError
from inferometer.cli.preview import preview
from inferometer.cli.ui import STARTED, startables
from inferometer.options.command_line import Request, read
from inferometer.ui.form import checked, groups, offered
from tests.support.opens import Opens
from tests.support.servers import FakeTriton

COMMANDS = {row.name: row for row in startables()}
SEED = 30
VALUES = (  # {up}: an uploaded file; {out}: a file outside
    "{out}",
    "@{out}",
    "x={out}",
    "x=@{out}",
    "x@{up}=@{out}",
    "@{up}=@{out}",
    "{up}=@{out}",
    "x=@{up}@{out}",
    "=@{out}",
    "@@{out}",
    "'{out}'",
    "@'{out}'",
    'x=@"{out}"',
    "x:{out}",
    "{up}:{out}",
    "{up},{out}",
    "{up}\n{out}",
    "random\n{out}",
    "file://{out}",
    "{up}/../../../outside/secret",
    "@{up}/../../../outside/secret",
    "x=@{folder}/*/../../outside/*",
    "{folder}/link",
    "x=@{folder}/link",
    "@{folder}/LINK/../link",
    "/proc/self/root{out}",
    "@/proc/self/cwd/../../../../../../../../../..{out}",
    "x=@~{out}",
    "$HOME/../../../../../../..{out}",
)
COUNTS = {  # number of values tried, by (command is measure, the field takes a file)
    (True, True): 12,
    (True, False): 1,
    (False, True): 3,
    (False, False): 1,
}
KINDS = (  # the kind of server for each option that names files
    ("triton", ("--data", "--input", "--replay", "--request-intervals", "--api-key-file", "--tls-ca")),
    ("openai", ("--prompts", "--prompt-tokens", "--output-tokens", "--data", "--tokenizer", "--replay")),
    ("http", ("--body", "--data", "--tls-cert", "--tls-key")),
    ("torchserve", ("--body", "--data", "--input")),
    ("dynamic_grpc", ("--proto", "--body", "--data")),
    ("tfserving", ("--data", "--input")),
)


@pytest.fixture
def place(tmp_path):
    up = tmp_path / "uploads" / "ab12" / "a"
    up.parent.mkdir(parents=True)
    up.write_text("1\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("1\n")
    (up.parent.parent / "link").symlink_to(outside / "secret")
    return tmp_path


def spelled(value: str, place) -> str:
    up, out = place / "uploads" / "ab12" / "a", place / "outside" / "secret"
    return value.format(up=up, out=out, folder=up.parent.parent)


@pytest.fixture
def opens(place):
    with Opens(place / "outside", place / "outside" / "secret") as opens:
        yield opens


def tried(startable, words) -> None:
    """Run the command as its process would, without the form."""
    with contextlib.suppress(InferometerError):
        request = read(words, startable.command)
        assert isinstance(request, Request)
        startable.check(request)


@pytest.mark.parametrize("name", STARTED)
def test_no_field_opens_anything_outside(name, place, opens, monkeypatch):
    startable, uploads = COMMANDS[name], place / "uploads"
    draw = Random(SEED)
    fields_shown = [field for group in groups(startable) for field in group.fields]
    rows = [row for _, row in offered(startable) if row.values is not None]
    targets = (
        {"url": "localhost:1", "model": "m\nn" if startable.takes_many else "m"}
        if startable.has_target
        else {}
    )
    if any(row.is_required for row in rows):
        targets["--slo"] = "p99<1s"
    for row in rows:
        takes_file = next(field.is_file for field in fields_shown if field.name == row.names[-1])
        for value in draw.sample(VALUES, COUNTS[name == "measure", takes_file]):
            text = spelled(value, place)
            found = checked(startable, {**targets, row.names[-1]: text}, uploads)
            assert not opens.any(), (row.names[-1], value)
            with monkeypatch.context() as patch:
                patch.setenv(confined.VARIABLE, str(uploads))
                tried(startable, found.words[1:])
            assert not opens.any(), (row.names[-1], value)
    for value in draw.sample(VALUES, 5):
        checked(startable, {"url": spelled(value, place), "model": spelled(value, place)}, uploads)
        assert not opens.any(), value


@pytest.mark.parametrize(("kind", "names"), KINDS)
def test_no_run_of_the_form_opens_anything_outside(kind, names, place, opens, monkeypatch, capsys):
    monkeypatch.setenv(confined.VARIABLE, str(place / "uploads"))
    command = COMMANDS["measure"].command
    with FakeTriton() as fake:
        for name in names:
            for value in VALUES[: 8 if name != "--input" else None]:
                words = ["-u", fake.server.address, "-m", "fake", "--service-kind", kind, "--timeout", "2s"]
                with contextlib.suppress(InferometerError):
                    request = read([*words, name, spelled(value, place), "--dry-run"], command)
                    assert isinstance(request, Request)
                    preview("measure", request)
                assert not opens.any(), (name, value)
    capsys.readouterr()


@pytest.mark.parametrize(
    "value",
    [
        "x@{up}=@{out}",
        "x@{folder}/ab12/a=@{out}",
        "a@b@{up}=@{folder}/../outside/secret",
        "x=@{folder}/link",
        "'@{up}'=@{out}",
        "x@{up}=@/proc/self/root{out}",
    ],
)
def test_an_input_that_names_two_files_is_refused_by_the_one_it_reads(ask, site, value, tmp_path):
    up = site.uploads / "ab12" / "a"
    up.parent.mkdir(parents=True)
    up.write_text("1")
    out = tmp_path / "outside" / "secret"
    out.parent.mkdir()
    out.write_text("secret")
    (site.uploads / "link").symlink_to(out)
    text = value.format(up=up, out=out, folder=site.uploads)
    body = json.dumps(
        {"command": "measure", "fields": {"url": "h:1", "model": "m", "--input": text}}
    ).encode()
    answer = ask("/new/start", method="POST", body=body, headers={"content-type": "application/json"})
    assert answer.status == 422
    assert "not an uploaded file" in json.loads(answer.text)["errors"]["--input"]
    assert site.jobs.current is None


@pytest.mark.parametrize(
    "value", ["ray://head:10001", "head:6379", "RAY://h:1", " ray://h:1 ", "ray://[::1]:1"]
)
def test_the_form_does_not_connect_to_an_arbitrary_ray_cluster(ask, site, value):
    for name in ("measure", "find", "tune"):
        fields = {"url": "h:1", "model": "m", "--slo": "p99<1s", "--ray": value}
        body = json.dumps({"command": name, "fields": fields}).encode()
        answer = ask("/new/start", method="POST", body=body, headers={"content-type": "application/json"})
        assert answer.status == 422
        assert "auto or local" in json.loads(answer.text)["errors"]["--ray"]
        page = ask(f"/new?command={name}").text
        assert "--ray" in page
        assert "ray://" not in page
