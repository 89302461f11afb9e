"""What reviewers and judges answer: one JSON object at the end of their last message, read exactly."""

from __future__ import annotations

import contextlib
import json
from typing import Literal, TypeVar

import msgspec

from treadle.errors import RemoteProtocolError
from treadle.wire.goal.plan import PlannedOrder

V = TypeVar("V")
ANSWER_MAX = 50_000


class LineComment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`line` is in the new file; 0 means the whole file, and no path the whole work."""

    text: str
    path: str = ""
    line: int = 0


class ReviewVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    verdict: Literal["approve", "changes"]
    comments: tuple[LineComment, ...] = ()


class JudgeVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    met: bool
    why: str
    orders: tuple[PlannedOrder, ...] = ()
    """What is still to be done, if it is not met."""


def read_review(text: str) -> ReviewVerdict:
    found = read_object(text, ReviewVerdict)
    if found.verdict == "changes" and not any(each.text.strip() for each in found.comments):
        raise RemoteProtocolError("it wants changes and does not say which")
    return found


def read_judgement(text: str) -> JudgeVerdict:
    found = read_object(text, JudgeVerdict)
    if found.met and found.orders:
        raise RemoteProtocolError("it says that the goal is met, and wants more orders")
    return found


def read_object(text: str, kind: type[V]) -> V:
    """The object that a text ends with. Raises RemoteProtocolError when it ends with none, or with another."""
    data = text[-ANSWER_MAX:].strip().removesuffix("```").rstrip()
    if not data.endswith("}"):
        raise RemoteProtocolError("the answer does not end with a JSON object")
    place, whole = data.rfind("{"), ""
    while place >= 0:  # the outermost object that reaches to the end
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(data[place:])
            whole = data[place:]
        place = data.rfind("{", 0, place)
    if not whole:
        raise RemoteProtocolError("the answer ends with something that is not JSON")
    try:
        return msgspec.json.decode(whole, type=kind)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the answer is no {kind.__name__}: {error}") from None
