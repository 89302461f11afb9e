"""Images as the wires carry them: base64 with a media type."""

from __future__ import annotations

import binascii
from typing import Any


def encoded(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def decoded(text: Any) -> bytes:
    """What a peer sent; nothing when it is not base64, which no image is either."""
    try:
        return binascii.a2b_base64(text)
    except (binascii.Error, ValueError, TypeError):
        return b""


def media_type(data: bytes) -> str:
    """By the first bytes of an image that was made by ourselves or looked at before."""
    if data[:4] == b"RIFF":
        return "image/webp"
    return "image/jpeg" if data[:2] == b"\xff\xd8" else "image/gif" if data[:3] == b"GIF" else "image/png"
