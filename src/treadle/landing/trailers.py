"""What a landed commit says of itself: which orders, for which goal, by which agent, and the tree that was checked.

A trailer is part of the commit's id, goes wherever the commit goes, and is found by `git log --grep '^Order: ID$'`.
The orders stand in the order of the commit's parents after the first, each followed by what belongs to it.
"""

from collections.abc import Mapping, Sequence

import msgspec

from treadle.wire.fleet.train import QueuedChange

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


def message(train: str, members: Sequence[QueuedChange], tree: str) -> str:
    """The message of a car: what `git log` shows, and the trailers. Without a train a person merges an order; without a
    tree nothing was checked."""
    if len(members) == 1:
        head = f"{'Land' if train else 'Merge order'} {members[0].order}: {_line(members[0].title)}".rstrip(": ")
    else:
        rows = [f"- {each.order}: {_line(each.title)}".rstrip(": ") for each in members]
        head = f"Land {len(members)} orders\n\n" + "\n".join(rows)
    own = {"Train": train, "Verified-Tree": tree}
    return head + "\n\n" + "".join(_of_change(each) for each in members) + _lines(own)


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
    own = {"train": "", "tree": ""}
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
    return CommitTrailers(orders=tuple(msgspec.convert(each, OrderTrailers) for each in orders), **own)
