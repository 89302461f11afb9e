"""What differs between two trees, as data, and how git shows it."""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec


class PathChange(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["added", "modified", "deleted", "renamed"]
    path: str
    old_path: str | None = None
    """The former path of a renamed file."""


class TreeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a snapshot."""

    mode: str
    blob: str

    @property
    def is_link(self) -> bool:
        return self.mode == "120000"

    @property
    def executable(self) -> bool:
        return self.mode == "100755"


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A change with what was there before and what is there after it."""

    change: PathChange
    old: TreeEntry | None
    new: TreeEntry | None


KINDS: dict[str, Literal["added", "modified", "deleted", "renamed"]] = {
    "A": "added",
    "M": "modified",
    "T": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "added",
}


def status_lines(changes: Sequence[PathChange]) -> str:
    """The changes in the form of `git status --porcelain`."""
    marks = {"added": "A ", "modified": "M ", "deleted": "D ", "renamed": "R "}
    return "\n".join(
        f"{marks[change.kind]} {f'{quoted(change.old_path)} -> ' if change.old_path else ''}{quoted(change.path)}"
        for change in changes
    )


def quoted(path: str) -> str:
    """A path as git shows it: in quotes if it could be misread."""
    if not re.search(r'[\x00-\x1f\x7f"\\]| $|^ | -> ', path):
        return path
    text = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\{ord(match[0]):03o}", text) + '"'
