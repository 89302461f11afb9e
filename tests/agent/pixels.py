"""Small images, made here."""

import struct
import zlib


def png(width: int = 3, height: int = 2, padding: int = 0) -> bytes:
    """A grey image; `padding` bytes of a comment make it larger."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    comment = chunk(b"tEXt", b"c\0" + b"x" * padding) if padding else b""
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", header) + comment + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int = 3, height: int = 2) -> bytes:
    """The frame of one: no picture is in it, and nothing here would draw it."""
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8\xff\xe0\0\x04ab\xff" + frame + b"\xff\xda\0\x02\x01\x02\xff\xd9"


def gif(width: int = 3, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int = 3, height: int = 2, kind: bytes = b"VP8X") -> bytes:
    if kind == b"VP8X":
        inside = b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        inside = b"\x2f" + (width - 1 | height - 1 << 14).to_bytes(4, "little")
    else:
        inside = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    body = b"WEBP" + kind + struct.pack("<I", len(inside)) + inside
    return b"RIFF" + struct.pack("<I", len(body)) + body
