"""Schemas as grammars without white space. That llama.cpp takes them is seen in `make eval MODEL=local`."""

from typing import Any

import pytest

from treadle.agent import toolbox
from treadle.agent.messages import ModelRequest
from treadle.agent.providers.chat import ChatFormat, Unsuitable, compact
from treadle.agent.providers.known import TOOLS, SmallProfile
from treadle.agent.providers.small import reply_schema


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_what_it_knows_nothing_of_is_left_to_the_service() -> None:
    optional = {"type": "object", "properties": {"a": {"type": "string"}}, "required": []}
    swapped = {**obj(a={"type": "string"}, b={"type": "string"}), "required": ["b", "a"]}
    for schema in (optional, swapped, {"type": "object"}, {"type": "null"}, {}):
        with pytest.raises(Unsuitable):
            compact(schema)
    body = ChatFormat(llama=True).body(ModelRequest(system="", messages=(), schema=optional), "local", "m")
    assert b"response_format" in body and b"grammar" not in body


@pytest.mark.parametrize("profile", [SmallProfile(), SmallProfile(caps=False), SmallProfile(one_step=False)])
def test_calls_of_the_four_tools_have_a_grammar(profile: SmallProfile) -> None:
    schema = reply_schema(toolbox.builtin(TOOLS).schemas(), profile)
    body = ChatFormat(llama=True).body(ModelRequest(system="", messages=(), schema=schema), "local", "m")
    assert b"grammar" in body and b"response_format" not in body
