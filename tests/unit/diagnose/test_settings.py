"""Suggested settings in a configuration, and the configuration as the official text."""

import pytest

from inferometer.base.errors import LocalError
from inferometer.diagnose.diagnosis import DYNAMIC_BATCHING, INSTANCES, Change
from inferometer.diagnose.reconfigure import changed_config, config_text, write_configs

CONFIG = {
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


def test_batching_is_put_in():
    batching = {"preferred_batch_size": [4], "max_queue_delay_microseconds": 100}
    change = Change(DYNAMIC_BATCHING, "step", "off", "4", {"dynamic_batching": batching})
    assert changed_config(CONFIG, change) == {**CONFIG, "dynamic_batching": batching}


def test_the_text_is_the_official_form():
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
