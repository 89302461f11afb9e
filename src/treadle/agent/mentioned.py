"""`@path` in a text: which file is meant. Pure."""

import re
from collections.abc import Iterator

_MENTION = re.compile(r"""(?<![^\s(\[{"'])@(?:"([^"\n]+)"|([^\s"@]+))""")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.S)
_AFTER = ".,;:!?)]}'"


def mentioned(text: str) -> Iterator[tuple[str, ...]]:
    """For each `@path` outside of code, what the path may be: as it stands, or without the punctuation behind it."""
    for quoted, plain in _MENTION.findall(_CODE.sub(" ", text)) if "@" in text else ():
        yield (quoted,) if quoted else tuple(dict.fromkeys((plain, plain.rstrip(_AFTER))))
