"""The git side of a train: cars are built and checked beside the branch, in a store of ours, and the branch is moved.

A car is one commit whose first parent is what it was built on and whose other parents are its changes, so on the
branch's own line every commit is one that was checked. Built twice, it is the same commit. All functions block, except
`check`.
"""

import asyncio
import os
import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from treadle.errors import NotFound, WorkspaceError
from treadle.io import scratch
from treadle.io.files import locked, write
from treadle.io.paths import private_dir, state_dir
from treadle.io.sandbox import methods
from treadle.landing.forge.branch import RequestedBranch, branch_of
from treadle.landing.queue import CarCheck, checks_of
from treadle.policy import patterns
from treadle.receipts.trace import Check
from treadle.settings import trust
from treadle.verification.evidence import LEVELS, evidence_id
from treadle.verification.finding import BY_FILE, NONE, project_check
from treadle.verification.judge import divide, judge_for, settings_of
from treadle.wire.fleet.train import Car, QueuedChange
from treadle.workspace import branch_merges, remotes
from treadle.workspace.changes import quoted
from treadle.workspace.directories import bring_files
from treadle.workspace.gate import TreeGate, crossings, holds
from treadle.workspace.store import Store, TreeMerge, lacks, lending
from treadle.workspace.user_repository import UserRepository

# What a landed commit says of itself: which orders, for which goal, by which agent, and the tree that was checked.
#
# A trailer is part of the commit's id, goes wherever the commit goes, and is found by `git log --grep '^Order: ID$'`.
# The orders stand in the order of the commit's parents after the first, each followed by what belongs to it.

TITLE = 200


class OrderTrailers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a landed commit says of one of its orders."""

    order: str
    goal: str = ""
    agent: str = ""
    receipt: str = ""


class CommitTrailers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a landed commit says; without orders, the train did not make it."""

    orders: tuple[OrderTrailers, ...] = ()
    train: str = ""
    tree: str = ""
    evidence: tuple[str, ...] = ()
    """The names of the records of what its checks have shown."""


def car_message(train: str, members: Sequence[QueuedChange], tree: str, evidence: Sequence[str] = ()) -> str:
    """The message of a car: what `git log` shows, and the trailers. Without a train a person merges an order; without a
    tree nothing was checked. `evidence`: the names of its records."""
    if len(members) == 1:
        head = f"{'Land' if train else 'Merge order'} {members[0].order}: {_line(members[0].title)}".rstrip(": ")
    else:
        rows = [f"- {each.order}: {_line(each.title)}".rstrip(": ") for each in members]
        head = f"Land {len(members)} orders\n\n" + "\n".join(rows)
    own = _lines({"Train": train, "Verified-Tree": tree}) + "".join(f"Evidence: {each}\n" for each in evidence)
    return head + "\n\n" + "".join(_of_change(each) for each in members) + own


def _of_change(change: QueuedChange) -> str:
    known = {"Order": change.order, "Goal": change.goal, "Agent": change.agent, "Receipt": change.receipt}
    return _lines(known)


def _lines(known: Mapping[str, str]) -> str:
    return "".join(f"{name}: {_line(value)}\n" for name, value in known.items() if _line(value))


def _line(text: str) -> str:
    """In one line: a title or a name with a line break in it must not become a trailer."""
    return " ".join(text.split())[:TITLE]


def read(text: str) -> CommitTrailers:
    """What the last paragraph of a commit's message says."""
    paragraph = text.strip().rpartition("\n\n")[2]
    orders: list[dict[str, str]] = []
    own, evidence = {"train": "", "tree": ""}, list[str]()
    for line in paragraph.splitlines():
        name, separator, value = line.partition(": ")
        if not separator:
            continue
        if name == "Order":
            orders.append({"order": value})
        elif name in ("Goal", "Agent", "Receipt") and orders:
            orders[-1][name.lower()] = value
        elif name in ("Train", "Verified-Tree"):
            own["train" if name == "Train" else "tree"] = value
        elif name == "Evidence":
            evidence.append(value)
    named = tuple(msgspec.convert(each, OrderTrailers) for each in orders)
    return CommitTrailers(orders=named, evidence=tuple(evidence), **own)


LOCK_SECONDS = 30.0
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


class BuiltCar(msgspec.Struct, frozen=True, kw_only=True):
    """What came of building a car: the car, if any change fits, and why others are not in it."""

    car: Car | None
    blocked: tuple[str, ...] = ()
    """They conflict with the row, not with the branch."""
    refused: Mapping[str, tuple[str, str]] = {}
    """Order -> kind and reason: these cannot land as they are."""
    conflicts: Mapping[str, tuple[str, ...]] = {}
    """Order -> the files that it conflicts in with the branch, or changes of its judge."""


class Bench:
    def __init__(self, name: str, user: UserRepository, branch: str, *, forge: str = "", token: str = "") -> None:
        self.user = user
        self.ref = f"refs/heads/{remotes.split(branch)[1]}"
        self.name = name
        directory = private_dir(os.path.join(private_dir(os.path.join(state_dir(), "landing")), name))
        with locked(os.path.join(directory, "lock"), LOCK_SECONDS):  # two trains may begin at once
            self.store = self._store(os.path.join(directory, "store"))
        places = dict.fromkeys((*self.store.lenders, *user.object_places()))
        self.store.lenders = tuple(filter(os.path.isdir, places))  # several clones of one remote may take turns
        self.branch_name = branch
        self.move_by(forge, token)

    def move_by(self, forge: str, token: str) -> None:
        """Let this forge move the branch, or ourselves if there is none."""
        self.moved_by = (forge, token)
        self.branch = branch_of(self.user, self.branch_name, self.store, self.name, forge=forge, token=token)

    def _store(self, place: str) -> Store:
        try:
            return Store.open(place)
        except NotFound:
            return Store.make(place, **lending(self.user))

    def has(self, commit: str, path: str) -> bool:
        """Whether a commit has this file. Blocks."""
        return self.user.run("cat-file", "-e", f"{commit}:{path}", check=False).code == 0

    def project_check(self, commit: str) -> tuple[str, str]:
        """The project's own check and set-up as that commit has them; empty if none is known, or must not be run."""
        files = self.store.borrow_tree(commit)[1]

        def text(path: str) -> str | None:
            entry = files.get(path)
            return self.store.blobs([entry.blob])[entry.blob].decode(errors="replace") if entry is not None else None

        found, setup = project_check(files, text)
        trusted = trust.is_trusted(self.user.top)
        if found == NONE or not trusted and methods.available().method is None:
            return "", ""
        return found, setup if trusted else ""

    def required(self, commit: str) -> str:
        """What work must show to land, by the settings of that commit."""
        entry = self.store.borrow_tree(commit)[1].get(".treadle/config.toml")
        text = self.store.blobs([entry.blob])[entry.blob].decode(errors="replace") if entry is not None else ""
        found = settings_of(text).require
        return found if found != LEVELS[0] else ""

    def keep(self, order: str, commit: str, bundle: tuple[bytes, str], base: str) -> None:
        """Bring an order's change into the store, every object hashed on the way."""
        ref = f"refs/train/{order}"
        if self.store.ref(ref) == commit:
            return
        if base and lacks(self.user, [base]):
            raise WorkspaceError(f"{self.user.top} has no commit {base[:12]}, the base of {order}", hint="git fetch")
        found = self.store.take_bundle(*bundle, ref)
        if found != commit:
            raise WorkspaceError(f"the bundle of {order} contains {found[:12]}, not {commit[:12]}")

    def lend(self, commit: str, tip: str) -> None:
        """Give the user's repository a commit that an order starts from, under a ref that keeps it from its gc."""
        ref = lent_ref(commit)
        self.store.set_ref(ref, commit)
        with scratch.directory("bundle") as directory:
            path = os.path.join(directory, "bundle")
            known = [] if lacks(self.user, [tip]) else [tip]  # the tip of a remote may not have been fetched there
            write(path, self.store.bundle(ref, without=known))
            self.user.run("bundle", "unbundle", path)
        self.user.run("update-ref", ref, commit)

    def take_back(self, commit: str) -> None:
        """What was lent is on the branch now, or no one needs it."""
        self.user.run("update-ref", "-d", lent_ref(commit), check=False)
        self.store.git("update-ref", "-d", lent_ref(commit), check=False)

    # Building...

    def build(
        self, changes: Sequence[QueuedChange], on: str, tip: str, verify: str, *, apart: bool, require: str = ""
    ) -> BuiltCar:
        """A car of these changes on the commit `on`, less those that conflict with it or must not land. What must show
        more than that it passes rides alone: the word for several would be that of the best."""
        singly = bool(require or self.required(on))
        branch_merges.set_attributes(self.store, tip)
        head, (tree, _) = on, self.store.borrow_tree(on)
        members: list[QueuedChange] = []
        blocked: list[str] = []
        refused: dict[str, tuple[str, str]] = {}
        files: dict[str, tuple[str, ...]] = {}
        for change in changes:
            merged = self.store.merge(head, change.commit)
            if merged.conflicts:
                alone = merged if head == tip else self.store.merge(tip, change.commit)
                if alone.conflicts:
                    refused[change.order] = ("conflict", _conflict(alone))
                    files[change.order] = alone.conflicts
                else:
                    blocked.append(change.order)
            elif why := self._must_not_land(tree, after := self.store.borrow_tree(merged.tree)[0], change):
                refused[change.order] = ("refused", why)
            elif doubtful := self._doubtful(tree, after, change, verify):
                path, why = next(iter(doubtful.items()))
                more = f" and {len(doubtful) - 1} more files of its judge" if len(doubtful) > 1 else ""
                refused[change.order] = ("judge", f"it changes {quoted(path)}, which {why}{more}")
                files[change.order] = tuple(doubtful)
            elif members and (singly or change.require or members[0].require):
                blocked.append(change.order)
            else:
                members.append(change)
                tree = merged.tree
                head = self._commit(tree, [head, change.commit], "one step of a car")
        if not members:
            return BuiltCar(car=None, blocked=tuple(blocked), refused=refused, conflicts=files)
        checks = [each.verify for each in checks_of(CarCheck(verify), members)]
        first = self.store.borrow_tree(on)[0]
        evidence = [evidence_id(first, self.store.borrow_tree(tree)[0], command) for command in checks]
        message = car_message(self.name, members, tree if checks else "", evidence)
        commit = self._commit(tree, [on, *(each.commit for each in members)], message)
        self.store.set_ref(f"refs/train/{commit}", commit)
        car = Car(orders=tuple(each.order for each in members), on=on, commit=commit, tree=tree, apart=apart)
        return BuiltCar(car=car, blocked=tuple(blocked), refused=refused, conflicts=files)

    def _commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        return self.store.commit(tree, parents, message, who=branch_merges.fixed_identity(self.store, parents))

    def _doubtful(self, before: str, after: str, change: QueuedChange, verify: str) -> Mapping[str, str]:
        """What a change does to its judge beyond adding tests, unless allowed. Who merges by hand has looked."""
        found: dict[str, str] = {}
        if change.anyway:
            return found
        for command in dict.fromkeys(filter(None, (verify, change.verify))):
            judge = judge_for(self.store, before, command, may_change=change.may_change)
            divided = divide(self.store, before, after, judge)
            named = judges(command) & {*divided.product}
            if command != verify:  # what its own check names, and the branch does not have, is its work
                named &= self.store.files(before).keys()
            elif self.project_check(before)[0] == verify != self.project_check(after)[0]:
                found |= dict.fromkeys({*divided.product} & BY_FILE.keys(), "decides what checks the project")
            found |= dict.fromkeys(sorted(named), "the check names")
            found |= divided.doubtful
        allowed = {path for path in found if any(patterns.match(one, path) for one in change.may_change)}
        return {path: why for path, why in found.items() if path not in allowed}

    def _must_not_land(self, before: str, after: str, change: QueuedChange) -> str:
        """Why a change that merges cleanly is kept out: it does what no check sees."""
        if change.base and (more := branch_merges.unstated(self.store, before, after, change.base, change.commit)):
            return f"it would also change {more[0]}, which its order does not state"
        deltas = self.store.deltas(before, after)
        patch = self.store.patch(before, after)
        if re.search(rb"^\+<{7} ", patch, re.M) and re.search(rb"^\+>{7} ", patch, re.M):
            return "it adds conflict markers"
        gate, changes, has = TreeGate(self.user), crossings(deltas), holds(self.store, after)
        for path, why in gate.refused(changes, agreed=True, has=has).items():
            return f"it changes {path}, which {why}: merge it by hand"
        if change.anyway:
            return ""
        agree = f"a person can agree with `treadle land {change.order} --anyway`"
        if touched := sorted(gate.refused(changes)):
            return f"it changes {', '.join(touched[:5])}, which other programs obey; {agree}"
        return ""

    # Checking...

    async def check(
        self,
        commit: str,
        verify: str,
        setup: str,
        bring: Sequence[str],
        *,
        on: str = "",
        may_change: Sequence[str] = (),
        network: str = "",
        prove: bool = False,
    ) -> Check:
        """Check a commit in fresh directories, confined. `on`: only what it changes of that one, by its judge."""
        from treadle.sandboxed.checks import verified_check

        tip = await asyncio.to_thread(self.branch.tip)
        base, work = [(await asyncio.to_thread(self.store.borrow_tree, each))[0] for each in (on or commit, commit)]
        empty: dict[str, str] = {}

        def write(here: str, tree: str) -> str:
            wanted = commit if tree == work else self.store.loose_commit(tree, [on])
            empty.update(branch_merges.check_out(self.store, self.user, self.ref, wanted, tip, here))
            bring_files(self.user.top, here, bring, linked=True)
            return here

        shown = self.user.object_places()
        done = await verified_check(
            self.store,
            base,
            work,
            verify,
            write,
            setup=setup,
            shown=shown,
            may_change=may_change,
            plain=not on,
            prove=prove,
            network=network,
        )
        return done if done.ok else msgspec.structs.replace(done, output_tail=_empty(empty) + done.output_tail)

    # Landing...

    def give_up(self, new: str) -> bool:
        """Withdraw what only a forge can still land. False when it has landed."""
        return not isinstance(self.branch, RequestedBranch) or self.branch.give_up(new)

    def merged_refs(self, tip: str) -> list[str]:
        """The refs of ours in the user's repository that a branch at `tip` makes needless: it has their commits."""
        words = ("for-each-ref", "--format=%(refname)", f"--merged={tip}", "refs/treadle", "refs/heads/treadle")
        return self.user.run(*words, check=False).stdout.decode().split()

    def remove_ref(self, ref: str) -> None:
        """A branch that someone has checked out stays."""
        branch = ref.removeprefix("refs/heads/")
        words = ("branch", "--quiet", "-D", branch) if branch != ref else ("update-ref", "-d", ref)
        self.user.run(*words, check=False)

    def forget(self, refs: Sequence[str]) -> None:
        """Let go of what has landed or was left out."""
        for name in refs:
            self.store.git("update-ref", "-d", f"refs/train/{name}", check=False)


def _empty(submodules: Mapping[str, str]) -> str:
    """What who reads a red check has to know about submodules."""
    named = ", ".join(f"{path} at {commit[:12]}" for path, commit in submodules.items())
    return f"treadle: your checkout has no files for the submodule {named}\n" if named else ""


def lent_ref(commit: str) -> str:
    return f"refs/treadle/{commit}"


def judges(verify: str) -> set[str]:
    """The files that a check is made of, as far as its command names them."""
    try:
        words = shlex.split(verify)
    except ValueError:
        words = verify.split()
    named = {os.path.normpath(word) for word in words if not word.startswith("-")}
    return named | set(MAKEFILES if "make" in words else ())


def _conflict(merged: TreeMerge) -> str:
    kinds = branch_merges.kinds(merged.messages)
    named = [f"{path} ({kinds[path]})" if path in kinds else path for path in merged.conflicts[:5]]
    more = f" and {len(merged.conflicts) - 5} more" if len(merged.conflicts) > 5 else ""
    return f"it conflicts with the branch in {', '.join(named)}{more}"
