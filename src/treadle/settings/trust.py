"""Which project directories a person trusts: the path, and a hash of the files that matter as they were then.

Those are everything in `.treadle/`, `.mcp.json`, `backplane.toml` and Claude Code's settings: files that can make
programs run or widen what is allowed. When one of them changes, the directory is no longer trusted.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from treadle.errors import ConfigError, StorageError
from treadle.io.files import read_at_most, storage_error
from treadle.io.paths import private_dir, state_dir
from treadle.io.records import FileRecord

FORMAT = 1
MAX_FILES = 1000
MAX_BYTES = 16 * 1024 * 1024


class TrustEntry(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    hash: str
    at: float
    files: tuple[str, ...] = ()
    changed: bool = False
    """Whether the files differ from those that were trusted."""


class TrustRegister(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    trusted: dict[str, dict[str, Any]]
    """By path: the hash, and when it was trusted."""


TRUSTED = FileRecord(
    TrustRegister,
    format=FORMAT,
    pretty=True,
    lock="trust.lock",
    hint="remove it and trust your projects again",
)


def up_to_top(cwd: str) -> Iterator[str]:
    """The directories from here up to the top of the git repository; outside a repository, only this one."""
    here = os.path.realpath(cwd)
    chain = [here]
    while not os.path.exists(os.path.join(chain[-1], ".git")):
        parent = os.path.dirname(chain[-1])
        if parent == chain[-1]:
            return iter(chain[:1])
        chain.append(parent)
    return iter(chain)


def foreign_owner(directory: str) -> str | None:
    """Why this project's files are not used: the repository belongs to another user. git refuses such files too.

    None when it is ours, or when a person trusts it anyway.
    """
    if is_trusted(directory):
        return None
    *_, top = up_to_top(directory)
    mine = _mine()
    for place in (top, os.path.join(top, ".git")):
        try:
            owner = os.lstat(place).st_uid
        except OSError:
            continue
        if owner not in mine:
            return (
                f"{place} belongs to user {owner}, so what this project says is not used (`treadle trust` changes that)"
            )
    return None


def _mine() -> set[int]:
    """The user ids that count as this person."""
    sudo = os.environ.get("SUDO_UID", "")
    return {os.geteuid(), *([int(sudo)] if os.geteuid() == 0 and sudo.isdecimal() else [])}


def owned(directory: str) -> bool:
    """Whether a directory is this person's, and not one that everybody can write to."""
    try:
        found = os.stat(directory)
    except OSError:
        return False
    return found.st_uid in _mine() and not found.st_mode & 0o002


def is_trusted(directory: str) -> bool:
    """Whether exactly this directory is trusted and its files are unchanged since then."""
    entry = _read().get(os.path.realpath(directory))
    if entry is None:
        return False
    try:
        return bool(entry.get("hash") == fingerprint(directory)[0])
    except (ConfigError, StorageError):
        return False


def trust(directory: str) -> list[TrustEntry]:
    """Trust this directory, and those above it in the repository that have project files of their own."""
    if not os.path.isdir(directory):
        raise ConfigError(f"{directory} is not a directory")
    added = []
    for place in up_to_top(directory):
        digest, files = fingerprint(place)
        if files or place == os.path.realpath(directory):
            added.append(TrustEntry(path=place, hash=digest, at=time.time(), files=tuple(files)))
    with _changing() as entries:
        entries.update({entry.path: {"hash": entry.hash, "at": entry.at} for entry in added})
    return added


def remove(directory: str) -> bool:
    """Stop trusting the directory; False when it was not trusted."""
    with _changing() as entries:
        return entries.pop(os.path.realpath(directory), None) is not None


def entries() -> list[TrustEntry]:
    return [
        TrustEntry(path=path, hash=entry["hash"], at=entry["at"], changed=not is_trusted(path))
        for path, entry in sorted(_read().items())
    ]


def fingerprint(directory: str) -> tuple[str, list[str]]:
    """A hash over names and contents of the files that matter, and their names."""
    import hashlib

    digest = hashlib.sha256()
    names = sorted(_files_that_matter(directory))
    total = 0
    for name in names:
        path = os.path.join(directory, name)
        try:
            content = read_at_most(path, MAX_BYTES - total + 1)
        except OSError as error:
            raise storage_error(error, path, "read") from error
        total += len(content)
        if total > MAX_BYTES:
            raise ConfigError(f"{directory}/.treadle has more than {MAX_BYTES >> 20} MiB", hint="move some elsewhere")
        digest.update(f"{len(name)}:{name}:{len(content)}:".encode(errors="surrogateescape") + content)
    return "sha256:" + digest.hexdigest(), names


def _files_that_matter(directory: str) -> Iterator[str]:
    number = 0
    for folder, folders, files in os.walk(os.path.join(directory, ".treadle")):
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            number += 1
            if number > MAX_FILES:
                raise ConfigError(f"{directory}/.treadle has more than {MAX_FILES} files", hint="move some elsewhere")
            if os.path.isfile(path):
                yield os.path.relpath(path, directory)
            else:
                raise ConfigError(f"{path} is not a plain file", hint="only plain files can be trusted")
    for name in (".mcp.json", "backplane.toml", ".claude/settings.json", ".claude/settings.local.json"):
        if os.path.isfile(os.path.join(directory, name)):
            yield name


@contextmanager
def _changing() -> Iterator[dict[str, Any]]:
    """Read, changed and written under one lock, so that of two people who trust something at once both are heard.
    Readers take no lock: the file is replaced as a whole."""
    private_dir(state_dir())
    with TRUSTED.locked(register()):
        entries = _read()
        yield entries
        TRUSTED.save(register(), TrustRegister(trusted=entries))


def register() -> str:
    """The path of the file that records what a person trusts."""
    return os.path.join(state_dir(), "trust.json")


def _read() -> dict[str, Any]:
    found = TRUSTED.load(register())
    return {} if found is None else found.trusted
