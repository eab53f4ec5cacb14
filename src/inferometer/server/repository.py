"""The example model repositories and the pictures that come with the package."""

from pathlib import Path

_HERE = Path(__file__).parent


def example_repository() -> Path:
    """The folder of the example models: simple, identities, delay and the image ensemble."""
    return _HERE / "models"


def vocoder_repository() -> Path:
    """The folder of a small vocoder in four variants, to compare: onnx in fp32, fp16 and int8, and plain numpy."""
    return _HERE / "vocoder"


def example_image() -> Path:
    """The largest of the example pictures; the others lie beside it."""
    return _HERE / "images" / "mug.jpg"
