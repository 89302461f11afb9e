"""Which places belong to git, to us, or are somebody's sockets."""

import os
import pwd
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import repository, shown_place
from treadle.io.sandbox import places


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


def test_only_root_who_writes_where_another_user_owns_needs_the_right_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = {"mine": 0, "theirs": 1000}

    def found(place: str) -> types.SimpleNamespace:
        if place not in owners:
            raise FileNotFoundError
        return types.SimpleNamespace(st_uid=owners[place])

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", found)
        patched.setattr(os, "geteuid", lambda: 0)
        asked = [places.needs_override(write) for write in ([], ["mine"], ["gone", "theirs"], ["mine", "gone"])]
        patched.setattr(os, "geteuid", lambda: 1000)
        asked.append(places.needs_override(["theirs"]))
    assert asked == [False, False, True, False, False]


def test_what_belongs_to_treadle_alone_is_what_exists_of_it(state_home: Path) -> None:
    assert places.ours() == []
    os.makedirs(places.state_dir())
    assert places.ours() == [places.state_dir()]


def test_credentials_are_hidden_but_for_what_is_given_and_where_a_workspace_is_among_them(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda user: types.SimpleNamespace(pw_dir=str(state_home)))
    monkeypatch.setattr(places.known, "HOME", (".ssh", ".netrc", ".none"))
    monkeypatch.setattr(places.known, "VARIABLES", ("KEYS",))
    (state_home / ".ssh" / "deep").mkdir(parents=True)
    for name in (".ssh/id", ".ssh/config", ".ssh/deep/x", ".netrc"):
        (state_home / name).touch()
    named, project = tmp_path / "keys", tmp_path / "project"
    named.touch()
    project.mkdir()
    (project / "key").touch()
    monkeypatch.setenv("KEYS", f"{named}::{project / 'key'}:{tmp_path / 'absent'}")

    def hidden(*given: str, workspaces: tuple[str, ...] = (str(project),)) -> list[str]:
        base = [str(state_home), str(tmp_path)]
        found = places.credentials([str(state_home / name) for name in given], workspaces)
        return sorted(min((os.path.relpath(path, each) for each in base), key=len) for path in found)

    assert hidden() == [".netrc", ".ssh", "keys"], "what is in a workspace is meant to be used"
    assert hidden(workspaces=()) == [".netrc", ".ssh", "keys", "project/key"]
    assert hidden(".ssh") == [".netrc", "keys"] and hidden(".ssh/id", ".netrc") == [".ssh/config", ".ssh/deep", "keys"]
    inside = hidden(workspaces=(str(state_home / ".ssh" / "deep"),))
    assert {".ssh/config", ".ssh/id"} <= {*inside} and not {".ssh", ".ssh/deep"} & {*inside}


@pytest.mark.parametrize(
    ("first", "program"),
    [
        ("#!/usr/bin/env python3\n", "python3"),
        ("#!/usr/bin/env -S node --flag\n", "node"),
        ("#! /bin/sh -e\n", "/bin/sh"),
        ("#!\n", ""),
        ("no script\n", ""),
        ("", ""),
    ],
)
def test_the_interpreter_of_a_script_is_what_its_first_line_names(tmp_path: Path, first: str, program: str) -> None:
    (tmp_path / "script").write_text(f"{first}more\n")
    assert places._interpreter(str(tmp_path / "script")) == program
    assert places._interpreter(str(tmp_path / "none")) == ""


def test_an_installation_is_what_lies_around_its_modules_or_its_environment(tmp_path: Path) -> None:
    hidden = ("/tmp",)
    assert places._installation("/tmp/x/node_modules/a/bin/a", hidden) == "/tmp/x"
    assert places._installation("/tmp/node_modules/a/bin/a", hidden) == "/tmp/node_modules"
    assert (
        places._installation("/tmp/tool", hidden) == "/tmp/tool"
        and places._installation("/tmp/x/tool", hidden) == "/tmp/x"
    )
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    assert places._installation(str(tmp_path / "venv" / "bin" / "tool"), hidden) == str(tmp_path / "venv")
