"""What is wrong with a table is said with its place."""

from pathlib import Path

import pytest

from treadle.errors import ConfigError
from treadle.terminal.detectors.table import COMMON_DIALOGS, read_table

TABLE = """
name = "other"
known_by = ['^Other v\\d']
block = '\\* '
signs = [{ state = "working", where = "footer", pattern = 'busy' }]

[box]
first = '> '
"""


def table(directory: Path, text: str = TABLE) -> str:
    path = directory / "other.toml"
    path.write_text(text)
    return str(path)


def test_the_smallest_table_is_read_and_knows_the_common_dialogs(tmp_path: Path) -> None:
    detector = read_table(table(tmp_path))
    assert detector.name == "other" and detector.known_by.search("Other v2")
    assert [sign.text for sign in detector.signs][:1] == ["busy"] and detector.signs[1:] == COMMON_DIALOGS
    assert (
        detector.box.above is None is detector.box.below
        and not detector.prompt.match("anything")
        and not detector.suggests
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "other"', "", "name is missing"),
        ("block = '\\* '", "", "block is missing"),
        ("first = '> '", "", "box.first is missing"),
        ('name = "other"', 'name = "other"\ncolour = "red"', "colour is not known"),
        ("first = '> '", "first = '> '\nleft = '|'", "box.left is not known"),
        ("block = '\\* '", "block = 3", "block is 3"),
        ("block = '\\* '", "block = '\\* '\nsuggests = 1", "suggests is 1"),
        ("block = '\\* '", "block = '\\* '\nsettle_ms = true", "settle_ms is True"),
        ("block = '\\* '", "block = '('", "block is not a regular expression"),
        ("'^Other v\\d'", "'('", "known_by, entry 1 is not a regular expression"),
        ("block = '\\* '", "block = '\\* '\nalone = [1]", "alone, entry 1 is 1"),
        ('state = "working"', 'state = "busy"', "signs, entry 1: state is 'busy'"),
        ('where = "footer"', 'where = "middle"', "signs, entry 1: where is 'middle'"),
        (", pattern = 'busy'", "", "signs, entry 1: a sign has"),
        ("pattern = 'busy'", "pattern = 'x*'", "signs, entry 1: the pattern matches an empty screen"),
        ("pattern = 'busy'", "pattern = '['", "signs, entry 1: pattern is not a regular expression"),
        ("first = '> '", "first = '> '\ncursor = 1", "box.cursor is 1"),
        ("[box]", "[box", "line"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in TABLE
    with pytest.raises(ConfigError) as refused:
        read_table(table(tmp_path, TABLE.replace(old, new)))
    assert says in refused.value.message and "other.toml" in refused.value.message


def test_a_file_that_is_not_there_is_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"other\.toml"):
        read_table(str(tmp_path / "other.toml"))
