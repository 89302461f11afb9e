"""What a git inside a sandbox says about its repository: text that an agent may have forged, so nothing is assumed."""

import itertools
import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from treadle.io import stopping
from treadle.workspace.user_repository import ID, REF

MODES = {"100644", "100755", "120000", "160000"}
STATES = {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer"}
_ENTRY = re.compile(rb"(?:([A-Za-z?]) )?(\d{6}) ([0-9a-f]{40,64}) ([0-3])\t(.+)", re.S)
HEADS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "MERGE_MSG")
MOST_STASHES = 50


DEEPEST = 60
MOST_REFS = 200_000


def ref_files(git: str) -> list[str]:
    """What is below `refs` of a git directory that an agent could write, without directories. Links are listed, also
    `refs` itself if it is one, and not followed. What is deeper or more than any repository has is left out."""
    found: list[str] = []
    todo = [(os.path.join(git, "refs"), 0)]
    while todo and len(found) + len(todo) < MOST_REFS:
        stopping.check()
        place, depth = todo.pop()
        if os.path.islink(place):
            found.append(place)
            continue
        try:
            with os.scandir(place) as entries:
                for entry in itertools.islice(entries, MOST_REFS):
                    if not entry.is_dir(follow_symlinks=False):
                        found.append(entry.path)
                    elif depth < DEEPEST:
                        todo.append((entry.path, depth + 1))
        except OSError:
            continue  # gone, or no directory
    return sorted(found)


class BadListing(Exception):
    """What was listed cannot be a repository's state."""


class Staged(NamedTuple):
    """One entry of an index, without its stage and flags."""

    mode: str
    id: str


class GitListing(NamedTuple):
    head: str
    refs: dict[str, str]
    entries: dict[bytes, Staged]
    skipped: frozenset[bytes]
    """Paths that a sparse checkout leaves out."""
    conflicts: tuple[tuple[bytes, Staged, str], ...]
    unfinished: tuple[str, ...]
    stashes: tuple[str, ...]
    heads: Mapping[str, bytes]
    """The files of an unfinished merge, such as MERGE_HEAD."""

    def at(self, head: str) -> str | None:
        """The commit that HEAD or a branch is at; None for a branch without commits."""
        return self.refs.get(head) if REF.fullmatch(head) else head

    def commits(self, name: str) -> list[str]:
        """What a file of an unfinished merge names, such as MERGE_HEAD; an octopus has several."""
        lines = os.fsdecode(self.heads.get(name, b"")).split()
        if any(not ID.fullmatch(one) for one in lines):
            raise BadListing(f"its {name} is {' '.join(lines)[:100]!r}")
        return lines


def read_listing(files: Mapping[str, bytes]) -> GitListing:
    head = os.fsdecode(files.get("head", b"")).strip()
    if not REF.fullmatch(head) and not ID.fullmatch(head):
        raise BadListing(f"its HEAD is {head[:100]!r}")
    if REF.fullmatch(head) and not head.startswith("refs/heads/"):
        raise BadListing(f"its HEAD is {head[:100]!r}, which is not a branch")
    entries, skipped, conflicts = read_entries(files.get("index", b""))
    states = os.fsdecode(files.get("unfinished", b"")).split()
    stashes = os.fsdecode(files.get("stash", b"")).split()
    return GitListing(
        head=head,
        refs=_refs(os.fsdecode(files.get("refs", b""))),
        entries=entries,
        skipped=skipped,
        conflicts=conflicts,
        unfinished=tuple([name for name in states if name in STATES] or (["conflicts"] if conflicts else [])),
        stashes=tuple(one for one in stashes[:MOST_STASHES] if ID.fullmatch(one)),
        heads={name: data for name, data in files.items() if name in HEADS},
    )


def known_as(refs: Iterable[str]) -> dict[str, set[str]]:
    """The refs by what a person types for them: `main` is a branch, and perhaps a tag."""
    found: dict[str, set[str]] = {}
    for name in refs:
        found.setdefault(_typed(name), set()).add(name)
    return found


def misleads(name: str, known: Mapping[str, set[str]]) -> bool:
    """Whether what a person types would mean something else because of this ref: an option, HEAD, a commit, or one of
    several refs. Git's own commands refuse most of these names."""
    typed = _typed(name)
    strange = typed.startswith(("-", "refs/")) or typed.rpartition("/")[2] == "HEAD" or ID.fullmatch(typed)
    return typed != name and bool(strange) or len(known.get(typed, set()) | {name}) > 1


def _typed(name: str) -> str:
    return re.sub(r"refs/(heads|tags|remotes)/", "", name, count=1)


def _refs(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        at, name, target = [*line.split(" "), "", ""][:3]
        if not REF.fullmatch(name) or not ID.fullmatch(at):
            raise BadListing(f"it lists the ref {line[:200]!r}")
        found[name] = f"ref: {target}" if target else at
    return found


def read_entries(listed: bytes) -> tuple[dict[bytes, Staged], frozenset[bytes], tuple[tuple[bytes, Staged, str], ...]]:
    """The output of `git ls-files -t --stage -z`: entries by path, paths that are left out, and those in conflict."""
    entries: dict[bytes, Staged] = {}
    skipped, conflicts = set(), []
    for record in filter(None, listed.split(b"\0")):
        match = _ENTRY.fullmatch(record)
        if match is None or match[2].decode() not in MODES:
            raise BadListing(f"its index lists {record[:100]!r}")
        entry, path = Staged(match[2].decode(), match[3].decode()), match[5]
        if match[4] != b"0":
            conflicts.append((path, entry, match[4].decode()))
            continue
        entries[path] = entry
        if match[1] == b"S":
            skipped.add(path)
    return entries, frozenset(skipped), tuple(conflicts)
