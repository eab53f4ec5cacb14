"""Draw the example pictures: drawn still lifes with the grain of a photograph, from a fixed seed.

Run `python -m tools.build_images` after a change here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from inferometer.server.repository import example_repository

if TYPE_CHECKING:
    from PIL.Image import Image

SEED = 20
_GRAIN = 4.0
_Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """One still life: its file, size in pixels and colours."""

    name: str
    width: int
    height: int
    quality: int
    wall: _Colour
    table: _Colour
    mug: _Colour


PICTURES = (
    Picture("mug.jpg", 2400, 1600, 85, (206, 198, 184), (134, 90, 58), (42, 98, 150)),
    Picture("cup.jpg", 1280, 853, 85, (168, 186, 180), (92, 74, 66), (196, 72, 58)),
    Picture("beaker.jpg", 480, 320, 85, (222, 214, 226), (150, 138, 120), (84, 130, 70)),
)


def images_folder() -> Path:
    """The folder of the committed pictures."""
    return example_repository().parent / "images"


def draw(picture: Picture, seed: int = SEED) -> "Image":
    """Draw a mug on a table in front of a wall, lit from the left, with grain."""
    from PIL import Image

    scene = _background(picture)
    _paint_mug(scene, picture)
    pixels = np.asarray(scene, dtype=np.float32)
    light = np.linspace(1.12, 0.78, picture.width, dtype=np.float32)[None, :, None]
    grain = np.random.RandomState(seed).standard_normal((picture.height, picture.width, 1)) * _GRAIN
    lit = pixels * light + grain.astype(np.float32)
    return Image.fromarray(np.clip(lit, 0, 255).astype(np.uint8))


def save(picture: Picture, folder: Path) -> None:
    """Write the picture as a JPEG file."""
    draw(picture).save(folder / picture.name, quality=picture.quality, optimize=True)


def _background(picture: Picture) -> "Image":
    from PIL import Image

    rows, columns = np.mgrid[0 : picture.height, 0 : picture.width].astype(np.float32)
    horizon = 0.62 * picture.height
    wood = 14 * np.sin(rows / picture.height * 90 + 2 * np.sin(columns / picture.width * 9))
    table = np.array(picture.table, dtype=np.float32) + wood[:, :, None]
    wall = np.array(picture.wall, dtype=np.float32) - 30 * (rows / horizon)[:, :, None]
    scene = np.where((rows > horizon)[:, :, None], table, wall)
    return Image.fromarray(np.clip(scene, 0, 255).astype(np.uint8))


def _paint_mug(scene: "Image", picture: Picture) -> None:
    from PIL import ImageDraw

    brush = ImageDraw.Draw(scene)
    left, right, top, bottom = 0.36, 0.58, 0.28, 0.80
    dark: _Colour = (picture.mug[0] // 2, picture.mug[1] // 2, picture.mug[2] // 2)
    shadow: _Colour = (picture.table[0] // 2, picture.table[1] // 2, picture.table[2] // 2)

    def box(x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        return (x0 * picture.width, y0 * picture.height, x1 * picture.width, y1 * picture.height)

    brush.ellipse(box(left, bottom - 0.05, right + 0.16, bottom + 0.07), fill=shadow)
    brush.arc(box(right - 0.07, 0.38, right + 0.07, 0.68), -100, 100, fill=dark, width=picture.width // 50)
    brush.rectangle(box(left, top, right, bottom), fill=picture.mug)
    brush.ellipse(box(left, bottom - 0.05, right, bottom + 0.05), fill=picture.mug)
    brush.ellipse(box(left, top - 0.05, right, top + 0.05), fill=dark)
    brush.ellipse(box(left + 0.015, top - 0.035, right - 0.015, top + 0.04), fill=(58, 36, 22))


if __name__ == "__main__":
    for each in PICTURES:
        save(each, images_folder())
