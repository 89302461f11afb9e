"""What was typed before."""

from pathlib import Path

from treadle.cli.chat.history import Typed


def test_what_is_typed_is_there_in_the_next_chat_newest_first(tmp_path: Path) -> None:
    path = str(tmp_path / "typed.jsonl")
    first = Typed(path, {})
    for text in ("one", "two\nlines", "  "):
        first.store_string(text)
    assert list(Typed(path, {}).load_history_strings()) == ["two\nlines", "one"]
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
