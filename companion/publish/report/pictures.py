"""Pictures for pages: small enough to be carried inside them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from PIL import Image

COLOURS = 256  # plots have few; anti-aliased text still looks smooth
WHITE = 254  # what an octree makes of white, which has near-white neighbours
SMALLEST_WIDTH = 400


@cache  # report and comparison show the same
def shrink(png: bytes, width: int) -> bytes:
    """Return a PNG at most `width` pixels wide with a small palette: the same to the eye.

    An octree finds the palette fifteen times faster than the median cut, coarser in greys, and its
    picture takes a third fewer bytes; the slowest compression would save three in a hundred.
    Hamming's window looks at a third of Lanczos's pixels, and saves nine bytes in a hundred more.
    """
    with Image.open(io.BytesIO(png)) as opened:
        picture = Image.new("RGB", opened.size, "white")
        clear = opened.mode in ("RGBA", "LA")
        picture.paste(opened, mask=opened.getchannel("A") if clear else None)
    if picture.width > width:
        height = round(picture.height * width / picture.width)
        picture = picture.resize((width, height), Image.Resampling.HAMMING)
    few = picture.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.putpalette([255 if level >= WHITE else level for level in few.getpalette() or ()])
    buffer = io.BytesIO()
    few.save(buffer, "png")
    return min(buffer.getvalue(), png, key=len)


def data_uri(png: bytes) -> str:
    """Return a picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def embed(paths: Sequence[Path], width: int, limit: int) -> list[str]:
    """Return pictures as addresses, narrower when they are over `limit` characters in all."""
    while True:
        found = [data_uri(shrink(path.read_bytes(), width)) for path in paths]
        size = sum(map(len, found))
        if size <= limit or width == SMALLEST_WIDTH:
            return found
        narrower = 0.97 * width * (limit / size) ** 0.75  # bytes grow a little faster than width
        width = max(SMALLEST_WIDTH, round(min(0.9 * width, narrower)))
