"""What a receipt states about base, result, origin and agent is what we saw, whatever the run does or says."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.installed import treadle
from tests.scripts import calls, says
from tests.workspace.repositories import Repository, git, make

ORIGIN = "https://example.com/a/b.git"
MODES = ("pass-through", "staged", "worktree")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = make(tmp_path / "top")
    made.git("remote", "add", "origin", ORIGIN)
    (tmp_path / "top" / "inner").mkdir()
    (tmp_path / "top" / "inner" / "b.txt").write_text("b\n")
    made.git("add", "-A")
    made.git("commit", "-qm", "inner")
    return made


def run(repository: Repository, command: str, *words: str, inside: str = ".") -> dict[str, Any]:
    model = Path(repository.top).parent / "model.toml"
    model.write_text(calls("bash", {"command": command}) + says("Done.", times="always"))
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{model}"}
    place = os.path.join(repository.top, inside)
    done = treadle("host", "run", "--task", "x", "--agent", "native", "--json", *words, cwd=place, env=env)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["usage_raw"]["treadle"]
    return found


def test_the_address_is_that_of_before_the_agent_started(repository: Repository) -> None:
    command = "git remote set-url origin https://evil.example/x"
    found = run(repository, command, "--no-sandbox", "--workspace-mode", "pass-through")["observed"]
    assert repository.git("remote", "get-url", "origin").strip() != ORIGIN, "the run has changed it"
    assert found["workspace"]["repository"] == ORIGIN and ".git/config" in found["hidden"]


@pytest.mark.parametrize("mode", MODES)
def test_uncommitted_changes_are_a_commit_of_ours_that_anyone_can_make_again(repository: Repository, mode: str) -> None:
    Path(repository.top, "a.txt").write_text("one\nnot committed\n")
    place = run(repository, "echo x > new.txt", "--workspace-mode", mode)["observed"]["workspace"]
    head, tree = repository.commit(), repository.git("rev-parse", "HEAD^{tree}").strip()
    assert place["head_commit"] == head
    clean = mode == "worktree"  # it starts from the commit
    assert (place["base_commit"] == head) is clean and (place["base_tree"] == tree) is clean
    assert place["start_tree"] == place["base_tree"] != place["result_tree"]
    if not clean:
        repository.git("add", "a.txt")
        assert repository.git("write-tree").strip() == place["base_tree"]
        date = repository.git("show", "-s", "--format=%cI", "HEAD").strip()
        names = {"NAME": "treadle", "EMAIL": "treadle@localhost", "DATE": date}
        env = {f"GIT_{role}_{name}": text for role in ("AUTHOR", "COMMITTER") for name, text in names.items()}
        words = ("commit-tree", "-p", head, "-m", "Changes that were not committed", place["base_tree"])
        assert git(*words, cwd=repository.top, env=env).stdout.decode().strip() == place["base_commit"]


@pytest.mark.parametrize("mode", MODES)
def test_with_other_line_ends_on_disk_base_and_result_are_the_trees_that_git_commits(
    repository: Repository, mode: str
) -> None:
    top = Path(repository.top)
    (top / ".gitattributes").write_text("* text eol=crlf\n")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "line ends")
    repository.git("rm", "-q", "--cached", "-r", ".")
    repository.git("reset", "-q", "--hard")
    assert b"\r\n" in (top / "a.txt").read_bytes() and repository.git("status", "--short") == ""
    head, tree = repository.commit(), repository.git("rev-parse", "HEAD^{tree}").strip()
    lines = "printf 'one\\r\\nmore\\r\\n' > a.txt; printf 'x\\r\\n' > new.txt"
    found = run(repository, lines, "--workspace-mode", mode)["observed"]
    place = found["workspace"]
    assert found["hidden"] == [], "git renews the times of objects that it finds"
    assert (place["base_commit"], place["base_tree"], place["start_tree"]) == (head, tree, tree)
    (top / "a.txt").write_bytes(b"one\r\nmore\r\n")
    (top / "new.txt").write_bytes(b"x\r\n")
    repository.git("add", "-A")
    assert place["result_tree"] == repository.git("write-tree").strip() != tree
    if mode == "worktree":
        assert repository.git("rev-parse", f"{place['result_commit']}^{{tree}}").strip() == place["result_tree"]


FILES = "git -c protocol.file.allow=always"
MOVED = f"{FILES} -C sub fetch -q origin next && git -C sub checkout -q FETCH_HEAD"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "command", "entry"),
    [
        *((mode, "echo x > new.txt", "100644 new.txt") for mode in MODES),
        *((mode, f"{FILES} submodule --quiet add $OTHER more", "160000 more") for mode in ("pass-through", "worktree")),
        ("pass-through", MOVED, "160000 sub"),
        ("worktree", f"{FILES} submodule --quiet update --init && {MOVED}", "160000 sub"),
        # No commit has these files.
        ("pass-through", "echo edited > sub/a.txt", "100644 sub/a.txt"),
        ("worktree", f"{FILES} submodule --quiet update --init; echo edited > sub/a.txt", "100644 sub/a.txt"),
    ],
)
def test_a_submodule_is_one_entry_as_long_as_a_commit_has_its_files(
    tmp_path: Path, mode: str, command: str, entry: str
) -> None:
    other, repository = make(tmp_path / "other"), make(tmp_path / "top")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.top, "sub")
    repository.git("commit", "-qm", "sub")
    head, tree = repository.commit(), repository.git("rev-parse", "HEAD^{tree}").strip()
    other.git("checkout", "-qb", "next")
    other.git("commit", "-q", "--allow-empty", "-m", "the same files")
    words = ("--no-sandbox", "--workspace-mode", mode, *(["--apply"] if mode == "staged" else []))
    words += ("--verify", "test -e more/a.txt") if "160000 more" == entry else ()
    found = run(repository, command.replace("$OTHER", other.top), *words)["observed"]
    assert found["check"] is None or found["check"]["ok"]
    place, changed = found["workspace"], [one["path"] for one in found["files"]]
    assert (place["base_commit"], place["base_tree"], place["start_tree"]) == (head, tree, tree)
    mode_of, _, path = entry.partition(" ")
    assert path in changed, found
    if mode == "worktree":
        assert repository.git("rev-parse", f"{place['result_commit']}^{{tree}}").strip() == place["result_tree"]
        assert repository.git("ls-tree", "-r", place["result_commit"], path).startswith(mode_of)
    else:
        repository.git("add", "-A")
        assert (repository.git("write-tree").strip() == place["result_tree"]) is (path != "sub/a.txt")


def test_in_a_directory_of_a_worktree_base_and_result_are_those_of_the_commits(repository: Repository) -> None:
    place = run(repository, "echo x > c.txt", "--workspace-mode", "worktree", inside="inner")["observed"]["workspace"]
    assert place["directory"] == "inner"
    for name in ("base", "result"):
        tree = repository.git("rev-parse", f"{place[f'{name}_commit']}^{{tree}}").strip()
        assert tree == place[f"{name}_tree"], name
    for directory, code in (("inner", 0), (".", 18)):  # a check there may be another, with the same name
        assert treadle("receipt", "verify", "latest", "--expect", f"directory={directory}").returncode == code


def test_what_we_started_is_observed_and_what_it_calls_itself_is_claimed(repository: Repository) -> None:
    found = run(repository, "echo x > new.txt")
    assert found["format"] == 2 and found["observed"]["agent"]["name"] == "native"
    assert found["claimed"]["agent"] == "treadle:native" and found["claimed"]["commands"] == ["echo x > new.txt"]
    assert {"tokens and cost", "whether a command that was claimed ran"} <= {*found["observed"]["not_observed"]}
    assert not {"usage", "cost", "commands"} & found["observed"].keys()
