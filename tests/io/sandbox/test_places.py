"""Places that a sandbox keeps: found by pattern, protected, and planted names noticed."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.io.sandbox.rooms import repository, shown_place
from treadle.io.sandbox import places
from treadle.io.sandbox.places import Matches, SpecialFiles


@pytest.mark.parametrize("form", ["directory", "file", "link"])
def test_the_git_directory_of_a_workspace_is_protected_in_every_form_but_not_named_where_there_is_none(
    tmp_path: Path, form: str
) -> None:
    assert str(tmp_path / ".git") not in places.protected_in(str(tmp_path))
    if form == "directory":
        repository(tmp_path)
    elif form == "file":
        (tmp_path / ".git").write_text("gitdir: x")
    else:
        os.symlink("/etc", tmp_path / ".git")
    assert str(tmp_path / ".git") in places.protected_in(str(tmp_path))


def test_behind_a_writable_place_that_has_become_a_link_nothing_can_be_written_either(tmp_path: Path) -> None:
    work, extra, outside = (tmp_path / name for name in ("w", "extra", "out"))
    for place in (work / "kept" / ".git", extra, outside / ".git"):
        place.mkdir(parents=True)
    (work / "sub").symlink_to(outside)
    given = [str(place) for place in (work / "sub" / ".git", work / "sub", work, work / "kept" / ".git", extra)]
    assert places.writable(given) == [str(work), str(work / "kept" / ".git"), str(extra)]


def test_nobody_elses_home_is_hidden_where_the_workspace_is_in_it() -> None:
    homes = places.other_homes("/")
    assert all(places.other_homes(os.path.join(home, "project")) != homes for home in homes)
    assert os.path.realpath(os.path.expanduser("~")) not in homes


def test_under_means_by_whole_names() -> None:
    assert places.is_under("/a/b", "/a") and places.is_under("/a", "/a") and places.is_under("/a", "/")
    assert not places.is_under("/ab", "/a")


def test_what_we_run_from_is_the_interpreter_its_environment_and_our_code() -> None:
    found = places.running()
    assert os.path.realpath(sys.prefix) in found
    assert any(os.path.isfile(os.path.join(place, "treadle", "__init__.py")) for place in found)


def test_who_works_in_the_whole_home_directory_keeps_what_starts_programs_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "me"
    monkeypatch.setenv("HOME", str(home))
    (home / "project").mkdir(parents=True)
    assert str(home / ".bashrc") in places.protected_in(str(home))
    assert str(home / ".ssh") in places.protected_in(str(tmp_path))
    assert not [path for path in places.protected_in(str(home / "project")) if path.endswith(".bashrc")]


def test_an_environment_in_the_workspace_that_we_run_from_is_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "w" / ".venv"))
    assert str(tmp_path / "w" / ".venv") in places.protected_in(str(tmp_path / "w"))
    assert str(tmp_path / "w" / ".venv") not in places.protected_in(str(tmp_path / "other"))


def test_the_environment_that_we_run_from_is_known_also_without_the_site_module() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); from treadle.io.sandbox import places; print(places.running())"
    source = str(Path(places.__file__).parents[3])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, source], capture_output=True, text=True)
    assert repr(os.path.realpath(sys.prefix)) in done.stdout, done.stderr


def test_all_that_was_installed_with_a_program_is_shown_where_a_sandbox_has_its_own_of_it(tmp_path: Path) -> None:
    node = tmp_path / "tools" / "bin" / "some-node"
    npm = tmp_path / "npm" / "node_modules"
    venv = tmp_path / "venv"
    for folder in (node.parent, npm / "agent" / "dist", npm / ".bin", venv / "bin"):
        folder.mkdir(parents=True)
    node.write_text("")
    node.chmod(0o755)
    (npm / "agent" / "dist" / "main.js").write_text("#!/usr/bin/env -S some-node --flag\n")
    (npm / ".bin" / "agent").symlink_to("../agent/dist/main.js")
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin" / "agent").write_text("no script")
    path = {"PATH": str(node.parent)}
    assert places.shown([str(npm / ".bin" / "agent")], path) == [str(npm.parent), str(node.parent)]
    assert places.shown([str(venv / "bin" / "agent")], path) == [str(venv)]
    assert places.shown(["/bin/sh", "-c", "true"], path) == []


def test_an_agent_that_was_added_is_shown_although_our_state_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir=shown_place()) as home:
        monkeypatch.setenv("TREADLE_HOME", home)
        command = Path(home) / "agents" / "some" / "node_modules" / ".bin" / "some"
        command.parent.mkdir(parents=True)
        command.write_text("")
        assert places.shown([str(command)], {}) == [os.path.join(home, "agents", "some")]
        (Path(home) / "program").write_text("")
        assert places.shown([os.path.join(home, "program")], {}) == [os.path.join(home, "program")]


def named(name: str, root: Path) -> Matches:
    return Matches([str(root)], lambda path: os.path.basename(path) == name)


def test_what_comes_and_goes_is_seen_by_the_next_look(tmp_path: Path) -> None:
    looked = named(".env", tmp_path)
    assert looked.find() == []
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".env").touch()
    assert looked.find() == [str(tmp_path / "a" / "b" / ".env")]
    (tmp_path / "a").rename(tmp_path / "c")
    assert looked.find() == [str(tmp_path / "c" / "b" / ".env")]
    (tmp_path / "c" / "b" / ".env").unlink()
    assert looked.find() == []


def test_below_a_directory_that_matches_nothing_more_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    looked = Matches([str(tmp_path)], lambda path: "secrets" in path)
    assert looked.find() == [str(tmp_path / "secrets")]


def test_only_the_objects_of_a_repository_are_left_out(tmp_path: Path) -> None:
    for place in ("objects", ".git/objects", ".git/hooks"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / ".env").touch()
    assert sorted(named(".env", tmp_path).find()) == [str(tmp_path / ".git/hooks/.env"), str(tmp_path / "objects/.env")]


def test_links_are_not_followed_into_other_trees(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".env").touch()
    os.symlink(tmp_path / "out", tmp_path / "in" / "link")
    assert named(".env", tmp_path / "in").find() == []


def test_what_comes_is_seen_although_its_directory_looks_as_old_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "COARSE", 0)
    found, before = named(".env", tmp_path), os.stat(tmp_path)
    assert found.find() == []
    while os.stat(tmp_path).st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system has moved on
        (tmp_path / ".env").unlink(missing_ok=True)
        (tmp_path / ".env").touch()
    os.utime(tmp_path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as tar does with what it unpacks
    assert found.find() == [str(tmp_path / ".env")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.booleans()), max_size=12))
def test_the_index_always_says_what_a_fresh_look_would(changes: list[tuple[str, str, bool]]) -> None:
    coarse = "/dev/shm"  # where changes within a few milliseconds bear the same time
    with tempfile.TemporaryDirectory(dir=coarse if os.path.isdir(coarse) else None) as place:
        kept = named("key", Path(place))
        for outer, inner, make in changes:
            file = Path(place) / outer / inner / "key"
            if make:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            else:
                file.unlink(missing_ok=True)
            assert kept.find() == named("key", Path(place)).find()


def test_special_files_are_sockets_and_pipes_and_nothing_else(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "dir" / "s"))
        assert SpecialFiles([str(tmp_path)]).find() == [str(tmp_path / "dir" / "s"), str(tmp_path / "pipe")]
    assert SpecialFiles([str(tmp_path / "pipe")]).find() == [str(tmp_path / "pipe")]
    assert SpecialFiles([str(tmp_path / "link"), str(tmp_path / "none")]).find() == []


@pytest.mark.parametrize("name", [".envrc", ".mcp.json", ".vscode"])
def test_a_protected_name_that_is_new_is_found_and_taken_away(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    before = places.ProtectedNames(places.protected_in(str(workspace)))
    path = workspace / name
    if name == ".vscode":
        path.mkdir()
        (path / "post-commit").write_text("evil")
    else:
        path.write_text("evil")
    assert before.changed() == [str(path)]
    moved = places.move_aside([str(path)], str(tmp_path / "aside"))
    assert not path.exists() and os.path.lexists(moved[0][1])


@pytest.mark.parametrize("how", ["another link", "a directory", "nothing"])
def test_a_protected_link_is_put_back_as_it_was(tmp_path: Path, how: str) -> None:
    workspace = tmp_path / "w"
    (workspace / "config").mkdir(parents=True)
    os.symlink("config", workspace / ".vscode")
    before = places.ProtectedNames(places.protected_in(str(workspace)))
    assert before.changed() == []
    (workspace / ".vscode").unlink()
    if how == "another link":
        os.symlink("evil", workspace / ".vscode")
    elif how == "a directory":
        (workspace / ".vscode").mkdir()
    assert before.changed() == [str(workspace / ".vscode")]
    places.move_aside(before.changed(), str(tmp_path / "aside"))
    before.restore()
    assert os.readlink(workspace / ".vscode") == "config" and before.changed() == []


def test_nothing_is_moved_through_a_link_that_took_the_place_of_a_directory(tmp_path: Path) -> None:
    """A program that still runs can swap it between the look and the move."""
    other, workspace = tmp_path / "other", tmp_path / "w"
    (other / ".git").mkdir(parents=True)
    workspace.mkdir()
    (workspace / "sub").symlink_to(other)
    assert places.move_aside([str(workspace / "sub" / ".git")], str(tmp_path / "aside")) == []
    assert (other / ".git").is_dir()
    (workspace / ".git").symlink_to(other)
    [(_, at)] = places.move_aside([str(workspace / ".git")], str(tmp_path / "aside"))
    assert os.readlink(at) == str(other) and (other / ".git").is_dir()


def test_what_files_held_is_restored_where_that_is_asked_for_and_a_git_directory_is_let_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    for name in ("AGENTS.md", ".husky/pre-commit", ".git/HEAD"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("before")
    (workspace / ".husky" / "pre-commit").chmod(0o755)
    names = [str(workspace / name) for name in ("AGENTS.md", ".husky", ".git")]
    before = places.ProtectedNames(names, keep=names)
    assert before.changed() == []
    for name in ("AGENTS.md", ".husky/pre-commit", ".git/HEAD"):
        (workspace / name).write_text("after")
    found = before.changed()
    assert found == [names[0], f"{names[1]}/pre-commit"]
    assert len(places.move_aside(found, str(tmp_path / "aside"))) == 2
    before.restore()
    assert (workspace / "AGENTS.md").read_text() == (workspace / ".husky" / "pre-commit").read_text() == "before"
    assert os.access(workspace / ".husky" / "pre-commit", os.X_OK) and (workspace / ".git/HEAD").read_text() == "after"


def test_what_is_moved_aside_is_numbered_and_what_is_gone_is_left_out(tmp_path: Path) -> None:
    aside = tmp_path / "x" / "aside"
    moved = []
    for content in ("one", "two"):
        (tmp_path / ".envrc").write_text(content)
        moved += places.move_aside([str(tmp_path / "gone"), str(tmp_path / ".envrc")], str(aside))
    assert moved == [(str(tmp_path / ".envrc"), str(aside / f".envrc.{number}")) for number in range(2)]
    assert [(aside / f".envrc.{number}").read_text() for number in range(2)] == ["one", "two"]
    assert aside.stat().st_mode & 0o777 == 0o700
