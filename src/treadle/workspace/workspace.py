"""Where a run works: a copy, a directory written from a commit, or the directory itself; and what it changed there.

What is changed is one tree in a store of ours (`store.py`), read by ourselves (`directories.py`): the difference, the
patch, what is applied and the commit for a branch all come from that tree. No git of ours runs where the run could
write.

Files that `.gitignore` names are not part of the tree and are removed with the workspace, but changes to them are
reported. If anything else is new or changed, the workspace is kept until the changes are applied or a person discards
it.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from treadle.errors import Denied, TreadleError, WorkspaceError
from treadle.io.descriptors import remove_tree
from treadle.io.process.programs import distrust
from treadle.io.records import FileRecord
from treadle.workspace import directories, private_git
from treadle.workspace.changes import Delta, PathChange, TreeEntry, status_lines
from treadle.workspace.checkouts import uncommitted
from treadle.workspace.gate import AGREED, TreeGate, crossings, holds
from treadle.workspace.git import is_git
from treadle.workspace.merge import Merged, MergePlan, plan_back
from treadle.workspace.store import GITLINK, Store, give, lending
from treadle.workspace.submodules import as_links
from treadle.workspace.user_repository import BASE, ID, UserRepository, forget, keep

# What is written down about a workspace when it is made, so that it is found again after a crash.

WorkspaceMode: TypeAlias = Literal["staged", "worktree", "pass_through"]
FORMAT = 1
RECORD = "workspace.json"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of a directory come from whose own git directory is an agent's: no git of ours may run there."""

    top: str
    """The person's checkout."""
    commit: str
    inside: str = "."
    """The directory in the checkout that it stands for."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to find a workspace again after a crash. Format 0 is what earlier releases wrote."""

    format: int = 0
    mode: WorkspaceMode
    source: str
    root: str
    directory: str
    before: str
    """The tree that it started from."""
    whole: str = ""
    """The tree that the whole workspace started from, above `root`."""
    branch: str | None = None
    start: str | None = None
    commit: str | None = None
    """The commit that the source had checked out, if it is in a repository."""
    committed: bool = True
    """Whether it started from that commit's files, without any change that is not committed."""
    base: str | None = None
    """Where it did not: a commit of ours with its files, on top of that commit."""
    stated: str = ""
    """The tree that git would have made of what it started from, where that is another one."""
    origin: Origin | None = None

    @property
    def start_tree(self) -> str:
        """What a receipt states of the start: the tree of all of it, as git would commit it."""
        return self.stated or self.whole or self.before

    def at_top(self, user: UserRepository) -> bool:
        """Whether the source stands for the whole checkout."""
        return self.origin.inside == "." if self.origin is not None else os.path.realpath(user.top) == self.source

    def repository(self) -> UserRepository | None:
        """The person's repository that the source belongs to, if any."""
        return UserRepository.around(self.origin.top if self.origin is not None else self.source)


PREPARED = FileRecord(Prepared, format=FORMAT, sync=False)


def read_record(directory: str) -> Prepared | None:
    """What was prepared in `directory`; None when the preparation did not finish. Raises StorageError for what a newer
    treadle has prepared."""
    return PREPARED.load_whole(os.path.join(directory, RECORD))


_OURS = re.compile(rf"(?:^|/)\.git/(?:{BASE}[0-9a-f]{{16}}/(?:[0-9a-f]{{40}}|[0-9a-f]{{64}})$|heimdall/)")
"""What we write into a person's `.git`, which is no agent's act: the refs by which runs keep their bases from git gc,
and the view of the claims, which is made again from our state."""
STORE = "store.git"
JOURNAL = "apply.json"
"""The journal's name in the run's directory while its changes are applied to the source."""
RESULT = "refs/result"
"""The ref of the store that keeps the commit of the result."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    after: str
    """The tree of the directory worked on."""
    whole: str = ""
    """The tree of the whole workspace; another one if the directory worked on lies deeper in its repository."""
    stated: str = ""
    """The tree of all of it as git would commit it, which a receipt states."""
    changes: tuple[PathChange, ...]
    patch: bytes
    status: str
    unread: str = ""
    """What could not be read."""
    hidden: tuple[str, ...] | None = None
    """Changes that are not in the patch: ignored files, and files in `.git`. None when they could not be determined."""
    oddities: tuple[directories.Oddity, ...] = ()
    permissions: tuple[directories.PermissionChange, ...] = ()
    """What no tree holds: permissions that were changed, beyond being executable."""


class Workspace:
    """With `look`, made at the start, files that are not in the tree are checked too."""

    def __init__(
        self,
        place: Prepared,
        store: Store,
        notes: Sequence[str] = (),
        look: directories.Look | None = None,
    ) -> None:
        distrust(place.source, place.root)
        self.place = place
        self.root = place.root
        self.store = store
        self.notes = list(notes)
        self._look = look
        self._watched: directories.Watched | None = None
        self._difference: Difference | None = None
        self._seal = store.seal()
        self._refs: dict[str, str] | None = None
        self._taken: set[str] = set()
        """Commits of the run that are in the person's repository."""
        self._agents: dict[str, TreeEntry] = {}
        """The submodules of the run's own last commit."""
        self._filled: dict[str, TreeEntry] = {}
        """The files of submodules that are there."""
        self._links: dict[str, TreeEntry] = {}
        """Their commits."""

    @property
    def top(self) -> str:
        """The top of what the run may change: the whole workspace, even if it works deeper in it."""
        return self.root if self.place.mode == "pass_through" else os.path.join(self.place.directory, "workspace")

    @property
    def inside(self) -> str:
        """The path from the top to the directory worked on, with a slash at the end; empty if that is the top."""
        found = os.path.relpath(self.root, self.top)
        return "" if found == "." else f"{found}/"

    def difference(self) -> Difference:
        """The changes since the start. Raises Denied when our own record of the start was tampered with."""
        if self.store.seal() != self._seal:
            raise Denied(f"the stored starting state of the workspace was changed: {self.store.directory}")
        base = self.store.files(self.place.whole or self.place.before)
        look = self._take(base)
        before, after = self.place.before, _tree_at(self.store, look, self.inside)
        changes = tuple(delta.change for delta in self.store.deltas(before, after))
        seen = [one for one in directories.news(self._look, look) if one.path.startswith(self.inside)]
        found = [replace(one, path=one.path.removeprefix(self.inside)) for one in seen]
        stated = _committed(self.store, self.place, look)
        if self.place.mode != "worktree" and stated != look.tree:  # a submodule is at another commit
            deltas = self.store.deltas(self.place.start_tree, stated, renames=False)
            changes += tuple(one.change for one in deltas if one.new is not None and one.new.mode == GITLINK)
        self._difference = Difference(
            after=after,
            whole=stated if self.place.mode == "worktree" else look.tree,
            stated=stated,
            changes=changes,
            patch=self.store.patch(before, after),
            status=status_lines(changes),
            unread="; ".join(f"{one.path}: {one.note}" for one in found if one.kind in directories.MISSING),
            hidden=None if self._look is None else tuple(self._hidden(self._look, look)),
            oddities=tuple(found),
            permissions=tuple(self._permissions(look)),
        )
        return self._difference

    def _take(self, base: Mapping[str, TreeEntry]) -> directories.Look:
        def look() -> directories.Look:
            found = directories.take(
                self.store,
                self.top,
                base=base,
                earlier=self._look,
                excludes=self._excludes(),
                watched=self._watched,
                git_files=self.place.mode != "worktree",
            )
            return self._with_links(found, base) if self.place.mode == "worktree" else found

        found = look()
        while self.place.mode != "pass_through" and make_readable(self.top, found.oddities):
            found = look()
        return found

    def _with_links(self, look: directories.Look, base: Mapping[str, TreeEntry]) -> directories.Look:
        """What is committed of it: submodules are one entry there, and their files are only for the check."""
        files = {**as_links(self.store, base, look.files, self.top, os.path.join(self.top, ".git"))}
        self._filled = {path: entry for path, entry in look.files.items() if path not in files}
        self._links = {path: files[path] for path in files.keys() - look.files.keys()}
        for path in self._agents.keys() & files.keys():  # where its files are not there, it is at what was committed
            if files[path].mode == GITLINK and path not in self._links:
                files[path] = self._agents[path]
        if files != look.files:
            look.files, look.folders = files, {}
            look.tree = self.store.put_files(files, look.folders)
            look.seen = {path: metadata for path, metadata in look.seen.items() if path not in self._filled}
        return look

    def _excludes(self) -> str:
        user = self.place.repository()
        return user.excludes() if user is not None else ""

    def _permissions(self, look: directories.Look) -> list[directories.PermissionChange]:
        found = directories.permission_changes(self._look, look) if self._look is not None else []
        here = [one for one in found if one.path.startswith(self.inside)]
        return [replace(one, path=one.path.removeprefix(self.inside)) for one in here]

    def _hidden(self, before: directories.Look, after: directories.Look) -> list[str]:
        found = [path for path in directories.hidden_changes(before, after) if not _OURS.search(path)]
        here = [path.removeprefix(self.inside) for path in found if path.startswith(self.inside)]
        if not self.inside:
            return here
        # What lies above the directory worked on is part of the branch, and not of the patch.
        deltas = [delta.change for delta in self.store.deltas(self.place.whole, after.tree)]
        paths = {path for change in deltas for path in (change.path, change.old_path) if path}
        above = sorted(path for path in paths if not path.startswith(self.inside))
        return [*here, *(os.path.relpath(path, self.inside) for path in above)]

    def plan(self, *, anyway: bool = False) -> MergePlan | None:
        """How the changes would be applied to the source; None when they are there already. `anyway`: with those to
        files that other programs obey, because a person agrees."""
        if self.place.mode == "pass_through":
            return None
        found, source = self._difference or self.difference(), self.place.source
        gate = TreeGate.around(source)

        def refused(deltas: list[Delta]) -> dict[str, str]:
            waiting = gate.refused(crossings(deltas), agreed=anyway, has=holds(self.store, found.after))
            hint = " (--anyway applies it too)"
            return {path: why + hint * (why in AGREED) for path, why in waiting.items()}

        plan = plan_back(self.store, self.place.before, found.after, source, refused)
        plan.found = None if plan.conflicts else self._look_at_source()
        return plan

    def apply(self, plan: MergePlan | None = None) -> Merged:
        """Apply the changes to the source, all of them or none, and look at it again."""
        plan = plan or self.plan()
        if plan is None:
            return Merged(before=self.place.before, after=(self._difference or self.difference()).after)
        done = plan.carry_out(os.path.join(self.place.directory, JOURNAL))
        return done if plan.conflicts else replace(done, after=self.source_tree(plan.found))

    def go_on_from(self, other: "Workspace") -> Merged:
        """Do here what was done in another workspace of the same source; all of it, or nothing at a conflict."""
        found = other._difference or other.difference()
        if not found.changes or self.place.mode == "pass_through":
            return Merged(before=self.place.before, after=found.after)
        return plan_back(other.store, other.place.before, found.after, self.root).carry_out(
            os.path.join(self.place.directory, JOURNAL)
        )

    def source_tree(self, earlier: directories.Look | None = None) -> str | None:
        """The tree of the source as it is now; None when not all of it can be read."""
        try:
            return self._look_at_source(earlier).complete
        except (TreadleError, OSError):  # what was applied stays applied
            return None

    def _look_at_source(self, earlier: directories.Look | None = None) -> directories.Look:
        base, excludes = self.store.files(self.place.before), self._excludes()
        return directories.take(
            self.store, self.place.source, base=base, earlier=earlier, excludes=excludes, git_files=False
        )

    def write_result(self, directory: str, bring: Sequence[str] | None = None, tree: str = "") -> str:
        """Write the result, or another tree, into a fresh directory. Returns the directory in it that stands for the
        one worked on.

        `bring`: files and directories of the source that are copied there too, unless the result has them. None means
        what is ignored there; nothing if the workspace was written from a commit. In a source that the run could
        change, what it changed is not brought.
        """
        found, place = self._difference or self.difference(), self.place
        files = self.store.files(tree or found.whole)
        links = tuple(f"{path}/" for path, link in self._links.items() if files.get(path) == link)
        files |= {path: entry for path, entry in self._filled.items() if path.startswith(links)}
        directories.write_files(self.store, files, directory)
        here = os.path.normpath(os.path.join(directory, self.inside or "."))
        os.makedirs(here, exist_ok=True)
        directories.bring_files(place.source, here, self._brought(bring, found))
        user = place.repository() if place.mode != "staged" and place.commit is not None else None
        if user is not None and not self.inside and place.at_top(user):
            private_git.make(os.path.join(directory, ".git"), user, head=place.commit, refs=self._refs)
        return here

    def result_tree(self) -> str:
        """The tree of the whole workspace, as it was found at the end."""
        return (self._difference or self.difference()).whole

    def base_tree(self) -> str:
        """The tree that the work is compared with: of its commit in the person's repository, if an earlier attempt has
        worked here before, or what the whole workspace began with."""
        origin = self.place.origin
        return self.store.borrow_tree(origin.commit)[0] if origin is not None else self.place.whole or self.place.before

    def remember_refs(self) -> None:
        """The result is to be written later: with the branches and tags of now, and not those that the run makes."""
        user = self.place.repository() if self.place.mode == "pass_through" else None
        self._refs = user.refs() if user is not None else None

    def _brought(self, names: Sequence[str] | None, found: Difference) -> list[str]:
        if self.place.mode == "worktree" or (names is not None and self.place.mode == "staged"):
            return [path for name in names or () for path in directories.files_under(self.place.source, name)]
        if self._look is None:
            return []
        changed = set(found.hidden or ()) if self.place.mode == "pass_through" else set()
        ignored = [path for path in self._look.seen.keys() - self._look.files.keys() if path not in changed]
        ignored = [path for path in ignored if not any(map(is_git, path.split("/")))]
        if names is None:
            return sorted(ignored)
        wanted = tuple(f"{os.path.normpath(name)}/" for name in names)
        return sorted(path for path in ignored if f"{path}/".startswith(wanted))

    # The branch of a workspace that was made from a commit...

    def has_committed(self) -> bool:
        """Whether the run seems to have made commits of its own."""
        return self.place.mode == "worktree" and bool(private_git.named_commits(self.top) - {self.place.start})

    def take_commits(self, bundle: bytes) -> str:
        """Bring the commits of the run in, from a bundle that was made inside. Returns the last one."""
        commit = self.store.take_bundle(bundle, "HEAD", "refs/agent")
        _, files = self.store.borrow_tree(commit)
        self._agents = {path: entry for path, entry in files.items() if entry.mode == GITLINK}
        return commit

    def publish(self, message: str, agent: str | None = None) -> str | None:
        """Make the branch in the person's repository: the result as a commit, on top of the run's own commit `agent`
        if there is one. Returns the commit; None when nothing changed. Every object is hashed again on the way."""
        place = self.place
        found, user = self._difference or self.difference(), UserRepository.around(place.source)
        if user is None or place.start is None or place.branch is None:
            return None
        commit = agent or place.start
        if self.store.tree_of(commit) != found.whole:
            commit = self.store.commit(found.whole, [commit], message, who=_who())
        if commit == place.start:
            return None
        self.store.set_ref(RESULT, commit)
        give(self.store, user, commit, without=place.start)
        nothing = "0" * len(commit)
        user.run("update-ref", "-m", "treadle: the result of a run", f"refs/heads/{place.branch}", commit, nothing)
        self._taken |= {commit, agent or commit}
        return commit

    # Keeping and removing...

    def holds_work(self, *, applied: bool = False) -> bool:
        """Whether removing it would lose anything that the source does not have."""
        if self.place.mode == "pass_through" or not os.path.isdir(self.root):
            return False
        found = self._difference or self.difference()
        return bool(found.unread or found.changes and not applied) or self._holds_more(found)

    def _holds_more(self, found: Difference) -> bool:
        """Whether a worktree has commits, or changes outside the directory that was worked on."""
        if self.place.mode != "worktree":
            return False
        if self.inside and any(
            not path.startswith(self.inside)
            for delta in self.store.deltas(self.place.whole, found.whole)
            for path in (delta.change.path, delta.change.old_path)
            if path
        ):
            return True
        if any(self.store.files(self.place.whole).get(path) != link for path, link in self._links.items()):
            return True  # a submodule is at a commit that may be nowhere else
        return bool(private_git.named_commits(self.top) - {self.place.start} - self._taken)

    def release(self, *, applied: bool = False) -> str | None:
        """Remove the workspace if nothing would be lost; otherwise return where it is kept."""
        if self.holds_work(applied=applied):
            return self.root
        self._remove()
        remove_tree(self.store.directory)
        return None

    def discard(self) -> None:
        """Remove it with all the work in it, also its branch as we made it. Only a person may ask for that."""
        self._remove_branch()
        self._remove()
        remove_tree(self.place.directory)

    def _remove(self) -> None:
        if self.place.mode != "pass_through":
            remove_tree(self.top)
        self.forget_base()

    def forget_base(self) -> None:
        """Let the person's git remove what the run began with, if nothing of theirs names it any more."""
        if (user := self.place.repository()) is not None:
            forget(user, self.place.directory)

    def _remove_branch(self) -> None:
        commit, user = self.store.ref(RESULT), UserRepository.around(self.place.source)
        if commit is not None and user is not None and self.place.branch is not None:
            # If it has moved on since, it stays: it is the person's.
            user.run("update-ref", "-d", f"refs/heads/{self.place.branch}", commit, check=False)


def _who(date: str = "") -> dict[str, str]:
    """For git: our commits, made now or at this time."""
    names = {"NAME": "treadle", "EMAIL": "treadle@localhost", **({"DATE": date} if date else {})}
    return {f"GIT_{role}_{name}": text for role in ("AUTHOR", "COMMITTER") for name, text in names.items()}


def prepare(
    mode: WorkspaceMode,
    source: str,
    directory: str,
    *,
    name: str,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    cap: int = directories.COPY_CAP,
    watched: directories.Watched | None = None,
    origin: Origin | None = None,
) -> Workspace:
    """Make a workspace for `source`. `directory` is the run's own; `name` tells its branch from others. `watched`
    files are compared by content, so one rewritten with the same content counts as unchanged."""
    source = os.path.realpath(source)
    if not os.path.isdir(source):
        raise WorkspaceError(f"{source} is not a directory", hint="name the directory to work on with --root")
    distrust(source)
    try:
        made = _from_commit(source, directory, name) if mode == "worktree" else None
        if made is None:
            copy = directories.Copy(source, _copy(directory), include, exclude, cap)
            made = _from_files(mode, source, directory, copy, watched, origin)
    except BaseException:
        abandon(directory)
        if (user := UserRepository.around(origin.top if origin is not None else source)) is not None:
            forget(user, directory)
        raise
    made._watched = watched
    PREPARED.save(os.path.join(directory, RECORD), made.place)
    return made


def look_at(source: str, directory: str) -> Workspace:
    """The directory `source` itself, to tell what is changed there from now on. Nothing is kept in the person's
    repository; `directory` is for our store, and may be removed at any time."""
    source = os.path.realpath(source)
    return _from_files(
        "pass_through", source, directory, directories.Copy(source, "", (), (), 0), None, None, held=False
    )


def _copy(directory: str) -> str:
    return os.path.join(directory, "workspace")


def _from_files(
    mode: WorkspaceMode,
    source: str,
    directory: str,
    copy: directories.Copy,
    watched: directories.Watched | None,
    origin: Origin | None,
    *,
    held: bool = True,
) -> Workspace:
    """A workspace that is a copy of the source, or the source itself. `held`: git gc is kept from its commit."""
    root, notes = source, []
    if mode == "staged":
        root = copy.target
        os.mkdir(root, 0o700)
        notes = copy.run()
    user = UserRepository.around(origin.top if origin is not None else source)
    commit = origin.commit if origin is not None else _commit(user) if user is not None else None
    store = Store.make(os.path.join(directory, STORE), **lending(user))
    files: dict[str, TreeEntry] = {}
    inside = "."
    if user is not None and commit is not None:
        inside = origin.inside if origin is not None else os.path.relpath(source, os.path.realpath(user.top))
        _, files = store.borrow_tree(commit)
        if held:
            notes += filter(None, [keep(user, directory, commit)])  # before the look: it is not the agent's act
        if inside != ".":
            files = {path[len(inside) + 1 :]: one for path, one in files.items() if path.startswith(f"{inside}/")}
    look = directories.take(
        store,
        root,
        base=files,
        excludes=user.excludes() if user is not None else "",
        watched=watched,
        lent={entry.blob for entry in files.values()},
    )
    place = Prepared(
        format=FORMAT,
        mode=mode,
        source=source,
        root=root,
        directory=directory,
        before=look.tree,
        commit=commit,
        origin=origin,
    )
    stated = _committed(store, place, look)
    place = replace(place, stated=stated, committed=store.files(stated) == files)
    if held and user is not None and commit is not None and inside == "." and not place.committed:
        date = user.run("show", "-s", "--format=%cI", commit).stdout.decode().strip()  # who has both can make it again
        made = store.commit(stated, [commit], "Changes that were not committed\n", who=_who(date))
        place = replace(place, base=made)
        notes.append(f"the files differ from {commit[:12]}: the base is {made[:12]}, a commit of ours on top of it")
    return Workspace(place, store, notes, look)


def _committed(store: Store, place: Prepared, look: directories.Look) -> str:
    """The tree that git would make of what was found; only of a whole checkout, for attributes are of one."""
    user = place.repository()
    if user is None or place.commit is None or place.mode != "worktree" and not place.at_top(user):
        return look.tree
    files: Mapping[str, TreeEntry] = look.files
    if place.mode != "worktree":
        git = user.directory if place.origin is None else os.path.join(place.source, ".git")
        files = as_links(store, store.borrow_tree(place.commit)[1], files, place.source, git)
    # A worktree's branch is made of it: there, a pointer would be to content that only the workspace had.
    files = store.as_committed(user, place.commit, files, lfs=place.mode != "worktree")
    return look.tree if files is look.files else store.put_files(files)


def _from_commit(source: str, directory: str, name: str) -> Workspace:
    """A workspace that is written from the commit that the source has checked out, with a git directory of its own."""
    user = UserRepository.around(source)
    if user is None:
        raise WorkspaceError(
            f"{source} is not in a git repository, so it has no commit to start from",
            hint="use --workspace-mode staged",
        )
    start = _commit(user)
    if start is None:
        raise WorkspaceError(f"{user.top} has no commit to start from", hint="commit something first")
    top, branch, look = _copy(directory), f"treadle/{name}", directories.Look()
    store = Store.make(os.path.join(directory, STORE), **lending(user))
    look.tree, look.files = store.borrow_tree(start, look.folders)
    look.seen = directories.write_files(store, look.files, top)
    private_git.make(os.path.join(top, ".git"), user, head=f"refs/heads/{branch}", at=start)
    inside = os.path.relpath(source, os.path.realpath(user.top))
    root = os.path.normpath(os.path.join(os.path.realpath(top), inside))
    os.makedirs(root, exist_ok=True)
    place = Prepared(
        format=FORMAT,
        mode="worktree",
        source=source,
        root=root,
        directory=os.path.dirname(os.path.realpath(top)),
        before=_tree_at(store, look, "" if inside == "." else f"{inside}/"),
        whole=look.tree,
        branch=branch,
        start=start,
        commit=start,
    )
    notes = [*_missing(user, look.files), *filter(None, [keep(user, directory, start)])]
    look.written(user.excludes())  # last, so that the files are older than a tick of the clock by now
    return Workspace(place, store, notes, look)


def _missing(user: UserRepository, files: Mapping[str, TreeEntry]) -> list[str]:
    """What a person might expect in the workspace and will not find."""
    pending = uncommitted(user, files)
    if pending is None:
        return [f"uncommitted changes of {user.top}, if there are any, are not in the worktree"]
    return [f"{pending} uncommitted changes of {user.top} are not in the worktree"] if pending else []


def _commit(user: UserRepository) -> str | None:
    """The commit that is checked out; None when there is none yet."""
    done = user.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False)
    found = done.stdout.decode().strip()
    return found if done.code == 0 and ID.fullmatch(found) else None


def _tree_at(store: Store, look: directories.Look, inside: str) -> str:
    """The tree of a directory in a look; the empty tree if it has no files."""
    return look.folders[inside][1] if inside in look.folders else store.put_tree([])


def make_readable(root: str, oddities: Sequence[directories.Oddity]) -> bool:
    """Restore permissions that a run removed in a directory of ours; otherwise it could hide things there. Whether any
    of what was unreadable may be readable now."""
    done = False
    for one in oddities:
        place = os.path.join(root, one.path)
        try:
            mode = os.lstat(place).st_mode
            needed = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR
            if one.kind == "unreadable" and not stat.S_ISLNK(mode) and mode & needed != needed:
                os.chmod(place, stat.S_IMODE(mode) | needed)
                done = True
        except OSError:
            continue  # it is another user's
    return done


def abandon(directory: str) -> None:
    """Remove a workspace in which no work was done yet, so nothing can be lost."""
    remove_tree(_copy(directory))
    remove_tree(os.path.join(directory, STORE))


# Finds the workspace of a run again, also one that an earlier release has left: with snapshots instead of a store,
# and with `git worktree`. Such a one is compared, applied, released and discarded like any other; none is made any
# more.

SNAPSHOTS = "snapshots.git"


def open_workspace(directory: str) -> Workspace | None:
    """The workspace that was prepared in `directory`, or None when its preparation did not finish. Raises StorageError
    for one that a newer treadle has prepared."""
    place = read_record(directory)
    if place is None:
        return None
    return _earlier(place) if place.format == 0 else Workspace(place, Store.open(os.path.join(directory, STORE)))


def _earlier(place: Prepared) -> Workspace:
    """The workspace with a store that borrows from its snapshots, which stay as they are."""
    directory = os.path.join(place.directory, STORE)
    if os.path.isdir(directory):
        return EarlierWorkspace(place, Store.open(directory))
    snapshots = os.path.join(place.directory, SNAPSHOTS, "objects")
    user = UserRepository.around(place.source)
    store = Store.make(directory, lenders=[snapshots, *(user.object_places() if user is not None else ())])
    try:
        store.borrow_tree(place.before)
    except WorkspaceError:
        remove_tree(directory)
        raise
    return EarlierWorkspace(place, store)


def abandoned(source: str, name: str) -> None:
    """Remove what a run that died while its worktree was made has left in the person's repository."""
    user = UserRepository.around(source)
    branch = f"refs/heads/treadle/{name}"
    if user is not None and branch in user.refs():
        user.run("worktree", "prune")
        head = user.run("rev-parse", "--verify", "HEAD^{commit}", check=False).stdout.decode().strip()
        if head:  # without one, git would delete it wherever it is
            user.run("update-ref", "-d", branch, head, check=False)  # one that has moved is kept


class EarlierWorkspace(Workspace):
    @property
    def top(self) -> str:
        return self.root

    def publish(self, message: str, agent: str | None = None) -> str | None:
        return None  # its branch is in the person's repository already

    def _holds_more(self, found: Difference) -> bool:
        """Whether its branch has commits. What is above the directory worked on is not looked at, so it is kept."""
        if self.place.mode != "worktree":
            return False
        whole = os.path.join(self.place.directory, "workspace")
        user = UserRepository.around(self.place.source)
        if user is None or os.path.realpath(whole) != os.path.realpath(self.root):
            return True
        return user.refs().get(f"refs/heads/{self.place.branch}") != self.place.start

    def _remove(self) -> None:
        super()._remove()
        remove_tree(os.path.join(self.place.directory, SNAPSHOTS))
        if self.place.mode != "worktree":
            return
        remove_tree(os.path.join(self.place.directory, "workspace"))
        user = UserRepository.around(self.place.source)
        if user is not None:
            user.run("worktree", "prune")
            user.run("update-ref", "-d", f"refs/heads/{self.place.branch}", check=False)  # it may be gone

    def _remove_branch(self) -> None:
        pass  # it goes with the worktree
