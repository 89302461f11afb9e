"""How git is started: without the person's environment, and with git's own words when it fails."""

import os
from contextlib import suppress
from pathlib import Path
from shutil import which

import pytest

from tests.workspace.repositories import git, make
from treadle.errors import NotFound, WorkspaceError
from treadle.workspace import private_git
from treadle.workspace.git import create, environment
from treadle.workspace.store import Store
from treadle.workspace.user_repository import UserRepository
from treadle.workspace.workspace import prepare


def test_no_variable_points_git_at_another_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "evil")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.sshCommand'='evil'")
    found = {name for name in environment() if name.startswith("GIT_")}
    assert found == {"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_ALLOW_PROTOCOL", "GIT_CONFIG_NOSYSTEM"}


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_settings_are_read_where_the_person_says_that_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    user = UserRepository.at(str(make(tmp_path / "repo").top))
    (tmp_path / "settings").write_text("[committer]\n\temail = ada@example.invalid\n")
    monkeypatch.delenv("GIT_CONFIG_NOSYSTEM")
    monkeypatch.setenv(variable, str(tmp_path / "settings"))
    found = {key: value for scope, key, value in user.settings() if scope != "local"}
    assert found["committer.email"] == "ada@example.invalid"


def test_a_failure_says_what_git_said(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"git clone failed.*does not exist"):
        create("clone", "--quiet", str(tmp_path / "nothing"), str(tmp_path / "copy"), cwd=str(tmp_path))


def test_hooks_of_a_template_do_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = tmp_path / "template" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    settings = tmp_path / "config" / "git" / "config"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[init]\n\ttemplateDir = {tmp_path}/template\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    create("clone", "--quiet", make(tmp_path / "repo").top, str(tmp_path / "copy"), cwd=str(tmp_path))
    assert (tmp_path / "copy" / ".git" / "hooks" / "post-checkout").exists() and not (tmp_path / "ran").exists()


def canary(directory: Path, ran: Path) -> None:
    """A program called git, as an agent might write it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "git").write_text(f'#!/bin/sh\ntouch {ran}\nexec {which("git")} "$@"\n')
    (directory / "git").chmod(0o755)


def test_git_is_never_one_that_an_agent_could_have_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An activated environment of a project is first on PATH, and our git works elsewhere: in the state directory, or
    in the git directory of another worktree."""
    repository, tree = make(tmp_path / "repo"), tmp_path / "wt"
    git("worktree", "add", "-q", "-b", "b", str(tree), cwd=repository.top)
    commit = git("rev-parse", "HEAD", cwd=repository.top).stdout.decode().strip()
    ran = tmp_path / "ran"
    for place in (Path(repository.top), tree):
        canary(place / ".venv" / "bin", ran)
        monkeypatch.setenv("PATH", f"{place}/.venv/bin:{place}/absent:{os.environ['PATH']}")
        user = UserRepository.at(str(place))
        assert user is not None and user.refs()
        store = Store.make(str(tmp_path / f"store-{place.name}"), lenders=user.object_places())
        blobs = [entry.blob for entry in store.borrow_tree(commit)[1].values()]
        assert set(store.blobs(blobs)) == set(blobs) != set()
        private_git.make(str(tmp_path / f"git-{place.name}"), user, head="refs/heads/x", at=commit)
        assert not ran.exists()


def test_git_is_not_taken_from_a_workspace_that_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, plain = tmp_path / "ran", tmp_path / "plain"
    canary(plain / "bin", ran)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "git").symlink_to(plain / "bin" / "git")
    monkeypatch.setenv("PATH", f"{plain}/bin:{tmp_path}/tools:{os.environ['PATH']}")
    (tmp_path / "run").mkdir()
    made = prepare("pass_through", str(plain), str(tmp_path / "run"), name="r1")
    (plain / "new").write_text("x")
    assert [change.path for change in made.difference().changes] == ["new"] and not ran.exists()


def test_when_the_only_git_is_in_a_checkout_it_is_not_run_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, top = tmp_path / "ran", make(tmp_path / "repo").top
    canary(Path(top) / "bin", ran)
    monkeypatch.setenv("PATH", f"{top}/bin")
    with pytest.raises(NotFound, match="where an agent may have put it"):
        create("init", "new", cwd=str(tmp_path))
    assert not ran.exists()


def test_an_object_that_is_missing_is_not_fetched_by_a_program_that_settings_name(tmp_path: Path) -> None:
    """An agent of a run that was killed may have made the whole git directory."""
    ran, top = tmp_path / "ran", make(tmp_path / "repo").top
    promise(Path(top) / ".git" / "config", ran)
    (Path(top) / ".git" / "HEAD").write_text("1" * 40 + "\n")
    (tmp_path / "run").mkdir()
    with suppress(WorkspaceError):
        prepare("staged", top, str(tmp_path / "run"), name="r1")
    assert not ran.exists()


def promise(settings: Path, ran: Path) -> None:
    """Settings by which git fetches what is missing with a program."""
    with settings.open("a") as file:
        file.write(f'[remote "p"]\n\tpromisor = true\n\turl = "ext::sh -c touch% {ran}"\n')
        file.write('[protocol "ext"]\n\tallow = always\n[core]\n\trepositoryFormatVersion = 1\n')
        file.write("[extensions]\n\tpartialClone = p\n")
