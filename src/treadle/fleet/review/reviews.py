"""Comments on the lines that an order changed, sent back to the agent together."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from treadle.errors import ConfigError
from treadle.fleet import client
from treadle.fleet.client import Given
from treadle.fleet.engine.bus import Bus
from treadle.fleet.review import patches, results

_COMMENT = re.compile(r"(?P<path>[^\s:][^:\n]*):(?P<line>\d+):\s*(?P<text>\S.*)")


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is in the new file; 0 means the whole file, and no path the whole work."""

    text: str
    path: str = ""
    line: int = 0


def parse(text: str) -> list[Comment]:
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
    return {file.path: {line.now: line.text for line in file.lines if line.now} for file in patches.parse(patch)}


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
    patch = (await results.diff(bus, name)).decode("utf-8", "replace") if order.result.get("patch") else ""
    shown = lines_of(patch)
    for comment in comments:
        if comment.path and comment.path not in shown:
            known = ", ".join(sorted(shown)[:5]) or "nothing"
            raise ConfigError(f"the order did not change {comment.path}", hint=f"it changed {known}")
    return await client.send_back(bus, name, written(comments, patch), by=by)
