"""The example model repositories and pictures included in the package."""

from pathlib import Path

_HERE = Path(__file__).parent


def example_repository() -> Path:
    """Return the folder of the example models: simple, identities, delay and the image ensemble."""
    return _HERE / "models"


def vocoder_repository() -> Path:
    """Return the folder of a small vocoder in four variants for comparison: onnx in fp32, fp16 and int8, and numpy."""
    return _HERE / "vocoder"


def example_image() -> Path:
    """Return the largest of the example pictures; the others are in the same folder."""
    return _HERE / "images" / "mug.jpg"
