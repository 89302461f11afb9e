"""The guard in git: real commits and real pushes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination import hooks
from treadle.coordination.claims import Claims

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


def attempt(project: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", "-C", str(project), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HEIMDALL_HAID": ANN, **env},
    )


def change(project: Path, name: str = "src/a/b.ts", text: str = "changed\n") -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(text)
    git(project, "add", name)


def test_a_commit_under_anothers_claim_is_refused_and_says_how_to_go_on(
    heimdall: Run, project: Path, claims: Claims
) -> None:
    assert heimdall("claim", "guard", "install").returncode == 0
    change(project)
    refused = attempt(project, "commit", "-qm", "no")
    assert refused.returncode != 0
    for part in ("COLLISION:", "src/a/b.ts", BOB, "T-1", ANN):
        assert part in refused.stderr
    assert not any(way in refused.stderr for way in ("HEIMDALL_", "--no-verify", "--force", "guard uninstall"))
    assert attempt(project, "commit", "-qm", "as the holder", HEIMDALL_HAID=BOB).returncode == 0
    change(project, "docs/x.md")
    assert attempt(project, "commit", "-qm", "elsewhere").returncode == 0


def test_it_also_sees_commit_all_and_renames_out_of_the_claim(heimdall: Run, project: Path, claims: Claims) -> None:
    heimdall("claim", "guard", "install")
    (project / "src/a/b.ts").write_text("not added")
    assert attempt(project, "commit", "-qam", "no").returncode != 0
    git(project, "checkout", "-q", "src/a/b.ts")
    git(project, "mv", "src/a/b.ts", "moved.ts")
    assert attempt(project, "commit", "-qm", "no").returncode != 0


def test_a_bypass_must_give_a_reason_and_it_is_kept(heimdall: Run, project: Path, claims: Claims) -> None:
    heimdall("claim", "guard", "install")
    change(project)
    assert attempt(project, "commit", "-qm", "no", HEIMDALL_GUARD_BYPASS=" ").returncode != 0
    assert attempt(project, "commit", "-qm", "hot fix", HEIMDALL_GUARD_BYPASS="production is down").returncode == 0
    assert "production is down" in (project / ".planning/ledger/decisions.md").read_text()


def test_a_push_is_refused_too_but_not_for_what_its_holder_made(
    heimdall: Run, project: Path, claims: Claims, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    claims.release(BOB)
    heimdall("claim", "guard", "install")
    assert attempt(project, "push", "-q", "origin", "main").returncode == 0
    change(project)
    git(project, "commit", "-qm", "before the claim")
    claims.claim(BOB, ["src/a/**"], "T-1")
    refused = attempt(project, "push", "-q", "origin", "main")
    assert refused.returncode != 0 and "cannot push what" in refused.stderr
    git(project, "commit", "-q", "--amend", "--no-verify", "-m", f"signed\n\nHeimdall-Agent: {BOB}")
    assert attempt(project, "push", "-q", "origin", "main").returncode == 0
    git(project, "checkout", "-qb", "new-branch")
    change(project, "docs/y.md")
    assert attempt(project, "commit", "-qm", "elsewhere").returncode == 0
    assert attempt(project, "push", "-q", "origin", "new-branch").returncode == 0
    assert attempt(project, "push", "-q", "origin", ":new-branch").returncode == 0  # deleting a branch changes no file


def test_taking_in_what_the_holder_has_pushed_is_no_change_of_ours(
    heimdall: Run, project: Path, claims: Claims, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(project, "push", "-q", "origin", "main", "main:ours")
    change(project)
    git(project, "commit", "-qm", "the holder's, without a trailer")
    change(project, "docs/x.md", "theirs\n")
    git(project, "commit", "-qm", "more of the holder's")
    git(project, "push", "-q", "origin", "main")
    heimdall("claim", "guard", "install")
    git(project, "checkout", "-q", "-b", "ours", "origin/ours")
    change(project, "docs/x.md", "ours\n")
    assert attempt(project, "commit", "-qm", "ours").returncode == 0
    assert attempt(project, "merge", "-q", "origin/main").returncode != 0  # a conflict, to be resolved by hand
    change(project, "docs/x.md", "both\n")
    assert attempt(project, "commit", "-qm", "merge").returncode == 0
    assert attempt(project, "push", "-q", "origin", "ours").returncode == 0


@pytest.mark.parametrize("hook", ["pre-commit", "pre-push"])
def test_a_hook_that_was_there_runs_first_and_comes_back(heimdall: Run, project: Path, hook: str) -> None:
    path = project / ".git" / "hooks" / hook
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\necho from the old hook >&2\nexit 7\n")
    path.chmod(0o755)
    before = path.read_text()
    heimdall("claim", "guard", "install")
    heimdall("claim", "guard", "install", "--mode", "warn")  # again: nothing is lost
    done = subprocess.run([str(path)], input="", capture_output=True, text=True, cwd=project)
    assert (done.returncode, done.stderr) == (7, "from the old hook\n")
    heimdall("claim", "guard", "uninstall")
    assert path.read_text() == before
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: absent\npre-push: absent\n"


def test_a_hook_that_was_there_reads_what_git_says_and_no_more(heimdall: Run, project: Path) -> None:
    path = project / ".git" / "hooks" / "pre-push"
    path.parent.mkdir(exist_ok=True)
    path.write_text('#!/bin/sh\ncat > "$0.heard"\n')
    path.chmod(0o755)
    heimdall("claim", "guard", "install")
    for said in ("", "refs/heads/x 1 refs/heads/x 0\nrefs/heads/y 1 refs/heads/y 0\n"):
        subprocess.run([str(path)], input=said, text=True, cwd=project)
        assert Path(f"{path}.before-heimdall.heard").read_text() == said


def test_a_hook_whose_program_is_gone_says_what_to_do(heimdall: Run, project: Path) -> None:
    heimdall("claim", "guard", "install")
    path = project / ".git" / "hooks" / "pre-commit"
    path.write_text(path.read_text().replace("/heimdall-claim", "/no-longer-there"))
    change(project, "docs/x.md")
    refused = attempt(project, "commit", "-qm", "no", PATH="/usr/bin:/bin")
    assert refused.returncode != 0 and "is gone: install treadle again, or remove this hook" in refused.stderr


def husky(project: Path) -> None:
    """Hooks as husky installs them: tracked scripts, and stubs that each worktree makes for itself and git ignores."""
    (project / ".husky" / "_").mkdir(parents=True)
    (project / ".husky" / "_" / ".gitignore").write_text("*")
    for hook in ("pre-commit", "commit-msg"):
        path = project / ".husky" / "_" / hook
        path.write_text(f'#!/bin/sh\n[ ! -f .husky/{hook} ] || sh .husky/{hook} "$@"\n')
        path.chmod(0o755)
        (project / ".husky" / hook).write_text(f"echo {hook} of the project >&2\n")
    git(project, "config", "core.hooksPath", ".husky/_")
    git(project, "add", ".husky")
    git(project, "commit", "-qm", "husky")


def test_hooks_from_a_relative_place_go_on_in_every_worktree_and_no_tracked_file_is_touched(
    heimdall: Run, project: Path, claims: Claims, tmp_path: Path
) -> None:
    husky(project)
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    assert heimdall("claim", "guard", "install", cwd=tmp_path / "other").returncode == 0
    assert git(project, "status", "--porcelain") == git(tmp_path / "other", "status", "--porcelain") == ""
    for place in (project, tmp_path / "other"):
        assert heimdall("claim", "guard", "status", cwd=place).stdout == "pre-commit: block\npre-push: block\n"
        change(place)
        assert "COLLISION" in attempt(place, "commit", "-qm", "no").stderr
    done = attempt(project, "commit", "-qm", "yes", HEIMDALL_HAID=BOB)
    assert (done.returncode, done.stderr) == (0, "pre-commit of the project\ncommit-msg of the project\n")
    heimdall("claim", "guard", "install", "--mode", "warn")  # again: the earlier setting is not forgotten
    heimdall("claim", "guard", "uninstall")
    assert git(project, "config", "core.hooksPath") == ".husky/_"
    assert "heimdall" not in (project / ".git/config").read_text()


def test_a_guard_that_another_tool_switched_off_is_absent_and_says_why(heimdall: Run, project: Path) -> None:
    husky(project)
    heimdall("claim", "guard", "install")
    git(project, "config", "core.hooksPath", ".husky/_")  # as `npm install` does
    told = heimdall("claim", "guard", "status")
    assert told.stdout == "pre-commit: absent\npre-push: absent\n" and "guard install" in told.stderr
    heimdall("claim", "guard", "install")
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: block\npre-push: block\n"


def test_a_submodule_is_its_path(heimdall: Run, project: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", str(tmp_path / "library"))
    git(tmp_path / "library", "commit", "-q", "--allow-empty", "-m", "one")
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    git(project, "commit", "-qm", "submodule")
    heimdall("claim", "guard", "install")
    heimdall("claim", "claim", "lib/**", "--task", "T", HEIMDALL_HAID=BOB)
    git(project / "lib", "commit", "-q", "--allow-empty", "-m", "two")
    git(project, "add", "lib")
    assert (
        "lib/ overlaps lib/**" not in (told := attempt(project, "commit", "-qm", "no").stderr) and "COLLISION" in told
    )
    assert heimdall("claim", "check", "--diff", HEIMDALL_HAID=ANN).returncode == 3
    assert attempt(project, "commit", "-qm", "yes", HEIMDALL_HAID=BOB).returncode == 0
    assert heimdall("claim", "check", "--diff", "HEAD~1..HEAD", HEIMDALL_HAID=ANN).returncode == 3


@pytest.mark.parametrize("what", ["broken", "elsewhere"])
def test_a_guard_that_cannot_see_refuses_and_never_says_clear(
    heimdall: Run, project: Path, claims: Claims, tmp_path: Path, what: str
) -> None:
    heimdall("claim", "guard", "install")
    env = {}
    if what == "broken":
        (Path(claims.directory) / "haid_carl.box-0003.json").write_text('{"haid": ')
    else:
        git(tmp_path, "init", "-q", str(tmp_path / "another"))
        env["HEIMDALL_PLANNING_DIR"] = str(tmp_path / "another" / ".planning")
    change(project, "docs/x.md")
    refused = attempt(project, "commit", "-qm", "no", **env)
    assert refused.returncode and "cannot be read" in refused.stderr
    checked = heimdall("claim", "check", "docs/x.md", HEIMDALL_HAID=ANN, **env)
    assert (checked.returncode, checked.stdout) == (2, "") and "cannot tell" in checked.stderr
    as_json = heimdall("claim", "check", "docs/x.md", "--json", HEIMDALL_HAID=ANN, **env).stdout
    assert '"clear": null' in as_json
    assert "warning: " in heimdall("claim", "list", **env).stderr
    assert attempt(project, "commit", "-qm", "go", HEIMDALL_GUARD_BYPASS="known", **env).returncode == 0
    heimdall("claim", "guard", "install", "--mode", "warn")
    change(project, "docs/y.md")
    warned = attempt(project, "commit", "-qm", "warned", **env)
    assert warned.returncode == 0 and "warning: others' claims cannot be read" in warned.stderr


def test_a_hook_that_another_tool_wrote_anew_is_chained_again(heimdall: Run, project: Path) -> None:
    path = project / ".git" / "hooks" / "pre-commit"
    path.parent.mkdir(exist_ok=True)
    for _ in range(2):  # as `lefthook install` does at each call
        path.write_text("#!/bin/sh\necho theirs >&2\n")
        path.chmod(0o755)
        assert heimdall("claim", "guard", "install").returncode == 0
    done = attempt(project, "commit", "-q", "--allow-empty", "-m", "x")
    assert (done.returncode, done.stderr) == (0, "theirs\n")
    path.write_text("#!/bin/sh\n")
    told = heimdall("claim", "guard", "status")
    assert told.stdout.startswith("pre-commit: absent") and "another program" in told.stderr
    assert "both exist" in heimdall("claim", "guard", "install").stderr


def test_where_pre_commit_runs_ours_first_it_is_installed(heimdall: Run, project: Path, claims: Claims) -> None:
    """`pre-commit install` renames an existing hook and runs it before its own."""
    heimdall("claim", "guard", "install")
    path = project / ".git" / "hooks" / "pre-commit"
    path.rename(f"{path}.legacy")
    path.write_text('#!/bin/sh\n# File generated by pre-commit\n"$0.legacy" "$@" || exit 1\n')
    path.chmod(0o755)
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: block\npre-push: block\n"
    heimdall("claim", "guard", "install", "--mode", "warn")
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: warn\npre-push: warn\n"
    change(project)
    assert "warning: src/a/b.ts" in attempt(project, "commit", "-qm", "warned").stderr
    heimdall("claim", "guard", "uninstall")
    assert "generated by pre-commit" in path.read_text() and not Path(f"{path}.legacy").exists()


def test_a_person_commits_what_they_hold_under_a_role_and_not_what_an_agents_session_holds(
    heimdall: Run, project: Path
) -> None:
    heimdall("claim", "guard", "install")
    heimdall("claim", "claim", "src/a/b.ts", "--task", "T", "--role", "docs")
    change(project)
    assert attempt(project, "commit", "-qm", "mine", HEIMDALL_HAID="").returncode == 0
    heimdall("claim", "claim", "docs", "--task", "T", CLAUDE_CODE_SESSION_ID="s1")
    change(project, "docs/x.md")
    assert "COLLISION" in attempt(project, "commit", "-qm", "theirs", HEIMDALL_HAID="").stderr


def test_the_holders_of_two_symbols_of_one_file_both_commit_it_and_a_third_does_not(
    heimdall: Run, project: Path
) -> None:
    heimdall("claim", "guard", "install")
    for who, symbol in ((ANN, "one"), (BOB, "two")):
        assert heimdall("claim", "claim", f"src/a/b.ts#{symbol}", "--task", "T", HEIMDALL_HAID=who).returncode == 0
    for who in (ANN, BOB):
        change(project, text=f"by {who}")
        assert attempt(project, "commit", "-qm", "x", HEIMDALL_HAID=who).returncode == 0
    change(project, text="by another")
    assert attempt(project, "commit", "-qm", "x", HEIMDALL_HAID="haid:carl.box-0003").returncode


def test_what_a_push_brings_is_what_no_remote_has(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    commits = [git(project, "rev-parse", "HEAD")]
    for name in ("one", "two"):
        change(project, name)
        git(project, "commit", "-qm", name)
        commits.append(git(project, "rev-parse", "HEAD"))
    zeros, unknown = "0" * 40, "1" * 40

    def pushed(*lines: str) -> list[list[str]]:
        return [names for _, names in hooks.changed(str(project), "pre-push", lines)]

    def line(new: str, old: str) -> str:
        return f"refs/heads/main {new} refs/heads/main {old}\n"

    assert pushed(line(commits[2], commits[1])) == [["two"]]
    assert pushed(line(commits[2], unknown)) == pushed(line(commits[2], zeros)) == [["two"], ["one"], ["src/a/b.ts"]]
    git(project, "push", "-q", "origin", f"{commits[1]}:refs/heads/main")
    assert pushed(line(commits[2], zeros)) == [["two"]]
    assert pushed(line(zeros, commits[1]), "three words only", "") == []
    change(project, "three")
    assert hooks.changed(str(project), "pre-commit", [line(commits[2], zeros)]) == [("", ["three"])]


@pytest.mark.parametrize("name", [".gitconfig", "included"])
def test_a_directory_of_the_person_is_forwarded_to_and_stays_theirs(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    settings, ours = tmp_path / ".gitconfig", project / ".git" / "hooks" / "heimdall"
    settings.write_text("[include]\n\tpath = included\n")
    (tmp_path / name).write_text("[core]\n\thooksPath = ~/my hooks\n")
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.setenv("HOME", str(tmp_path))
    for mode in ("block", "warn"):
        assert hooks.install(str(project), mode) == [str(ours / "pre-commit"), str(ours / "pre-push")]
        assert hooks.status(str(project)) == {"pre-commit": mode, "pre-push": mode}
        assert f"\nbefore='{tmp_path}/my hooks/pre-commit'\n" in (ours / "pre-commit").read_text()
        assert f"exec '{tmp_path}/my hooks/commit-msg' \"$@\"" in (ours / "commit-msg").read_text()
    assert git(project, "config", "--local", "heimdall.hooksPath") == "=~/my hooks"
    assert hooks.uninstall(str(project)) == [str(ours / name) for name in ("pre-commit", "pre-push", "pre-receive")]
    assert not ours.exists() and "hooksPath" not in (project / ".git/config").read_text()


def test_the_hooks_guard_every_worktree(heimdall: Run, project: Path, claims: Claims, tmp_path: Path) -> None:
    heimdall("claim", "guard", "install")
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    change(tmp_path / "other")
    assert attempt(tmp_path / "other", "commit", "-qm", "no").returncode != 0


def test_a_clone_that_has_no_claims_never_says_that_a_range_is_clear(heimdall: Run, project: Path) -> None:
    told = heimdall("claim", "check", "--diff", "HEAD")
    assert told.returncode == 2 and "cannot tell" in told.stderr and "clear" not in told.stdout
