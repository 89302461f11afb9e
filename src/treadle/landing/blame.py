"""Which order a line came from, read from the branch's own line of commits and from what the fleet keeps of the order.

git says in which commit of the branch a line arrived; a commit of the train names its orders. Where it has several, the
order is the one whose work the line is in. Blocks; only `with_fleet_records` asks the fleet.
"""

import difflib
import os
import re
from typing import NamedTuple

import msgspec

from treadle.errors import ConfigError, NotFound, WorkspaceError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import TRAIN
from treadle.io.files import read_if_there
from treadle.landing import bench
from treadle.landing.authorship import AuthorClaim, claimed, content, git_lines, has
from treadle.landing.bench import CommitTrailers, OrderTrailers
from treadle.landing.sending import FOLLOWED
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Used
from treadle.workspace import checkouts
from treadle.workspace.user_repository import UserRepository

MERGES = 10
"""How many merges within merges are looked into."""
_HEAD = re.compile(r"([0-9a-f]{40,64}) (\d+) \d+")
_NAME = re.compile(r"^filename (.+)$", re.M)


class LineOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a line came from. Without `order`, no order brought it."""

    file: str
    line: int
    text: str
    commit: str
    """The commit of the branch with which it arrived."""
    at: float
    author: str
    subject: str
    order: str = ""
    goal: str = ""
    agent: str = ""
    receipt: str = ""
    tree: str = ""
    """The tree that was checked before it landed."""
    work: str = ""
    """The commit of the order's own in which the line was written."""
    proved: bool | None = None
    """Whether the fleet has recorded this landing itself; None when it could not be asked or remembers nothing, so that
    order, goal, agent and receipt are the commit's own word. False also where the commit names another tree."""
    claims: tuple[AuthorClaim, ...] = ()
    """Who notes of other tools' formats say has written it. No one has proved that."""
    title: str = ""
    task: str = ""
    verify: str = ""
    attempts: int = 0
    first: str = ""
    """The order that asked for it, where this one's work landed for that, after it was sent back."""
    used: Used | None = None
    """Of all these orders together. None: the fleet remembers nothing of the order, so the cost is not known."""


def place_of(text: str) -> tuple[str, int]:
    """`FILE:LINE`; the file's name may have colons itself."""
    path, _, number = text.rpartition(":")
    if not path or not number.isdigit() or int(number) < 1:
        raise ConfigError(f"{text!r} is not FILE:LINE", hint="for example prices.py:12")
    return path, int(number)


def origin(path: str, line: int, revision: str = "") -> LineOrigin:
    """Where this line of a file came from. Without a revision: as the file is now, of what is checked out."""
    user = checkouts.around(os.path.dirname(os.path.abspath(path)))
    place = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    name = os.path.relpath(place, os.path.realpath(user.top))
    start = _commit(user, revision or "HEAD")
    committed = content(user, start, name)
    number = line if revision else _committed_line(committed, read_if_there(place), line, name)
    if number > len(committed):
        raise NotFound(f"{name} has {len(committed)} lines", hint="give the number of one of them")
    text = committed[number - 1].decode("utf-8", "replace").rstrip("\r\n")
    there, recorded, written = _arrived(user, start, name, number)
    fields = user.run("log", "-1", "--no-show-signature", "--format=%ct%x00%an%x00%s", there.commit).stdout
    at, author, subject = fields.decode("utf-8", "replace").split("\0")
    found = LineOrigin(
        file=name,
        line=line,
        text=text,
        commit=there.commit,
        at=float(at),
        author=author,
        subject=subject.strip(),
        claims=claimed(user, written.commit, written.name).get(written.line, ()),
    )
    if not recorded.orders:
        return found
    own = _own_order(user, there.commit, written.commit, recorded)
    # Everyone can write a trailer. One that names another tree than the commit's own was not written by the train.
    right = recorded.tree == user.run("rev-parse", f"{there.commit}^{{tree}}").stdout.decode().strip()
    proved = None if right or not recorded.tree else False
    tree = recorded.tree if right else ""
    return msgspec.structs.replace(found, tree=tree, work=written.commit, proved=proved, **msgspec.structs.asdict(own))


class _Place(NamedTuple):
    commit: str
    name: str
    line: int


def _arrived(user: UserRepository, start: str, name: str, line: int) -> tuple[_Place, CommitTrailers, _Place]:
    """The commit with which a line arrived, what it says of itself, and where the line was written.

    A person or a forge may have merged what the train made: then the train's commit is on that side of the merge.
    """
    written = _blamed(user, _Place(start, name, line))
    first = place = _blamed(user, _Place(start, name, line), "--first-parent")
    for _ in range(MERGES):
        message = user.run("log", "-1", "--no-show-signature", "--format=%B", place.commit).stdout
        recorded = bench.read(message.decode("utf-8", "replace"))
        side = next((each for each in _parents(user, place.commit) if has(user, each, written.commit)), None)
        if recorded.orders or side is None:
            return (place, recorded, written) if recorded.orders else (first, CommitTrailers(), written)
        now, then = content(user, place.commit, place.name), content(user, side, place.name)
        try:
            number = _committed_line(then, b"".join(now), place.line, place.name)
        except WorkspaceError:
            break
        place = _blamed(user, _Place(side, place.name, number), "--first-parent")
    return first, CommitTrailers(), written


def _parents(user: UserRepository, commit: str) -> list[str]:
    """What was merged into the branch with this commit."""
    return user.run("log", "-1", "--format=%P", commit).stdout.decode().split()[1:]


def _commit(user: UserRepository, revision: str) -> str:
    done = user.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False)
    if done.code != 0:
        raise NotFound(f"{user.top} has no commit {revision}")
    return done.stdout.decode().strip()


def _committed_line(committed: list[bytes], now: bytes | None, line: int, name: str) -> int:
    """The number that a line of the file as it is now has in the commit."""
    lines = committed if now is None else git_lines(now)
    if lines == committed or line > len(lines):
        return line
    for block in difflib.SequenceMatcher(None, committed, lines, autojunk=False).get_matching_blocks():
        if block.b < line <= block.b + block.size:
            return block.a + line - block.b
    raise WorkspaceError(f"{name}:{line} is not committed yet, so no order brought it", hint="git diff shows it")


def _blamed(user: UserRepository, place: _Place, *how: str) -> _Place:
    """Where git says that a line came from. No program that the repository's settings name is run for it."""
    options = ("--porcelain", "--no-textconv", "--ignore-revs-file=", "-L", f"{place.line},{place.line}", *how)
    done = user.run("blame", *options, place.commit, "--", place.name, timeout=600)
    text = os.fsdecode(done.stdout)
    head, named = _HEAD.match(text), _NAME.search(text)
    if head is None or named is None:
        raise WorkspaceError(f"git blame says nothing of {place.name}:{place.line}")
    return _Place(head[1], named[1], int(head[2]))


def _own_order(user: UserRepository, car: str, work: str, recorded: CommitTrailers) -> OrderTrailers:
    """The order of a car whose work has this commit. A line that only the merge made belongs to all of them."""
    parents = _parents(user, car)
    if len(recorded.orders) == 1 or len(parents) != len(recorded.orders):
        return recorded.orders[0]
    for order, parent in zip(recorded.orders, parents, strict=True):
        if has(user, parent, work):
            return order
    return OrderTrailers(order=", ".join(each.order for each in recorded.orders))


async def with_fleet_records(bus: Bus, found: LineOrigin) -> LineOrigin:
    """Add what the fleet knows: what was asked for, its cost, and whether the fleet recorded this landing."""
    proofs = await bus.named([keys.LANDED(found.order)]) if found.order else {}
    records = [keys.LANDED.read(entry.value, entry.key) for entry in proofs.values()]
    if records:
        proof = next((each for each in records if each.commit == found.commit), None)
        found = msgspec.structs.replace(found, proved=proof is not None, verify=proof.verify if proof else "")
    try:
        spec, order = await client.get_spec(bus, found.order), await client.get_order(bus, found.order)
    except NotFound:
        return found
    known = msgspec.structs.replace(
        found,
        title=order.title,
        task=spec.task,
        verify=found.verify or spec.verify,
        attempts=len(order.attempts),
        used=order.used,
    )
    for _ in range(FOLLOWED):  # back to who was asked for it
        if spec.by != TRAIN or not spec.retry_of:
            break
        try:
            spec, order = await client.get_spec(bus, spec.retry_of), await client.get_order(bus, spec.retry_of)
        except NotFound:
            break
        used = order.used.plus(known.used or Used())
        known = msgspec.structs.replace(known, first=spec.id, title=order.title, task=spec.task, used=used)
    return known
