"""How git is started: never as a program of an agent, without the person's environment; names it takes for its own."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from shutil import which

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import NotFound, WorkspaceError
from treadle.workspace import private_git
from treadle.workspace.git import create, environment, is_forbidden, is_git
from treadle.workspace.store import Store
from treadle.workspace.user_repository import WHO, UserRepository, first_commit
from treadle.workspace.workspace import WorkspaceMode, prepare


def test_no_variable_points_git_at_another_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "evil")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.sshCommand'='evil'")
    found = {name for name in environment() if name.startswith("GIT_")}
    ours = {"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_ALLOW_PROTOCOL", "GIT_NO_REPLACE_OBJECTS"}
    assert found == {*ours, "GIT_CONFIG_NOSYSTEM"}


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


TAKEN = [
    ".git",
    ".GIT",
    ".g\u200cit",
    *(f".g{first_or_last}it" for first_or_last in "\u200f\u202a\u202e\u206a\u206f"),
    "\ufeff.gIt",
    "git~1",
    "GIT~1",
    ".git.",
    ".git ",
    ".git . .",
    ".git::$DATA",
    ".git\\x",
]
PLAIN = [".gitignore", ".gita", "git", "git~2", ".gi\u0131t", ".g it", "a.git", ".github", "\u200c", " .git"]


def refused_by_fsck(place: Path, names: list[str]) -> list[str]:
    """Those of the names that git itself says a tree must not have."""
    store = Store.make(str(place))
    blob = bytes.fromhex(store.put("blob", b"x"))
    trees = {store.put("tree", b"100644 %s\0" % name.encode() + blob): name for name in names}
    words = ["git", "--git-dir", str(place), "fsck", "--strict"]
    lines = subprocess.run(words, capture_output=True, text=True, check=False).stderr.splitlines()
    found = {line.split("in tree ")[1].split(":")[0] for line in lines if "hasDotgit" in line}
    return [name for tree, name in trees.items() if tree in found]


def test_the_names_are_those_that_git_itself_refuses(tmp_path: Path) -> None:
    assert refused_by_fsck(tmp_path / "s", [*TAKEN, *PLAIN]) == TAKEN
    for name in (*TAKEN, *PLAIN):
        assert is_git(name) is is_forbidden(name) is (name in TAKEN), name


@pytest.mark.parametrize("mode", ["staged", "worktree", "pass_through"])
def test_such_a_name_is_not_in_the_result_and_that_is_said(
    repository: Repository, tmp_path: Path, mode: WorkspaceMode
) -> None:
    (tmp_path / "run").mkdir()
    workspace = prepare(mode, repository.top, str(tmp_path / "run"), name="r")
    names = [name for name in TAKEN if name != ".git"]
    for number, name in enumerate(names):
        place = Path(workspace.root, name)
        if number % 2:
            place.mkdir()
            (place / "config").write_text("[core]\n\tfsmonitor = evil\n")
        else:
            place.write_text("gitdir: elsewhere\n")
    Path(workspace.root, "work.txt").write_text("work\n")
    found = workspace.difference()
    assert [one.path for one in found.changes] == ["work.txt"]
    assert {one.path: one.kind for one in found.oddities} == dict.fromkeys(names, "git_directory")
    assert mode == "pass_through" or [*workspace.apply().written] == ["work.txt"]


def test_a_tree_with_such_a_name_is_refused_and_not_made(tmp_path: Path) -> None:
    store = Store.make(str(tmp_path / "s"))
    blob = store.put("blob", b"x")
    for name in TAKEN:
        with pytest.raises(WorkspaceError, match="is not a name for a file"):
            store.put_tree([(name.encode(), "100644", blob)])


def test_a_first_commit_has_all_files_in_a_clean_checkout_and_a_taken_place_is_left(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "shop"
    commit = first_commit(str(place), {"a.py": b"a = 1\n", ".gitignore": b"x/\n", "b": b"\xff\0"}, "A shop: ü\n\ntwo")
    shown = git("log", "--format=%H%n%an <%ae>%n%P%n%B", cwd=str(place)).stdout.decode().strip().split("\n")
    assert (
        shown == [commit, WHO, "", "A shop: ü", "", "two"]
        and git("status", "--porcelain", cwd=str(place)).stdout == b""
    )
    assert (place / "b").read_bytes() == b"\xff\0" and git("show", "HEAD:a.py", cwd=str(place)).stdout == b"a = 1\n"
    git("fsck", "--strict", cwd=str(place))
    with pytest.raises(FileExistsError):
        first_commit(str(place), {}, "again")
