"""The work of finished orders: read as a diff, compared, commented on, thrown away. `landing` lands it."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from treadle.errors import ConfigError, LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.client import Given
from treadle.fleet.engine import streams
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import read_spec
from treadle.fleet.run import runs, trees
from treadle.fleet.run.resumption import read_state
from treadle.io import scratch
from treadle.io.files import write_atomic
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import Order
from treadle.workspace import checkouts
from treadle.workspace.store import lacks
from treadle.workspace.user_repository import UserRepository

# A patch as git writes it, read line by line: which file, which kind of line, which number on each side.

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEADERS = ("Binary", "GIT binary", "new file", "deleted file", "rename", "old mode", "new mode", "similarity")
"""Lines before the hunks that a reader needs."""
_ESCAPED = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_LETTERS = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))


class ChangedLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    kind: Literal["hunk", "add", "del", "same"]
    """`hunk`: a line of the patch that is none of either file."""
    text: str = ""
    old: int = 0
    """Its number in the file of before; 0 where it is not in it."""
    now: int = 0
    parts: list[tuple[str, str]] = []
    """The text in pieces, each after its kind: k keyword, s string, c comment, n number, f name. Empty: no colours."""


class ChangedFile(msgspec.Struct, kw_only=True):
    path: str
    lines: list[ChangedLine]
    added: int = 0
    removed: int = 0


def parse_patch(patch: str) -> list[ChangedFile]:
    files: list[ChangedFile] = []
    old, now, old_left, now_left = 0, 0, 0, 0
    for line in patch.split("\n"):
        if old_left > 0 or now_left > 0:  # as many as its header says: what they hold cannot look like a header
            sign, text = line[:1], line[1:]
            file = files[-1]
            if sign == "+":
                file.lines.append(ChangedLine(kind="add", text=text, now=now))
                now, now_left, file.added = now + 1, now_left - 1, file.added + 1
            elif sign == "-":
                file.lines.append(ChangedLine(kind="del", text=text, old=old))
                old, old_left, file.removed = old + 1, old_left - 1, file.removed + 1
            elif sign != "\\":
                file.lines.append(ChangedLine(kind="same", text=text, old=old, now=now))
                old, now, old_left, now_left = old + 1, now + 1, old_left - 1, now_left - 1
        elif line.startswith("diff --git "):
            files.append(ChangedFile(path=_second(line[11:]), lines=[]))
        elif not files:
            continue
        elif found := _HUNK.match(line):
            old, now = int(found[1]), int(found[3])
            old_left, now_left = int(found[2] or 1), int(found[4] or 1)
            files[-1].lines.append(ChangedLine(kind="hunk", text=line))
        elif line.startswith("+++ ") and not line.startswith("+++ /dev/null"):
            files[-1].path = _name(line[4:].partition("\t")[0])
        elif line.startswith(_HEADERS):
            files[-1].lines.append(ChangedLine(kind="hunk", text=line))
    return files


def hunks(file: ChangedFile) -> Iterator[list[ChangedLine]]:
    """The lines of each hunk, without its header."""
    here: list[ChangedLine] = []
    for line in file.lines:
        if line.kind == "hunk":
            if here:
                yield here
            here = []
        else:
            here.append(line)
    if here:
        yield here


def _second(names: str) -> str:
    """The second of `a/NAME b/NAME`."""
    quoted = names.rfind(' "b/') if names.endswith('"') else -1
    return _name(names[quoted + 1 :] if quoted >= 0 else "b/" + names.rpartition(" b/")[2])


def _name(text: str) -> str:
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        data = _ESCAPED.sub(_escaped, text[1:-1].encode("utf-8", "replace"))
        text = data.decode("utf-8", "replace")
    return text.removeprefix("b/")


def _escaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    return bytes((int(escape, 8) & 0xFF,)) if len(escape) == 3 else bytes((_LETTERS[escape[0]],))


# What an order has left: a diff to read, its commits, or nothing once it was thrown away.


async def diff(bus: Bus, name: str) -> bytes:
    order = await client.get_order(bus, name)
    patch = order.result.get("patch")
    if not patch:
        raise NotFound(f"the order {name} has no changes" if order.ended else f"the order {name} has not ended yet")
    return await streams.get(bus, str(patch))


async def run_receipt(bus: Bus, name: str) -> bytes:
    """The receipt of the order's last run as the host wrote and signed it, on whatever machine that was."""
    found = await client.get_receipt(bus, name)
    if found is None or found.run is None:
        why = "has not ended yet" if found is None else "was done, or ended, without a run of an agent"
        raise NotFound(f"the order {name} {why}, so no run has a receipt", hint="`treadle fleet show`")
    if isinstance(found.run, dict) and found.run.keys() == {"object"}:
        return await streams.get(bus, str(found.run["object"]))
    return msgspec.json.encode(found.run)


async def bundle_of(bus: Bus, order: Order, user: UserRepository) -> tuple[bytes, str]:
    """The order's commits, and the ref that they have in the bundle."""
    name = str(order.result.get("bundle", ""))
    try:
        if not name:
            raise NotFound(f"the order {order.id} has no bundle")
        return await streams.get(bus, name), trees.RESULT
    except NotFound:  # results are not kept for ever, but the branch may still be here
        branch = f"refs/heads/{trees.branch_name(order.id)}"
        without = f"^{order.result.get('base', '')}"
        done = await asyncio.to_thread(user.run, "bundle", "create", "--quiet", "-", branch, without, check=False)
        if done.code != 0:
            raise
        return done.stdout, branch


async def bring(bus: Bus, order: Order, user: UserRepository) -> None:
    """Bring an order's commits into the user's repository, if they are not there: they were made on another machine."""
    data, _ = await bundle_of(bus, order, user)
    commit = str(order.result["commit"])
    with scratch.directory("bundle") as here:
        path = os.path.join(here, "made.bundle")
        write_atomic(path, data, sync=False)
        await asyncio.to_thread(user.run, "bundle", "unbundle", path, timeout=600)
    await asyncio.to_thread(user.run, "update-ref", f"refs/treadle/{commit}", commit)


async def began_from(bus: Bus, order: Order) -> str:
    """Where the work began that an order has the latest of: one that was sent back starts from what the one before it
    left, and its work is all of it."""
    spec = await client.get_spec(bus, order.id)
    while spec.continues:
        before = await client.get_order(bus, spec.continues)
        if spec.base != before.result.get("commit"):
            break
        order, spec = before, await client.get_spec(bus, before.id)
    return str(order.result.get("base", ""))


async def here(bus: Bus, order: Order, user: UserRepository) -> None:
    """Make sure that the user's repository has an order's commit."""
    if await asyncio.to_thread(lacks, user, [str(order.result["commit"])]):
        await bring(bus, order, user)


async def discard(bus: Bus, name: str, *, by: str = "") -> None:
    """Throw the work of an order away: its branch and files on this machine go, receipt and patch stay."""
    order = await client.get_order(bus, name)
    if not order.ended:
        raise LocalError(f"the order {name} has not ended: it is {order.state}", hint="cancel it first")
    await asyncio.to_thread(_remove, order)
    await client.note_result(bus, name, "thrown away", {"discarded": True}, by=by)


def _remove(order: Order) -> None:
    user = checkouts.find(order.place) if os.path.isdir(order.place) else None
    if user is not None:
        user.run("branch", "--quiet", "-D", trees.branch_name(order.id), check=False)
    for name, _, directory in runs.all_here():
        state = read_state(directory) if name == order.id and runs.runner_of(directory) is None else None
        if state is not None:
            trees.remove_leftovers(directory, state.tree)


# Orders that several agents, or one agent several times, were given, compared by what they left.

LOOKED_AT = 5000
"""How many of the newest orders are searched for the others of a race."""


async def standings(bus: Bus, name: str) -> list[dict[str, Any]]:
    """The orders of this order's race, best first: verified, then smallest change, then lowest cost."""
    race = (await client.get_spec(bus, name)).race
    if not race:
        raise NotFound(f"the order {name} is in no race", hint="submit with --race A,B or --best-of N")
    rows = []
    for entry in await bus.newest(keys.SPEC(), LOOKED_AT):
        spec = read_spec(entry.value)
        if spec.race != race:
            continue
        order = await client.get_order(bus, spec.id)
        rows.append(
            {
                "order": spec.id,
                "agent": order.agent or spec.agent,
                "state": order.state,
                "verified": order.result.get("verified"),
                "files": order.result.get("files", 0),
                "stat": order.result.get("stat", ""),
                "tokens": order.used.tokens,
                "usd": order.used.usd,
            }
        )
    return sorted(rows, key=_place)


def _place(row: dict[str, Any]) -> tuple[bool, bool, bool, int, float]:
    usd = float("inf") if row["usd"] is None else row["usd"]
    return (row["state"] != "done", row["verified"] is not True, not row["files"], row["files"], usd)


# Comments on the lines that an order changed, sent back to the agent together.

_COMMENT = re.compile(r"(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\s*(?P<text>\S.*)")


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is in the new file; 0 means the whole file, and no path the whole work."""

    text: str
    path: str = ""
    line: int = 0


def parse_comments(text: str) -> list[Comment]:
    """A JSON list of comments, or lines `PATH:LINE: TEXT`; other lines are about the whole work."""
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=list[Comment])
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"these are not comments: {error}", hint='[{"path": ..., "line": 3, "text": ...}]'
            ) from None
    found: list[Comment] = []
    for line in text.splitlines():
        if match := _COMMENT.fullmatch(line.strip()):
            found.append(Comment(path=match["path"], line=int(match["line"]), text=match["text"]))
        elif line.strip() and found:
            found[-1] = msgspec.structs.replace(found[-1], text=f"{found[-1].text}\n{line.strip()}")
        elif line.strip():
            found.append(Comment(text=line.strip()))
    return found


def lines_of(patch: str) -> dict[str, dict[int, str]]:
    """What the patch shows of each new file, by line number."""
    return {file.path: {line.now: line.text for line in file.lines if line.now} for file in parse_patch(patch)}


def written(comments: Sequence[Comment], patch: str) -> str:
    """The comments for the agent, each with the line that it is about."""
    return "\n\n".join(_paragraphs(comments, lines_of(patch)))


def _paragraphs(comments: Sequence[Comment], shown: dict[str, dict[int, str]]) -> Iterator[str]:
    for comment in comments:
        if not comment.path:
            yield comment.text
            continue
        place = f"{comment.path}:{comment.line}" if comment.line else comment.path
        quoted = shown.get(comment.path, {}).get(comment.line)
        yield f"{place}\n" + (f"> {quoted}\n" if quoted is not None else "") + comment.text


async def send(bus: Bus, name: str, comments: Sequence[Comment], *, by: str = "") -> Given:
    """Send all comments back at once: a new order continues the work, in the same session if possible."""
    order = await client.get_order(bus, name)
    patch = (await diff(bus, name)).decode("utf-8", "replace") if order.result.get("patch") else ""
    shown = lines_of(patch)
    for comment in comments:
        if comment.path and comment.path not in shown:
            known = ", ".join(sorted(shown)[:5]) or "nothing"
            raise ConfigError(f"the order did not change {comment.path}", hint=f"it changed {known}")
    return await client.send_back(bus, name, written(comments, patch), by=by)
