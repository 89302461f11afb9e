"""What crosses from an agent's repository into the person's: planted commits, indexes and refs, and ordinary git work.

Each is judged by what the person has afterwards: their refs and their index.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.checkouts import Working, checkout, git, refs
from tests.installed import TREADLE
from tests.io.sandbox.rooms import sh
from tests.tiers import spread
from treadle.errors import Denied
from treadle.io.paths import private_dir, state_dir
from treadle.io.sandbox import methods
from treadle.io.sandbox.places import activity
from treadle.session import Mode, Rules

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")

PLANTED = [
    *(".husky/pre-commit", ".github/workflows/x.yml", ".vscode/tasks.json", ".envrc", ".claude/settings.json"),
    *("AGENTS.md", "deep/down/.npmrc", "x.code-workspace", "tools/hooks/post-checkout", "tools/clean.sh"),
    *(".kimi/mcp.json", ".unheard-of", ".unheard/of/it", "docs/HEAD", "opencode.jsonc", "deep/Agents.md"),
]
"""By name, by git's settings (a directory of hooks, a filter), by class."""
REPOSITORY = (
    "mkdir -p docs/objects docs/refs; echo 'ref: refs/heads/x' > docs/HEAD; echo > docs/objects/k; echo > docs/refs/k"
)
PLANT = (
    "b=$(printf '#!/bin/sh\\ntouch evil\\n' | git hash-object -w --stdin);"
    " git update-index --add --cacheinfo 100755,$b,NAME"
)
COMMITS = {
    "a commit from the index": "{plant}; git commit -qm planted",
    "the index alone": "{plant}",
    "a commit that takes it back": "{plant}; git commit -qm a; git rm -q --cached {name}; git commit -qm b",
    "a merge": "git switch -qc side; {plant}; git commit -qm s; git switch -q main; git merge -q --no-ff -m m side",
    "a branch that is switched to": "git switch -qc other; {plant}; git commit -qm planted",
    "a commit without a branch": "git checkout -q --detach; {plant}; git commit -qm planted",
    "a tree made by hand": "{plant}; t=$(git write-tree); git read-tree HEAD;"
    " git update-ref refs/heads/main $(git commit-tree -m t -p HEAD $t)",
    "a tag first": "{plant}; git commit -qm planted; git tag t; git reset -q HEAD~1; NEXT git merge -q --ff-only t",
    "an amended commit": "git commit -q --allow-empty -m a; NEXT {plant}; git commit -q --amend -m b",
    "a stash that is applied": "{plant}; git stash -q; NEXT git stash apply -q --index; git commit -qm p",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    place = checkout(tmp_path / "w")
    git(place, "config", "core.hooksPath", "tools/hooks")
    git(place, "config", "filter.x.clean", "tools/clean.sh")
    return place


def persons(top: Path) -> list[str]:
    return [line for line in refs(top) if "\trefs/treadle/" not in line]


async def worked(top: Path, command: str, mode: Mode | None = None) -> Working:
    agent = Working(top, mode=mode)
    for part in command.split("NEXT"):
        await agent.run(part)
    agent.confining.close()
    return agent


@pytest.mark.parametrize("way", spread(COMMITS, quick=2, slow=3))
async def test_a_planted_file_reaches_no_ref_and_no_index(top: Path, way: str) -> None:
    names = PLANTED if way == "the index alone" else [".husky/pre-commit", ".unheard/of/it"]
    for name in (one for one in names if one != "docs/HEAD"):
        before = git(top, "ls-files", "-s")
        agent = await worked(top, COMMITS[way].format(plant=PLANT.replace("NAME", name), name=name))
        assert git(top, "ls-files", "-s") == before, name
        assert not any(name in git(top, "ls-tree", "-r", line.split()[0]) for line in persons(top)), name
        assert any(name in said for said in agent.said), (name, agent.said)


@pytest.mark.parametrize("ref", ["refs/heads/treadle/task", "refs/remotes/some/where/treadle/task"])
async def test_a_branch_that_we_made_of_an_agents_work_does_not_count_as_the_persons(top: Path, ref: str) -> None:
    (top / ".envrc").write_text("evil")
    git(top, "add", ".envrc")
    tree = git(top, "write-tree")
    git(top, "rm", "-qf", ".envrc")
    git(top, "update-ref", ref, git(top, "commit-tree", "-m", "of a task", "-p", "HEAD", tree))
    before = git(top, "rev-parse", "main")
    agent = await worked(top, f"git merge -q --ff-only {ref}")
    assert git(top, "rev-parse", "main") == before and ".envrc is a file that other programs obey" in agent.said[0]
    (top / ".envrc").unlink()
    git(top, "switch", "-q", "--no-track", *(["-c", "treadle/task", ref] if "remotes" in ref else ["treadle/task"]))
    agent = await worked(top, "echo x > file.txt; git commit -qam more")
    assert agent.said == [] and git(top, "log", "-1", "--format=%s") == "more", "the person has it checked out"


HIDING = {
    "log.diffMerges=off": "git switch -qc side; git commit -q --allow-empty -m s; git switch -q main;"
    " git merge -q --no-ff --no-commit side; {plant}; git commit -qm m",
    "diff.ignoreSubmodules=all": "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),{name};"
    " git commit -qm planted",
    "log.showSignature=true": "{plant}; git commit -qm planted",
}


@pytest.mark.parametrize("setting", spread(HIDING, quick=1, slow=2))
async def test_a_setting_of_the_persons_git_log_hides_nothing(top: Path, setting: str) -> None:
    git(top, "config", *setting.split("="))
    before = git(top, "rev-parse", "main")
    name = "sub" if "160000" in HIDING[setting] else ".envrc"
    planted = HIDING[setting].format(plant=PLANT.replace("NAME", name), name=name)
    agent = await worked(top, f"{planted}; git rm -q --cached {name}; git commit -qm gone")
    assert git(top, "rev-parse", "main") == before and any(f"{name} is a " in one for one in agent.said)


async def test_a_directory_that_would_be_a_repository_is_not_committed_in_one_step_or_in_two(top: Path) -> None:
    before = git(top, "rev-parse", "main")
    await worked(top, f"{REPOSITORY}; git add -f docs; git commit -qm repository")
    assert git(top, "rev-parse", "main") == before
    agent = await worked(
        top, "git add -f docs/objects docs/refs; git commit -qm parts; NEXT git add docs; git commit -qm head"
    )
    assert (
        git(top, "log", "--format=%s", "main").startswith("parts") and "docs/HEAD makes its directory" in agent.said[-1]
    )


REFS = {
    "a tag": "git tag v1",
    "a tag moved": "git tag -f v0 $(git commit-tree -m x HEAD^{tree})",
    "a branch": "git branch new",
    "a branch that is not checked out": "git branch -f side $(git commit-tree -m x HEAD^{tree})",
    "a branch of a remote": "git update-ref refs/remotes/origin/main $(git commit-tree -m x HEAD^{tree})",
    "the head of a remote": "git symbolic-ref refs/remotes/origin/HEAD refs/heads/side",
    "notes": "git notes add -m n",
    "replacements": "git replace HEAD $(git commit-tree -m x HEAD^{tree})",
    "a branch rewound": "git reset -q --hard HEAD~1",
    "a branch rewound and committed on": "git reset -q --soft HEAD~1; git commit -qm other",
    "a branch of no history": "git checkout -q --orphan o; git commit -qm o; git branch -fq main; git switch -q main",
    "a commit of the person amended": "git commit -q --amend -m mine",
    "a branch deleted": "git branch -D side",
    "a branch renamed": "git branch -m side else",
    "a stash": "echo x > file.txt; git stash -q",
    "an own namespace": "git update-ref refs/evil/x HEAD; git update-ref refs/treadle/base/x HEAD",
}


@pytest.mark.parametrize("way", spread(REFS, quick=6, slow=5))
async def test_a_ref_of_the_person_is_not_moved_made_or_deleted_in_silence(top: Path, way: str) -> None:
    git(top, "tag", "v0")
    git(top, "branch", "side")
    git(top, "update-ref", "refs/remotes/origin/main", "HEAD")
    (top / "file.txt").write_text("two\n")
    git(top, "commit", "-qam", "two")
    before = persons(top)
    agent = await worked(top, REFS[way])
    assert persons(top) == before and git(top, "rev-parse", "HEAD") == git(top, "rev-parse", "main")
    assert agent.said or way in ("the head of a remote", "an own namespace")


@pytest.mark.long
async def test_5000_refs_are_put_apart_in_one_step(top: Path) -> None:
    agent = Working(top)
    before = persons(top)
    await agent.ok("for i in $(seq 5000); do echo create refs/heads/b$i HEAD; done | git update-ref --stdin")
    assert persons(top) == before and "b1, b10, b100, b1000, b1001 and 4995 more" in agent.said[0]
    assert len(git(top, "for-each-ref", "refs/treadle/from/s1").splitlines()) == 5000
    agent.confining.close()


async def test_branches_that_cannot_be_put_apart_are_kept_in_the_agents_repository(top: Path) -> None:
    agent = await worked(top, "git branch a NEXT git branch -D a; git branch a/b $(git commit-tree -m x HEAD^{tree})")
    assert "the agent's other branches and tags stay in its own repository" in agent.said[-1]
    assert Path(agent.confining.sealing.made[0].private, "refs/heads/a/b").exists()


OBEYED = {
    "AGENTS.md": "one\n",
    ".npmrc": "a=1\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".husky/pre-commit": "true\n",
    "x.code-workspace": "{}",
}


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """A checkout whose branches differ in files that other programs obey."""
    top = checkout(tmp_path / "w")
    for name, text in OBEYED.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    git(top, "add", ".")
    git(top, "commit", "-qm", "two")
    git(top, "switch", "-qc", "other")
    (top / "AGENTS.md").write_text("other\n")
    (top / ".github/workflows/ci.yml").write_text("on: pull_request\n")
    (top / ".github/workflows/more.yml").write_text("on: push\n")
    (top / ".tool").mkdir()
    (top / ".tool/settings").write_text("x\n")
    git(top, "rm", "-q", ".npmrc")
    git(top, "add", ".")
    git(top, "commit", "-qm", "other")
    git(top, "switch", "-q", "main")
    (top / "file.txt").write_text("three\n")
    git(top, "commit", "-qam", "three")
    return top


ORDINARY = {
    "switch": "git switch -q other",
    "switch and back": "git switch -q other && git switch -q main",
    "switch by two commands": "git switch -q other NEXT git switch -q main",
    "merge": "git merge -q -m m other",
    "merge of the other side": "git switch -q other && git merge -q -m m main",
    "rebase": "git switch -q other && git rebase -q main",
    "rebase by two commands": "git switch -q other NEXT git rebase -q main",
    "cherry-pick": "git cherry-pick other",
    "revert": "git switch -q other NEXT git revert --no-edit HEAD",
    "an old commit": "git checkout -q --detach HEAD~2",
    "files of another branch": "git checkout -q other -- AGENTS.md .github .tool",
    "stash": "echo x > file.txt; git stash -q; git stash pop -q; git checkout -q .",
    "bisect": "git bisect start HEAD HEAD~2; git bisect good; git bisect reset",
    "worktree": "git worktree add -q tree other; git -C tree status; test -e tree/.tool/settings",
    "commits": "echo x > new.txt; git add new.txt; git commit -qm new; git commit -q --amend -m newer",
    "usual dot files": "mkdir -p .venv/bin .pytest_cache; touch .venv/bin/x .pytest_cache/x .gitignore .env .coverage",
    "an own branch": "git switch -qc mine; echo x > a.txt; git add a.txt; git commit -qm a",
}


@pytest.mark.parametrize("work", spread(ORDINARY, quick=3, slow=4))
async def test_ordinary_git_work_between_branches_that_differ_in_obeyed_files(branches: Path, work: str) -> None:
    agent = Working(branches, mode="full-auto")
    for part in ORDINARY[work].split("NEXT"):
        await agent.ok(part)
    await agent.confining.finish(agent.said.append)
    inside = await agent.ok("git rev-parse HEAD; git status --porcelain -uno")
    agent.confining.close()
    told = [one for one in agent.said if "kept as refs/treadle/stash/" not in one and "made or moved" not in one]
    assert (
        told == []
        and f"{git(branches, 'rev-parse', 'HEAD')}\n{git(branches, 'status', '--porcelain', '-uno')}".strip() == inside
    )


FILES = {
    "a new name": "mkdir .vscode; echo x > .vscode/tasks.json",
    "a new dot file at the top": "mkdir .kimi; echo x > .kimi/mcp.json; echo y > .unheard",
    "a changed file that differs between branches": "echo evil > AGENTS.md",
    "one that is switched to and changed": "git switch -q other; echo evil | tee AGENTS.md .github/workflows/more.yml",
    "a new file among those of a branch": "git checkout -q other -- .github; echo evil > .github/workflows/evil.yml",
    "an executable bit": "chmod +x AGENTS.md .github/workflows/ci.yml",
    "a link": "rm AGENTS.md; ln -s file.txt AGENTS.md",
    "a directory": "rm AGENTS.md; mkdir AGENTS.md; echo x > AGENTS.md/x",
    "all removed": "rm -rf .github AGENTS.md",
    "rights taken from a directory": "mkdir .vscode; echo x > .vscode/tasks.json; chmod 500 .vscode",
    "a directory that cannot be listed": "mkdir -p docs/.vscode; echo x > docs/.vscode/tasks.json; chmod 311 docs",
    "a FIFO": "mkdir .vscode; mkfifo .vscode/tasks.json; echo x > .vscode/settings.json",
    "a failing command": "mkdir .vscode; echo x > .vscode/tasks.json; exit 1",
    "a link to half of a name": "mkdir -p cfg docs; echo x > cfg/config.toml; ln -s ../cfg docs/.cargo",
    "rights taken from a directory above": "mkdir -p docs/.vscode; echo x > docs/.vscode/x; chmod 555 docs",
    "an ignore rule that it commits": "echo .kimi > .gitignore; git add .; git commit -qm i NEXT echo x > .kimi",
    "empty directories first": "mkdir .vscode $(seq -f .a%03.0f 100) NEXT echo x | tee AGENTS.md .vscode/tasks.json",
    **{
        f"{line!r} in a name": f'd=$(printf \'a{line}b/.cursor\'); mkdir -p "$d"; echo x | tee "$d/x" .kimi'
        for line in ("\\f", "\\r", "\\n", "\\302\\205", "\\342\\200\\250", " tree")
    },
}


@pytest.mark.parametrize("way", spread(FILES, quick=8, slow=6))
async def test_a_planted_file_is_taken_out_and_what_was_there_is_as_it_was(branches: Path, way: str) -> None:
    known = {"one\n", "other\n", "on: push\n", "on: pull_request\n", "x\n", "true\n", "a=1\n", "{}"}
    agent = await worked(branches, FILES[way], mode="full-auto")
    assert any("taken out of the workspace" in one for one in agent.said), agent.said
    (branches / "docs").chmod(0o755) if (branches / "docs").exists() else None
    for name in (*OBEYED, ".github/workflows/more.yml", ".github/workflows/evil.yml"):
        place = branches / name
        assert not os.path.lexists(place) or place.is_file() and not place.is_symlink() and place.read_text() in known
    assert (branches / "AGENTS.md").exists() and (branches / ".github/workflows/ci.yml").stat().st_mode & 0o100 == 0
    for name in (".vscode", ".kimi", ".unheard", "docs/.vscode", "docs/.cargo", ".a000", ".a099"):
        assert not os.path.lexists(branches / name)
    assert [*branches.glob("a*/.cursor")] == []


@pytest.mark.parametrize("there", [True, False])
async def test_a_program_that_the_persons_git_runs_is_as_it_was(top: Path, there: bool) -> None:
    program = top / "tools/clean.sh"
    program.parent.mkdir()
    if there:
        program.write_text("cat\n")
    agent = await worked(top, "echo evil > y; mv -f y tools/clean.sh NEXT echo evil > tools/clean.sh", mode="full-auto")
    assert program.read_text() == "cat\n" if there else not program.exists()
    assert there or "tools/clean.sh" in agent.said[0]


async def test_more_obeyed_files_than_can_be_mounted_are_as_they_were(branches: Path) -> None:
    for number in range(120):
        (branches / f"p{number}").mkdir()
        (branches / f"p{number}" / ".npmrc").write_text("mine\n")
    (branches / "q/r/.cursor").mkdir(parents=True)
    (branches / "q/r/.cursor/x").write_text("mine\n")
    agent = Working(branches, mode="full-auto")
    await agent.ok("echo evil > q/r/.cursor/x; rm -rf p99/.npmrc; echo evil > q/r/.cursor/y")
    agent.confining.close()
    assert "q/r/.cursor/y" in agent.said[0] and not (branches / "q/r/.cursor/y").exists()
    assert (branches / "q/r/.cursor/x").read_text() == (branches / "p99/.npmrc").read_text() == "mine\n"


async def test_a_planted_file_that_cannot_be_taken_out_is_not_committed(branches: Path) -> None:
    (Path(private_dir(os.path.join(state_dir(), "removed"))) / "s1").touch()  # where it is a directory otherwise
    before = git(branches, "rev-parse", "main")
    agent = await worked(
        branches, "echo x > .envrc; git add -f .; git commit -qm planted NEXT git commit -q --amend -m b", "full-auto"
    )
    assert "it could not be moved" in agent.said[0] and (branches / ".envrc").exists()
    assert git(branches, "rev-parse", "main") == before and not git(branches, "ls-files", ".envrc")


async def test_a_link_to_half_of_a_name_is_not_committed(top: Path) -> None:
    before = git(top, "rev-parse", "main")
    link = PLANT.replace("100755", "120000").replace("NAME", "docs/.cargo")
    agent = await worked(top, f"{link}; git commit -qm link")
    assert git(top, "rev-parse", "main") == before and "docs/.cargo is a file that other programs" in agent.said[0]


async def test_nothing_passes_a_gate_that_fails(branches: Path) -> None:
    agent = Working(branches, mode="full-auto")
    await agent.ok("true")
    check = agent.confining.watching(None)()
    await sh(agent.confining.now(), "echo x > .envrc", branches)
    shutil.move(branches / ".git/objects", branches.parent / "objects")
    with pytest.raises(Denied, match=r"\.envrc \(now "):
        check()
    shutil.move(branches.parent / "objects", branches / ".git/objects")
    agent.confining.close()
    assert not (branches / ".envrc").exists()


async def test_what_a_rule_allows_passes_as_a_file_and_as_a_commit(branches: Path) -> None:
    agent = Working(branches, mode="full-auto", rules=Rules(allow=("Write(AGENTS.md)", "Write(.kimi/**)")))
    await agent.ok("echo mine > AGENTS.md; mkdir .kimi; echo x > .kimi/x; git add .; git commit -qm allowed")
    agent.confining.close()
    assert agent.said == [] and git(branches, "log", "-1", "--format=%s") == "allowed"


async def test_what_a_background_program_leaves_between_two_commands_is_not_the_persons(branches: Path) -> None:
    agent = Working(branches, mode="full-auto")
    await agent.ok("true")
    ran = asyncio.create_task(
        sh(agent.confining.now(), "until test -e go; do sleep 0.01; done; echo x > .envrc", branches)
    )
    while not activity([str(branches)])[1]:
        await asyncio.sleep(0)
    (branches / "go").touch()
    await ran
    await agent.confining.finish(agent.said.append)
    agent.confining.close()
    assert not (branches / ".envrc").exists() and ".envrc" in agent.said[-1]


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.agent.checkouts import Working
async def main():
    agent = Working(Path(sys.argv[1]), session="killed", mode="full-auto")
    print("ready", flush=True)
    await agent.run(sys.argv[2] + "; touch planted; sleep 60")
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "way", ["a new name", "a new dot file at the top", "a changed file that differs between branches", "all removed"]
)
async def test_after_kill_9_the_next_session_takes_out_what_was_planted(branches: Path, way: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(branches), FILES[way]], stdout=subprocess.PIPE)
    try:
        while not (branches / "planted").exists():
            assert process.poll() is None
            await asyncio.sleep(0.01)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    (branches / "mine").write_text("of the person")
    agent = Working(branches, mode="full-auto")
    await agent.ok("true")
    agent.confining.close()
    assert any("session killed, which was killed" in one for one in agent.said), agent.said
    assert git(branches, "status", "--porcelain", "--untracked-files=all").splitlines() == ["?? mine", "?? planted"]


def script(place: Path, *calls: tuple[str, dict[str, str]]) -> Path:
    """A model that makes these calls, one after the other."""
    texts = []
    for name, arguments in calls:
        given = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
        texts.append(f'[[reply]]\n[[reply.call]]\nname = "{name}"\narguments = {{ {given} }}\n')
    path = place / "script.toml"
    path.write_text("".join([*texts, '[[reply]]\ntext = "done"\n']))
    return path


def prompt(top: Path, model: Path) -> subprocess.Popen[bytes]:
    words = ["-p", "go", "--model", f"scripted:{model}", "--permission-mode", "full-auto"]
    return subprocess.Popen([TREADLE, *words], cwd=top, stderr=subprocess.PIPE)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
async def test_what_a_stopped_run_has_planted_is_taken_out(
    branches: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    command = "mkdir .vscode; echo x > .vscode/tasks.json; echo evil > AGENTS.md; touch planted; sleep 60"
    process = prompt(branches, script(tmp_path, ("bash", {"command": command})))
    while not (branches / "planted").exists():
        assert process.poll() is None
        await asyncio.sleep(0.01)
    process.send_signal(sent)
    _, told = process.communicate(timeout=60)
    assert not (branches / ".vscode").exists() and (branches / "AGENTS.md").read_text() == "one\n"
    assert b".vscode (now " in told and git(branches, "status", "--porcelain") == "?? planted"


def test_a_repository_and_a_dot_file_that_a_tool_of_ours_writes_are_taken_out(branches: Path, tmp_path: Path) -> None:
    parts = ["docs/HEAD", "docs/config", "docs/objects/k", "docs/refs/k", ".kimi/mcp.json", "plain.txt"]
    calls = [("write_file", {"path": name, "content": "ref: refs/heads/x\n"}) for name in parts]
    _, told = prompt(branches, script(tmp_path, *calls)).communicate(timeout=60)
    assert b"the agent made " in told and (branches / "plain.txt").exists()
    assert not (branches / "docs/HEAD").exists() and not (branches / ".kimi").exists()
