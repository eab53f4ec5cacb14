"""`inferometer tune`: rejections before a server starts, and the location of the result."""

from pathlib import Path

import pytest

from inferometer.base.errors import LocalError
from inferometer.cli.main import main
from inferometer.cli.tune import _write_configs
from inferometer.tune.variant import ModelVariant

MODELS = Path(__file__).parents[2] / "live" / "models"

REFUSED = (
    ("a repository that is not there", "m --model-repository nosuch", "the model repository 'nosuch': No such file"),
    ("a repository that is a file", "m --model-repository file", "the model repository 'file': Not a directory"),
    ("an empty repository", "m --model-repository empty", "in the model repository 'empty'; its models are none"),
    ("another model", f"m --model-repository {MODELS}", "its models are addsub, addsub_b"),
    ("an output in no folder", "simple --output no/config.pbtxt", "the folder 'no' does not exist"),
    ("a journal that is a folder", "simple --journal empty", "the journal 'empty' is a folder"),
    ("a journal that is none", "simple --journal file", "cannot read the journal 'file'"),
    ("a journal in no folder", "simple --journal no/journal", "the folder 'no' of the journal"),
    ("several models, one file", f"ens --model-repository {MODELS} --output c.pbtxt", "3 configurations: addsub,"),
    ("several models, a file", f"ens --model-repository {MODELS} --output file", "give a folder"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_is_rejected_with_a_message(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("not a database, which has to be long enough to be read as one " * 9)
    Path("empty").mkdir()
    assert main(["tune", *words.split(), "--budget", "5s"]) == 2
    assert said in capsys.readouterr().err


def variant(model: str, *members: ModelVariant) -> ModelVariant:
    return ModelVariant(model, f"{model}_config_0", {}, {"max_batch_size": 4}, composing=members)


def test_one_model_gives_a_file_and_several_a_folder(tmp_path):
    whole = variant("e", variant("a"), variant("b"))
    _write_configs(whole.with_members, tmp_path / "best")
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.pbtxt"))
    assert [str(path) for path in written] == [f"best/{name}/config.pbtxt" for name in "abe"]
    assert 'name: "b"' in (tmp_path / "best/b/config.pbtxt").read_text()
    _write_configs((variant("a"),), tmp_path / "config.pbtxt")
    assert 'name: "a"' in (tmp_path / "config.pbtxt").read_text()
    _write_configs((variant("c"),), tmp_path / "best")
    assert (tmp_path / "best/c/config.pbtxt").exists()
    with pytest.raises(LocalError, match="is a file, but there are 3 configurations"):
        _write_configs(whole.with_members, tmp_path / "config.pbtxt")
