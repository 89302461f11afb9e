"""What agents answer for a goal: a plan, a review, a judgement. They give it by the tool `give_answer`; one whose agent
takes no tools ends its last message with the same JSON object. Both are read exactly."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from treadle.errors import RemoteProtocolError
from treadle.wire.goal.plan import GoalPlan, PlannedOrder, faults, shape_faults

V = TypeVar("V", bound=msgspec.Struct)
ANSWER_MAX = 100_000
"""The longest answer, in characters of JSON."""
TOOL = "give_answer"


class PlanDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A planner's plan."""

    done: str
    orders: tuple[PlannedOrder, ...] = ()
    verify: str = ""
    invariants: str = ""


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
    judge: tuple[str, ...] = ()
    """Files by which the work is checked, and whose change in it is right."""


class JudgeVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    met: bool
    why: str
    orders: tuple[PlannedOrder, ...] = ()
    """What is still to be done, if it is not met."""


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


FORMS: Mapping[str, type[msgspec.Struct]] = {"plan": PlanDraft, "review": ReviewVerdict, "judgement": JudgeVerdict}
"""By `Spec.answer`."""


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON Schema of the tool's arguments, whose top is an object as all services want it."""
    form = FORMS[kind]
    (_,), components = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
    return {**components.pop(form.__name__), **({"$defs": components} if components else {})}


def checked(form: type[V], given: Any) -> V:
    """The answer in these arguments. Raises RemoteProtocolError with all that is wrong with them."""
    wrong = [f"{place or 'the answer'}: {what}" for place, what, _ in shape_faults(form, given)]
    if not wrong:
        try:
            found = msgspec.convert(given, form)
            wrong = [*_meaning(found)]
        except msgspec.ValidationError as error:
            wrong = [str(error)]
    if wrong:
        raise RemoteProtocolError("; ".join(wrong[:20]))
    return found


def in_words(form: type[V], text: str) -> V:
    """The answer that a text ends with. Raises RemoteProtocolError when it ends with none, or with another."""
    data = text[-ANSWER_MAX:].strip().removesuffix("```").rstrip()
    if not data.endswith("}"):
        raise RemoteProtocolError("the answer does not end with a JSON object")
    place, whole = data.rfind("{"), None
    while place >= 0:  # the outermost object that reaches to the end
        with contextlib.suppress(ValueError, RecursionError):
            whole = json.loads(data[place:])
        place = data.rfind("{", 0, place)
    if whole is None:
        raise RemoteProtocolError("the answer ends with something that is not JSON")
    return checked(form, whole)


def _meaning(found: msgspec.Struct) -> Iterator[str]:
    match found:
        case PlanDraft():
            yield from _draft_faults(found)
        case ReviewVerdict():
            yield from _review_faults(found)
        case JudgeVerdict(met=True, orders=orders) if orders:
            yield "it says that the goal is met, and wants more orders"


def _draft_faults(found: PlanDraft) -> Iterator[str]:
    for fault in faults(GoalPlan(goal="goal", done=found.done, order=found.orders)):
        yield re.sub(r"^order\b", "orders", fault)


def _review_faults(found: ReviewVerdict) -> Iterator[str]:
    if found.verdict == "changes" and not found.tests and not any(each.text.strip() for each in found.comments):
        yield "it wants changes and does not say which"
    if found.verdict == "approve" and found.tests:
        yield "it approves and adds tests, which no one would run"
    for test in found.tests:
        if not is_test(test.path) or test.path.startswith("/") or {"", ".", ".."} & {*test.path.split("/")}:
            yield f"{test.path!r} is not the path of a test in the repository"
