"""A confined run opens uploaded files only, however the path is written."""

import ast
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from inferometer.base import confined
from inferometer.base.confined import check_command, check_path, confined_to, maybe_folder
from inferometer.base.errors import UsageError
from inferometer.dataset import files, json_file
from inferometer.dataset.dataset import read_bytes
from inferometer.dataset.tokens import open_tokenizer
from inferometer.measure.checks import _key_in
from inferometer.measure.points import read_intervals
from inferometer.model.spec import ModelSpec, TensorSpec
from inferometer.options.options import Tls
from inferometer.scenario.spec import read_scenario
from inferometer.services.dynamic_grpc import method_of_file
from inferometer.services.http import read_body
from inferometer.services.openai_media import parts_of
from inferometer.services.tls import tls_context
from inferometer.services.torchserve import _contents
from tests.support.opens import Opens

SOURCE = Path(confined.__file__).parents[1]
TENSOR = TensorSpec("IN", "BYTES", (1,))
MODEL = ModelSpec("m", "", inputs=(TENSOR,), outputs=())

OPENERS: Mapping[str, Callable[[str], object]] = {
    "a data file": read_bytes,
    "a JSON file": lambda path: json_file.read_json(MODEL, [path], {}),
    "a directory": lambda path: files.read_directory(MODEL, str(Path(path).parent), {}),
    "an input": lambda path: list(files._tensors(TENSOR, f"@{path}", {})),
    "a pattern": lambda path: list(files._tensors(TENSOR, f"@{path[:-1]}?", {})),
    "an array": lambda path: files.read_npy(files.Wanted(TENSOR, path, (1,))),
    "gaps": read_intervals,
    "a key": _key_in,
    "a body": lambda path: read_body(f"@{path}"),
    "a file in a prompt": lambda path: parts_of(f'@"{path}.png"'),
    "a file in a data file": _contents,
    "a descriptor set": lambda path: method_of_file("a.B", "c", Path(f"{path}.pb"), ()),
    "a .proto": lambda path: method_of_file("a.B", "c", Path(path), ()),
    "authorities": lambda path: tls_context(Tls(ca_file=path)),
    "a certificate": lambda path: tls_context(Tls(certificate_file=path)),
    "a scenario": lambda path: read_scenario(Path(path)),
    "a tokenizer": open_tokenizer,
}
SPELLINGS = (  # {up}: the upload folder; {out}: the file outside, without its suffix
    "{out}",
    "{up}/../secret/file",
    "{up}/a/../../secret/file",
    "{up}/link/file",
    "{up}/a/./..//../secret/./file",
    "/proc/self/root{out}",
    "/proc/self/cwd/../../../../../../../../{out}",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "up" / "a").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    for end in ("", ".png", ".pb"):
        (tmp_path / "secret" / f"file{end}").write_text("secret")
    (tmp_path / "up" / "link").symlink_to(tmp_path / "secret")
    return tmp_path


@pytest.mark.parametrize("what", OPENERS)
def test_a_confined_reader_opens_nothing_outside(place, what):
    secret = place / "secret"
    with Opens(secret, *secret.iterdir()) as opens:
        for spelling in SPELLINGS:
            path = spelling.format(up=place / "up", out=secret / "file")
            with confined_to(place / "up"), pytest.raises(UsageError, match="not an uploaded file"):
                OPENERS[what](path)
            assert not opens.any(), spelling
        with suppress(UsageError):  # it contains nothing usable
            OPENERS[what](str(secret / "file"))
        assert opens.any(), "this reader does not open files: the test shows nothing"


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "..", "", "~/x", "a\0b", "\ud800", "/proc/self/fd/0", "/dev/stdin", "{up}", "{up}/.."],
)
def test_paths_outside_the_folder_are_rejected(place, path):
    with confined_to(place / "up"), pytest.raises(UsageError, match="not an uploaded file"):
        check_path(path.format(up=place / "up"))


def test_an_upload_folder_that_is_a_link_contains_no_uploads(tmp_path):
    (tmp_path / "uploads").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("")
    with confined_to(tmp_path / "uploads"), pytest.raises(UsageError, match="not an uploaded file"):
        check_path(tmp_path / "uploads" / "secret")


def test_circular_links_are_rejected(place):
    (place / "up" / "b").symlink_to(place / "up" / "c")
    (place / "up" / "c").symlink_to(place / "up" / "b")
    with confined_to(place / "up"):
        try:
            check_path(place / "up" / "b" / "x")
        except UsageError:
            return
    assert not (place / "up" / "b" / "x").exists()


def test_uploaded_files_are_readable_and_all_files_are_without_confinement(place, monkeypatch):
    (place / "up" / "a" / "data").write_text("mine")
    with confined_to(place / "up"):
        assert read_bytes(place / "up" / "a" / "data") == b"mine"
    assert maybe_folder() is None
    assert read_bytes(place / "secret" / "file") == b"secret"
    check_command("here")
    monkeypatch.setenv(confined.VARIABLE, str(place / "up"))
    assert maybe_folder() == place / "up"
    with pytest.raises(UsageError, match="not an uploaded file"):
        read_bytes(place / "secret" / "file")
    with pytest.raises(UsageError, match="names a command"):
        check_command("data.json")


# --- new readers

CONFINED = ("options", "dataset", "services", "measure", "scenario", "find", "compare", "diagnose", "cluster")
OPEN = {
    *("open", ".open", ".read_bytes", ".read_text", ".iterdir", ".glob", ".from_file"),
    *(".load_cert_chain", ".load_verify_locations", "read_file", "read_text", "opened", "check_file"),
}
SAFE = {  # these open files that we name ourselves, or that their caller checks
    "cluster/ray_actors.py": "our own code, compared on the other machine",
    "cluster/ray_cluster.py": "our own code",
    "cluster/ray_messages.py": "/proc",
    "cluster/ray_nodes.py": "a log of ours",
    "measure/host.py": "/proc",
    "options/config_file.py": "inferometer.yaml, or --config, which the form does not offer",
    "scenario/ready.py": "scenarios of the package",
    "services/originals.py": "a journal of ours",
    "services/shared_memory.py": "regions of ours",
    "services/tritonserver.py": "the library of --triton-server-directory, which the form does not offer",
    "services/tls.py": "checked once in tls_context",
    "services/dynamic_grpc.py": "checked once in method_of_file",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _calls(function: ast.AST) -> set[str]:
    """Built-in and imported functions as `name`, methods as `.name`."""
    found = [part.func for part in ast.walk(function) if isinstance(part, ast.Call)]
    return {func.id for func in found if isinstance(func, ast.Name)} | {
        f".{func.attr}"
        for func in found
        if isinstance(func, ast.Attribute) and (func.attr != "open" or _is_path(func.value))
    }


def _is_path(value: ast.expr) -> bool:
    """Connections, services and journals have an `open` method too."""
    return isinstance(value, ast.Name) and value.id in ("path", "os", "file")


def test_every_function_that_opens_a_file_checks_the_path():
    """A new reader calls `check_path`, or `dataset.dataset.read_bytes`, which does."""
    unchecked = []
    for path in sorted(path for package in CONFINED for path in (SOURCE / package).glob("*.py")):
        name = str(path.relative_to(SOURCE))
        text = path.read_text()
        if name in SAFE or not any(f"{word}(" in text for word in OPEN):
            continue
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, FUNCTIONS)]
        unchecked += [
            f"{name}: {function.name} calls {', '.join(sorted(opened))}"
            for function in functions
            if (opened := _calls(function) & OPEN) and "check_path" not in _calls(function)
        ]
    assert unchecked == []
    assert all((SOURCE / name).exists() for name in SAFE)
