"""Images that a model is shown: their format, how large they may be, and which of them go into a request. Pure.

A message names its images; their bytes are files of the session, so that neither history nor a log holds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from treadle.agent.messages import ChatMessage, Image, ToolResult, UserMessage
from treadle.errors import ToolError

if TYPE_CHECKING:
    from treadle.agent.tools.base import ToolContext


LARGEST = 3_750_000
"""The largest image in bytes: services accept 5 MB of base64."""
LONGEST_SIDE = 8000
MOST, DROPPED_AT_ONCE = 20, 10
"""Images of one request. Old ones are dropped several at a time, so that the service's cache holds in between."""
MOST_BYTES = 20_000_000
"""The most bytes of all images of one request."""
NOT_SHOWN = "[an image that cannot be shown to you]"
ABOUT_IMAGES = r"(?i)\bimages?\b|image_url|\bvision\b|multi.?modal|mmproj"
"""Words of a service that does not accept an image."""

PDF = "application/pdf"
LARGEST_PDF = 15_000_000
"""The largest document in bytes: services take about 30 MB of request."""
PAGE_TOKENS = 2_000
"""What services count for a page, at most about."""
SUFFIXES = {PDF: "pdf", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def show(data: bytes, what: str, context: ToolContext) -> str:
    """Show an image with the result of the running tool; returns words for it. A ToolError says why it cannot be."""
    if context.keep_image is None:
        raise ToolError(f"{what} is an image, and this model cannot be shown images")
    if len(context.images) >= MOST:
        raise ToolError(f"{what} is over the limit of {MOST} images at a time")
    kind, width, height = look(data, what)
    name = context.keep_image(data, SUFFIXES[kind])
    context.images.append(Image(name=name, media_type=kind, size=len(data), width=width, height=height))
    return f"[{what}: an image of {width} x {height} pixels, {kind}, {len(data):,} bytes]"


def show_document(data: bytes, what: str, context: ToolContext) -> str:
    """The same with a PDF, for a service that takes them."""
    if context.keep_image is None or not context.documents:
        raise ToolError(
            f"{what} is a PDF, which the service of this model does not accept",
            hint="save it as a file and name its path in the text: the agent has tools to read files",
        )
    if not data.startswith(b"%PDF-"):
        raise ToolError(f"{what} is not a PDF")
    if len(data) > LARGEST_PDF:
        raise ToolError(f"{what} is a PDF of more than {LARGEST_PDF:,} bytes, which is too large to be shown")
    pages = max(1, len(re.findall(rb"/Type\s*/Page(?!s)", data)))
    name = context.keep_image(data, SUFFIXES[PDF])
    context.images.append(Image(name=name, media_type=PDF, size=len(data), width=0, height=0, pages=pages))
    return f"[{what}: a PDF of {len(data):,} bytes]"


def shown_in_words(images: Iterable[bytes], context: ToolContext) -> Iterator[str]:
    """Show them all. Returns words for each, which may say why it cannot be shown."""
    for number, data in enumerate(images, 1):
        try:
            yield show(data, f"image {number}", context)
        except ToolError as error:
            yield f"[{error.message}]"


def look(data: bytes, what: str) -> tuple[str, int, int]:
    """The media type, width and height of an image that every service accepts; ToolError when it is not one.

    A truncated one is refused here, because a service that cannot read an image refuses the whole conversation.
    """
    if len(data) > LARGEST:
        raise ToolError(
            f"{what} is an image of more than {LARGEST:,} bytes, which is too large to be shown",
            hint="make it smaller with a program such as ImageMagick's convert",
        )
    for kind, read in READERS.items():
        try:
            found = read(data)
        except (IndexError, ValueError):
            raise ToolError(f"{what} is damaged or cut off") from None
        if found is not None:
            if not 0 < max(found) <= LONGEST_SIDE or not min(found):
                raise ToolError(f"{what} is {found[0]} x {found[1]} pixels; up to {LONGEST_SIDE} a side can be shown")
            return kind, *found
    raise ToolError(f"{what} is not a PNG, JPEG, GIF or WebP image")


def _png(data: bytes) -> tuple[int, int] | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    if data[12:16] != b"IHDR" or b"IEND" not in data[-64:]:
        raise ValueError
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def _jpeg(data: bytes) -> tuple[int, int] | None:
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    while data[at] == 0xFF:
        mark = data[at + 1]
        if mark == 0xFF:  # padding
            at += 1
        elif 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            if b"\xff\xd9" not in data[at:]:
                break
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4])
    raise ValueError


def _gif(data: bytes) -> tuple[int, int] | None:
    if data[:6] not in (b"GIF87a", b"GIF89a"):
        return None
    if b";" not in data[-64:]:
        raise ValueError
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    if len(data) < 8 + int.from_bytes(data[4:8], "little"):
        raise ValueError
    if data[12:16] == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF


READERS: dict[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}


def images_of(message: ChatMessage) -> tuple[Image, ...]:
    return message.images if isinstance(message, UserMessage | ToolResult) else ()


def tokens(image: Image) -> int:
    """By the services' rule: one token for 750 pixels, and about 1,600 for a large image, which they shrink."""
    if image.media_type == PDF:
        return PAGE_TOKENS * image.pages
    return min(1_600, image.width * image.height // 750 + 1)


def chosen(messages: Sequence[ChatMessage]) -> list[Image]:
    """The newest images, as many as one request may have."""
    every = [image for message in messages for image in images_of(message)]
    over = max(0, len(every) - MOST)
    newest = every[-(-over // DROPPED_AT_ONCE) * DROPPED_AT_ONCE :]
    room = MOST_BYTES
    for at in reversed(range(len(newest))):
        room -= newest[at].size
        if room < 0:
            return newest[at + 1 :]
    return newest
