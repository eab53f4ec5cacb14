"""The example model repositories and pictures that come with the package."""

from pathlib import Path

from inferometer.base.errors import UsageError

_HERE = Path(__file__).parent


def example_repository() -> Path:
    """The folder of the example models: simple, identities, delay and the image ensemble."""
    return _HERE / "models"


def vocoder_repository() -> Path:
    """The folder of a small vocoder in four variants, to compare: onnx in fp32, fp16 and int8, and plain numpy."""
    return _HERE / "vocoder"


def example_image(name: str = "mug.jpg") -> Path:
    """One of the example pictures, by file name."""
    path = _HERE / "images" / name
    if path not in example_images():
        known = ", ".join(image.name for image in example_images())
        raise UsageError(f"there is no example picture '{name}'", remedy=f"take one of {known}")
    return path


def example_images() -> tuple[Path, ...]:
    """All example pictures, smallest file first."""
    return tuple(sorted((_HERE / "images").glob("*.jpg"), key=lambda image: image.stat().st_size))
