"""Decodes a file's bytes as text, and encodes it again without changing a byte that was not edited."""

import codecs
from collections.abc import Iterator

import msgspec

SNIFF = 8192
PDF = "a PDF document"
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"BM": "a BMP image",
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"\0\0\1\0": "an icon",
}
_BINARIES = {
    b"%PDF-": PDF,
    b"PK\x03\x04": "a zip archive (or a document made of one)",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ\0": "xz data",
    b"(\xb5/\xfd": "zstd data",
    b"\x7fELF": "an ELF program or library",
    b"SQLite format 3\0": "an SQLite database",
    b"\0asm": "a WebAssembly module",
    b"OggS": "Ogg media",
    b"ID3": "MP3 audio",
    b"fLaC": "FLAC audio",
}
SHOWN = ("a PNG image", "a JPEG image", "a GIF image", "a WebP image")
"""Image formats that a model can be shown."""
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def binary(start: bytes) -> str | None:
    """The kind of binary file that begins with these bytes; None when it seems to be text."""
    for magic, what in {**_IMAGES, **_BINARIES}.items():
        if start.startswith(magic) and (len(magic) > 3 or b"\0" in start or not _is_utf8(start, whole=False)):
            return what
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "a WebP image"
    if start[4:12] in (b"ftypavif", b"ftypheic", b"ftypmp42", b"ftypisom"):
        return "an image or video"
    if b"\0" in start and bom(start) not in ("utf-16-le", "utf-16-be"):
        return "a binary file"
    return None


def bom(start: bytes) -> str | None:
    """The encoding that a byte order mark announces."""
    return next((encoding for mark, encoding in _BOMS.items() if start.startswith(mark)), None)


def _is_utf8(data: bytes, *, whole: bool) -> bool:
    """A text that is not whole may end within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, whole)
    except UnicodeDecodeError:
        return False
    return True


class Text(msgspec.Struct, frozen=True):
    """A whole file as text. `encode` returns the bytes, for any text with the same undecodable bytes in it."""

    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "strict")


def decodings(data: bytes) -> Iterator[Text]:
    """The ways to read a whole file as text, likeliest first; each of them encodes back to the same bytes."""
    announced = bom(data)
    if announced in ("utf-16-le", "utf-16-be"):
        try:
            yield Text(data[2:].decode(announced), announced, data[:2])
        except UnicodeDecodeError:
            pass
        return
    mark = codecs.BOM_UTF8 if announced else b""
    body = data[len(mark) :]
    yield Text(body.decode("utf-8", "surrogateescape"), "utf-8", mark)
    if not _is_utf8(body, whole=True):
        try:
            yield Text(body.decode("cp1252"), "cp1252", mark)
        except UnicodeDecodeError:
            yield Text(body.decode("latin-1"), "latin-1", mark)


def readable(data: bytes) -> tuple[str, str]:
    """Some lines of a file for a model to read, and the name of their encoding."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1"), "latin-1"


def cut_character(data: bytes) -> bytes:
    """The bytes at the end that begin a character without finishing it."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[-length:] if length < needed else b""
        if byte < 0x80:
            break
    return b""
