"""Names that git takes for `.git`: on file systems without capitals, on those of macOS and on those of Windows too.

A checkout is often shared with such a system, and git itself refuses these names in trees wherever it runs.
"""

import re

_UNSEEN = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
"""Characters that the file system of macOS leaves out when it compares names."""
_GIT = re.compile(r"(\.git|git~1)[. ]*([:\\].*)?", re.ASCII | re.IGNORECASE | re.DOTALL)
"""Windows knows it by a short name too, drops dots and spaces at the end, and reads a colon as part of the content."""


def is_git(name: str) -> bool:
    """Whether some file system takes this name for `.git`."""
    if not name.isascii():
        name = name.translate(_UNSEEN)
    return _GIT.fullmatch(name) is not None


def is_forbidden(name: str) -> bool:
    """Whether no tree of ours has this name."""
    return name in ("", ".", "..") or is_git(name)
