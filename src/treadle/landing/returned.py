"""What happens to a change that was red or in conflict: the two sides, who helps next, and what they are told.

It goes to its author, in the author's session, twice; then to a neutral reconciler, who wrote neither side; then a
person is asked. An order can say to begin further on, or that no one is to help (`on_red`). Helpers are orders like
any other: they start from the branch with the work merged in, as far as it merges, and their work is queued again.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from treadle.fleet.orders import NULL
from treadle.policy import patterns
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.train import LeftOut, QueuedChange, ReturnedChange, TrainRecord
from treadle.workspace import branch_merges
from treadle.workspace.changes import quoted
from treadle.workspace.store import GITLINK, Store, TreeMerge

# The sides of a conflict, as files and differences, and where a helper starts: never a half-done merge.
#
# All functions block.

LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_HUNK = re.compile(rb"^<{7} [^\n]*\n(.*?)^={7}\n(.*?)^>{7} [^\n]*$", re.M | re.S)
BIG = 1 << 20


class FileSides(msgspec.Struct, frozen=True, kw_only=True):
    """One file in conflict: `base` is the commit before both, `branch` and `order` what each did to it since."""

    path: str
    kind: str = ""
    base: str
    tip: str
    change: str
    orders: tuple[str, ...] = ()
    """The orders that changed it on the branch."""
    branch: str = ""
    order: str = ""


class HelpStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where a helper starts."""

    commit: str
    tip: str
    since: str
    """The last commit that the branch and the change have in common."""
    sides: tuple[FileSides, ...] = ()
    landed: tuple[str, ...] = ()
    """The orders that landed since."""


def start(store: Store, tip: str, change: str) -> HelpStart:
    """A commit with the branch and the change as parents. Where they conflict, its files are as on the branch."""
    branch_merges.set_attributes(store, tip)
    merged = store.merge(tip, change)
    since = store.git("merge-base", tip, change, lent=True).stdout.decode().split()[0]
    tree = _without_markers(store, tip, change, merged)
    parents = [tip, change]
    commit = store.commit(tree, parents, "Where help starts\n", who=branch_merges.fixed_identity(store, parents))
    kinds = branch_merges.kinds(merged.messages)
    sides = tuple(
        FileSides(
            path=path,
            kind=kinds.get(path, ""),
            base=since,
            tip=tip,
            change=change,
            orders=_orders(store, since, tip, path),
            branch=_difference(store, since, tip, path),
            order=_difference(store, since, change, path),
        )
        for path in merged.conflicts
    )
    return HelpStart(commit=commit, tip=tip, since=since, sides=sides, landed=_orders(store, since, tip))


def _without_markers(store: Store, tip: str, change: str, merged: TreeMerge) -> str:
    _, files = store.borrow_tree(merged.tree)
    if not merged.conflicts:
        return merged.tree
    (_, ours), (_, theirs) = store.borrow_tree(tip), store.borrow_tree(change)
    files = {path: entry for path, entry in files.items() if path in ours or path in theirs}  # less names like a~HEAD
    for path in merged.conflicts:
        files.pop(path, None)
        if path in ours:
            files[path] = ours[path]
    return store.put_files(files)


def _difference(store: Store, before: str, after: str, path: str) -> str:
    words = (
        "diff-tree",
        "-p",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        before,
        after,
        "--",
        path,
    )
    return store.git(*words, lent=True, env=LITERAL, check=False).stdout.decode("utf-8", "replace")


def _orders(store: Store, since: str, tip: str, *paths: str) -> tuple[str, ...]:
    """The orders that landed in between, oldest first; only those that changed these files."""
    words = ["log", "--first-parent", "--reverse", "--format=%(trailers:key=Order,valueonly,separator=%x20)"]
    done = store.git(*words, f"{since}..{tip}", "--", *paths, lent=True, env=LITERAL, check=False)
    return tuple(dict.fromkeys(done.stdout.decode("utf-8", "replace").split()))


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a neutral agent's result does not hold, and whose it was."""

    path: str
    what: str
    orders: tuple[str, ...] = ()
    """The landed orders that it would undo in part."""


def doubts(store: Store, tip: str, change: str, result: str) -> list[Doubt]:
    """Where a result does not keep both sides, or changes what neither had to do with: a person decides that."""
    since = store.git("merge-base", tip, change, lent=True).stdout.decode().split()[0]
    ours, theirs, made = _names(store, since, tip), _names(store, since, change), _names(store, tip, result)
    found = [Doubt(path=path, what="neither side had to do with it") for path in sorted(made - ours - theirs)]
    for path in sorted((ours & made) - theirs):
        if _difference(store, since, result, path) == "":
            orders = _orders(store, since, tip, path)
            found.append(Doubt(path=path, what="what the branch did to it is undone", orders=orders))
    merged = store.merge(tip, change)
    _, marked = store.borrow_tree(merged.tree)
    _, files = store.borrow_tree(result)
    for path in merged.conflicts:
        entry, now = marked.get(path), files.get(path)
        text = store.blobs([entry.blob])[entry.blob] if entry is not None and entry.mode != GITLINK else b""
        final = store.blobs([now.blob])[now.blob] if now is not None and now.mode != GITLINK else b""
        for what, is_ours in _lost(text, final):
            found.append(Doubt(path=path, what=what, orders=_orders(store, since, tip, path) if is_ours else ()))
    return found


def _lost(marked: bytes, final: bytes) -> list[tuple[str, bool]]:
    """What a file in conflict has lost of a side; whether that is the branch's. A word counts where only one side has
    it, and must be there once more than in what both have in common."""
    hunks = _HUNK.findall(marked[:BIG])
    if not hunks or len(marked) > BIG:
        return [("one side has to give way, and no line says which", True)]
    common, have = Counter(_WORD.findall(_HUNK.sub(b"", marked))), Counter(_WORD.findall(final))
    found: list[tuple[str, bool]] = []
    for is_ours in (True, False):
        own = Counter[bytes]()
        for ours, theirs in hunks:
            mine, other = (ours, theirs) if is_ours else (theirs, ours)
            own += Counter(_WORD.findall(mine)) - Counter(_WORD.findall(other))
        lost = [word for word, count in own.items() if have[word] < common[word] + count]
        if lost:
            whose = "the branch's" if is_ours else "the order's"
            words = b" ".join(lost).decode("utf-8", "replace")[:200]
            found.append((f"{whose} change is not there: {words}", is_ours))
    return found


_WORD = re.compile(rb"\w+|[^\w\s]")


def _names(store: Store, before: str, after: str) -> set[str]:
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
    listed = store.git(*words, lent=True).stdout.decode("utf-8", "surrogateescape")
    return {name for name in listed.split("\0") if name}


def for_person_about(result: str, entry: ReturnedChange, branch: str, found: Sequence[Doubt]) -> str:
    """What a person is asked about a result that does not keep both sides."""
    lines = [f"- {each.path}: {each.what}" + (f" ({', '.join(each.orders)})" if each.orders else "") for each in found]
    return "\n".join(
        [
            f"{result} resolved the conflict of {entry.first} with {branch}, and does not keep both sides:",
            *lines,
            "",
            f"`treadle fleet diff {result}` shows its work.",
            "Allow: it lands like this, once it has passed the check. Deny: it is left out; its work is kept.",
        ]
    )


Helper: TypeAlias = Literal["author", "reconciler", "person"]
AUTHOR_TRIES = 2
SCREEN = 3000
"""How much of each side, or of a check's output, a message quotes."""


def helpers(spec: Spec, reconciler: str) -> tuple[Helper, ...]:
    """Who helps, in this order."""
    if spec.on_red == "drop":
        return ()
    found: list[Helper] = ["person"]
    if spec.on_red != "person" and (reconciler or spec.agent != NULL):
        found.insert(0, "reconciler")
    if spec.on_red == "author" and spec.agent != NULL:
        found = [*["author"] * AUTHOR_TRIES, *found]  # type: ignore[list-item]
    return tuple(found)


def next_helper(entry: ReturnedChange, spec: Spec, reconciler: str) -> Helper | None:
    """Who helps now; None when all have tried. When a person wants it tried again, its author does, or who can."""
    if entry.to == "person":
        return after_person(spec, reconciler)
    if entry.kind in ("judge", "evidence"):  # who wrote it does not judge it
        return "person" if spec.on_red != "drop" else None
    found = helpers(spec, reconciler)
    return found[entry.tries] if entry.tries < len(found) else None


def after_person(spec: Spec, reconciler: str) -> Helper | None:
    """Who tries when a person wants it tried again; None where there is no agent that could be told anything."""
    return "author" if spec.agent != NULL else "reconciler" if reconciler else None


# The entries of changes that were sent back.


def begun(change: QueuedChange, out: LeftOut) -> ReturnedChange:
    """The entry of a change that leaves the train.

    What was helped out of a conflict and is in one again has lost a race, to which no helper is to blame: that try does
    not count.
    """
    assert out.kind == "red" or out.kind == "conflict" or out.kind == "judge" or out.kind == "evidence"
    lost = out.kind == "conflict" and bool(change.files)
    return ReturnedChange(
        order=change.order,
        first=change.first or change.order,
        commit=change.commit,
        base=change.base,
        kind=out.kind,
        why=out.why,
        output=out.output,
        forge=out.forge,
        files=out.files,
        at=change.at,
        verify=change.verify,
        may_change=change.may_change,
        word=out.word,
        tries=change.tries - lost,
        tried=(*change.tried, f"{change.order}: {out.why}") if change.tried else (),
    )


def waiting(train: TrainRecord) -> ReturnedChange | None:
    """The next change for which a helper is to be found, the oldest first.

    What conflicts for the first time is helped at once. After that, of those that conflict in one file, one at a time
    is: only one of them could land, and the help for the others would be in vain.
    """
    helped = [each for each in train.back if each.by and each.to != "person"]
    taken = {file for each in helped for file in each.files} | {file for each in train.queue for file in each.files}
    free = [each for each in train.back if not each.by and not (each.tried and taken.intersection(each.files))]
    return min(free, key=lambda each: each.at, default=None)


def sent(train: TrainRecord, entry: ReturnedChange, to: Helper, by: str, tip: str) -> TrainRecord:
    made = replace(entry, to=to, by=by, tip=tip, tries=entry.tries + (entry.to != "person"), words="")
    return _changed(train, entry, made)


def doubted(train: TrainRecord, entry: ReturnedChange, by: str, result: str) -> TrainRecord:
    """The help does not keep both sides: a person says whether it lands."""
    return _changed(train, entry, replace(entry, to="person", by=by, result=result))


def unhelped(train: TrainRecord, entry: ReturnedChange, order: str, commit: str, why: str) -> TrainRecord:
    """The helper has ended without work that could be queued; what it did change is where the next one begins."""
    tried = (*entry.tried, f"{entry.to} ({order}): {why}")
    made = replace(entry, order=order, commit=commit or entry.commit, by="", tried=tried)
    if commit:
        made = replace(made, base=entry.tip)
    return _changed(train, entry, made)


def answered(train: TrainRecord, entry: ReturnedChange, words: str) -> TrainRecord:
    """A person wants it tried again: everyone may help once more, and is told what the person said."""
    return _changed(train, entry, replace(entry, by="", tries=0, words=words))


def as_it_is(change: QueuedChange, entry: ReturnedChange) -> QueuedChange:
    """The change, to be queued again unchanged. In vain, it is left out: who helps has been counted already."""
    return replace(
        change,
        commit=entry.commit,
        base=entry.base,
        at=entry.at,
        verify=entry.verify or change.verify,
        may_change=entry.may_change or change.may_change,
        first=entry.first if entry.first != entry.order else "",
        tries=entry.tries,
        tried=(*entry.tried, "a person had it tried as it is"),
    )


def allowed(change: QueuedChange, entry: ReturnedChange) -> QueuedChange:
    """The change, to be queued again with what was shown: exactly these files of its judge, and this word for it."""
    known = as_it_is(change, entry)
    allows = (*known.may_change, *(patterns.escape(path) for path in entry.files))
    return replace(known, may_change=allows, agreed=entry.word, tries=entry.tries - 1, tried=change.tried)


def closed(train: TrainRecord, entry: ReturnedChange) -> TrainRecord:
    return replace(train, back=tuple(each for each in train.back if each.first != entry.first))


def taken_up(train: TrainRecord, change: QueuedChange) -> tuple[TrainRecord, QueuedChange]:
    """A change that is queued: is it the work of a helper, then it takes the place of what was sent back."""
    for entry in train.back:
        if change.order in (entry.by, entry.result):
            helper = "reconciler" if entry.result else entry.to
            tried = (*entry.tried, f"{helper} ({change.order}) changed it")
            known = {"base": entry.tip, "first": entry.first, "tries": entry.tries, "at": entry.at, "tried": tried}
            return closed(train, entry), replace(change, files=entry.files, **known)
        if change.order in (entry.order, entry.first):
            return closed(train, entry), change
    return train, change


def of(train: TrainRecord, order: str) -> list[ReturnedChange]:
    """What was sent back of this order, or with its help."""
    return [each for each in train.back if order in (each.order, each.first, each.by)]


def without(train: TrainRecord, order: str) -> TrainRecord:
    gone = of(train, order)
    return replace(train, back=tuple(each for each in train.back if each not in gone))


def renamed(train: TrainRecord, entry: ReturnedChange) -> TrainRecord:
    """A person has tried the helper's order again: that one helps now."""
    return _changed(train, entry, entry)


def _changed(train: TrainRecord, old: ReturnedChange, new: ReturnedChange) -> TrainRecord:
    return replace(train, back=tuple(new if each.first == old.first else each for each in train.back))


# What a helper is told...


def for_author(
    entry: ReturnedChange, branch: str, verify: str, sides: Sequence[FileSides], intents: Mapping[str, str]
) -> str:
    """The author continues its own session."""
    parts = [
        f"Your work did not land on {branch}: {entry.why}. It comes back to you.",
        _where(entry.first, branch, sides),
        *_person(entry),
    ]
    if sides:
        parts += [
            "Bring what your work is for into these files, and keep what the others did there.",
            *_sides(sides, intents, entry.first),
        ]
    else:
        parts += [_failure(entry, verify), _landed(intents)]
    parts.append(_done(entry, verify))
    return "\n\n".join(filter(None, parts))


def for_reconciler(
    entry: ReturnedChange, branch: str, verify: str, task: str, sides: Sequence[FileSides], intents: Mapping[str, str]
) -> str:
    """A neutral one, who wrote neither side."""
    parts = [
        f"The work of the order {entry.first} cannot land on {branch}: {entry.why}. You wrote neither side; decide for "
        "both: what each was for must still hold afterwards, and nothing else may change.",
        f"What {entry.first} was asked to do:\n\n{_cut(task)}",
        _where(entry.first, branch, sides),
        *_person(entry),
    ]
    if sides:
        parts += [
            *_sides(sides, intents, entry.first),
            "End with your decision for each: the file, which side you took, or how you joined them, and why.",
        ]
    else:
        parts += [_failure(entry, verify), _landed(intents), "End with what was wrong and what you decided."]
    parts.append(_done(entry, verify))
    return "\n\n".join(filter(None, parts))


def for_person(
    entry: ReturnedChange,
    branch: str,
    verify: str,
    title: str,
    sides: Sequence[FileSides],
    intents: Mapping[str, str],
    then: Helper | None = "author",
) -> str:
    """Everything on one screen. `then`: who tries if the person wants that."""
    parts = [f"{entry.first} ({title}) cannot land on {branch}: {entry.why}."]
    if then != "author":
        parts.append(f"It was made without an agent. `treadle fleet diff {entry.first}` shows its work.")
    if entry.tried:
        parts.append("Tried so far:\n" + "\n".join(f"- {line}" for line in entry.tried))
    if sides:
        parts += _sides(sides, intents, entry.first, SCREEN // 3)
    else:
        who = "There it was said" if entry.forge else f"The check, `{verify}`, said"
        parts.append(f"{who}:\n{entry.output[-SCREEN // 2 :] or '(nothing)'}")
    parts.append(f"{_ALLOWED[then]} Deny: it is left out; its work is kept.")
    return "\n\n".join(parts)


def judge_diff(store: Store, since: str, entry: ReturnedChange) -> str:
    """What a change does to its judge, and nothing else of it. Blocks."""
    return "".join(_difference(store, since, entry.commit, path) for path in entry.files)


def about_judge(entry: ReturnedChange, branch: str, title: str, judge: str) -> str:
    """What a person is asked about a change of what it is checked by."""
    return "\n\n".join(
        [
            f"{entry.first} ({title}) wants to land on {branch}, and changes how it is checked: {entry.why}.",
            f"All that it changes there, in {', '.join(map(quoted, entry.files))}:\n{_cut(judge)}",
            f"`treadle fleet diff {entry.order}` shows its work whole. Allow: these files count as part of it, and it "
            "lands if it then passes the check. Deny: it is left out; its work is kept.",
        ]
    )


def about_evidence(entry: ReturnedChange, branch: str, title: str) -> str:
    """What a person is asked about a change whose check shows too little."""
    return (
        f"{entry.first} ({title}) passes its check and does not land on {branch} by itself: {entry.why}.\n\n"
        f"`treadle fleet diff {entry.order}` shows its work. Allow: it lands with `{entry.word}`. Deny: it is left "
        "out; its work is kept."
    )


_ALLOWED: Mapping[Helper | None, str] = {
    "author": "Allow: its agent tries again, with what you write here.",
    "reconciler": "Allow: the reconciler tries, with what you write here.",
    None: "No agent can be told what to do; `treadle land set BRANCH --reconciler AGENT` names one. Allow: it is tried "
    "once more as it is, for when you have changed the branch or its check; in vain, it is left out, unasked.",
}


def _where(order: str, branch: str, sides: Sequence[FileSides]) -> str:
    less = ", except where the two conflict: there they are as on the branch. No merge is in progress" if sides else ""
    return f"The files here are {branch} as it is now, with the work of {order} merged in{less}."


def _person(entry: ReturnedChange) -> list[str]:
    return [f"A person says: {entry.words}"] if entry.words else []


def _failure(entry: ReturnedChange, verify: str) -> str:
    if entry.forge:
        return f"`{verify}` passes with it, so it does not show this. What was said there:\n\n{entry.output[-SCREEN:]}"
    return f"`{verify}` fails with it, and passes without it. The end of what it said:\n\n{entry.output[-SCREEN:]}"


def _done(entry: ReturnedChange, verify: str) -> str:
    return f"It counts as done when `{verify}` passes" + (", and is then checked there again." if entry.forge else ".")


def _landed(intents: Mapping[str, str]) -> str:
    return (
        "What landed since it was begun:\n" + "\n".join(f"- {intent}" for intent in intents.values()) if intents else ""
    )


def _sides(sides: Sequence[FileSides], intents: Mapping[str, str], order: str, most: int = SCREEN) -> list[str]:
    return [_file(each, intents, order, most) for each in sides]


def _file(side: FileSides, intents: Mapping[str, str], order: str, most: int) -> str:
    others = "\n".join(f"- {intents.get(name, name)}" for name in side.orders) or "- a person's commit"
    rows = [
        f"In conflict: {side.path} ({side.kind or 'content'}). On the branch it was changed by:\n{others}",
        f"What the branch did to it:\n{_cut(side.branch, most)}",
        f"What {order} did to it:\n{_cut(side.order, most)}",
        f"Each side as a file: `git show {side.base[:12]}:{side.path}` before both, "
        f"`git show {side.tip[:12]}:{side.path}` on the branch, `git show {side.change[:12]}:{side.path}` by {order}.",
    ]
    return "\n\n".join(rows)


def _cut(text: str, most: int = SCREEN) -> str:
    return text if len(text) <= most else text[:most] + f"\n[{len(text) - most} characters more]"
