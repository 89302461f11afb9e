"""A git directory of ours that no sandbox sees: what comes out of a workspace is kept here, and everything that is
stated, applied or sent on comes from here.

It has no work tree, no index and a config of our own, so no file that an agent wrote can tell git to run a program.
Objects enter it in two ways, and each is hashed on the way: bytes that we write (`put`, `put_tree`), and bundles that
git checks whole (`take_bundle`). A lender is the object directory of a person's repository. Only the commands that say
`lent=True` look there, and what they give us is hashed before it is believed: git itself does not do that.

All functions block; inside an event loop, call them in a thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Literal, TypeAlias, TypedDict

import msgspec

from treadle.errors import NotFound, WorkspaceError
from treadle.io import scratch, tasks
from treadle.io.files import created, read_if_there, rename, storage_error, write
from treadle.io.paths import private_dir
from treadle.io.process.programs import Finished, reading_program, run_program
from treadle.io.records import FileRecord
from treadle.workspace.changes import KINDS, Delta, PathChange, TreeEntry
from treadle.workspace.git import OPTIONS, TIMEOUT, environment, is_forbidden
from treadle.workspace.user_repository import UserRepository

FORMAT = 1
PIECE = 1 << 20
LONG = 600.0
"""Seconds for the commands that read or write content."""
REMEMBERED_NAMES = 256
REMEMBERED_TREES = 6
"""What a merge looks at: where it starts, what it merges, their base, what it makes, and a step before."""
TREE = "40000"
GITLINK = "160000"
FILES = ("100644", "100755")
Algorithm: TypeAlias = Literal["sha1", "sha256"]
Kind: TypeAlias = Literal["blob", "tree", "commit"]
TreeRow: TypeAlias = tuple[bytes, str, str]
"""Name, mode and id of an entry of a tree."""
Folders: TypeAlias = dict[str, tuple[list[TreeRow], str]]
"""The sorted entries and the tree id of each directory, by its path with a slash at the end; the root is empty."""

_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:"
_NO_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding !diff !merge\n"
_ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
}
_OURS = ["-c", f"core.attributesFile={os.devnull}", "-c", "transfer.fsckObjects=true"]
_DIFF = ["--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"]
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs(/[A-Za-z0-9][A-Za-z0-9._-]*)+")


class StoreRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`store.json` in a store's directory."""

    format: int = 0
    algorithm: Algorithm = "sha1"
    lenders: tuple[str, ...] = ()


STORE = FileRecord(StoreRecord, format=FORMAT)


class Lending(TypedDict):
    lenders: list[str]
    algorithm: Algorithm


def lending(user: UserRepository | None) -> Lending:
    """How a store is made that borrows from this repository."""
    if user is None:
        return {"lenders": [], "algorithm": "sha1"}
    wide = user.run("rev-parse", "--show-object-format").stdout.strip() == b"sha256"
    return {"lenders": user.object_places(), "algorithm": "sha256" if wide else "sha1"}


class TreeMerge(msgspec.Struct, frozen=True, kw_only=True):
    """With conflicts, `tree` holds their markers."""

    tree: str
    conflicts: tuple[str, ...] = ()
    messages: str = ""


class Store:
    def __init__(self, directory: str, record: StoreRecord) -> None:
        self.directory = directory
        self.algorithm = record.algorithm
        self.lenders = record.lenders
        self._hash = hashlib.sha1 if record.algorithm == "sha1" else hashlib.sha256
        self._objects = os.path.join(directory, "objects")
        # An id stands for the same tree for ever, and a merge asks for the same few again and again.
        self._lent_tree = lru_cache(REMEMBERED_NAMES)(self._find_lent_tree)
        self._borrowed = lru_cache(REMEMBERED_TREES)(self._borrow)

    @classmethod
    def make(cls, directory: str, *, lenders: Sequence[str] = (), algorithm: Algorithm = "sha1") -> Store:
        """A new, empty store at `directory`, which may exist if it is empty. No program is started."""
        record = StoreRecord(format=FORMAT, algorithm=algorithm, lenders=tuple(map(os.path.realpath, lenders)))
        try:
            private_dir(directory)
            for inner in ("objects/info", "objects/pack", "refs/heads", "info"):
                os.makedirs(os.path.join(directory, inner))
            version = "0" if algorithm == "sha1" else "1\n[extensions]\n\tobjectFormat = sha256\n[core]"
            _write(directory, "config", f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = true\n")
            _write(directory, "info/attributes", _NO_ATTRIBUTES)
            _write(directory, "HEAD", "ref: refs/heads/none\n")
            _write(directory, "store.json", STORE.written(record).decode())
        except OSError as error:
            raise storage_error(error, directory, "make a store in") from error
        return cls(directory, record)

    @classmethod
    def open(cls, directory: str) -> Store:
        """The store that was made there. Raises NotFound; StorageError for one of a newer treadle."""
        path = os.path.join(directory, "store.json")
        if (record := STORE.load(path)) is None:
            raise NotFound(f"there is no store in {directory}")
        return cls(directory, record)

    def seal(self) -> str:
        """A hash of the files that decide what git does here. A run that is not confined could write to them."""
        made = hashlib.sha256()
        for name in ("config", "HEAD", "store.json", "info/attributes", "objects/info/alternates", "info/grafts"):
            made.update(b"%s\0%s\0" % (name.encode(), read_if_there(os.path.join(self.directory, name)) or b""))
        return made.hexdigest()

    # Running git here...

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return ["git", "--git-dir", self.directory, *OPTIONS, *_OURS, *arguments]

    def _environment(self, lent: bool, more: Mapping[str, str] | None = None, persons: bool = False) -> dict[str, str]:
        alone = {name: value for name, value in _ALONE.items() if not (persons and name.startswith("GIT_CONFIG"))}
        env = environment({**alone, **(more or {})})
        if lent and self.lenders:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(map(_quoted_place, self.lenders))
        return env

    def git(
        self,
        *arguments: str,
        lent: bool = False,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = TIMEOUT,
        persons: bool = False,
    ) -> Finished:
        """Run git in the store. With `lent`, it also finds the lenders' objects, unchecked. With `persons`, the
        settings of the person and of the machine count, which say how they reach other machines and sign in there."""
        done = run_program(
            self._command(arguments),
            cwd=self.directory,
            env=self._environment(lent, env, persons),
            stdin=stdin,
            timeout=timeout,
        )
        if check and done.code != 0:
            why = done.complaint or f"exit code {done.code}"
            raise WorkspaceError(f"git {arguments[0]} failed: {why}", retryable=done.passing)
        return done

    # Objects in...

    def id_of(self, kind: Kind, data: bytes) -> str:
        return self._hash(b"%s %d\0%s" % (kind.encode(), len(data), data)).hexdigest()

    def _loose(self, name: str) -> str:
        return os.path.join(self._objects, name[:2], name[2:])

    def has(self, name: str) -> bool:
        """Whether it was put here as a single object; False also for what only came in a bundle."""
        return os.path.exists(self._loose(name))

    def put(self, kind: Kind, data: bytes) -> str:
        name = self.id_of(kind, data)
        place = self._loose(name)
        if not os.path.exists(place):
            packed = zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1)
            beside = self._beside()
            try:
                write(beside, packed)
                self._into_place(beside, place)
            except OSError as error:
                raise storage_error(error, place, "write") from error
        return name

    def put_pieces(self, pieces: Iterable[bytes], size: int) -> str:
        """Put a blob of `size` bytes, even more than memory has. Raises WorkspaceError for another size."""
        head = b"blob %d\0" % size
        made, packing = self._hash(head), zlib.compressobj(1)
        beside, left = self._beside(), size
        try:
            with created(beside) as file:
                _write_all(file, packing.compress(head))
                for piece in pieces:
                    left -= len(piece)
                    made.update(piece)
                    _write_all(file, packing.compress(piece))
                _write_all(file, packing.flush())
            if left:
                raise WorkspaceError(f"{abs(left)} bytes {'are missing' if left > 0 else 'too many'}: it was changed")
            self._into_place(beside, self._loose(made.hexdigest()))
        except OSError as error:
            raise storage_error(error, self.directory, "write into") from error
        finally:
            if os.path.exists(beside):
                os.unlink(beside)
        return made.hexdigest()

    def _beside(self) -> str:
        return os.path.join(self._objects, f"tmp_obj_{secrets.token_hex(8)}")

    def _into_place(self, beside: str, place: str) -> None:
        try:
            rename(beside, place)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            rename(beside, place)

    def put_tree(self, entries: Iterable[TreeRow]) -> str:
        """Put one level of a tree, its entries in any order."""
        rows = sorted(entries, key=lambda entry: entry[0] + b"/" * (entry[1] == TREE))
        for name, _, _ in rows:
            if b"/" in name or is_forbidden(os.fsdecode(name)):
                raise WorkspaceError(f"{os.fsdecode(name)!r} is not a name for a file")
        return self.put(
            "tree", b"".join(b"%s %s\0" % (mode.encode(), name) + bytes.fromhex(at) for name, mode, at in rows)
        )

    def put_files(self, files: Mapping[str, TreeEntry], folders: Folders | None = None) -> str:
        """Put the tree that has these files, by their paths, and return its id. `folders` is filled with its parts."""
        rows: dict[str, list[TreeRow]] = {"": []}
        for path, entry in files.items():
            folder, _, name = path.rpartition("/")
            _ensure(rows, folder).append((os.fsencode(name), entry.mode, entry.blob))
        for folder in sorted(rows, key=lambda path: path.count("/") + bool(path), reverse=True):
            rows[folder].sort()
            made = self.put_tree(rows[folder])
            if folders is not None:
                folders[f"{folder}/" if folder else ""] = (rows[folder], made)
            if folder:
                above, _, name = folder.rpartition("/")
                rows[above].append((os.fsencode(name), TREE, made))
        return made

    def borrow_tree(self, commit: str, folders: Folders | None = None) -> tuple[str, dict[str, TreeEntry]]:
        """Bring the tree of a lender's commit in: its id and its files. The files' content stays with the lender.

        We put the trees together again ourselves, so what is listed is what the id stands for.
        """
        tree = self._lent_tree(commit) if _ID.fullmatch(commit) else self._find_lent_tree(commit)
        return tree, self._borrow(tree, folders) if folders is not None else dict(self._borrowed(tree))

    def _find_lent_tree(self, commit: str) -> str:
        return self.git("rev-parse", "--verify", f"{commit}^{{tree}}", lent=True).stdout.decode().strip()

    def _borrow(self, tree: str, folders: Folders | None = None) -> dict[str, TreeEntry]:
        files = self._listed(tree, lent=True)
        if self.put_files(files, folders) != tree:
            raise WorkspaceError(
                f"the tree {tree} of the repository does not match its hash", hint="run git fsck there"
            )
        return files

    def as_committed(
        self, user: UserRepository, commit: str, files: Mapping[str, TreeEntry], *, lfs: bool
    ) -> Mapping[str, TreeEntry]:
        """The files of a checkout with the bytes that git would commit, by the attributes of the commit that it is at:
        with `eol=crlf` a file has other line ends on disk. Git converts copies, where no attribute names a program.
        `lfs`: with pointers for what the person's Git LFS would take."""
        _, base = self.borrow_tree(commit)
        settings = {key: value for _, key, value in user.settings()}
        auto, lfs = settings.get("core.autocrlf", "false"), lfs and "filter.lfs.clean" in settings
        if auto not in ("true", "input") and not any(os.path.basename(path) == ".gitattributes" for path in base):
            return files
        blobs: dict[str, list[str]] = {}
        for path, entry in files.items():
            if base.get(path) != entry and entry.mode in FILES:
                blobs.setdefault(entry.blob, []).append(path)
        with scratch.directory("eol") as place:
            here, copies, index = (os.path.join(place, name) for name in ("git", "files", "index"))
            chosen = list(self._copied(blobs, copies))
            if not chosen and not lfs:
                return files
            git = Store.make(here, lenders=[self._objects, *self.lenders], algorithm=self.algorithm)
            os.remove(os.path.join(here, "info", "attributes"))
            env = {"GIT_WORK_TREE": copies, "GIT_INDEX_FILE": index}
            named = b"".join(os.fsencode(path) + b"\0" for path in chosen)
            options = ("-c", f"core.autocrlf={auto}", "-c", "core.safecrlf=false")
            git.git("read-tree", commit, lent=True, env=env)
            # What git reads while it converts. Without the lender then: git renews the times of an object that it finds
            # there, and in a run's own directory that looks like something that the agent did.
            read = {path for path in base if os.path.basename(path) == ".gitattributes"}.union(chosen) & base.keys()
            git.own(base[path].blob for path in read if base[path].mode in FILES)
            git.git(*options, "update-index", "--add", "--replace", "-z", "--stdin", stdin=named, env=env)
            listed = os.fsdecode(git.git("ls-files", "-s", "-z", lent=True, env=env).stdout).split("\0")[:-1]
            made = {path: head.split()[1] for head, _, path in (row.partition("\t") for row in listed)}
            for text in git.blobs(made[path] for path in chosen).values():
                self.put("blob", text)
            made = {path: made[path] for path in chosen}
            if lfs:
                asked = b"".join(os.fsencode(path) + b"\0" for paths in blobs.values() for path in paths)
                fields = git.git("check-attr", "--stdin", "-z", "filter", stdin=asked, env=env).stdout.split(b"\0")
                taken = [os.fsdecode(path) for path, by in zip(fields[::3], fields[2::3], strict=False) if by == b"lfs"]
                made |= self._pointers(taken, files)
        return {**files, **{path: TreeEntry(mode=files[path].mode, blob=blob) for path, blob in made.items()}}

    def _pointers(self, paths: Iterable[str], files: Mapping[str, TreeEntry]) -> dict[str, str]:
        """The blobs that Git LFS would commit for these files: what is empty or a pointer stays what it is."""
        found = {}
        for name, size, pieces in self.stream(list({files[path].blob for path in paths}), lent=True):
            digest, first = hashlib.sha256(), b""
            for piece in pieces:
                first = first or piece
                digest.update(piece)
            if first and not first.startswith(_POINTER):
                found[name] = self.put("blob", _POINTER + f"{digest.hexdigest()}\nsize {size}\n".encode())
        return {path: found[files[path].blob] for path in paths if files[path].blob in found}

    def _copied(self, blobs: Mapping[str, Sequence[str]], directory: str) -> Iterator[str]:
        """Write what has lines of Windows, and attributes, to their paths below a directory."""
        os.makedirs(directory)
        for name, _, pieces in self.stream(list(blobs), lent=True):
            text = b"".join(pieces)
            for path in blobs[name]:
                if b"\r\n" in text or os.path.basename(path) == ".gitattributes":
                    place = os.path.join(directory, path)
                    os.makedirs(os.path.dirname(place), exist_ok=True)
                    write(place, text)
                    yield path

    def own(self, blobs: Iterable[str]) -> None:
        """Bring those of the blobs that only a lender has in. Each is hashed, also those that are here already."""
        for name, size, pieces in self.stream(list(dict.fromkeys(blobs)), lent=True):
            if self.has(name):
                for _ in pieces:
                    pass
            elif self.put_pieces(pieces, size) != name:
                raise _forged(name)

    # ... and out

    def _listed(self, tree: str, lent: bool = False) -> dict[str, TreeEntry]:
        found = {}
        done = self.git("ls-tree", "-r", "-z", "--full-tree", tree, lent=lent, timeout=LONG)
        for row in os.fsdecode(done.stdout).split("\0")[:-1]:
            head, path = row.split("\t", 1)
            mode, _, name = head.split()
            found[path] = TreeEntry(mode=mode, blob=name)
        return found

    def files(self, tree: str) -> dict[str, TreeEntry]:
        """All files of a tree, by their paths; a submodule is one entry."""
        return self._listed(tree)

    def deltas(self, before: str, after: str, *, renames: bool = True) -> list[Delta]:
        """What differs between two trees. With `renames`, what is needed to see them is taken from the lenders."""
        options = _DIFF if renames else [*_DIFF, "--no-renames"]
        if renames:
            self.own(
                entry.blob
                for delta in self.deltas(before, after, renames=False)
                for entry in (delta.old, delta.new)
                if entry is not None and entry.mode != GITLINK
            )
        done = self.git("diff-tree", "-r", "-z", "--raw", "--no-abbrev", *options, before, after, timeout=LONG)
        fields = iter(os.fsdecode(done.stdout).split("\0")[:-1])
        found = []
        for head in fields:
            old_mode, new_mode, old, new, status = head.removeprefix(":").split()
            path = next(fields)
            old_path = path if status[0] in "RC" else None
            path = next(fields) if old_path is not None else path
            found.append(
                Delta(
                    change=PathChange(kind=KINDS[status[0]], path=path, old_path=old_path),
                    old=_entry(old_mode, old),
                    new=_entry(new_mode, new),
                )
            )
        return found

    def patch(self, before: str, after: str) -> bytes:
        """A patch from which `git apply` makes one from the other, binary files included. Call `deltas` first."""
        arguments = ["diff-tree", "-r", "-p", "--binary", "--full-index", *_DIFF]
        return self.git(*arguments, before, after, timeout=LONG).stdout

    def stream(
        self, blobs: Sequence[str], *, lent: bool = False
    ) -> Generator[tuple[str, int, Iterator[bytes]], None, None]:
        """The blobs in this order: id, size, and the content in pieces, by one start of git.

        When its pieces have been read to the end, a blob has been hashed: WorkspaceError if it is another.
        """
        if not blobs:
            return
        asked = "".join(f"{name}\n" for name in blobs).encode()
        with self._batch(asked, lent) as output:
            for name in blobs:
                tasks.check()
                _, _, rest = output.readline().decode().strip().partition(" ")
                kind, _, size = rest.partition(" ")
                if kind != "blob":
                    tasks.check()
                    raise WorkspaceError(f"the object {name} is missing", hint="run git fsck in the repository")
                yield name, int(size), self._checked(name, int(size), output)
                output.read(1)

    @contextmanager
    def _batch(self, asked: bytes, lent: bool) -> Iterator[IO[bytes]]:
        with reading_program(
            self._command(["cat-file", "--batch", "--buffer"]),
            cwd=self.directory,
            env=self._environment(lent),
            stdin=asked,
            timeout=LONG,
        ) as output:
            yield output

    def _checked(self, name: str, size: int, output: IO[bytes]) -> Iterator[bytes]:
        made, left = self._hash(b"blob %d\0" % size), size
        while left:
            piece = output.read(min(PIECE, left))
            if not piece:
                tasks.check()
                raise WorkspaceError(f"the object {name} ended early")
            left -= len(piece)
            made.update(piece)
            yield piece
        if made.hexdigest() != name:
            raise _forged(name)

    def blobs(self, names: Iterable[str], *, lent: bool = True) -> dict[str, bytes]:
        """The content of all these blobs, each hashed, by one start of git."""
        wanted = list(dict.fromkeys(names))
        return {name: b"".join(pieces) for name, _, pieces in self.stream(wanted, lent=lent)}

    # Commits, refs, bundles, merges...

    def commit(self, tree: str, parents: Sequence[str], message: str, *, who: Mapping[str, str]) -> str:
        """Make a commit of the tree. `who` has git's variables for author, committer and their dates."""
        above = [word for parent in parents for word in ("-p", parent)]
        done = self.git("commit-tree", tree, *above, stdin=message.encode("utf-8", "replace"), env=who, lent=True)
        return done.stdout.decode().strip()

    def set_ref(self, ref: str, commit: str) -> None:
        """Let a ref of the store's own keep a commit, which a lender may have."""
        if not _REF.fullmatch(ref) or ".." in ref or not _ID.fullmatch(commit):
            raise ValueError(f"not a ref and a commit: {ref!r}, {commit!r}")
        self.git("update-ref", ref, commit, lent=True)

    def ref(self, ref: str) -> str | None:
        """The commit that a ref of the store's own keeps."""
        done = self.git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", lent=True, check=False)
        return done.stdout.decode().strip() if done.code == 0 else None

    def take_bundle(self, bundle: bytes, ref: str, into: str) -> str:
        """Bring the commits of a bundle's `ref` in, every object hashed and checked, and keep them as the ref `into`.

        Raises WorkspaceError when an object is missing, malformed, or not what its name says, also where the lender
        has another one of that name. Not `git fetch`: that leaves objects out which a lender seems to have.
        """
        heads, pack = bundle_parts(bundle)
        if ref not in heads:
            raise WorkspaceError(f"the bundle has no {ref}, only {', '.join(heads) or 'nothing'}")
        self.git("index-pack", "--stdin", "--strict", "--fix-thin", lent=True, stdin=pack, timeout=LONG)
        self.set_ref(into, heads[ref])
        commit = self.ref(into)
        if commit is None:
            raise WorkspaceError(f"the bundle's {ref} is not a commit")
        return commit

    def bundle(self, ref: str, *, without: Sequence[str] = ()) -> bytes:
        """A bundle of a ref of ours, for another machine that has the commits `without`."""
        return self.git(
            "bundle", "create", "--quiet", "-", ref, *(f"^{one}" for one in without), lent=True, timeout=LONG
        ).stdout

    def tree_of(self, commit: str) -> str:
        """The tree of a commit that is in the store, such as one from a bundle."""
        return self.git("rev-parse", "--verify", f"{commit}^{{tree}}", lent=True).stdout.decode().strip()

    def loose_commit(self, tree: str, parents: Sequence[str] = ()) -> str:
        """A commit that only stands for its tree, for `merge`. No program is started."""
        who = "treadle <treadle@localhost> 0 +0000"
        above = "".join(f"parent {one}\n" for one in parents)
        return self.put("commit", f"tree {tree}\n{above}author {who}\ncommitter {who}\n\n".encode())

    def merge(self, ours: str, theirs: str) -> TreeMerge:
        """Merge two commits, without any checkout."""
        done = self.git(
            "merge-tree", "--write-tree", "--name-only", "-z", ours, theirs, lent=True, check=False, timeout=LONG
        )
        tree, _, rest = os.fsdecode(done.stdout).partition("\0")
        if done.code not in (0, 1) or not _ID.fullmatch(tree):
            why = done.complaint or f"exit code {done.code}"
            raise WorkspaceError(f"cannot merge {theirs} into {ours}: {why}", retryable=done.passing)
        paths, _, messages = rest.partition("\0\0")
        conflicts = tuple(filter(None, paths.split("\0"))) if done.code == 1 else ()
        return TreeMerge(tree=tree, conflicts=conflicts, messages=messages)


def _write(directory: str, name: str, text: str) -> None:
    write(os.path.join(directory, name), text.encode())


def _write_all(file: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _ensure(folders: dict[str, list[TreeRow]], folder: str) -> list[TreeRow]:
    """The list of this folder's entries, made together with those of the folders above it."""
    above = folder
    while above not in folders:
        folders[above] = []
        above = above.rpartition("/")[0]
    return folders[folder]


def _entry(mode: str, name: str) -> TreeEntry | None:
    return TreeEntry(mode=mode, blob=name) if mode.strip("0") else None


def _forged(name: str) -> WorkspaceError:
    return WorkspaceError(f"the object {name} does not match its hash", hint="run git fsck in the repository")


def bundle_parts(bundle: bytes) -> tuple[dict[str, str], bytes]:
    """The refs of a bundle with their ids, and its pack."""
    head, found, pack = bundle.partition(b"\n\n")
    first, *lines = os.fsdecode(head).split("\n")
    if not found or first not in ("# v2 git bundle", "# v3 git bundle"):
        raise WorkspaceError("this is not a git bundle")
    heads = {}
    for line in lines:
        name, _, ref = line.partition(" ")
        if not line.startswith(("-", "@")) and _ID.fullmatch(name):
            heads[ref] = name
    return heads, pack


def _quoted_place(path: str) -> str:
    """A directory as git reads it in a list that is separated by colons."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


# How objects reach a person's repository: as a pack, of which git hashes and checks every object and every link.
#
# `git bundle unbundle` and `git fetch` do not check, so nothing of ours uses them for what an agent has made.


def lacks(user: UserRepository, ids: Sequence[str]) -> list[str]:
    """Those of the objects that a person's repository does not have.

    It is not asked itself: in a partial clone git would fetch them, from where and by what the settings say.
    """
    if not ids:
        return []
    with scratch.directory("objects") as place:
        wide = len(ids[0]) == 64
        store = Store.make(place, lenders=user.object_places(), algorithm="sha256" if wide else "sha1")
        asked = "".join(f"{one}\n" for one in ids).encode()
        answers = store.git("cat-file", "--batch-check=%(objectname)", stdin=asked, lent=True).stdout
    missing = {line.split()[0] for line in answers.decode().splitlines() if line.endswith(" missing")}
    return [one for one in ids if one in missing]


def receive(user: UserRepository, pack: bytes, wanted: Sequence[str]) -> None:
    """Put the objects of a pack into the repository. Raises WorkspaceError if one is malformed, is not what its name
    says or names one that is nowhere, and if any of those `wanted` is not there afterwards."""
    user.run("index-pack", "--stdin", "--fix-thin", "--strict", stdin=pack, timeout=LONG)
    asked = "".join(f"{one}\n" for one in wanted).encode()
    if user.run("cat-file", "--batch-check=%(objectname)", stdin=asked).stdout != asked:
        raise WorkspaceError(f"not all of {len(wanted)} objects arrived, such as {wanted[0]}")


def receive_bundle(user: UserRepository, bundle: bytes, wanted: Sequence[str]) -> None:
    receive(user, bundle_parts(bundle)[1], wanted)


def give(store: Store, user: UserRepository, commit: str, *, without: str) -> None:
    """Give a repository that has the commit `without` the objects of a commit in our store."""
    asked = f"{commit}\n^{without}\n".encode()
    words = ["pack-objects", "--stdout", "--revs", "--thin", "--delta-base-offset", "-q"]
    receive(user, store.git(*words, lent=True, stdin=asked, timeout=LONG).stdout, [commit])
