"""A program's functions as tools of an agent."""

from typing import Annotated, Any

import msgspec
import pytest

import treadle
from treadle.errors import ConfigError, ToolError
from treadle.library.conversation import MARK
from treadle.session import OwnTool


@treadle.tool
def weather(city: Annotated[str, msgspec.Meta(description="Which city.")], days: int = 1) -> dict[str, Any]:
    """Say what the weather will be."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"city": city, "days": days}


def own(function: object) -> OwnTool:
    found = getattr(function, MARK)
    assert isinstance(found, OwnTool)
    return found


def test_the_signature_is_the_schema() -> None:
    made = own(weather)
    assert (made.name, made.description, made.kind) == ("weather", "Say what the weather will be.", "other")
    assert made.parameters["properties"] == {
        "city": {"type": "string", "description": "Which city."},
        "days": {"type": "integer", "default": 1},
    }
    assert made.parameters["required"] == ["city"] and made.parameters["additionalProperties"] is False


async def test_arguments_are_checked_and_failures_are_for_the_model_to_read() -> None:
    made = own(weather)
    assert await made.call({"city": "Rome", "days": 3}) == '{"city":"Rome","days":3}'
    for given, words in [({}, "city"), ({"city": "Rome", "more": 1}, "more"), ({"city": "Atlantis"}, "no such city")]:
        with pytest.raises(ToolError, match=words):
            await made.call(given)


def test_what_a_model_could_not_call_is_refused() -> None:
    def untyped(x): ...  # type: ignore[no-untyped-def]
    def many(*x: int) -> None: ...
    def silent(x: int) -> None: ...

    for function in (untyped, many, silent):
        with pytest.raises(ConfigError):
            treadle.tool(function)


def test_a_schema_holds_the_types_that_its_arguments_are_made_of() -> None:
    class Point(msgspec.Struct):
        x: int

    @treadle.tool(description="Draw.")
    def draw(at: Point) -> str:
        return ""

    parameters = own(draw).parameters
    assert list(parameters["$defs"]) == ["Point"] and parameters["properties"] == {"at": {"$ref": "#/$defs/Point"}}
    assert "$defs" not in own(weather).parameters
