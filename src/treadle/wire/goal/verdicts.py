"""What reviewers and judges answer: one JSON object at the end of their last message, read exactly."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated, Literal, TypeVar

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


class AddedTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A test that a reviewer wants to pass. The author adds it as it is; a person is asked about one that differs."""

    path: str
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    command: str = ""
    """Runs it."""


class ReviewVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    verdict: Literal["approve", "changes"]
    comments: tuple[LineComment, ...] = ()
    tests: Annotated[tuple[AddedTest, ...], msgspec.Meta(max_length=10)] = ()


class JudgeVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    met: bool
    why: str
    orders: tuple[PlannedOrder, ...] = ()
    """What is still to be done, if it is not met."""


def read_review(text: str) -> ReviewVerdict:
    found = read_object(text, ReviewVerdict)
    if found.verdict == "changes" and not found.tests and not any(each.text.strip() for each in found.comments):
        raise RemoteProtocolError("it wants changes and does not say which")
    if found.verdict == "approve" and found.tests:
        raise RemoteProtocolError("it approves and adds tests, which no one would run")
    for test in found.tests:
        if not is_test(test.path) or test.path.startswith("/") or {"", ".", ".."} & {*test.path.split("/")}:
            raise RemoteProtocolError(f"{test.path!r} is not the path of a test in the repository")
    return found


def is_test(path: str) -> bool:
    """Whether a file is a test or part of how tests are run, by the names that test runners look for."""
    *directories, name = path.lower().split("/")
    stem = name.split(".")[0]
    return (
        bool({"test", "tests", "spec", "specs", "__tests__"} & set(directories))
        or stem.startswith("test_")
        or stem.endswith(("_test", "_spec", "-test", "-spec"))
        or bool({"test", "spec"} & set(name.split(".")[1:-1]))
        or stem in ("conftest", "test", "tests")
    )


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
