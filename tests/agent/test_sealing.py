"""An agent in a user's checkout: its commits arrive in the user's repository, and nothing else does."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.checkouts import ENV, Working, checkout, git
from tests.agent.sealed import log
from tests.io.sandbox.rooms import sh
from treadle.errors import Denied
from treadle.io.sandbox import methods
from treadle.io.sandbox.start import start
from treadle.sandboxed import confining
from treadle.workspace import index_file
from treadle.workspace.in_place import LOCK

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return checkout(tmp_path / "w")


@pytest.fixture
def agent(top: Path) -> Iterator[Working]:
    made = Working(top)
    yield made
    made.confining.close()


async def test_a_commit_of_the_agent_is_in_the_users_log_and_the_status_is_clean(top: Path, agent: Working) -> None:
    await agent.ok("echo two > file.txt; echo new > new.txt; git add . && git commit -qm two")
    assert log(top) == "two\none" and git(top, "status", "--porcelain") == "" and agent.said == []
    assert (
        git(top, "fsck", "--strict", "--no-dangling") == ""
        and git(top, "reflog", "-1", "--format=%gs") == "treadle: s1"
    )


async def test_what_the_user_did_before_is_seen_by_the_next_command(top: Path, agent: Working) -> None:
    await agent.ok("true")
    git(top, "switch", "-qc", "users")
    git(top, "commit", "-q", "--allow-empty", "-m", "users")
    git(top, "branch", "-D", "main")
    assert await agent.ok("git log --format=%s; git branch --format='%(refname:short)'") == "users\none\nusers"
    await agent.ok("git commit -q --allow-empty -m agents")
    assert log(top) == "agents\nusers\none" and agent.said == []


async def test_hooks_of_the_user_run_inside_and_cannot_be_changed(top: Path, agent: Working) -> None:
    hook = top / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho hooked >> hooked.txt; touch /etc/escaped\ntest ! -e refuse\n")
    hook.chmod(0o755)
    await agent.ok("git commit -q --allow-empty -m two")
    assert (top / "hooked.txt").read_text() == "hooked\n" and not os.path.exists("/etc/escaped")
    assert (await agent.run("touch refuse; git commit -q --allow-empty -m three")).code == 1 and log(top) == "two\none"
    for way in (
        "echo x >> .git/hooks/pre-commit",
        "rm .git/hooks/pre-commit",
        "echo x > .git/hooks/post-commit",
        "mv .git/hooks .git/h",
    ):
        assert (await agent.run(way)).code != 0
    assert os.listdir(top / ".git" / "hooks").count("post-commit") == 0


async def test_signing_is_off_inside(top: Path, agent: Working) -> None:
    git(top, "config", "commit.gpgsign", "true")
    git(top, "config", "gpg.program", "/bin/false")
    await agent.ok("git commit -q --allow-empty -m two")
    assert log(top) == "two\none"


async def test_a_linked_worktree_and_a_submodule_are_sealed_too(top: Path, tmp_path: Path) -> None:
    lib = checkout(tmp_path / "lib")
    git(top, "submodule", "add", "-q", str(lib), "sub")
    git(top, "commit", "-qm", "sub")
    git(top, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    for place, branch in ((tmp_path / "tree", "side"), (top / "sub", "main")):
        pointer = (place / ".git").read_bytes()
        agent = Working(place)
        assert "nothing to commit" in await agent.ok("git status")
        await agent.ok("echo two > file.txt; git commit -qam two")
        assert log(place).startswith("two\n") and git(place, "branch", "--show-current") == branch
        assert (
            git(place, "status", "--porcelain") == "" and agent.said == [] and (place / ".git").read_bytes() == pointer
        )
        for way in ("rm .git", "mv .git x", "echo > .git"):
            assert (await agent.run(way)).code != 0
        agent.confining.close()
    assert log(top) == "sub\none"


async def test_a_submodule_in_the_workspace_can_be_read_and_not_changed(top: Path, tmp_path: Path) -> None:
    lib = checkout(tmp_path / "lib")
    git(top, "submodule", "add", "-q", str(lib), "sub")
    git(top, "commit", "-qm", "sub")
    agent = Working(top)
    assert await agent.ok("git status --porcelain; git -C sub log --format=%s") == "one"
    assert (await agent.run("git -C sub commit -q --allow-empty -m x")).code != 0
    await agent.ok("echo x > sub/file.txt; git commit -q --allow-empty -m two")
    assert log(top).startswith("two") and git(top / "sub", "log", "--format=%s") == "one" and agent.said == []
    agent.confining.close()


async def test_a_repository_made_inside_is_moved_aside_after_the_turn(
    tmp_path: Path, top: Path, agent: Working
) -> None:
    await agent.turn("git init -q nested; mkdir -p file/below; echo 'gitdir: x' > file/below/.git")
    assert not (top / "nested" / ".git").exists() and not (top / "file/below/.git").exists()
    assert len(agent.said) == 2 and str(top / "nested" / ".git") in agent.said[1] + agent.said[0]
    bare = tmp_path / "plain"
    bare.mkdir()
    other = Working(bare, session="s2")
    await other.turn("true")
    assert os.listdir(bare) == []
    await other.turn("git init -q")
    assert os.listdir(bare) == [] and "made" in other.said[0]


async def test_a_nested_repository_of_the_user_is_read_only(top: Path) -> None:
    checkout(top / "deep" / "nested")
    agent = Working(top)
    assert await agent.ok("git -C deep/nested log --format=%s") == "one"
    for way in (
        "git -C deep/nested config a.b c",
        "git -C deep/nested commit -q --allow-empty -m x",
        "mv deep d",
        "rm -rf deep/nested/.git",
    ):
        await agent.run(way)
    assert log(top / "deep" / "nested") == "one" and git(top / "deep" / "nested", "config", "a.b", check=False) == ""
    agent.confining.close()


async def test_what_a_check_does_to_git_is_forgotten(top: Path) -> None:
    made = Working(top).confining
    await sh(made.now(), "echo two > file.txt; git commit -qam two", top, env=ENV)
    home = Path(made.sealing._home)
    made.close()
    assert log(top) == "one" and not home.exists()


async def test_a_repository_that_cannot_be_read_is_read_only_and_that_is_said(top: Path) -> None:
    (top / ".git" / "HEAD").write_text("nonsense\n")
    agent = Working(top)
    assert (await agent.run("echo x > .git/config")).code != 0 and (await agent.run("echo x > fine")).code == 0
    assert "commands cannot commit" in agent.said[0] and len(agent.said) == 1
    agent.confining.close()


async def test_a_partial_clone_takes_commits_over_and_fetches_nothing_that_an_agent_names(
    tmp_path: Path, top: Path
) -> None:
    ran = tmp_path / "ran"
    git(top, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{top}", "part")
    part = tmp_path / "part"
    (tmp_path / "upload").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (tmp_path / "upload").chmod(0o755)
    git(part, "config", "remote.origin.uploadpack", str(tmp_path / "upload"))
    agent = Working(part)
    await agent.ok("echo two > file.txt; git commit -qam two")
    assert log(part) == "two\none" and agent.said == []
    await agent.ok(f"git update-index --add --cacheinfo 100644,{'12' * 20},x")
    assert "not taken over" in agent.said[0] and not ran.exists()
    agent.confining.close()


@pytest.mark.parametrize("there", [True, False])
async def test_a_file_in_the_checkout_that_the_users_settings_include_cannot_be_changed(
    tmp_path: Path, top: Path, there: bool
) -> None:
    """Git reads it as settings, and those name programs."""
    git(top, "config", "include.path", "../team.gitconfig")
    git(top, "config", "includeIf.gitdir:/elsewhere/.path", str(top / "other.gitconfig"))
    for name in ("team", "other") if there else ():
        (top / f"{name}.gitconfig").write_text("[alias]\n\tx = status\n")
    agent = Working(top)
    ran = tmp_path / "ran"
    evil = f'[remote "p"]\n\tpromisor = true\n\turl = "ext::sh -c touch% {ran}"\n[protocol "ext"]\n\tallow = always\n'
    after = agent.confining.watching(None)()
    command = f"printf '%s' '{evil}' | tee team.gitconfig > other.gitconfig"
    done = await agent.run(f"{command}; git update-index --add --cacheinfo 100644,{'12' * 20},x")
    if there:
        after()
        assert "Read-only" in done.text and "promisor" not in (top / "team.gitconfig").read_text()
    else:
        with pytest.raises(Denied):
            after()
        assert not (top / "team.gitconfig").exists() and not (top / "other.gitconfig").exists()
    assert not ran.exists()
    agent.confining.close()


async def test_a_git_directory_that_has_its_objects_elsewhere_is_moved_aside_too(
    tmp_path: Path, top: Path, agent: Working
) -> None:
    ran = tmp_path / "ran"
    settings = f"[core]\\n\\tbare = false\\n\\tworktree = {top}\\n\\tfsmonitor = touch {ran} #\\n"
    command = (
        "git init -q --bare build/e; git -C build/e config extensions.worktreeConfig true; rm build/e/HEAD; mkdir sub;"
        f"printf '{settings}' > sub/config.worktree; echo ../build/e > sub/commondir; cp .git/HEAD sub/HEAD"
    )
    assert (await agent.turn(command)).code == 0
    subprocess.run(["git", "status"], cwd=top / "sub", capture_output=True, check=False)
    assert not ran.exists() and not (top / "sub" / "HEAD").exists() and str(top / "sub" / "HEAD") in "".join(agent.said)


@pytest.mark.parametrize("name", ["refs", "refs/heads", "refs/tags/all"])
async def test_refs_that_lead_elsewhere_are_said_and_not_searched(top: Path, agent: Working, name: str) -> None:
    await agent.ok(f"rm -rf .git/{name}; ln -s / .git/{name}")
    [said] = agent.said
    assert said.endswith(f"not taken over: {name} of the agent's repository is a link to a directory")
    await agent.ok("true")
    assert len(agent.said) == 1 and log(top) == "one"


async def test_a_name_that_other_systems_take_for_git_is_moved_aside_too(top: Path, agent: Working) -> None:
    await agent.turn(
        "mkdir -p sub && git init -q sub && mv sub/.git sub/.GIT; mkdir low && git init -q low && mv low/.git low/git~1"
    )
    assert not (top / "sub" / ".GIT").exists() and not (top / "low" / "git~1").exists() and len(agent.said) == 2


async def test_a_repository_that_the_user_makes_while_no_command_runs_is_left_where_it_is(
    top: Path, agent: Working
) -> None:
    await agent.turn("true")
    git(top, "init", "-q", "between-turns")
    await agent.run("git init -q by-agent")
    (top / "deep" / "er").mkdir(parents=True)
    git(top, "clone", "-q", ".", "deep/er/between-commands")
    git(top, "init", "-q", "--bare", "bare.git")
    assert (await agent.run("true")).code == 0
    await agent.turn(
        "echo x >> between-turns/.git/config; git -C deep/er/between-commands commit -q --allow-empty -m x"
    )
    for place in ("between-turns/.git", "deep/er/between-commands/.git", "bare.git/HEAD"):
        assert (top / place).exists(), place
    assert git(top / "deep/er/between-commands", "log", "--format=%s") == "one"
    assert "x\n" not in (top / "between-turns/.git/config").read_text()
    assert not (top / "by-agent" / ".git").exists() and len(agent.said) == 1 and "by-agent" in agent.said[0]


async def test_what_comes_while_a_command_runs_may_be_the_commands_and_is_moved_aside(
    top: Path, agent: Working
) -> None:
    await agent.turn("true")
    await agent.confining.ready(agent.said.append)
    walls = agent.confining.now()
    background = await start(walls, ["/bin/sh", "-c", "git init -q made; read x"], cwd=str(top), env=ENV, stdin="pipe")
    async with background:
        async with asyncio.timeout(60):
            while not (top / "made" / ".git" / "config").exists():
                await asyncio.sleep(0.01)
        git(top, "init", "-q", "beside")
        await agent.run("true")
        await agent.confining.ready(agent.said.append)
    await agent.confining.finish(agent.said.append)
    assert not (top / "made" / ".git").exists() and not (top / "beside" / ".git").exists() and len(agent.said) == 2


async def test_what_hook_managers_run_cannot_be_changed_from_inside(tmp_path: Path, top: Path) -> None:
    (top / ".husky" / "_").mkdir(parents=True)
    (top / ".husky" / "pre-commit").write_text("exit 0\n")
    (top / ".husky" / "_" / "pre-commit").write_text('#!/bin/sh\nexec sh "$(dirname "$0")/../pre-commit"\n')
    (top / ".husky" / "_" / "pre-commit").chmod(0o755)
    git(top, "config", "core.hooksPath", ".husky/_")
    agent, ran = Working(top), tmp_path / "ran"
    await agent.turn(f"echo 'touch {ran}' > .husky/pre-commit; rm -rf .husky; mv .husky h; true")
    git(top, "commit", "-q", "--allow-empty", "-m", "mine")
    assert not ran.exists() and (top / ".husky" / "pre-commit").read_text() == "exit 0\n"
    agent.confining.close()
    git(top, "config", "--unset", "core.hooksPath")
    (top / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\nexec pre-commit run\n")
    (top / ".pre-commit-config.yaml").write_text("repos: []\n")
    agent = Working(top)
    done = await agent.turn("echo evil > .pre-commit-config.yaml")
    assert done.code != 0 and (top / ".pre-commit-config.yaml").read_text() == "repos: []\n"
    agent.confining.close()


def lose(top: Path, base: str) -> None:
    """The user rewrites their history and has git remove all that nothing names any more."""
    git(top, "reset", "-q", "--soft", base)
    git(top, "commit", "-q", "--amend", "-m", "rewritten")
    git(top, "reflog", "expire", "--expire=now", "--all")
    git(top, "gc", "-q", "--prune=now")


async def test_the_users_gc_does_not_take_the_base_from_under_the_agent(top: Path) -> None:
    (top / "file.txt").write_text("two\n")
    git(top, "commit", "-qam", "two")
    agent = Working(top)
    seen = git(top, "log", "--all", "--decorate"), git(top, "branch", "-a"), git(top, "tag")
    await agent.ok("git log -1")
    assert (git(top, "log", "--all", "--decorate"), git(top, "branch", "-a"), git(top, "tag")) == seen
    base = git(top, "rev-parse", "HEAD")
    await agent.confining.ready(agent.said.append)
    git(top, "reset", "-q", "--hard", "HEAD~1")
    lose(top, "HEAD")
    done = await sh(agent.confining.now(), "git show HEAD:file.txt; git fsck --no-dangling", top, env=ENV)
    assert done.code == 0 and done.text.strip() == "two"
    await agent.ok("true")
    agent.confining.close()
    assert git(top, "for-each-ref", "refs/treadle") == ""
    git(top, "gc", "-q", "--prune=now")
    assert git(top, "cat-file", "-t", base, check=False) == ""


async def test_what_is_being_taken_over_goes_on_when_the_turn_is_cancelled(
    top: Path, agent: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "PATIENCE", 60.0)
    await agent.ok("true")
    await agent.confining.ready(agent.said.append)
    await sh(agent.confining.now(), "echo two > file.txt; git commit -qam two", top, env=ENV)
    busy = top / ".git" / "index.lock"
    busy.touch()
    [place] = agent.confining.sealing.begin()
    settling = asyncio.create_task(agent.confining.sealing.settle())
    async with asyncio.timeout(60):
        while not os.path.exists(os.path.join(place.directory, LOCK)):
            await asyncio.sleep(0.01)
    settling.cancel()
    await asyncio.wait([settling])
    busy.unlink()
    assert settling.cancelled() and await agent.confining.sealing.settle() == []
    assert (
        log(top) == "two\none" and git(top, "status", "--porcelain") == git(top, "branch", "--list", "treadle/*") == ""
    )


async def test_what_the_agents_git_makes_wait_for_ever_is_kept_for_the_next_turn(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confining, "LEAST_SECONDS", 1.0)
    agent = Working(top, seconds=0.0)
    await agent.run("git commit -q --allow-empty -m two; mkfifo .git/slow; git config include.path slow")
    [said] = agent.said
    assert "git did not end within" in said and "it is kept, and taken over by the next turn" in said
    assert log(top) == "one"
    agent.confining.close()
