"""Errors for a wheel that is missing, incomplete or without this Python."""

import os
import threading
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from inferometer.base.errors import UsageError
from inferometer.server import wheel
from inferometer.server.wheel import Wheel, _try_stub, find_wheel, make_backends, numpy_remarks


def spec_in(site: Path) -> ModuleSpec:
    spec = ModuleSpec("pytriton", None, is_package=True)
    spec.submodule_search_locations = [str(site / "pytriton")]
    return spec


def test_a_missing_wheel_names_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wheel, "_PYTHON", "3.12")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="nvidia-pytriton") as caught:
        find_wheel()
    assert caught.value.remedy == "pip install 'inferometer[triton]'"


def test_a_python_without_the_server_is_named_with_supported_versions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wheel, "_PYTHON", "3.13")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="nvidia-pytriton") as caught:
        find_wheel()
    assert "3.11 or 3.12, but this is 3.13" in caught.value.remedy


def test_an_incomplete_wheel_names_the_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec_in(tmp_path))
    with pytest.raises(UsageError, match="bin/tritonserver"):
        find_wheel()


def test_a_python_without_a_stub_gets_the_supported_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wheel, "_PYTHON", "3.99")
    for version in ("3.9", "3.10"):
        stub = Wheel(tmp_path).stub(version)
        stub.parent.mkdir(parents=True)
        stub.touch()
    with pytest.raises(UsageError, match=r"Python 3\.99, only for 3\.9, 3\.10"):
        make_backends(Wheel(tmp_path), tmp_path / "runtime")


def test_a_stub_that_lacks_a_library_names_it(tmp_path: Path):
    stub = wheel.backends_folder(tmp_path) / "python" / "triton_python_backend_stub"
    stub.parent.mkdir(parents=True)
    stub.write_text(
        "#!/bin/sh\necho 'stub: error while loading shared libraries: libpython: gone' >&2\nexit 127\n"
    )
    stub.chmod(0o755)
    with pytest.raises(UsageError, match=r"cannot start .*: libpython: gone") as caught:
        wheel.check_stub(tmp_path, os.environ)
    assert "libpython3" in caught.value.remedy


@pytest.mark.parametrize(
    ("version", "is_said"),
    [(None, False), ("1.26.4", False), ("2.0.0", True), ("2.3.1rc1", True), ("10.0", True)],
)
def test_a_numpy_that_empties_outputs_is_reported(
    version: str | None, is_said: bool, monkeypatch: pytest.MonkeyPatch
):
    def installed(name: str) -> str:
        if version is None:
            raise PackageNotFoundError(name)
        return version

    monkeypatch.setattr("importlib.metadata.version", installed)
    remarks = numpy_remarks()
    assert len(remarks) == is_said
    for remark in remarks:
        assert f"numpy {version}" in remark.text
        assert "pip install 'numpy<2'" in remark.note.advice


def test_a_stub_that_is_open_for_writing_is_tried_again(tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.write_bytes(Path("/bin/true").read_bytes())
    stub.chmod(0o755)
    with open(stub, "ab") as held:  # as by a process that was forked during the copy
        threading.Timer(0.1, held.close).start()
        assert _try_stub(stub, {}).returncode == 0
