"""`@path` in a text: which file is meant. Pure."""

import re
from collections.abc import Iterator

_MENTION = r"""(?<![^\s(\[{"'])@(?:"([^"\n]+)"|([^\s"@]+))"""
_CODE = r"(?s)```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`"
_AFTER = ".,;:!?)]}'"


def mentioned(text: str) -> Iterator[tuple[str, ...]]:
    """For each `@path` outside of code, what the path may be: as it stands, or without the punctuation behind it."""
    for quoted, plain in re.findall(_MENTION, re.sub(_CODE, " ", text)) if "@" in text else ():
        yield (quoted,) if quoted else tuple(dict.fromkeys((plain, plain.rstrip(_AFTER))))
