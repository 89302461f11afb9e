"""A final answer that is JSON of a certain form."""

from pathlib import Path

import pytest

from treadle.doors.oneshot.hosting import SchemaCheck
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("/nowhere.json", "cannot read the schema /nowhere.json: No such file"),
        ("{not json", "the schema is not valid JSON"),
        ('{"type": 12}', "the schema is not a JSON Schema"),
    ],
)
def test_a_schema_that_is_none_is_an_error_before_anything_runs(given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SchemaCheck.load(given)


def test_a_schema_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(SCHEMA)
    assert SchemaCheck.load(str(tmp_path / "s.json")).examine('{"n": 2}') == ({"n": 2}, None)
    (tmp_path / "broken.json").write_text('{"type": 12}')
    with pytest.raises(ConfigError, match=f"{tmp_path}/broken.json is not a JSON Schema"):
        SchemaCheck.load(str(tmp_path / "broken.json"))


def test_of_several_fences_the_last_counts_and_what_is_asked_again_says_what_was_wrong() -> None:
    check = SchemaCheck.load(SCHEMA)
    assert check.examine('```json\n{"n": 1}\n```\nno:\n```json\n{"n": 2}\n```') == ({"n": 2}, None)
    assert check.examine("3") == (None, 'the value: 3 is not of type "object"')
    assert check.retries == 2 and "n: too small. Answer again" in check.again("n: too small")
    assert SchemaCheck.load("true").examine("3") == (3, None)
    bare = check.instruct(SessionSpec.of(cwd="/"))
    assert bare.instructions.append is not None and bare.instructions.append.startswith("Your final message")
