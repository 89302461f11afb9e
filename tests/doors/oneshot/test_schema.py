"""A final answer that is JSON of a certain form."""

from pathlib import Path

import pytest

from treadle.doors.oneshot.schema import SchemaCheck
from treadle.errors import ConfigError
from treadle.session import SessionSpec

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


@pytest.mark.parametrize("text", ['{"n": 1}', ' {"n": 1}\n', 'Here:\n```json\n{"n": 1}\n```', '```\n{"n": 1}```'])
def test_a_value_that_fits_is_taken_out_of_its_fence(text: str) -> None:
    assert SchemaCheck.load(SCHEMA).examine(text) == ({"n": 1}, None)


@pytest.mark.parametrize(("text", "said"), [("no", "not JSON"), ('{"n": "x"}', "n:"), ("{}", "required"), ("", "JSON")])
def test_what_does_not_fit_is_explained(text: str, said: str) -> None:
    value, complaint = SchemaCheck.load(SCHEMA).examine(text)
    assert value is None and complaint is not None and said in complaint


def test_the_agent_is_told_from_the_beginning() -> None:
    spec = SchemaCheck.load(SCHEMA).instruct(SessionSpec.of(cwd="/", append_system_prompt="Be brief."))
    assert spec.instructions.append and spec.instructions.append.startswith("Be brief.\n\nYour final message")
    assert '"required":["n"]' in spec.instructions.append


@pytest.mark.parametrize("given", ["/nowhere.json", "{not json", '{"type": 12}'])
def test_a_schema_that_is_none_is_an_error_before_anything_runs(given: str) -> None:
    with pytest.raises(ConfigError):
        SchemaCheck.load(given)


def test_a_schema_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(SCHEMA)
    assert SchemaCheck.load(str(tmp_path / "s.json")).examine('{"n": 2}') == ({"n": 2}, None)
