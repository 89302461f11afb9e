"""What was typed before."""

from pathlib import Path

import pytest

from treadle.cli.chat.command import MOST_LINES, Typed


def test_what_is_typed_is_there_in_the_next_chat_newest_first(tmp_path: Path) -> None:
    path = str(tmp_path / "typed.jsonl")
    first = Typed(path, {})
    for text in ("one", "two\nlines", "  "):
        first.store_string(text)
    assert list(Typed(path, {}).load_history_strings()) == ["two\nlines", "one"]
    first.append_string("three")
    assert first.get_strings() == ["three"] and list(first.load_history_strings())[0] == "three"
    assert (tmp_path / "typed.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_secret_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    history = Typed(str(path), {"MY_API_KEY": "hush-hush-hush"})
    history.store_string("use hush-hush-hush there")
    assert not path.exists()


def test_a_broken_line_and_a_missing_file_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    assert list(Typed(str(path), {}).load_history_strings()) == []
    path.write_text('"a"\n{broken\n3\n"b"\n')
    assert list(Typed(str(path), {}).load_history_strings()) == ["b", "a"]


def test_a_disk_that_takes_nothing_does_not_end_the_chat(tmp_path: Path) -> None:
    Typed(str(tmp_path / "no" / "such" / "place"), {}).store_string("x")


def test_without_a_path_it_is_in_the_persons_state_and_without_variables_those_of_this_process_are_secret(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "hush-hush-hush")
    history = Typed()
    history.store_string("kept")
    history.store_string("hush-hush-hush")
    assert (state_home / "treadle" / "typed.jsonl").read_text() == '"kept"\n'


def test_of_a_long_history_the_newest_are_offered(tmp_path: Path) -> None:
    path = tmp_path / "typed.jsonl"
    path.write_text("".join(f'"{number}"\n' for number in range(MOST_LINES + 1)))
    found = list(Typed(str(path), {}).load_history_strings())
    assert (len(found), found[0], found[-1]) == (MOST_LINES, str(MOST_LINES), "1")
