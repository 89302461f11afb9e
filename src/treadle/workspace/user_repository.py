"""A person's own repository, as we read and change it: only refs and objects, never its index or its files; refs of
ours that keep a run's base from `git gc`; and which programs its configuration names.

Our git is always told which git directory to use, never looks for one, and runs none of the repository's hooks. An
agent cannot write what is read here: a sandbox shows it a private git directory instead (`private_git.py`).
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from functools import cached_property

from treadle.errors import LocalError, TreadleError, WorkspaceError
from treadle.io.files import locked, read_at_most, write
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import Finished, run_program
from treadle.policy.programs import git_looks_with
from treadle.workspace.git import OPTIONS, TIMEOUT, create, environment

SMALL = 1 << 20
"""Bytes that are read of a file of git's which has a few lines, such as HEAD."""
ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
REF = re.compile(r"refs/(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)|/\.|\.$))[^\x00-\x20~^:?*\[\\\x7f]+(?<![/])")
"""The name of a ref as git allows it."""


class UserRepository:
    """The repository of a checkout. `directory` is its own git directory, `common` the one that worktrees share."""

    def __init__(self, top: str, directory: str, common: str, *, linked: bool) -> None:
        self.top = top
        self.directory = directory
        self.common = common
        self.linked = linked
        """Whether `.git` in the checkout is a file that names the git directory: a worktree or a submodule."""

    @classmethod
    def at(cls, top: str) -> UserRepository | None:
        """The repository whose checkout has its top exactly here; None when there is none that can be made sure of.

        A `.git` file counts only if the git directory that it names also names this checkout: anything else may have
        been made to lead us to a repository that this checkout has nothing to do with.
        """
        place = os.path.join(top, ".git")
        if os.path.islink(place):
            return None
        if os.path.isdir(place):
            whole = all(os.path.exists(os.path.join(place, name)) for name in ("HEAD", "objects", "refs"))
            if not whole or os.path.lexists(os.path.join(place, "commondir")):
                return None
            return cls(top, place, place, linked=False)
        own = _path_in(place, "gitdir: ")
        if own is None or not os.path.isfile(os.path.join(own, "HEAD")):
            return None
        common = _path_in(os.path.join(own, "commondir"), "")
        if common is not None:
            back = _path_in(os.path.join(own, "gitdir"), "")
            listed = os.path.dirname(own) == os.path.join(common, "worktrees")
            return cls(top, own, common, linked=True) if listed and back == os.path.realpath(place) else None
        found = cls(top, own, own, linked=True)
        named = found.run("config", "--file", os.path.join(own, "config"), "core.worktree", check=False)
        works_here = named.code == 0 and os.path.realpath(os.path.join(own, _line(named))) == os.path.realpath(top)
        return found if works_here else None

    @classmethod
    def bare(cls, path: str) -> UserRepository | None:
        """The repository without a checkout that is exactly here."""
        place = os.path.realpath(path)
        whole = all(os.path.exists(os.path.join(place, name)) for name in ("HEAD", "objects", "refs"))
        if not whole or os.path.basename(place) == ".git" or os.path.lexists(os.path.join(place, "commondir")):
            return None
        found = cls(place, place, place, linked=False)
        named = found.run("config", "--file", os.path.join(place, "config"), "--type=bool", "core.bare", check=False)
        return found if named.code == 0 and _line(named) == "true" else None

    @cached_property
    def hash_size(self) -> int:
        """Bytes of an object's name."""
        return 32 if self.run("rev-parse", "--show-object-format").stdout.strip() == b"sha256" else 20

    @property
    def is_bare(self) -> bool:
        return self.top == self.directory

    @classmethod
    def around(cls, path: str) -> UserRepository | None:
        """The repository whose checkout contains `path`."""
        place = os.path.realpath(path)
        while not os.path.lexists(os.path.join(place, ".git")) and place != os.path.dirname(place):
            place = os.path.dirname(place)
        return cls.at(place)

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> Finished:
        """Run git on this git directory. A failure is a WorkspaceError with git's message, unless `check` is off."""
        argv = ["git", f"--git-dir={self.directory}", *OPTIONS, *arguments]
        done = run_program(argv, cwd=self.common, env=environment(env), stdin=stdin, timeout=timeout)
        if check and done.code != 0:
            reason = done.complaint or f"exit code {done.code}"
            what = f"git {arguments[0]} failed in {self.directory}: {reason}"
            raise WorkspaceError(what, retryable=done.passing)
        return done

    def blob(self, name: str, most: int) -> bytes:
        """The content of a file that anyone could have written; WorkspaceError when it is larger."""
        if (size := int(self.run("cat-file", "-s", name).stdout)) > most:
            what = f"{name} has {size} bytes, and at most {most >> 20} MiB are read"
            raise WorkspaceError(what, hint="Treadle did not write it: remove it")
        return self.run("cat-file", "blob", name).stdout

    def note(self, ref: str, commit: str, most: int) -> bytes | None:
        """The note of a commit; None when it has none. WorkspaceError when it is larger."""
        listed = self.run("notes", f"--ref={ref}", "list", commit, check=False)
        return self.blob(os.fsdecode(listed.stdout).strip(), most) if listed.code == 0 else None

    def lock(self) -> locked:
        """Held while a branch is moved together with its checkouts. Git has a lock for each ref and one for each index,
        but none for both: without this one, two of us could each move what the other has looked at."""
        import hashlib

        name = hashlib.blake2b(os.fsencode(self.common), digest_size=12).hexdigest()
        return locked(os.path.join(private_dir(os.path.join(state_dir(), "locks")), f"git-{name}"), TIMEOUT)

    def head(self) -> str:
        """The ref that HEAD names, or the commit that it is, when no branch is checked out."""
        place = os.path.join(self.directory, "HEAD")
        if os.path.islink(place):
            return os.readlink(place)
        if os.path.isdir(os.path.join(self.common, "reftable")):  # the file says nothing then
            named = self.run("symbolic-ref", "--quiet", "HEAD", check=False)
            return _line(named if named.code == 0 else self.run("rev-parse", "HEAD"))
        return (_text(place) or "").removeprefix("ref:").strip()

    def set_head(self, head: str, why: str) -> str:
        """Let HEAD name this ref, or be this commit. Returns git's complaint."""
        words = ["symbolic-ref"] if REF.fullmatch(head) else ["update-ref", "--no-deref"]
        done = self.run(*words, "-m", why, "HEAD", head, check=False)
        return done.complaint or f"exit code {done.code}" if done.code else ""

    def refs(self) -> dict[str, str]:
        """All refs with what they are at; one that names another has `ref: NAME`."""
        listed = self.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)").stdout
        found = {}
        for line in listed.decode("utf-8", "surrogateescape").splitlines():
            at, name, target = line.split(" ")
            found[name] = f"ref: {target}" if target else at
        return found

    def settings(self) -> list[tuple[str, str, str]]:
        """What is configured here, as git reads it: scope, key and value, from the weakest to the strongest."""
        listed = self.run("config", "--list", "--includes", "--show-scope", "-z", check=False).stdout
        fields = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
        pairs = zip(fields[::2], fields[1::2], strict=False)
        return [(scope, *_halves(entry)) for scope, entry in pairs if scope != "command"]  # those are our own

    def excludes(self, *, everywhere: bool = False) -> str:
        """The rules about ignored files that belong to this repository and are in no `.gitignore`; with `everywhere`,
        after those that the person has for all repositories."""
        own = _text(os.path.join(self.common, "info", "exclude")) or ""
        if not everywhere:
            return own
        named = [value for _, key, value in self.settings() if key.lower() == "core.excludesfile"]
        usual = os.path.join(os.environ.get("XDG_CONFIG_HOME") or "~/.config", "git", "ignore")
        place = os.path.expanduser(named[-1] if named else usual)
        return f"{_text(place) or ''}\n{own}"

    def object_places(self) -> list[str]:
        """Its objects' directory and all that this one borrows from, as real paths."""
        found: list[str] = []
        todo = [os.path.join(self.common, "objects")]
        while todo:
            place = os.path.realpath(todo.pop(0))
            if place in found or not os.path.isdir(place):
                continue
            found.append(place)
            for line in (_text(os.path.join(place, "info", "alternates")) or "").splitlines():
                if line and not line.startswith("#"):
                    todo.append(os.path.join(place, line))
        return found

    def checked_out_elsewhere(self) -> set[str]:
        """The branches of its other worktrees."""
        listed = os.path.join(self.common, "worktrees")
        others = [os.path.join(listed, name) for name in (os.listdir(listed) if os.path.isdir(listed) else ())]
        places = [place for place in (self.common, *others) if place != self.directory]
        return {(_text(os.path.join(place, "HEAD")) or "").removeprefix("ref:").strip() for place in places}

    def file(self, name: str) -> str:
        """The path of a file of this checkout, such as its index."""
        return os.path.join(self.directory, name)


def _halves(entry: str) -> tuple[str, str]:
    key, separator, value = entry.partition("\n")
    return key, value if separator else "true"


def _line(done: Finished) -> str:
    return os.fsdecode(done.stdout).removesuffix("\n")


def _text(path: str) -> str | None:
    try:
        return os.fsdecode(read_at_most(path, SMALL))
    except (LocalError, OSError):
        return None


def _path_in(path: str, prefix: str) -> str | None:
    """The path that this file contains after `prefix`; relative to the file's directory."""
    try:
        text = os.fsdecode(read_at_most(path, SMALL, follow=False)).strip()
    except (LocalError, OSError):
        return None
    if not text.startswith(prefix) or "\0" in text:
        return None
    return os.path.realpath(os.path.join(os.path.dirname(path), text.removeprefix(prefix)))


# Keeps what a run began with from the user's own `git gc --prune=now`, by a ref of ours for as long as it is needed.
#
# A private repository and our stores borrow the objects of the commit that a run starts from. When the user amends
# it, deletes its branch or rewrites it, nothing else may name it any more. All functions block.

BASE = "refs/treadle/base/"


def _refs(owner: str) -> str:
    return f"{BASE}{hashlib.blake2b(os.fsencode(os.path.realpath(owner)), digest_size=8).hexdigest()}/"


def keep(user: UserRepository, owner: str, commit: str) -> str:
    """Keep a commit for what lies in the directory `owner`, beside those that are kept for it already. Returns why that
    was not possible, as in a repository that we may only read."""
    done = user.run("update-ref", f"{_refs(owner)}{commit}", commit, check=False)
    return "" if done.code == 0 else f"{commit[:12]} is not kept from git gc: {done.complaint or 'git failed'}"


def forget(user: UserRepository, owner: str) -> None:
    """Whatever was kept for this directory is no longer needed. With the repository its refs are gone as well."""
    if not os.path.isdir(user.common):
        return
    listed = user.run("for-each-ref", "--format=delete %(refname)", _refs(owner), check=False).stdout
    if listed:
        user.run("update-ref", "--stdin", stdin=listed, check=False)


# The programs that a repository's own configuration has git run when a person only wants to look.


def run_when_looking(directory: str) -> str:
    """Why `git diff` and the like may run a program here; empty when they do not. What a person has configured for all
    repositories is theirs."""
    found = UserRepository.around(directory)
    if found is None:
        return f"the repository around {directory} is of an unusual form" if _is_in_one(directory) else ""
    try:
        listed = found.settings()
    except TreadleError as error:
        return f"its configuration cannot be read ({error})"
    own = [
        f"{key} = {value}"
        for scope, key, value in listed
        if scope in ("local", "worktree") and git_looks_with(key, value)
    ]
    return f"the repository {found.top} has git run a program: {', '.join(own)}" if own else ""


def _is_in_one(directory: str) -> bool:
    place = os.path.realpath(directory)
    while place != os.path.dirname(place):
        if os.path.lexists(os.path.join(place, ".git")):
            return True
        place = os.path.dirname(place)
    return False


# Makes a repository with a first commit of files that we have just written, for demonstrations.

WHO = "demo <demo@example.invalid>"


def first_commit(place: str, files: Mapping[str, bytes], message: str) -> str:
    """Make the directory `place` with these files, all committed. Returns the commit."""
    os.makedirs(place)
    create("init", "--quiet", place, cwd=place)
    user = UserRepository.at(place)
    if user is None:
        raise WorkspaceError(f"git did not create a repository in {place}")
    text = message.encode()
    parts = [b"commit %s\ncommitter %s %d +0000\n" % (user.head().encode(), WHO.encode(), time.time())]
    parts.append(b"data %d\n%s\n" % (len(text), text))
    for name, data in files.items():
        write(os.path.join(place, name), data)
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data))
    user.run("fast-import", "--quiet", stdin=b"".join(parts))
    user.run("read-tree", "HEAD")
    return user.run("rev-parse", "HEAD").stdout.decode().strip()
