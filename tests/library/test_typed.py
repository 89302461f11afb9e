"""`output_type`: a typed value back, or an error that says why not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import treadle
from tests.scripts import says
from treadle.errors import ConfigError, ToolError
from treadle.library.conversation import AnswerType


@dataclass
class Plain:
    name: str
    size: int = 1


class Struct(msgspec.Struct):
    name: str
    size: int


class Table(TypedDict):
    name: str
    size: int


class Model(pydantic.BaseModel):
    name: str
    size: pydantic.PositiveInt


@pytest.mark.parametrize("wanted", [Plain, Struct, Table, Model])
def test_each_kind_of_type_is_read_and_refused(wanted: Any) -> None:
    answer = AnswerType(wanted)
    assert '"size"' in answer.demanded("How big?")
    for text in ('{"name": "loom", "size": 3}', 'Here it is:\n```json\n{"name": "loom", "size": 3}\n```\n'):
        value: Any = answer.read(text)
        assert (
            (value["name"], value["size"]) == ("loom", 3)
            if wanted is Table
            else (value.name, value.size) == ("loom", 3)
        )
    for wrong in ("no", '{"name": 3, "size": 3}', '{"name": "loom", "size": "large"}'):
        with pytest.raises(ValueError):
            answer.read(wrong)


def test_a_type_of_something_else_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError, match="output_type"):
        AnswerType(Path.cwd)  # type: ignore[arg-type]


def test_an_answer_that_never_fits_has_no_value_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(says("I would rather not.", times="always"))
    result = treadle.run("How big?", cwd=tmp_path, model=f"scripted:{tmp_path / 's.toml'}", output_type=Plain)
    assert not result.ok and result.error is not None and result.error.code == "schema_mismatch"
    assert result.summary.iterations == 3
    with pytest.raises(ToolError, match="does not fit output_type"):
        _ = result.value


async def test_a_value_in_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(says("[1, 2]", when="numbers") + says("Fine.", times="always"))
    async with treadle.open(cwd=tmp_path, model=f"scripted:{tmp_path / 's.toml'}") as conversation:
        numbers = (await conversation.say("Two numbers", output_type=list[int])).value
        assert sum(numbers) == 3
        assert (await conversation.say("Thanks")).text == "Fine."
