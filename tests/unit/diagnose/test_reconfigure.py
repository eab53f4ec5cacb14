"""Changing and restoring configurations, on a server that keeps them in a file; configurations as official text."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer.base.errors import LocalError, PeerError
from inferometer.diagnose.diagnosis import DYNAMIC_BATCHING, INSTANCES, Change
from inferometer.diagnose.reconfigure import Reconfiguration, changed_config, config_text, write_configs
from inferometer.services.discovery import READY, ModelState
from inferometer.services.originals import Originals


class FiledServer:
    """Models and their configurations in a folder, so that other processes see them as well."""

    def __init__(self, folder: Path, refusal: str = "") -> None:
        self.folder = folder
        self.refusal = refusal

    def index(self):
        return tuple(ModelState(path.name, READY) for path in self.folder.iterdir())

    def config(self, name, version=""):
        return json.loads((self.folder / name).read_text())

    def load_model(self, name, config=None):
        if config is not None and config.get("count", 0) > 4:
            raise PeerError(self.refusal or "out of memory")
        (self.folder / name).write_text(json.dumps(config))


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(json.dumps({"name": name, "count": 1}))
    return FiledServer(folder)


@pytest.fixture
def opened(server, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda: Reconfiguration(server, Originals(server, "here", print))


def counts(server):
    return server.config("a", "")["count"], server.config("b", "")["count"]


def test_everything_is_restored(server, opened):
    with opened() as change:
        change.change("a", {"name": "a", "count": 2})
        change.change("b", {"name": "b", "count": 3})
        change.change("a", {"name": "a", "count": 4})
        assert counts(server) == (4, 3)
        assert change.changed == {"a": {"name": "a", "count": 4}, "b": {"name": "b", "count": 3}}
        assert change.is_restored is False
    assert counts(server) == (1, 1)
    assert change.is_restored is True


def test_everything_is_restored_after_an_error(server, opened):
    def interrupted():
        with opened() as change:
            change.change("a", {"name": "a", "count": 2})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert counts(server) == (1, 1)


def test_kept_changes_remain(server, opened):
    with opened() as change:
        change.change("a", {"name": "a", "count": 2})
        change.keep = True
    assert counts(server) == (2, 1)
    assert change.is_restored is False


def test_a_rejected_configuration_leaves_the_previous_one(server, opened):
    with opened() as change:
        change.change("a", {"name": "a", "count": 2})
        with pytest.raises(PeerError, match="cannot load 'a': out of memory"):
            change.change("a", {"name": "a", "count": 5})
        assert counts(server) == (2, 1)
    assert counts(server) == (1, 1)


def test_a_server_that_allows_no_changes_is_explained(server, opened):
    server.refusal = "explicit model load / unload is not allowed if polling is enabled"
    with opened() as change, pytest.raises(PeerError) as refused:
        change.change("a", {"name": "a", "count": 5})
    assert "--model-control-mode explicit" in refused.value.remedy
    assert counts(server) == (1, 1)


def test_without_changes_there_is_nothing_to_restore(server, opened):
    with opened() as change:
        pass
    assert change.is_restored is None


# --- suggested settings in a configuration

CONFIG: dict[str, Any] = {
    "name": "step",
    "backend": "python",
    "max_batch_size": 8,
    "input": [{"name": "INPUT", "data_type": "TYPE_FP32", "dims": ["4"]}],
    "instance_group": [{"name": "step_0", "kind": "KIND_CPU", "count": 1, "gpus": []}],
    "version_policy": {"latest": {"num_versions": 1}},
}


def more(count):
    return Change(
        INSTANCES, "step", "1", str(count), {"instance_group": [{"kind": "KIND_CPU", "count": count}]}
    )


def test_instances_change_only_the_count():
    assert changed_config(CONFIG, more(4)) == {
        **CONFIG,
        "instance_group": [{"name": "step_0", "kind": "KIND_CPU", "count": 4, "gpus": []}],
    }
    assert CONFIG["instance_group"][0]["count"] == 1


def test_on_several_gpus_the_count_is_per_gpu():
    config = {**CONFIG, "instance_group": [{"kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}]}
    assert changed_config(config, more(4))["instance_group"] == [
        {"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}
    ]


def test_a_model_without_a_group_gets_one():
    assert changed_config({"name": "step"}, more(2))["instance_group"] == [{"kind": "KIND_CPU", "count": 2}]


def test_batching_is_added():
    batching = {"preferred_batch_size": [4], "max_queue_delay_microseconds": 100}
    change = Change(DYNAMIC_BATCHING, "step", "off", "4", {"dynamic_batching": batching})
    assert changed_config(CONFIG, change) == {**CONFIG, "dynamic_batching": batching}


def test_the_text_has_the_official_form():
    from google.protobuf.text_format import Parse

    from inferometer.services.kserve import load_messages

    text = config_text({**changed_config(CONFIG, more(4)), "field_of_the_future": 1})
    message = Parse(text, type(load_messages().ModelConfigResponse().config)())
    assert (message.name, message.max_batch_size) == ("step", 8)
    assert [(group.kind, group.count) for group in message.instance_group] == [(2, 4)]


def test_files_are_written_one_per_model(tmp_path):
    (path,) = write_configs({"step": CONFIG}, tmp_path / "new")
    assert path == tmp_path / "new" / "step" / "config.pbtxt"
    assert 'name: "step"' in path.read_text()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match=r"config.pbtxt' could not be written: Not a directory"):
        write_configs({"step": CONFIG}, tmp_path / "file")
