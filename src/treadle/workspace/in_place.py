"""A checkout that an agent works in, without its repository: the agent has a private one, and we take over its commits.

    place = InPlace.of(checkout, directory, "session-1")
    place.mounts                      # for the sandbox: the private git directory over the checkout's `.git`
    await place.ready(inside)         # before a command: the private repository follows what the user has done
    notes = await place.settle(inside)  # after it: the user's repository follows what the agent has done

This is what the sandbox shows, and when one repository follows the other; `Takeover` is how the user's does.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from treadle.errors import TimedOut, TreadleError, WorkspaceError
from treadle.io import scratch
from treadle.io.files import read_at_most, read_if_there, write, write_atomic
from treadle.io.records import FileRecord
from treadle.io.sandbox.places import is_under
from treadle.io.tasks import limited
from treadle.session import Mount
from treadle.workspace import index_file, private_git
from treadle.workspace.gate import Crossing, TreeGate, named_programs, on_disk, persons_tips, settings_files, waiting
from treadle.workspace.git import is_git
from treadle.workspace.store import GITLINK, lacks, receive
from treadle.workspace.user_repository import ID, REF, UserRepository, forget, keep

# Lets a user's repository follow what an agent has done in its private one.
#
#     taking = Takeover(user, directory, "session-1")  # `InPlace` does this while the session lives
#     await taking.take(found, inside)                 # after a command: what is finished
#     await taking.adopt(inside)                       # when a person asks for it: also what is unfinished
#
# What the agent did is read inside the sandbox, because its git may run the agent's programs, and reaches us as names
# and ids, which are checked, and as a pack, of which git hashes every object. Each ref moves only from the value that
# the agent saw. HEAD, its branch and the index move together or not at all.

Inside: TypeAlias = Callable[[str, Mapping[str, bytes]], Awaitable[Mapping[str, bytes]]]
"""Runs a shell script in the sandbox, in the checkout. It finds these files in /run/treadle/in; the result is the files
that it left in /run/treadle/out. Raises LocalError when it fails."""
ROOM = "/run/treadle"
GIT = "git -c core.hooksPath=/dev/null -c core.fsmonitor=false"
PACKING = f"{GIT} pack-objects -q --revs --stdout --thin --delta-base-offset"
LIST = f"""
g() {{ {GIT} "$@"; }}
o={ROOM}/out
g for-each-ref --format='%(objectname) %(refname) %(symref)' > $o/refs || exit 1
g symbolic-ref -q HEAD > $o/head || g rev-parse HEAD > $o/head || exit 1
g ls-files -t --stage -z > $o/index || exit 1
g stash list --format=%H > $o/stash 2> /dev/null
d=$(g rev-parse --absolute-git-dir) || exit 1
for name in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG rebase-merge rebase-apply sequencer; do
  [ -e "$d/$name" ] && echo $name
done > $o/unfinished
for name in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD MERGE_MSG; do [ -f "$d/$name" ] && cat "$d/$name" > $o/$name; done
[ ! -e {ROOM}/in/known ] || {{
  cat {ROOM}/in/known
  g for-each-ref --format='%(objectname)' $(cat {ROOM}/in/taken) refs/stash
  g rev-parse -q --verify HEAD
}} | (ulimit -t 5; {PACKING}) > $o/pack 2> /dev/null || rm -f $o/pack
true
"""
"""What there is. With `known`, also a pack of what is not: most often no other is needed."""
PACK = f"{PACKING} < {ROOM}/in/revs > {ROOM}/out/pack"
FORMAT = 1
LOCK = "index-lock"
"""While the index of the user's checkout is locked: how that lock is known."""
TAKEN = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/")
"""The refs that are brought over. All others, such as replacements of objects, stay with the agent."""
APART = "refs/treadle/from/"
"""Where refs are put that the person's git is not to take for theirs, each below the name of its session."""
MOST_REFS = 20_000
"""Refs that are put apart for one session at a time."""


BASE = "base"
"""What both repositories had when they were last the same: HEAD, then a line for each ref. The index is a file of its
own."""
MESSAGE_MAX = 64 << 10
"""Bytes of a message of an unfinished merge that are taken over."""
PLAIN = {
    "MERGE_HEAD": ("merge", "git merge --abort"),
    "CHERRY_PICK_HEAD": ("cherry-pick", "git cherry-pick --abort"),
    "REVERT_HEAD": ("revert", "git revert --abort"),
}
"""What git finds an unfinished command by: files with nothing but commits in them. All others can name programs."""


class Takeover:
    def __init__(self, user: UserRepository, directory: str, name: str) -> None:
        """`directory` is ours, and the home of the private repository of the session `name`."""
        self.user = user
        self.name = name
        self.directory = directory
        self.private = os.path.join(directory, "git")
        self._base_index = os.path.join(directory, "base-index")
        self._noted: set[str] = set()
        self.head = ""
        self.refs: dict[str, str] = {}
        self._entries: index_file.Entries = {}
        self._asked = False
        """Whether a person asks for all that can be taken over."""
        self._given: dict[str, str] = {}
        """The refs as the person has last left them: what no takeover may lose a commit of."""
        self._apart: dict[str, str] = {}
        """The agent's refs that are put apart."""
        self._refs_remain = False
        """Whether some of its refs could not be."""
        self.allowed: Callable[[str], bool] = lambda path: False
        """Whether a rule of the person allows this file to be written."""
        self.files_pass = False
        """Whether the files on disk have passed the gate, or are the person's: then a commit may have them, too."""
        self.stale = False
        """Whether the user's repository moved while the agent's did: the private one must follow it first."""

    def _keep_base(self) -> None:
        """Remember what both repositories have now."""
        if os.path.exists(self._base_index):
            os.unlink(self._base_index)
        if os.path.exists(self.user.file("index")):
            write(self._base_index, index_file.whole_index(self.user)[0])
        self._entries = index_file.entries(self.user, self._base_index)
        self._keep_refs()

    def _keep_refs(self) -> None:
        lines = [f"{FORMAT} {self.head}", *(f"{name} {value}" for name, value in self.refs.items())]
        write_atomic(os.path.join(self.directory, BASE), os.fsencode("\n".join(lines)), sync=False)

    def recall(self) -> None:
        """Go on from what was kept of a session that has ended. Raises WorkspaceError if it is not known."""
        self.head, self.refs = recalled(self.directory, self.name)
        self._given = dict(self.refs)
        self._entries = index_file.entries(self.user, self._base_index)

    def _moved_along(self) -> None:
        self._keep_base()

    def submodules(self) -> list[str]:
        """The directories of the user's submodules, which the user's git enters."""
        links = [path for path, entry in self._entries.items() if entry.mode == GITLINK]
        return [os.path.join(self.user.top, os.fsdecode(path)) for path in links]

    def _user_refs(self) -> dict[str, str]:
        return {name: at for name, at in self.user.refs().items() if not name.startswith(private_git.PRIVATE_REFS)}

    def _check_refs(self) -> None:
        """Git would look for refs in all that a link leads to, and that can be everything."""
        for path in private_git.ref_files(self.private):
            if os.path.islink(path) and os.path.isdir(path):
                name = os.path.relpath(path, self.private)
                raise WorkspaceError(f"{name} of the agent's repository is a link to a directory")

    async def take(self, found: private_git.GitListing, inside: Inside) -> list[str]:
        """After a command or a turn. Returns what the user should know; nothing when all was taken over."""
        notes = await self._stashes(found, inside)
        if found.unfinished:
            what = ", ".join(found.unfinished)
            return notes + self._once(
                f"unfinished in the agent's repository: {what}; your repository is unchanged. The agent can continue; "
                f"after the session, `treadle git adopt {self.name}` gives it to you"
            )
        return notes + await self._follow(found, inside)

    async def left(self, inside: Inside) -> private_git.GitListing:
        """What there is, of a session that has ended."""
        await asyncio.to_thread(self._check_refs)
        return private_git.read_listing(await inside(LIST, {}))

    async def adopt(self, inside: Inside) -> list[str]:
        """Take over all that can be, also what is unfinished: then the user's git shows the same conflicts, and the
        user ends it. Of a rebase or a bisect only HEAD and the index are taken: the steps that remain can name
        programs. Files are not touched: they are those that the agent left. `stale` is set if HEAD could not follow.
        """
        self._asked = True
        self._apart.clear()
        found = await self.left(inside)
        notes = [*await self._stashes(found, inside), *await self._follow(found, inside)]
        if not self.stale:
            notes += _to_finish(found)
        return notes

    async def _follow(self, found: private_git.GitListing, inside: Inside) -> list[str]:
        notes: list[str] = []
        others, gone, refused = self._others(found)
        moves = self._moves(found)
        ids = [*others.values(), *(new for new, _ in moves.values()), *filter(ID.fullmatch, [found.head])]
        ids += [entry.id for entry in self._staged(found).values() if entry.mode != GITLINK]
        ids += [entry.id for _, entry, _ in found.conflicts if entry.mode != GITLINK]
        ids += [one for name in PLAIN for one in found.commits(name)]
        await self._fetch(ids, inside, found.pack)
        with limited(None):
            if moves or found.head != self.head or found.entries != self._entries or found.unfinished:
                notes += await asyncio.to_thread(self._move_head, found, moves)
            notes += await asyncio.to_thread(self._put_apart, others)
        for name in gone:
            notes += self._once(f"the agent deleted {_short(name)}; in your repository it is still there")
        for name in refused:
            notes += self._once(f"the agent's {name} stays in its own repository: such refs are not taken over")
        return notes

    def _staged(self, found: private_git.GitListing) -> index_file.Entries:
        """The entries of the agent's index that differ from what both had."""
        return {path: entry for path, entry in found.entries.items() if self._entries.get(path) != entry}

    def _others(self, found: private_git.GitListing) -> tuple[dict[str, str], list[str], list[str]]:
        """Refs that the agent made or moved, beside those checked out; deleted ones; and those that are not taken."""
        heads = (found.head, self.head)
        known = {**self.refs, **self._apart}
        changed = {name: at for name, at in found.refs.items() if known.get(name) != at and name not in heads}
        taken = {name: at for name, at in changed.items() if name.startswith(TAKEN) and ID.fullmatch(at)}
        gone = [name for name in self.refs if name not in found.refs and name.startswith(TAKEN)]
        silent = (*private_git.PRIVATE_REFS, *TAKEN)
        return taken, gone, [name for name in changed if not name.startswith(silent)]

    def _moves(self, found: private_git.GitListing) -> dict[str, tuple[str, str | None]]:
        """How the branch that was checked out moves, and the one that now is: the new and the old commit of each."""
        heads = [name for name in dict.fromkeys((self.head, found.head)) if REF.fullmatch(name) and name in found.refs]
        moves = {name: (found.refs[name], self.refs.get(name)) for name in heads}
        return {name: (new, old) for name, (new, old) in moves.items() if new != old}

    def _known(self) -> dict[str, bytes]:
        """What the private repository need not pack."""
        known = sorted({at for at in (*self.refs.values(), *self._apart.values(), self.head) if ID.fullmatch(at)})
        return {"known": "".join(f"^{one}\n" for one in known).encode(), "taken": " ".join(TAKEN).encode()}

    async def _fetch(self, ids: list[str], inside: Inside, pack: bytes = b"") -> None:
        """Bring objects into the user's repository that it does not have; git hashes and checks each. `pack`: what
        may have all of them."""
        wanted = sorted({one for one in ids if one.strip("0")})
        missing = await asyncio.to_thread(lacks, self.user, wanted)
        if not missing:
            return
        if pack:
            with suppress(WorkspaceError):
                return await asyncio.to_thread(receive, self.user, pack, missing)
        known = sorted({at for at in (await asyncio.to_thread(self.user.refs)).values() if ID.fullmatch(at)})
        revs = "".join([*(f"{one}\n" for one in missing), *(f"^{one}\n" for one in known)])
        pack = (await inside(PACK, {"revs": revs.encode()})).get("pack", b"")
        await asyncio.to_thread(receive, self.user, pack, missing)

    def _put_apart(self, others: dict[str, str]) -> list[str]:
        """The agent's other branches and tags, as refs of ours that no git takes for the person's: all in one step. If
        the person asks, under their own names, as far as these do not mislead git."""
        self._refs_remain = bool(others)
        if not others:
            return []
        if len(others) > MOST_REFS:
            return self._once(f"the agent made {len(others)} refs: more than {MOST_REFS} are not brought over")
        reason = self._hand_over(others) if self._asked else ""
        if self._asked and not reason:
            self._refs_remain = False
            return []
        under = f"{APART}{self.name}/"
        moves = {under + name.removeprefix("refs/"): (at, None) for name, at in others.items()}
        complaint = self._update(moves, forced=True)
        if complaint:
            return self._once(f"the agent's other branches and tags stay in its own repository: {complaint}")
        self._refs_remain = False
        self._apart.update(others)
        names = [_short(name) for name in sorted(others)]
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        first = sorted(others)[0]
        kind = "tag" if first.startswith("refs/tags/") else "branch"
        typed = first.removeprefix("refs/heads/").removeprefix("refs/tags/")
        where = under + first.removeprefix("refs/")
        make = f"git {kind} {typed} {where}" if kind == "tag" or first.startswith("refs/heads/") else f"git log {where}"
        return [
            f"the agent made or moved {listed}: kept below {under}, your own refs are as they were"
            + (f" ({reason})" if reason else f" (`{make}` uses it)")
        ]

    def _hand_over(self, others: dict[str, str]) -> str:
        """Move the person's refs of these names, all or none. Returns why not."""
        names, elsewhere = private_git.known_as([*self.refs, *others]), self.user.checked_out_elsewhere()
        for name in others:
            if name not in self.refs and private_git.misleads(name, names):
                return f"{_short(name)} misleads git"
            if name in elsewhere:
                return f"{_short(name)} is checked out in another worktree"
        if waits := self._waits([*others.values()], []):
            return waits
        complaint = self._update({name: (at, self.refs.get(name)) for name, at in others.items()})
        if not complaint:
            self.refs.update(others)
            self._keep_refs()
        return complaint

    def _waits(self, commits: list[str], staged: list[Crossing]) -> str:
        """Why commits and entries of an index wait for the person; empty when they pass the gate."""
        tips = persons_tips(self.user)
        gate = TreeGate(self.user, also=[one for one in commits if self._is_persons(one, tips)], tips=tips)
        found = waiting(self.user, gate, commits, staged, self._agreed)
        return next((f"{path} {why}" for path, why in found.items()), "")

    def _is_persons(self, commit: str, tips: Sequence[str]) -> bool:
        """Whether a commit is in the history of the person's refs."""
        revs = "".join([f"{commit}\n", *(f"^{one}\n" for one in tips)]).encode()
        done = self.user.run("rev-list", "-1", "--stdin", stdin=revs, check=False)
        return done.code == 0 and not done.stdout

    def _agreed(self, crossing: Crossing) -> bool:
        place = os.path.join(self.user.top, crossing.path)
        if self.allowed(place) and not is_git(os.path.basename(place)):
            return True
        return (
            self.files_pass
            and crossing.entry is not None
            and crossing.entry == on_disk(place, len(crossing.entry.id) // 2)
        )

    def _lost(self, name: str, new: str) -> str:
        """Which commits of the person a branch would lose, in words. One that comes back with the same change and the
        same words by the same author, as in a rebase, is not lost."""
        given = self._given.get(name, "")
        if not ID.fullmatch(given) or self.user.run("merge-base", "--is-ancestor", given, new, check=False).code == 0:
            return ""
        there = {words for words, _ in self._commits("--left-only", new, given)}
        unlike = {one for _, one in self._commits("--cherry-pick", "--right-only", new, given)}
        right = self._commits("--right-only", new, given)
        lost = [one for words, one in right if words not in there or one in unlike]
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return f"it would take {lost[0]}{more} from your {_short(name)}" if lost else ""

    def _commits(self, *given: str) -> list[tuple[str, str]]:
        """Those on one side of two commits: author, date and message, and how to name it."""
        *options, new, old = given
        words = ("log", "--no-merges", "--format=%ae %at %B%x00%h (%s)%x00", *options, f"{new}...{old}")
        fields = os.fsdecode(self.user.run(*words, timeout=600.0).stdout).split("\0")
        return [(text.strip(), name) for text, name in zip(fields[::2], fields[1::2], strict=False)]

    def _update(self, moves: Mapping[str, tuple[str, str | None]], *, forced: bool = False) -> str:
        """Move refs in one transaction, each only from the value given, unless `forced`. Returns git's complaint."""
        lines = [
            f"update {name} {new}" + ("" if forced else f" {old or '0' * len(new)}") + "\n"
            for name, (new, old) in moves.items()
        ]
        commands = os.fsencode("".join(["start\n", *lines, "prepare\n", "commit\n"]))
        done = self.user.run("update-ref", "-m", f"treadle: {self.name}", "--stdin", stdin=commands, check=False)
        return done.complaint or f"exit code {done.code}" if done.code else ""

    def _move_head(self, found: private_git.GitListing, moves: dict[str, tuple[str, str | None]]) -> list[str]:
        """HEAD, the branches concerned, and the index: all of them, or none and a ref of ours."""
        if waits := self._asks(found, moves):
            self.stale = True
            return self._keep(found.at(found.head), waits, apart=True)
        try:
            with index_file.held(self.user, os.path.join(self.directory, LOCK)) as index:
                reason = self._obstacle(found, moves)
                if not reason:
                    index.change(self._entries, found.entries, found.conflicts)
                    index.write(found.head, {name: new for name, (new, _) in moves.items()})
                    reason = self._move(found.head, moves)
                if not reason:
                    try:
                        index.put()
                    except OSError:
                        self.user.set_head(self.head, f"treadle: {self.name}")
                        self._move_back(moves)
                        raise
                    self._show_unfinished(found)
        except FileExistsError:
            reason = "another git command holds the index of your repository"
        if reason:
            self.stale = True
            return self._keep(found.at(found.head), reason)
        self.head = found.head
        self.refs.update({name: new for name, (new, _) in moves.items()})
        self._moved_along()
        return []

    def _asks(self, found: private_git.GitListing, moves: dict[str, tuple[str, str | None]]) -> str:
        """Why the person decides about this; empty when it passes the gate."""
        commits = [new for new, _ in moves.values()] + [*filter(ID.fullmatch, [found.head])]
        known = {path for path, _, _ in found.conflicts}
        gone = [path for path in self._entries if path not in found.entries and path not in known]
        staged = [Crossing(os.fsdecode(path), entry) for path, entry in self._staged(found).items()]
        staged += [Crossing(os.fsdecode(path), entry) for path, entry, _ in found.conflicts]
        staged += [Crossing(os.fsdecode(path), None) for path in gone]
        lost = (self._lost(name, new) for name, (new, _) in moves.items())
        return self._waits(commits, staged) or next(filter(None, lost), "")

    def _show_unfinished(self, found: private_git.GitListing) -> None:
        """While the index is still held, so that no git sees one without the other."""
        if not found.unfinished:
            return
        message = found.heads.get("MERGE_MSG", b"")[:MESSAGE_MAX].replace(b"\0", b"")
        if message:
            write_atomic(self.user.file("MERGE_MSG"), message)
        for name in PLAIN:
            if commits := found.commits(name):
                write_atomic(self.user.file(name), "".join(f"{one}\n" for one in commits).encode())

    def _obstacle(self, found: private_git.GitListing, moves: dict[str, tuple[str, str | None]]) -> str:
        """Why the checkout cannot follow the agent; empty when it can."""
        if found.unfinished and (why := self._cannot_show(found)):
            return why
        if (
            REF.fullmatch(found.head)
            and found.head != self.head
            and private_git.misleads(found.head, private_git.known_as(self.refs))
        ):
            return f"a branch called {_short(found.head)} misleads git"
        if self.user.head() != self.head or self._user_refs().get(self.head) != self.refs.get(self.head):
            return "you committed or switched meanwhile"
        if index_file.entries(self.user) != self._entries:
            return "you staged something meanwhile"
        if found.head in self.user.checked_out_elsewhere() and found.head != self.head:
            return f"{_short(found.head)} is checked out in another worktree"
        return ""

    def _cannot_show(self, found: private_git.GitListing) -> str:
        own = next((name for name in sorted(private_git.STATES) if os.path.lexists(self.user.file(name))), "")
        if own:
            return f"a merge, rebase or the like is unfinished in your repository ({own})"
        for name in PLAIN:
            wrong = [one for one in found.commits(name) if self._commit(one) != one]
            if wrong:
                return f"the agent's {name} is not a commit"
        return ""

    def _commit(self, name: str) -> str:
        done = self.user.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
        return done.stdout.decode().strip()

    def _move(self, head: str, moves: dict[str, tuple[str, str | None]]) -> str:
        if moves and (complaint := self._update(moves)):
            return complaint
        complaint = self.user.set_head(head, f"treadle: {self.name}") if head != self.head else ""
        if complaint:
            self._move_back(moves)
        return complaint

    def _move_back(self, moves: dict[str, tuple[str, str | None]]) -> None:
        """Undo a move of branches, those that the user has moved on since excepted."""
        for name, (new, old) in moves.items():
            words = ["update-ref", name, old, new] if old is not None else ["update-ref", "-d", name, new]
            self.user.run(*words, check=False)

    def _keep(self, commit: str | None, reason: str, *, apart: bool = False) -> list[str]:
        """The agent's commits, as a branch of their own that no one else uses; with `apart`, as a ref of ours, because
        a person has to look at them first."""
        if commit is None or commit in self.refs.values():
            return [f"{reason}: what the agent staged was not taken over"]
        base = f"{APART}{self.name}/HEAD" if apart else f"refs/heads/treadle/{self.name}"
        for number in range(1, 1000):
            name = base + (f"-{number}" if number > 1 else "")
            if not self._update({name: (commit, None)}) or self._commit(name) == commit:
                break
        else:
            raise WorkspaceError(f"the agent's commit {commit} could not be stored as a branch")
        if apart:
            return [
                f"{reason}: the agent's commits wait for you as {name}, and nothing else was changed (`git diff"
                f" HEAD...{name}` shows them, `git merge {name}` takes them)"
            ]
        return [f"{reason}: the agent's commits are kept as the branch {_short(name)}, and nothing else was changed"]

    async def _stashes(self, found: private_git.GitListing, inside: Inside) -> list[str]:
        notes: list[str] = []
        for commit in found.stashes:
            name = f"refs/treadle/stash/{self.name}/{commit[:12]}"
            if name in self._noted:
                continue
            await self._fetch([commit], inside)
            if not await asyncio.to_thread(self._update, {name: (commit, None)}):
                self._noted.add(name)
                notes.append(f"the agent stashed changes; they are kept as {name} (git stash apply {name})")
        return notes

    def _once(self, note: str) -> list[str]:
        if note in self._noted:
            return []
        self._noted.add(note)
        return [note]


def recalled(directory: str, name: str) -> tuple[str, dict[str, str]]:
    """HEAD and the refs that both repositories had when they were last the same. Raises WorkspaceError."""
    first, *lines = os.fsdecode(read_if_there(os.path.join(directory, BASE)) or b"").split("\n")
    number, _, head = first.partition(" ")
    if number != str(FORMAT):
        raise WorkspaceError(
            f"the starting point of session {name} cannot be read: missing, or of another release of Treadle",
            hint=f"its repository is {os.path.join(directory, 'git')}",
        )
    return head, dict(line.split(" ", 1) for line in lines)


def _to_finish(found: private_git.GitListing) -> list[str]:
    """What is left to do for the user."""
    notes = []
    for name, (what, abort) in PLAIN.items():
        if found.commits(name):
            count = len({path for path, _, _ in found.conflicts})
            first = f"resolve {count} file{'s' * (count != 1)} and git add, then" if count else "end it with"
            notes.append(f"the {what} is now in your repository: {first} git commit, or {abort}")
    if steps := [name for name in found.unfinished if name not in PLAIN and name != "conflicts"]:
        notes.append(f"{', '.join(steps)} was not taken over, because its steps can name programs")
    return notes


def _short(name: str) -> str:
    return name.removeprefix("refs/heads/").removeprefix("refs/")


RENEW = f"""
set -e
g() {{ {GIT} "$@"; }}
d=$(g rev-parse --absolute-git-dir)
g update-ref --no-deref --stdin < {ROOM}/in/refs
case $(cat {ROOM}/in/head) in
  refs/*) g symbolic-ref HEAD "$(cat {ROOM}/in/head)" ;;
  *) g update-ref --no-deref HEAD "$(cat {ROOM}/in/head)" ;;
esac
rm -f "$d/index"
[ ! -e {ROOM}/in/index ] || {{ cp {ROOM}/in/index "$d/index" && touch -d "@$(cat {ROOM}/in/when)" "$d/index"; }}
"""
RECORD = "place.json"
OWNED = "lock"
"""Beside the places of a session: locked while it lives."""


class PlaceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to find the work of a session that was killed (`sandboxed/repositories.py`)."""

    format: int = 0
    top: str
    session: str
    objects: tuple[tuple[str, str], ...] = ()
    """The user's objects, and where the private repository expects them."""


PLACE = FileRecord(PlaceRecord, format=FORMAT, sync=False)


class InPlace(Takeover):
    def __init__(self, user: UserRepository, directory: str, name: str, number: int = 0) -> None:
        """`directory` is ours and becomes the home of the private repository; `number` tells several of them apart."""
        super().__init__(user, directory, name)
        self._room = f"{ROOM}/{number}"
        os.makedirs(directory, mode=0o700)
        named = [value for _, key, value in user.settings() if key.lower() == "core.hookspath" and value]
        self._hooks_named = os.path.expanduser(named[-1]) if named else None
        """The directory of the user's hooks, as configured; relative to the checkout."""
        self._included = settings_files(user)
        self.programs = frozenset(named_programs(user))
        """What the settings of the user's git name: a program of the agent must not be in its place."""
        self._object_places = user.object_places()
        self._seen_user = self._user_state()
        base = private_git.make(
            self.private,
            user,
            objects=[target for _, target in self._objects()],
            work_tree=user.top if user.linked else None,
            hooks=self._hooks(),
            programs=True,
        )
        private_git.mark(self.private)
        self.head, self.refs = base
        self._given = dict(self.refs)
        self.start = self.refs.get(self.head, self.head)
        """The commit that the session began with."""
        self._keep_base()
        self.mounts = tuple(self._mounts())
        record = PlaceRecord(format=FORMAT, top=user.top, session=name, objects=tuple(self._objects()))
        PLACE.save(os.path.join(directory, RECORD), record)
        self.problem = self._keep_commit()
        """What the user should know from the beginning."""
        self._seen = self._private_state()
        self._settled = True

    def is_settled(self) -> bool:
        """Whether the private repository has nothing that the user's has not, or could have."""
        return self._settled and not self._refs_remain and self._private_state() == self._seen

    def is_worktree(self, path: str) -> bool:
        """Whether this is the `.git` of a worktree of the agent's repository: outside it leads to nothing."""
        try:
            text = os.fsdecode(read_at_most(path, 4096, follow=False))
        except (TreadleError, OSError):
            return False
        place, name = os.path.split(text.removeprefix("gitdir: ").removesuffix("\n"))
        own = os.path.join(self.user.common, "worktrees")
        return place == own and name not in ("", ".", "..") and not os.path.lexists(os.path.join(own, name))

    def worktree_around(self, path: str) -> str:
        """The top of the agent's own worktree that a path is in, or of the checkout."""
        place = os.path.dirname(path)
        while is_under(place, self.user.top) and place != self.user.top:
            if self.is_worktree(os.path.join(place, ".git")):
                return place
            place = os.path.dirname(place)
        return self.user.top

    def visited(self, tips: Sequence[str]) -> str:
        """The commit of the person that the agent has checked out without a branch; read as data. Empty for none."""
        try:
            commit = os.fsdecode(read_at_most(os.path.join(self.private, "HEAD"), 200, follow=False)).strip()
        except (TreadleError, OSError):
            return ""
        known = ID.fullmatch(commit) and not lacks(self.user, [commit])
        return commit if known and self._is_persons(commit, tips) else ""

    # What the sandbox shows...

    def _objects(self) -> list[tuple[str, str]]:
        places = self._object_places
        return [(place, f"{self._room}/objects" + (f"-{at}" if at else "")) for at, place in enumerate(places)]

    @property
    def _target(self) -> str:
        return f"{self._room}/git" if self.user.linked else os.path.join(self.user.top, ".git")

    def _hooks(self) -> str:
        """What the private settings say about hooks: nothing for git's usual place, where the user's are mounted."""
        own = os.path.relpath(os.path.realpath(self.hooks_place), self.user.common)
        return "" if self._hooks_named is None or not own.startswith("..") else self._hooks_named

    @property
    def hooks_place(self) -> str:
        """Where the user's hooks are. The sandbox shows them, and they cannot be changed there."""
        return os.path.join(self.user.top, self._hooks_named or os.path.join(self.user.common, "hooks"))

    def _mounts(self) -> list[Mount]:
        user, target = self.user, self._target
        found = [Mount(source=self.private, target=target, write=True)]
        if user.linked:
            pointer = os.path.join(self.directory, "pointer")
            write(pointer, os.fsencode(f"gitdir: {target}\n"))
            found.append(Mount(source=pointer, target=os.path.join(user.top, ".git")))
        for place, at in self._objects():
            found.append(Mount(source=place, target=at))
            if os.path.exists(os.path.join(place, "info", "alternates")):  # its paths are in our own list already
                found.append(Mount(source=self._empty(), target=f"{at}/info/alternates"))
        hooks = os.path.realpath(self.hooks_place)
        inner = [(hooks, "hooks")] if self._hooks() == "" else []
        inner += [(os.path.join(user.common, name), name) for name in ("modules", "lfs")]
        for place, name in inner:
            if os.path.isdir(place):
                shown = f"{self._room}/lfs" if name == "lfs" else f"{target}/{name}"
                if name != "lfs":
                    os.makedirs(os.path.join(self.private, name), exist_ok=True)
                found.append(Mount(source=place, target=shown))
        return found

    def _empty(self) -> str:
        path = os.path.join(self.directory, "empty")
        if not os.path.exists(path):
            write(path, b"")
        return path

    def read_only(self) -> list[str]:
        """Places of the user's repository that would otherwise be writable, because they lie in a workspace."""
        hooks = os.path.realpath(self.hooks_place)
        found = [*self._object_places, self.user.common, self.user.directory, *self._included]
        return found if is_under(self.user.top, hooks) else [*found, hooks]

    # Has anything happened?

    def _user_state(self) -> tuple[object, ...]:
        user = self.user
        files = (user.file("HEAD"), user.file("index"), os.path.join(user.common, "packed-refs"))
        tables = os.path.join(user.common, "reftable", "tables.list")
        ours = os.path.join(user.common, "refs", "treadle") + "/"
        refs = [one for one in _stamps(user.common) if not one[0].startswith(ours)]
        return (*map(_stamp, (*files, tables)), *refs)

    def _private_state(self) -> tuple[object, ...]:
        names = ("HEAD", "index", "packed-refs", "MERGE_HEAD", "rebase-merge", "rebase-apply", "logs/refs/stash")
        stamps = map(_stamp, (os.path.join(self.private, name) for name in names))
        return (*stamps, *_stamps(self.private))

    # Before a command: from the user to the agent

    async def ready(self, inside: Inside) -> None:
        """Let the private repository follow what the user has done meanwhile."""
        state = self._user_state()
        if state == self._seen_user and not self.stale:
            return
        head, refs, same = await asyncio.to_thread(self._looked_at)
        if same and not self.stale:
            self._seen_user = state
            return
        if not self.stale and not (self._settled and self._private_state() == self._seen):
            return  # the agent has moved too, or is in the middle of something: `settle` decides
        changed = [name for name in {*refs, *self.refs} if self.stale or refs.get(name) != self.refs.get(name)]
        commands = [_update(name, refs.get(name)) for name in sorted(changed)]
        given = {"refs": os.fsencode("".join(commands)), "head": os.fsencode(head)}
        index = self.user.file("index")
        if os.path.exists(index):
            given["index"], given["when"] = await asyncio.to_thread(index_file.whole_index, self.user)
        await inside(RENEW, given)
        self._given.update({name: at for name, at in refs.items() if self.refs.get(name) != at})
        self.head, self.refs, self.stale = head, refs, False
        await asyncio.to_thread(self._keep_base)
        await asyncio.to_thread(self._keep_commit)
        self._seen_user, self._seen = state, self._private_state()

    def _looked_at(self) -> tuple[str, dict[str, str], bool]:
        head, refs = self.user.head(), self._user_refs()
        return head, refs, head == self.head and refs == self.refs and index_file.entries(self.user) == self._entries

    def _keep_commit(self) -> str:
        commit = self.refs.get(self.head, "") if REF.fullmatch(self.head) else self.head
        return keep(self.user, self.directory, commit) if ID.fullmatch(commit) else ""

    def remove(self) -> None:
        """Remove the private repository."""
        scratch.remove(self.directory)
        forget(self.user, self.directory)

    def _moved_along(self) -> None:
        super()._moved_along()
        self._seen_user = self._user_state()

    # After a command: from the agent to the user

    async def settle(self, inside: Inside) -> list[str]:
        """Take over what the agent has done. Returns what the user should know; nothing when all was taken over."""
        state = self._private_state()
        if state == self._seen:
            return []
        self._settled = False
        try:
            await asyncio.to_thread(self._check_refs)
            found = private_git.read_listing(await inside(LIST, self._known()))
            notes = await self.take(found, inside)
            self._settled = not found.unfinished
        except TimedOut as error:  # the next command or turn tries again
            later = "it is kept, and taken over by the next turn or session here"
            return self._once(f"what the agent did with git was not taken over: {error}; {later}")
        except (TreadleError, private_git.BadListing, OSError) as error:
            notes = self._once(f"what the agent did with git was not taken over: {error}")
        self._seen = self._private_state()
        return notes


def _update(name: str, value: str | None) -> str:
    if not REF.fullmatch(name) or (value or "").startswith("ref: "):
        return ""
    return f"delete {name}\n" if value is None else f"update {name} {value}\n"


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _stamps(git: str) -> list[tuple[str, tuple[int, int, int] | None]]:
    """Of every ref that is a file."""
    return [(path, _stamp(path)) for path in private_git.ref_files(git)]
