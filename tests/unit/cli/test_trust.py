"""Options files that are found, not named: what they may set without trust, and with it."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferometer.cli import main
from inferometer.cli.trusted import STATE, is_trusted, read_found, state_path, trust
from tests.support.commands import Ended, call_here
from tests.support.servers import FakeTriton, ScriptedServer, answer

SECRET = "hunter2-canary"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cloned repository as the working directory, with an empty state folder."""
    clone = tmp_path / "clone"
    clone.mkdir(mode=0o700)
    monkeypatch.chdir(clone)
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    monkeypatch.setenv("INFEROMETER_STORE", "")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.delenv("INFEROMETER_CONFIG", raising=False)
    (clone / "secret.txt").write_text(SECRET)
    return clone


@pytest.fixture
def evil() -> Iterator[ScriptedServer]:
    """Yield a host that the repository names."""
    with ScriptedServer(lambda request: answer(b"{}")) as server:
        yield server


def inferometer(*words: str) -> Ended:
    return call_here(main.main, *words)


SCENARIO = """\
classes: {a: {visit: "evil.py:visit", steps: [fake], rate: 1}}
phases: [{name: steady, for: 1s, command: touch pwned}]
"""
CODE = "import pathlib\npathlib.Path('pwned').touch()\ndef visit(number):\n    yield\n"
GENERATOR = {"data": [{"message_generator": "touch pwned; printf x"}]}

ATTACKS = (
    ("scenario: evil.yaml", "'scenario' in line 1 runs code, reads files, names a host"),
    (
        "data: evil.json\ngrpc-method: a.B/C\nservice-kind: dynamic_grpc",
        "'data' in line 1 runs code, reads files",
    ),
    ("model-repository: models\nservice-kind: triton_c_api", "'model-repository' in line 1 runs code"),
    ("measure:\n  scenario: evil.yaml", "'scenario' in line 2 runs code, reads files, names a host"),
    ("measure: {scenario: evil.yaml}", "'scenario' in line 1 runs code"),
    ("ray: ray://EVIL", "'ray' in line 1 runs code, names a host"),
    ("url: EVIL\napi-key-env: OPENAI_API_KEY", "'api-key-env' in line 2 sends credentials or headers"),
    (
        "url: EVIL\napi_key_file: secret.txt",
        "'api_key_file' in line 2 reads files, sends credentials or headers",
    ),
    ("metrics-url: http://EVIL/metrics\ncollect-metrics: true", "'metrics-url' in line 1 names a host"),
    ("otlp: http://EVIL", "'otlp' in line 1 names a host"),
    ("measure:\n  otlp-traces: http://EVIL", "'otlp-traces' in line 2 names a host"),
    ("measure:\n  perfetto: lanes.json", "'perfetto' in line 2 writes files"),
    ("u: EVIL", "'u' in line 1 names a host"),
    ("model: fake@EVIL", "'model' in line 1 names a host"),
    ('body: "@secret.txt"\nurl: EVIL', "'body' in line 1 reads files"),
    ("input: {INPUT0: '@secret.txt'}", "'input' in line 1 reads files"),
    ("input: ['INPUT0=@secret.txt']", "'input' in line 1 reads files"),
    ("prompt-tokens: '@secret.txt'", "'prompt-tokens' in line 1 reads files"),
    ("prompts: secret.txt", "'prompts' in line 1 reads files"),
    ("json: secret.txt", "'json' in line 1 writes files"),
    ("csv: secret.txt", "'csv' in line 1 writes files"),
    ("export: pwned", "'export' in line 1 writes files"),
    ("store: /", "'store' in line 1 reads files, writes files"),
    ("tls-insecure: true", "'tls-insecure' in line 1 weakens TLS checks"),
    ("header: ['Host: x']", "'header' in line 1 sends credentials or headers"),
    ("method: DELETE", "'method' in line 1 chooses the call to send"),
    ("prometheus: 0", "'prometheus' in line 1 opens a port"),
)


@pytest.mark.parametrize("preview", [(), ("--dry-run",), ("--show-config",)])
@pytest.mark.parametrize(("written", "reason"), ATTACKS)
def test_an_untrusted_file_cannot_set_restricted_options(
    written: str, reason: str, preview: tuple[str, ...], folder: Path, evil: ScriptedServer
) -> None:
    (folder / "inferometer.yaml").write_text(written.replace("EVIL", evil.address))
    (folder / "evil.yaml").write_text(SCENARIO)
    (folder / "evil.py").write_text(CODE)
    (folder / "evil.json").write_text(json.dumps(GENERATOR))
    before = sorted(os.listdir(folder))
    with FakeTriton() as server:
        ended = inferometer("measure", server.server.address, "fake", "-n", "1", *preview)
        assert server.server.connections == evil.connections == 0
    assert (ended.code, ended.stdout) == (2, "")
    assert reason in ended.stderr
    for remedy in ("`inferometer trust`", "--config inferometer.yaml", "--config none"):
        assert remedy in ended.stderr
    assert SECRET not in ended.stderr
    assert sorted(os.listdir(folder)) == before
    assert (folder / "secret.txt").read_text() == SECRET


HARMLESS = """\
model: fake
concurrency: [1, 2]
timeout: 5s
data: zero
slo: p99<5s
json: "-"
tls-insecure: false
prompt-tokens: 512
find: {url: localhost:1}
"""


def test_harmless_options_need_no_trust(folder: Path) -> None:
    (folder / "inferometer.yaml").write_text(HARMLESS)
    ended = inferometer("measure", "--show-config", "localhost:1")
    assert ended.code == 0, ended.stderr
    assert "timeout: 5s" in ended.stdout
    assert inferometer("find", "localhost:1").code == 2  # names a host


def test_trust_ends_when_the_file_or_a_referenced_file_changes(folder: Path) -> None:
    with FakeTriton() as server:
        config = folder / "inferometer.yaml"
        config.write_text(f"url: {server.server.address}\nmodel: fake\nscenario: load.yaml\n")
        (folder / "load.yaml").write_text("classes: {a: {visit: 'visit.py:visit', steps: [fake], rate: 1}}\n")
        (folder / "visit.py").write_text("import near\ndef visit(number):\n    yield\n")
        (folder / "near.py").write_text("")
        shown = inferometer("trust")
        assert shown.code == 0, shown.stderr
        assert (
            "# 'scenario' in line 3 runs code, reads files, names a host\nscenario: load.yaml\n"
            in shown.stdout
        )

        def is_read() -> bool:
            return inferometer("measure", "--show-config").code == 0

        assert is_read()
        for path in (config, folder / "load.yaml", folder / "visit.py", folder / "near.py"):
            before = path.read_text()
            path.write_text(f"{before}\n# changed\n")
            assert not is_read(), path
            path.write_text(before)
            assert is_read(), path
        (folder / "other.py").write_text("")  # a module that the visit could import
        assert not is_read()
        assert "changed since" in inferometer("trust", "--list").stdout
        assert inferometer("trust").code == 0
        assert is_read()
        assert inferometer("trust", "--revoke").code == 0
        assert not is_read()


LEADING = (
    ("a name with blanks", {"inferometer.yaml": "scenario: my plan.yaml", "my plan.yaml": ""}),
    ("a name with brackets", {"inferometer.yaml": 'scenario: "a,b(1).yaml"', "a,b(1).yaml": ""}),
    ("a number", {"inferometer.yaml": "scenario: 2024", "2024": ""}),
    ("an escape", {"inferometer.yaml": 'scenario: "pl\\x61n.yaml"', "plan.yaml": ""}),
    ("two lines", {"inferometer.yaml": 'scenario: "pl\\\n  an.yaml"', "plan.yaml": ""}),
    ("a block", {"inferometer.yaml": "scenario: >-\n  my plan\n", "my plan": ""}),
    ("a pattern", {"inferometer.yaml": "input: 'X=@photos/*.npy'", "photos/a.npy": ""}),
    (
        "a scenario with any ending",
        {"inferometer.yaml": "scenario: plan.txt", "plan.txt": "visit: 'v.py:f'", "v.py": ""},
    ),
    ("a schema", {"inferometer.yaml": "check: 'schema:my answer.json'", "my answer.json": "{}"}),
    ("a check", {"inferometer.yaml": "check-python: 'c.py:is_right'", "c.py": ""}),
    ("a definition", {"inferometer.yaml": "proto: a.proto", "a.proto": 'import "b.proto";', "b.proto": ""}),
    (
        "a script of a command",
        {
            "inferometer.yaml": "data: d.json",
            "d.json": '{"message_generator": "sh \\u0067en/run"}',
            "gen/run": "",
        },
    ),
    (
        "a module beside the package of a visit",
        {
            "inferometer.yaml": "scenario: p.yaml",
            "p.yaml": "visit: 'top/package/v.py:f'",
            "top/package/__init__.py": "",
            "top/package/v.py": "import near",
            "top/near.py": "",
        },
    ),
    (
        "a compiled module",
        {
            "inferometer.yaml": "scenario: p.yaml",
            "p.yaml": "visit: 'v.py:f'",
            "v.py": "import near",
            "near.cpython-311-x86_64-linux-gnu.so": "",
        },
    ),
)


@pytest.mark.parametrize(("how", "files"), LEADING)
def test_trust_covers_files_named_in_any_notation(how: str, files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = read_found(Path("inferometer.yaml"))
    trust(found)
    assert is_trusted(found)
    (folder / list(files)[-1]).write_text("# changed")
    assert not is_trusted(found), how


def test_trust_belongs_to_the_file_and_not_to_links(folder: Path, tmp_path: Path) -> None:
    (folder / "inferometer.yaml").write_text("scenario: load.yaml\nurl: localhost:1\n")
    assert inferometer("trust").code == 0
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    os.symlink(folder / "inferometer.yaml", other / "inferometer.yaml")
    (other / "load.yaml").write_text(SCENARIO)
    os.chdir(other)
    assert inferometer("measure", "--show-config").code == 2


@pytest.mark.parametrize("what", ["inferometer.yaml", "."])
def test_files_writable_by_others_are_not_trusted(what: str, folder: Path) -> None:
    (folder / "inferometer.yaml").write_text("url: localhost:1\n")
    (folder / "inferometer.yaml").chmod(0o600)
    assert inferometer("trust").code == 0
    place = folder / what
    place.chmod(place.stat().st_mode | stat.S_IWOTH)
    assert inferometer("measure", "--show-config").code == 2
    refused = inferometer("trust")
    assert refused.code == 2
    assert "can be written by other users" in refused.stderr


def test_the_state_file_must_be_private(folder: Path) -> None:
    (folder / "inferometer.yaml").write_text("url: localhost:1\n")
    inferometer("trust")
    state = state_path()
    assert (stat.S_IMODE(state.stat().st_mode), stat.S_IMODE(state.parent.stat().st_mode)) == (0o600, 0o700)
    assert inferometer("measure", "--show-config").code == 0
    state.chmod(0o666)
    assert inferometer("measure", "--show-config").code == 2
    state.chmod(0o600)
    state.write_text("{")
    assert inferometer("measure", "--show-config").code == 2


def test_a_relative_state_folder_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE, "state")
    assert not state_path().is_relative_to(folder)


def test_naming_the_file_or_ignoring_it_needs_no_trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "inferometer.yaml").write_text("url: localhost:1\n")
    assert inferometer("measure", "--show-config", "--config", "inferometer.yaml").code == 0
    assert inferometer("measure", "--show-config", "--config", "none").code == 0
    monkeypatch.setenv("INFEROMETER_CONFIG", "inferometer.yaml")
    assert inferometer("measure", "--show-config").code == 0


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


STRANGE = (
    (_fifo, "cannot be read: it is not a regular file"),
    (_zero, "cannot be read: it is a device"),
    (_folder, "cannot be read: Is a directory"),
    (_large, "cannot be read: it is larger than the limit of 1 MiB"),
    (_dangling, "cannot be read: No such file or directory"),
)


@pytest.mark.parametrize(("make", "reason"), STRANGE)
@pytest.mark.parametrize("words", [(), ("--config", "inferometer.yaml")])
def test_unusual_files_are_refused_in_one_sentence(
    make, reason: str, words: tuple[str, ...], folder: Path
) -> None:
    make(folder / "inferometer.yaml")
    ended = inferometer("measure", *words)
    assert (ended.code, ended.stdout) == (2, "")
    assert reason in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


# --- a dry run executes nothing, even from a named file


def test_a_dry_run_runs_no_visit_and_no_command(folder: Path) -> None:
    (folder / "evil.yaml").write_text(SCENARIO)
    (folder / "evil.py").write_text(CODE)
    with FakeTriton() as server:
        ended = inferometer("measure", server.server.address, "--scenario", "evil.yaml", "--dry-run")
        assert server.inferences == []
    assert ended.code == 0, ended.stderr
    assert "Python code, which --dry-run does not" in ended.stderr
    assert "The command of phases.0 is not run" in ended.stderr
    assert not (folder / "pwned").exists()


def test_a_dry_run_runs_no_generator(folder: Path) -> None:
    from inferometer.base.confined import NotRunError, dry_run
    from inferometer.dataset.payloads import _generated

    with dry_run(), pytest.raises(NotRunError, match="runs a command, which --dry-run does not"):
        _generated("touch pwned", "call 0 of evil.json")
    assert not (folder / "pwned").exists()


# --- files next to the options file


MODULES = ("numpy.py", "socket.py", "inferometer/__init__.py", "yaml.py", "sitecustomize.py")


@pytest.mark.parametrize("module", MODULES)
def test_modules_in_the_working_directory_are_not_imported(module: str, folder: Path) -> None:
    import subprocess

    from inferometer.base.interpreter import module_command

    (folder / module).parent.mkdir(exist_ok=True)
    (folder / module).write_text(CODE.replace("'pwned'", repr(str(folder / "pwned"))))
    done = subprocess.run(
        [*module_command("inferometer.load.worker"), "x"], capture_output=True, check=False, timeout=60
    )
    assert b"inferometer" in done.stderr  # our own code was reached
    assert not (folder / "pwned").exists()


def test_a_twin_written_elsewhere_is_not_checked(folder: Path) -> None:
    (folder / "twin.json").write_text("{}")
    ended = inferometer("twin", "check")
    assert ended.code == 2
    assert "was found here, was not named" in ended.stderr
    assert "not named" not in inferometer("twin", "check", "-f", "twin.json").stderr


# --- files with default names


@pytest.mark.parametrize(
    ("words", "name", "option"),
    [
        (("twin", "fit", "x.json"), "twin.json", "--file"),
        (("tune", "localhost:1", "fake"), "inferometer-tune.sqlite", "--journal"),
    ],
)
def test_an_unnamed_file_is_not_written_through_a_link(
    words: tuple[str, ...], name: str, option: str, folder: Path
) -> None:
    (folder / name).symlink_to("secret.txt")
    ended = inferometer(*words)
    assert ended.code == 2
    assert f"'{name}' is a symbolic link" in ended.stderr
    assert option in ended.stderr
    assert (folder / "secret.txt").read_text() == SECRET


def test_the_page_of_a_result_is_not_written_through_a_link(folder: Path) -> None:
    from inferometer.base.answer_file import write
    from tests.support.reports import sample_result

    write(sample_result(), folder / "r.json")
    (folder / "r.html").symlink_to("secret.txt")
    assert "'r.html' is a symbolic link" in inferometer("view", "r.json").stderr
    assert (folder / "secret.txt").read_text() == SECRET
    assert inferometer("view", "r.json", "--html", "r.html").code == 0  # the user named it
    assert (folder / "r.html").is_symlink()


def test_visits_are_loaded_only_from_their_source(folder: Path) -> None:
    """Python may run a compiled file without checking its source."""
    import py_compile

    from inferometer.load.visit_file import VisitFile

    sources = {"v.py": "import near_visit\nsaid = near_visit.said\n", "near_visit.py": "said = 'source'\n"}
    for name, text in sources.items():
        (folder / name).write_text("said = 'compiled'\n")
        py_compile.compile(
            str(folder / name), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        (folder / name).write_text(text)
    assert str(VisitFile(str(folder / "v.py"), "said").load()) == "source"
