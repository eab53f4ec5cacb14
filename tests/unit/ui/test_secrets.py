"""No page, file or process list shows a secret entered into the form."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferometer.cli.ui import startables
from inferometer.ui.form import checked
from inferometer.ui.jobs import Jobs

SECRET = "s3cr3t-v4lue"
COMMANDS = {row.name: row for row in startables()}
FIELDS = (
    {"--header": f"Authorization: Bearer {SECRET}"},
    {"--header": f"A: b\nX-Api-Key:{SECRET}"},
    {"--header": f"Cookie: a={SECRET}; b={SECRET}"},
    {"--header": f"X: --grpc {SECRET} -c 1"},
    {"url": f"http://user:{SECRET}@127.0.0.1:1"},
)


def started(ask, fields):
    body = json.dumps(
        {"command": "measure", "fields": {"url": "127.0.0.1:1", "model": "m", **fields}}
    ).encode()
    return ask("/new/start", method="POST", body=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("fields", FIELDS)
def test_waiting_running_and_failed_jobs_show_no_secret(ask, site, fields, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/true")
    monkeypatch.setattr(site.jobs, "_is_busy", lambda: True)
    place = json.loads(started(ask, fields).text)["place"]
    (job,) = site.jobs.waiting
    assert any(SECRET in word for word in job.words)
    shown = [ask("/").text, ask(place).text, repr(job)]
    monkeypatch.setattr(site.jobs, "_is_busy", lambda: False)
    site.jobs.step()
    shown += [ask("/").text, ask(place).text, repr(site.jobs.current)]
    site.jobs._started[1].wait()
    monkeypatch.setattr(site.jobs, "_is_run", lambda pid: False)
    site.jobs._started[1].returncode = 1
    site.jobs.step()
    shown += [ask("/").text, ask(place).text]
    assert "did not start" in shown[-1]
    assert all("***" in text for text in shown)
    assert not any(SECRET in text for text in shown)


@pytest.mark.parametrize("fields", FIELDS)
def test_the_command_line_below_the_form_shows_no_secret(tmp_path, fields):
    found = checked(COMMANDS["measure"], {"url": "h:1", "model": "m", **fields}, tmp_path)
    assert found.errors == {}
    assert SECRET not in found.line
    assert SECRET not in repr(found)
    assert "***" in found.line


def test_a_masked_secret_is_not_sent_as_asterisks(ask, kept):
    run = kept(words=("measure", "localhost:8000", "simple", "--header", "Authorization:***"))
    assert "Authorization:***" in ask(f"/new?from={run.id}").text
    answer = started(ask, {"--header": "Authorization:***"})
    assert answer.status == 422
    assert "was not stored" in json.loads(answer.text)["errors"]["--header"]


def test_the_arguments_of_a_run_are_not_in_the_process_list(tmp_path, monkeypatch):
    """The process gets its arguments on standard input, which only its owner can open."""
    script = tmp_path / "python"
    script.write_text(
        f"#!/bin/sh\ncat > {tmp_path}/stdin\ntr '\\0' '\\n' < /proc/$$/cmdline > {tmp_path}/cmdline\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    jobs = Jobs(tmp_path / "store", lambda: False, lambda pid: False)
    words = ("measure", "h:1", "-H", f"X:{SECRET}")
    jobs.add(words, "inferometer measure h:1")
    jobs._started[1].wait()
    assert json.loads((tmp_path / "stdin").read_text()) == [*words, "--store", str(tmp_path / "store")]
    assert SECRET not in (tmp_path / "cmdline").read_text()
    assert "inferometer.cli.started" in (tmp_path / "cmdline").read_text()


def test_the_process_runs_its_arguments_and_leaves_standard_input_empty(tmp_path):
    command = (sys.executable, "-m", "inferometer.cli.started", "measure")
    words = json.dumps(["measure", "--no-such-option", "\ud800"])
    done = subprocess.run(command, input=words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(Path(tmp_path).iterdir()) == []
