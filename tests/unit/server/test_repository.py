"""The files included in the package are those that the scripts generate."""

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image

from inferometer.base.errors import UsageError
from inferometer.server.embedded import EmbeddedTriton
from inferometer.server.repository import example_image, example_repository, vocoder_repository
from tools.build_classifier import CLASSES, build_classifier, classifier_path, classifier_weights
from tools.build_images import PICTURES, draw
from tools.build_vocoder import build_vocoder, vocoder_weights


def test_the_committed_network_is_the_one_the_script_makes():
    committed = onnx.load(classifier_path())
    made = build_classifier(classifier_weights())
    assert committed.graph.node == made.graph.node
    for stored, fresh in zip(committed.graph.initializer, made.graph.initializer, strict=True):
        assert stored.name == fresh.name
        np.testing.assert_array_equal(numpy_helper.to_array(stored), numpy_helper.to_array(fresh))


def test_every_class_has_one_label():
    labels = example_repository().joinpath("postprocessing", "1", "labels.txt").read_text().splitlines()
    assert len(labels) == len(set(labels)) == CLASSES


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_each_committed_picture_is_the_one_the_script_draws(picture):
    with Image.open(example_image().with_name(picture.name)) as stored:
        assert stored.size == (picture.width, picture.height)
        difference = np.abs(np.asarray(stored, dtype=np.int16) - np.asarray(draw(picture), dtype=np.int16))
    assert difference.mean() < 4  # JPEG loses a little


def test_the_pictures_are_those_of_the_script_and_the_example_is_the_largest():
    pictures = list(example_image().parent.iterdir())
    assert {path.name for path in pictures} == {picture.name for picture in PICTURES}
    assert example_image() == max(pictures, key=lambda path: path.stat().st_size)


def test_every_model_is_named_by_its_folder_and_has_a_version():
    for folder in example_repository().iterdir():
        config = folder.joinpath("config.pbtxt").read_text()
        assert re.search(r'^(backend|platform): "(python|ensemble)"', config)
        assert folder.joinpath("1").is_dir()


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_a_repository_that_is_not_a_folder_is_named(tmp_path, name):
    tmp_path.joinpath("file").touch()
    with pytest.raises(UsageError, match=f"model repository '.*{name}'"):
        EmbeddedTriton(tmp_path / name).start()


def test_a_server_that_was_not_started_has_no_address():
    server = EmbeddedTriton()
    assert not server.is_running()
    with pytest.raises(Exception, match="not started"):
        _ = server.http_address


@pytest.mark.parametrize("is_half", [False, True])
def test_the_committed_vocoders_are_the_ones_the_script_makes(is_half):
    name = "vocoder_fp16" if is_half else "vocoder_fp32"
    committed = onnx.load(vocoder_repository() / name / "1" / "model.onnx")
    made = build_vocoder(vocoder_weights(), is_half=is_half)
    assert committed.graph.node == made.graph.node
    for stored, fresh in zip(committed.graph.initializer, made.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(stored), numpy_helper.to_array(fresh))


def test_the_numpy_vocoder_has_the_same_weights():
    with np.load(vocoder_repository() / "vocoder_numpy" / "1" / "weights.npz") as stored:
        for name, fresh in vocoder_weights().items():
            np.testing.assert_array_equal(stored[name], fresh)


def test_every_vocoder_has_the_same_inputs_and_outputs():
    configs = {path.read_text() for path in vocoder_repository().glob("*/config.pbtxt")}
    assert len(configs) == 1
