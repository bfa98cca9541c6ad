"""Just enough of PNG to look at the pictures that Chromium takes: 8 bits, RGB or RGBA."""
from __future__ import annotations

import pathlib
import struct
import zlib


def pixels(path: pathlib.Path) -> tuple[int, int, list[list[bytes]]]:
    """Width, height, and the rows of pixels."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", body)
            assert depth == 8 and colour in (2, 6)
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    step = 3 if colour == 2 else 4
    raw, before, rows = zlib.decompress(packed), bytes(width * step), []
    for y in range(height):
        start = y * (width * step + 1)
        before = unfiltered(raw[start], raw[start + 1:start + 1 + width * step], before, step)
        rows.append([before[x:x + 3] for x in range(0, width * step, step)])
    return width, height, rows


def unfiltered(kind: int, line: bytes, above: bytes, step: int) -> bytes:
    out = bytearray(line)
    for i in range(len(out)):
        left = out[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            out[i] = (out[i] + left) & 255
        elif kind == 2:
            out[i] = (out[i] + above[i]) & 255
        elif kind == 3:
            out[i] = (out[i] + (left + above[i]) // 2) & 255
        elif kind == 4:
            guess = left + above[i] - corner
            nearest = min((abs(guess - value), order, value)
                          for order, value in enumerate((left, above[i], corner)))
            out[i] = (out[i] + nearest[2]) & 255
    return bytes(out)
