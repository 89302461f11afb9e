"""Where an attempt works: a directory with the files of the order's commit and a git directory of its own.

The agent may do there what it likes. No git of ours runs in it: files come out as bytes that we read and hash into a
store beside, which no sandbox shows; commits come out in a bundle that is made inside a sandbox, and every object of it
is hashed on the way in. Everything that is kept of the work is made from that store, and nothing is written to the
user's repository before an attempt counts. Functions block, except where they are `async`.
"""

import asyncio
import contextlib
import hashlib
import os
import threading
from collections.abc import Mapping

import msgspec

from treadle.errors import TreadleError, WorkspaceError
from treadle.fleet.engine import places, streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import read_order
from treadle.io import descriptors, scratch
from treadle.io.descriptors import remove_tree
from treadle.io.files import locked, opened, rename, write_atomic
from treadle.wire.fleet import keys
from treadle.wire.fleet.orders import Spec
from treadle.wire.sidecar.connection import PolicyProfile
from treadle.workspace import checkouts, directories, private_git, remotes
from treadle.workspace.directories import Look, bring_files, files_under, write_files
from treadle.workspace.git import FETCHING, create
from treadle.workspace.store import LONG, Store, give, lacks, lending, receive_bundle
from treadle.workspace.user_repository import UserRepository, forget, keep
from treadle.workspace.workspace import Origin, make_readable

RESULT = "refs/heads/result"
"""The commit that a bundle carries."""
AGENT = "refs/heads/agent"
SMALL = 4096
PATCH_MAX = 64 * 1024 * 1024
CHANGED_MAX = 200


class WorkTree(msgspec.Struct, frozen=True, kw_only=True):
    root: str
    """Where the agent works."""
    top: str = ""
    """The top of the working tree; empty when there is none: no repository, or in place."""
    start: str = ""
    source: str = ""
    """The top of the user's repository."""
    store: str = ""
    """Our store beside it."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a working tree as commits: `head` is what the agent has committed, `commit` has the rest on top."""

    head: str
    commit: str
    start: str = ""


def prepare(spec: Spec, root: str, path: str, store: str, left: Left | None = None, bundle: bytes = b"") -> WorkTree:
    """A working tree at `path` for the order; the directory itself when it works in place or there is no repository.

    With `left`, the files are as an earlier attempt left them; `bundle` has its commits.
    """
    if not os.path.isdir(root):
        raise WorkspaceError(f"there is no directory {root} on this node", hint="choose a node that has it: --label")
    user = None if spec.in_place else checkouts.find(root)
    if user is None:
        return WorkTree(root=root)
    start = commit_of(user, (left.start if left is not None else "") or beginning(spec))
    for place in (path, store):
        remove_tree(place)
    made = Store.make(store, lenders=user.object_places(), algorithm="sha1" if len(start) == 40 else "sha256")
    if bundle and left is not None:
        made.take_bundle(bundle, RESULT, RESULT)
    _, files = made.borrow_tree(left.commit if left is not None else start)
    write_files(made, files, path)
    _make_git(made, user, path, start, left.head if left is not None else start)
    inside = os.path.relpath(os.path.realpath(root), os.path.realpath(user.top))
    here = os.path.normpath(os.path.join(path, inside))
    os.makedirs(here, exist_ok=True)
    bring_files(root, here, spec.bring, linked=True)
    keep(user, store, start)
    return WorkTree(root=here, top=path, start=start, source=user.top, store=store)


def _make_git(store: Store, user: UserRepository, path: str, start: str, head: str) -> None:
    """The agent's own git directory, at `head`. Nothing but us has written in it yet, so our git may run there."""
    place = os.path.join(path, ".git")
    private_git.make(place, user, head=start)
    own = UserRepository(path, place, place, linked=False)
    if head != start:
        give(store, own, head, without=start)
        own.run("update-ref", "--no-deref", "HEAD", head)
        own.run("read-tree", head)
    own.run(f"--work-tree={path}", "update-index", "-q", "--refresh", check=False, timeout=LONG)


def beginning(spec: Spec) -> str:
    """What the work starts from: a commit, or a name that is looked up when it starts."""
    return spec.base or (remotes.ref_of(spec.land) if spec.land else "HEAD")


def see_branch(user: UserRepository, spec: Spec) -> str:
    """Ask where the branch behind a remote is now, if the work is to start from there. Returns why it is not known:
    then it starts from where the branch was last seen, which costs a merge later and breaks nothing."""
    remote, branch = remotes.split(spec.land)
    if not remote or spec.base or spec.in_place:
        return ""
    with scratch.directory("seen") as directory:
        store = Store.make(os.path.join(directory, "store"), **lending(user))
        there = remotes.RemoteBranch(remotes.Remote(user, remote), branch, store)
        try:
            there.tip()
        except WorkspaceError as error:
            try:
                commit_of(user, there.here)
            except WorkspaceError as never_seen:  # whether there is such a branch is not known while the remote is away
                raise (error if error.retryable else never_seen) from None
            return f"it starts from {remote}/{branch} as it was last seen, because {error}"
    return ""


def commit_of(user: UserRepository, name: str) -> str:
    done = user.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
    if done.code != 0:
        raise checkouts.missing(user, name)
    return done.stdout.decode().strip()


# Taking the work out of the tree.


class WorkTaker:
    """Takes what an agent has done out of its working tree, again and again, into the store."""

    def __init__(self, tree: WorkTree, brought: tuple[str, ...]) -> None:
        self.tree = tree
        self._brought = brought
        self.store = Store.open(tree.store)
        self._start, self._base = self.store.borrow_tree(tree.start)
        self._lent = {entry.blob for entry in self._base.values()}
        inside = os.path.relpath(tree.root, tree.top)
        self._excludes = "".join(f"/{os.path.normpath(os.path.join(inside, name))}\n" for name in brought)
        self._look: Look | None = None
        self._lock = threading.Lock()
        """Checkpoints and results look at the files from threads: each look builds on the one before."""
        self._taken = ("", tree.start)
        """The head as the agent's git directory says it, and its commit in the store."""

    @property
    def origin(self) -> Origin:
        return Origin(
            top=self.tree.source, commit=self.tree.start, inside=os.path.relpath(self.tree.root, self.tree.top)
        )

    def shown(self) -> tuple[str, ...]:
        """What a sandbox has to show of the user's repository: its objects, read-only."""
        return self.store.lenders

    def files(self) -> Look:
        """The files as they are now, in the store."""
        with self._lock:
            found = self._taken_now()
            while make_readable(self.tree.top, found.oddities):
                found = self._taken_now()
            self._look = found
            return found

    def _taken_now(self) -> Look:
        return directories.take(
            self.store, self.tree.top, base=self._base, earlier=self._look, excludes=self._excludes, lent=self._lent
        )

    @property
    def start_tree(self) -> str:
        """The tree that the order starts from, whichever attempt this is."""
        return self._start

    def write_tree(self, directory: str, tree: str) -> str:
        """Write a tree of the store into a fresh directory, with a git directory at the start and what the order
        brings from the user's checkout. Returns the directory in it that stands for the one worked on."""
        write_files(self.store, self.store.files(tree), directory)
        origin = self.origin
        here = os.path.normpath(os.path.join(directory, origin.inside))
        os.makedirs(here, exist_ok=True)
        source = os.path.normpath(os.path.join(origin.top, origin.inside))
        bring_files(source, here, [path for name in self._brought for path in files_under(source, name)])
        private_git.make(os.path.join(directory, ".git"), checkouts.around(origin.top), head=origin.commit)
        return here

    def dirty(self) -> set[str]:
        """The files that differ from the start."""
        found = self.files().files
        return {path for path in found.keys() | self._base.keys() if found.get(path) != self._base.get(path)}

    async def head(self) -> str:
        """What the agent has committed, brought into the store: a descendant of the start, or the start itself."""
        mark = await asyncio.to_thread(_head_mark, self.tree.top)
        if mark in (self.tree.start, ""):
            return self.tree.start
        if mark != self._taken[0]:
            self._taken = (mark, await self._commits())
        return self._taken[1]

    async def _commits(self) -> str:
        """Its commits, in a bundle that is made inside a sandbox, and only there: its git may run other programs."""
        from treadle.sandboxed.repositories import bundle_of

        try:
            bundle = await bundle_of(self.tree.top, self.tree.start, self.shown())
            return await asyncio.to_thread(self._take_commits, bundle)
        except TreadleError:  # there is no sandbox, or no whole bundle: the files alone then, in one commit
            return self.tree.start

    def _take_commits(self, bundle: bytes) -> str:
        head = self.store.take_bundle(bundle, "HEAD", AGENT)
        known = self.store.git("merge-base", "--is-ancestor", self.tree.start, head, lent=True, check=False)
        return head if known.code == 0 else self.tree.start

    def commit(self, head: str, message: str) -> Left:
        """A commit of everything in the working tree now, on top of `head`; `head` itself if nothing differs."""
        made = self.files().tree
        if made == self.store.tree_of(head):
            return Left(head=head, commit=head)
        who = {"NAME": "treadle", "EMAIL": "treadle@localhost"}
        names = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in who.items()}
        return Left(head=head, commit=self.store.commit(made, [head], message, who=names))

    def changed(self, commit: str) -> tuple[str, ...]:
        """The files that changed since the start."""
        deltas = self.store.deltas(self._start, self._tree(commit), renames=False)
        return tuple(os.fsencode(one.change.path).decode("utf-8", "replace") for one in deltas[:CHANGED_MAX])

    def _tree(self, commit: str) -> str:
        return self.store.borrow_tree(commit)[0]

    def bundle(self, commit: str, ref: str = RESULT) -> bytes:
        """The commits since the start, for another repository that has the start."""
        with self._lock:
            self.store.set_ref(ref, commit)
            return self.store.bundle(ref, without=[self.tree.start])

    def result(self, left: Left) -> tuple[dict[str, object], bytes]:
        """What is reported of the work, and the difference as text."""
        if left.commit == self.tree.start:
            return {"base": self.tree.start, "files": 0}, b""
        after = self._tree(left.commit)
        deltas = self.store.deltas(self._start, after)
        stat = self.store.git("diff-tree", "--shortstat", "--find-renames", self._start, after).stdout.decode().strip()
        fields: dict[str, object] = {
            "base": self.tree.start,
            "commit": left.commit,
            "tree": after,
            "files": len(deltas),
            "changed": list(self.changed(left.commit)),
            "stat": stat,
        }
        if odd := [f"{one.path}: {one.note}" for one in (self._look.oddities if self._look is not None else ())]:
            fields["odd"] = odd[:CHANGED_MAX]
        return fields, self.store.patch(self._start, after)[:PATCH_MAX]


def _head_mark(top: str) -> str:
    """What the agent's git directory says is checked out, in words that change when it does. Read as data."""
    try:
        text = _small(top, "HEAD")
        name = text.removeprefix("ref:").strip()
        if text.startswith("ref:") and ".." not in name and not name.startswith("/"):
            with contextlib.suppress(OSError):
                return f"{name} {_small(top, name)}"
            return f"{name} {_small(top, 'packed-refs', 1 << 20)}"
        return text
    except OSError:
        return ""


def _small(top: str, name: str, most: int = SMALL) -> str:
    with opened(descriptors.open_file(os.path.join(os.path.realpath(top), ".git", name))) as file:
        return os.fsdecode(file.read(most)).strip()


# Ending an attempt: what is kept of its tree.


def branch_name(order: str) -> str:
    return f"treadle/{order}"


def settle(tree: WorkTree, taker: WorkTaker | None, order: str, result: Mapping[str, object], *, counted: bool) -> None:
    """Make the branch if the work counts, and remove the working tree. Work that does not count is kept for a look."""
    if not tree.top or taker is None:
        return
    with contextlib.suppress(TreadleError):
        if counted and result.get("commit"):
            _name_branch(tree, taker, branch_name(order), str(result["commit"]))
        elif not counted and (taker.dirty() or _head_mark(tree.top) != tree.start):
            return
        remove_tree(tree.top)
        remove_tree(tree.store)
        forget(checkouts.around(tree.source), tree.store)


def _name_branch(tree: WorkTree, taker: WorkTaker, branch: str, commit: str) -> None:
    """The branch in the user's repository: new, or moved forward; one with anything else on it is left alone."""
    user = checkouts.around(tree.source)
    give(taker.store, user, commit, without=tree.start)
    ref = f"refs/heads/{branch}"
    old = user.refs().get(ref, "")
    if old and user.run("merge-base", "--is-ancestor", old, commit, check=False).code != 0:
        return
    user.run("update-ref", "-m", "treadle: the order is done", ref, commit, old or "0" * len(commit))


def remove_leftovers(directory: str, tree: WorkTree) -> None:
    """Remove what an ended attempt has left in its directory."""
    remove_tree(os.path.join(directory, "work"))
    remove_tree(os.path.join(directory, "store"))
    user = checkouts.find(tree.source) if tree.top and os.path.isdir(tree.source) else None
    if user is not None:
        forget(user, os.path.join(directory, "store"))


# The files that an order works on, on this node: its own directory, or a repository brought here in a bundle.


class NotHere(WorkspaceError):
    """This node lacks what the order needs; another one may have it."""


def head_commit(root: str) -> str:
    """The current commit of a directory's repository, for an order to start from; empty where there is none."""
    found = checkouts.find(root) if os.path.isdir(root) else None
    return commit_of(found, "HEAD") if found is not None else ""


def policy_of(spec: Spec) -> PolicyProfile:
    return PolicyProfile(**{name: list(getattr(spec.policy, name)) for name in PolicyProfile.__struct_fields__})


async def find(bus: Bus, spec: Spec) -> str:
    """The directory that the order is about, on this node."""
    if spec.root and os.path.isdir(spec.root):
        user = await asyncio.to_thread(checkouts.find, spec.root)
        has = not spec.base if user is None else await _has_base(bus, spec, user)
        if spec.in_place or has:
            return spec.root
    place = ""
    if spec.bundle:
        place = await asyncio.to_thread(_unpack, await streams.get(bus, spec.bundle), spec)
    elif spec.repo:
        place = await asyncio.to_thread(_fetch, spec)
    if place:
        user = await asyncio.to_thread(checkouts.find, place)
        if user is not None and not await _has_base(bus, spec, user):
            raise WorkspaceError(f"the bundled repository has no commit {spec.base}")
        return place
    at = f" at {spec.base[:12]}" if spec.base else ""
    raise NotHere(
        f"this node has no {spec.root or 'directory for the order'}{at}",
        hint="submit with --bundle, or --repo URL, or a label of a node that has it",
    )


async def see_source_branch(spec: Spec, source: str) -> str:
    """Learn where the branch is now that the work starts from. Returns why that is not known."""
    user = await asyncio.to_thread(checkouts.find, source)
    return await asyncio.to_thread(see_branch, user, spec) if user is not None else ""


async def _has_base(bus: Bus, spec: Spec, user: UserRepository) -> bool:
    """Whether the work's base commit is here; fetched, if necessary, from the order that made it."""
    if not spec.base or not await asyncio.to_thread(lacks, user, [spec.base]):
        return True
    if not spec.continues or (entry := await bus.get(keys.ORDER(spec.continues))) is None:
        return False
    made = read_order(entry).result
    if made.get("commit") != spec.base or not made.get("bundle"):
        return False
    data = await streams.get(bus, str(made["bundle"]))
    return await asyncio.to_thread(_take_made, user, data, spec.base)


def _take_made(user: UserRepository, data: bytes, commit: str) -> bool:
    try:
        receive_bundle(user, data, [commit])
    except WorkspaceError:
        return False
    return user.run("update-ref", f"refs/treadle/{commit}", commit, check=False).code == 0


def _copy_of(name: str) -> str:
    return places.inside("repositories", hashlib.blake2b(name.encode(), digest_size=10).hexdigest())


# A copy on this node is shared by all attempts at orders of one repository. Its lock is held while it is made or
# fetched into; who works from it afterwards needs none, because commits are only added. It is made under another name:
# what a killed node leaves of a clone is not taken for the repository.


def _copy(here: str, *words: str, timeout: float = 60.0) -> str:
    top, making = os.path.join(here, "repository"), os.path.join(here, "making")
    if not os.path.isdir(top):
        remove_tree(making)
        create(*words, making, cwd=here, timeout=timeout)
        rename(making, top)
    return top


def _unpack(data: bytes, spec: Spec) -> str:
    here = _copy_of(spec.place)
    with locked(os.path.join(here, "lock"), 300):
        path = os.path.join(here, "in.bundle")
        write_atomic(path, data, sync=False)
        top = _copy(here, "init", "--quiet")
        words = ("fetch", "--quiet", "--no-write-fetch-head", path, "+refs/treadle/*:refs/treadle/*")
        checkouts.around(top).run(*words, env=FETCHING, timeout=600)
        os.unlink(path)
    return top


def _fetch(spec: Spec) -> str:
    here = _copy_of(spec.repo)
    with locked(os.path.join(here, "lock"), 600):
        known = os.path.isdir(os.path.join(here, "repository"))
        top = _copy(here, "clone", "--quiet", "--no-checkout", "--", spec.repo, timeout=1800)
        if known:
            checkouts.around(top).run("fetch", "--quiet", "--all", env=FETCHING, timeout=1800)
    return top
