"""Finds which files a text means by `@path`. Pure."""

import re
from collections.abc import Iterator

_MENTION = r"""(?<![^\s(\[{"'])@(?:"([^"\n]+)"|([^\s"@]+))"""
_CODE = r"(?s)```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`"
_AFTER = ".,;:!?)]}'"


def mentioned(text: str) -> Iterator[tuple[str, ...]]:
    """For each `@path` outside of code, the possible paths: as written, or without the punctuation after it."""
    for quoted, plain in re.findall(_MENTION, re.sub(_CODE, " ", text)) if "@" in text else ():
        yield (quoted,) if quoted else tuple(dict.fromkeys((plain, plain.rstrip(_AFTER))))
