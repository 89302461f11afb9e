import socket
from pathlib import Path

import pytest

from treadle.errors import NotFound
from treadle.io import files
from treadle.terminal.places import BUSY, FOREIGN, Place, find, free_id, ids, stale


def test_a_socket_path_that_is_too_long_gets_a_short_one(tmp_path: Path) -> None:
    place = Place(str(tmp_path / ("d" * 90)), "session")
    assert len(place.sock) <= 107
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(place.sock)
    Path(place.sock).unlink()


def test_the_list_has_our_ids_and_passes_over_foreign_files(tmp_path: Path) -> None:
    for name in ("b.pid", "a.exit", "a.log", "notes.txt", ".hidden.pid", "a b.pid", "README"):
        (tmp_path / name).touch()
    assert ids(str(tmp_path)) == ["a", "b"]
    assert ids(str(tmp_path / "nowhere")) == []


def test_who_gives_no_id_gets_the_programs_name_and_a_number_when_it_is_taken(tmp_path: Path) -> None:
    assert free_id(str(tmp_path), "/usr/bin/claude") == "claude"
    (tmp_path / "claude.exit").touch()
    assert free_id(str(tmp_path), "claude") == "claude-2"
    assert free_id(str(tmp_path), "./…") == "terminal"


def test_an_unknown_id_is_not_found_and_a_pid_file_is_read_with_mercy(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="No session found: nobody"):
        find(str(tmp_path), "nobody")
    (tmp_path / "x.pid").write_bytes(b"12\n")
    assert find(str(tmp_path), "x").pids() == (12, 0)
    (tmp_path / "x.pid").write_bytes(b"\xff\xfe 1\n-2")
    assert Place(str(tmp_path), "x").pids() == (0, 0)


def test_a_mistyped_id_is_corrected_and_a_strange_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "builder.exit").touch()
    with pytest.raises(NotFound) as refused:
        find(str(tmp_path), "bulider")
    assert refused.value.hint == "did you mean builder?"
    with pytest.raises(NotFound) as refused:
        find(str(tmp_path), "zzz")
    assert refused.value.hint == "`treadle ls --all` lists them"
    assert find(str(tmp_path), "builder").id == "builder" and find(str(tmp_path), "builder").known()


def test_one_that_keeps_a_summary_is_ours_and_has_more_time_to_answer(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    assert not place.is_ours and place.patience == FOREIGN and place.pids() == (0, 0) and not place.known()
    Path(place.summary).touch()
    assert place.is_ours and place.patience == BUSY > FOREIGN
    (tmp_path / "x.pid").write_bytes(b"12\n13")
    assert place.pids() == (12, 13) and place.known()


def test_only_sockets_without_a_supervisor_are_left_over(tmp_path: Path) -> None:
    assert stale(str(tmp_path / "nowhere")) == []
    for name in ("b.sock", "a.sock", "runs.sock", "notes.txt"):
        (tmp_path / name).touch()
    with files.locked(str(tmp_path / "runs.pid")):
        assert stale(str(tmp_path)) == [str(tmp_path / "a.sock"), str(tmp_path / "b.sock")]


def test_an_id_in_the_list_is_one_that_could_be_given(tmp_path: Path) -> None:
    for name in (f"{'x' * 100}.pid", f"{'y' * 101}.pid", "-a.pid"):
        (tmp_path / name).touch()
    assert ids(str(tmp_path)) == ["x" * 100]
    (tmp_path / "cat.pid").touch()
    (tmp_path / "cat-2.pid").touch()
    assert free_id(str(tmp_path), "cat") == "cat-3" and free_id(str(tmp_path), "z" * 50) == "z" * 40
