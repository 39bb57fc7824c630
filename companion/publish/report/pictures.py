"""Pictures for pages: small enough to be carried inside them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

COLOURS = 128  # plots have few; anti-aliased text still looks smooth
SMALLEST_WIDTH = 400


def shrink(png: bytes, width: int) -> bytes:
    """Return a PNG at most `width` pixels wide with a small palette: a fraction of the bytes, the same to the eye."""
    with Image.open(io.BytesIO(png)) as opened:
        picture = Image.new("RGB", opened.size, "white")
        picture.paste(opened, mask=opened.getchannel("A") if opened.mode in ("RGBA", "LA") else None)
    if picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    return min(buffer.getvalue(), png, key=len)


def data_uri(png: bytes) -> str:
    """Return a PNG as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def embed(paths: Sequence[Path], widths: Sequence[int], limit: int) -> list[str]:
    """Return pictures as addresses, at these widths or, when they are over `limit` characters in all, narrower."""
    originals = [path.read_bytes() for path in paths]
    scale = 1.0
    while True:
        wanted = [max(SMALLEST_WIDTH, round(scale * width)) for width in widths]
        found = [data_uri(shrink(png, width)) for png, width in zip(originals, wanted, strict=True)]
        if sum(map(len, found)) <= limit or max(wanted, default=SMALLEST_WIDTH) == SMALLEST_WIDTH:
            return found
        scale *= 0.8


def size(png: bytes) -> tuple[int, int]:
    """Return width and height of a PNG in pixels."""
    with Image.open(io.BytesIO(png)) as opened:
        return opened.size
