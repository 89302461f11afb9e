"""What a command would touch, as far as its text tells."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.chat.question import touched


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo a > out.txt", "writes out.txt (new)"),
        ("echo a >> there.txt", "writes there.txt"),
        ("rm -rf folder && sed -i s/a/b/ there.txt", "names folder, there.txt"),
        ("cat there.txt | tee out.txt", "writes out.txt (new); names there.txt"),
        ("pytest -q", "names no file that exists here"),
        ("echo '' -x", "names no file that exists here"),
        ("ls | sh", "not all of it can be understood: a shell that reads its commands from its input"),
        ("cp " + " ".join(f"f{number}" for number in range(10)), "names f0, f1, f2, f3, f4, f5, f6, f7 and 2 more"),
    ],
)
def test_it_says_where_a_command_writes_and_what_it_names(tmp_path: Path, command: str, said: str) -> None:
    (tmp_path / "there.txt").touch()
    (tmp_path / "-x").touch()
    (tmp_path / "folder").mkdir()
    for number in range(10):
        (tmp_path / f"f{number}").touch()
    assert touched(command, str(tmp_path)) == said


@given(st.text(max_size=100))
def test_any_command_has_an_answer_of_words(command: str) -> None:
    assert touched(command, "/nowhere")
