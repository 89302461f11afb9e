"""Images as the wires carry them: base64 with a media type."""

import binascii
from typing import Any


def encoded(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def decoded(text: Any) -> bytes:
    """The bytes that a peer sent; empty when they are not valid base64."""
    try:
        return binascii.a2b_base64(text)
    except (binascii.Error, ValueError, TypeError):
        return b""


def media_type(data: bytes) -> str:
    """The media type, from the first bytes of an image or document that is known to be one."""
    if data[:5] == b"%PDF-":
        return "application/pdf"
    if data[:4] == b"RIFF":
        return "image/webp"
    return "image/jpeg" if data[:2] == b"\xff\xd8" else "image/gif" if data[:3] == b"GIF" else "image/png"


def data_url(data: bytes) -> str:
    return f"data:{media_type(data)};base64,{encoded(data)}"
