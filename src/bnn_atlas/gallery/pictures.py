"""Figures in the size of a web page."""

import shutil
from pathlib import Path

from PIL import Image

from bnn_atlas.files import atomic

COLOURS = 256


def shrink(source: str | Path, destination: Path, width: int) -> None:
    """Write a PNG at most `width` pixels wide, with a palette of 256 colours: small, with legible text.

    A picture that already is like that is copied unchanged.
    """
    with Image.open(source) as picture:
        if picture.mode == "P" and picture.width <= width:
            shutil.copyfile(source, destination)
            return
        small = picture.convert("RGB")
    if small.width > width:
        small = small.resize((width, round(small.height * width / small.width)), Image.Resampling.LANCZOS)
    with atomic(destination) as temporary:
        small.quantize(COLOURS, dither=Image.Dither.NONE).save(temporary, format="PNG", optimize=True)
