"""What crosses from an agent's repository into the person's: planted commits, indexes and refs, and ordinary git work.

Each is judged by what the person has afterwards: their refs and their index.
"""

from pathlib import Path

import pytest

from tests.agent.checkouts import Working, checkout, git, refs
from treadle.io.sandbox import methods

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")

PLANTED = [
    *(".husky/pre-commit", ".github/workflows/x.yml", ".vscode/tasks.json", ".envrc", ".claude/settings.json"),
    *("AGENTS.md", "deep/down/.npmrc", "x.code-workspace", "tools/hooks/post-checkout", "tools/clean.sh"),
    *(".kimi/mcp.json", ".unheard-of", ".unheard/of/it", "docs/HEAD"),
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


async def worked(top: Path, command: str) -> Working:
    agent = Working(top)
    for part in command.split("NEXT"):
        await agent.run(part)
    agent.confining.close()
    return agent


@pytest.mark.parametrize("way", COMMITS)
async def test_a_planted_file_reaches_no_ref_and_no_index(top: Path, way: str) -> None:
    names = PLANTED if way == "a commit from the index" else [".husky/pre-commit", ".unheard/of/it"]
    for name in (one for one in names if one != "docs/HEAD"):
        before = git(top, "ls-files", "-s")
        agent = await worked(top, COMMITS[way].format(plant=PLANT.replace("NAME", name), name=name))
        assert git(top, "ls-files", "-s") == before, name
        assert not any(name in git(top, "ls-tree", "-r", line.split()[0]) for line in persons(top)), name
        assert any(name in said for said in agent.said), (name, agent.said)


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


@pytest.mark.parametrize("way", REFS)
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


async def test_5000_refs_are_put_apart_in_one_step(top: Path) -> None:
    agent = Working(top)
    before = persons(top)
    await agent.ok("for i in $(seq 5000); do echo create refs/heads/b$i HEAD; done | git update-ref --stdin")
    assert persons(top) == before and "b1, b10, b100, b1000, b1001 and 4995 more" in agent.said[0]
    assert len(git(top, "for-each-ref", "refs/treadle/from/s1").splitlines()) == 5000
    agent.confining.close()
