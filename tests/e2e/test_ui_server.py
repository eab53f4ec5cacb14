"""The process behind `inferometer ui`: how it begins and ends."""

import sys

import pytest

from inferometer.cli.main import main
from inferometer.ui.place import maybe_read


def test_it_exits_after_being_idle_for_a_while(run, tmp_path):
    ended = run("inferometer", "ui", "--store", str(tmp_path), "--port", "0", "--idle", "300ms")
    assert (ended.code, ended.stderr) == (0, "")
    assert f"The runs in {tmp_path}: http://127.0.0.1:" in ended.stdout
    assert maybe_read(tmp_path) is None  # the next one does not take it for alive


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
@pytest.mark.parametrize("words", [("ui",), ("measure", "localhost:1", "--ui")], ids=["ui", "--ui"])
def test_without_the_extra_it_says_what_to_install(missing, words, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main([*words, "--store", str(tmp_path)]) != 0
    said = capsys.readouterr().err
    assert missing in said
    assert "pip install 'inferometer[ui]'" in said
    assert list(tmp_path.iterdir()) == []
