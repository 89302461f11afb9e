"""Ways in which files that an agent left can make a git that looks at them run a program of the agent's.

Each is a piece of shell, run in the workspace. `$EVIL NAME` is the program: once the agent has ended, it leaves a
canary with that name. A set of ways can be planted together; those of one set do not disturb each other.

As a program it plants sets in confined runs, as the user and with the method that it finds, and prints what went wrong.
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

from tests.host.conftest import QUICK, order
from tests.stand_ins import bad_sidecar
from tests.workspace.repositories import make
from treadle.host.job import Backend, Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.session import Confinement
from treadle.workspace.workspace import WorkspaceMode

SETS: dict[str, dict[str, str]] = {
    "config": {
        "clean": 'git config filter.c.clean "$EVIL clean"; echo "*.c1 filter=c" >> .gitattributes; echo 1 > x.c1',
        "smudge": 'git config filter.s.smudge "$EVIL smudge"; echo "*.s1 filter=s" >> .gitattributes; echo 1 > x.s1',
        "process": 'git config filter.p.process "$EVIL process"; echo "*.p1 filter=p" >> .gitattributes; echo 1 > x.p1',
        "fsmonitor": 'git config core.fsmonitor "$EVIL fsmonitor"',
        "external-diff": 'git config diff.external "$EVIL external-diff"',
        "diff-command": 'git config diff.d.command "$EVIL diff-command"; echo "*.txt diff=d" >> .gitattributes',
        "textconv": 'git config diff.t.textconv "$EVIL textconv"; echo "*.t1 diff=t" >> .gitattributes; echo 1 > x.t1',
        "merge-driver": 'git config merge.m.driver "$EVIL merge-driver"; echo "*.txt merge=m" >> .gitattributes',
        "include": 'printf "[core]\\n\\tpager = $EVIL include\\n" > more.cfg; git config include.path "$PWD/more.cfg"',
        "include-if": 'printf "[core]\\n\\tsshCommand = $EVIL include-if\\n" > if.cfg;'
        ' git config "includeIf.gitdir:/.path" "$PWD/if.cfg"',
        "worktree-config": "git config extensions.worktreeConfig true;"
        ' git config --worktree diff.w.textconv "$EVIL worktree-config"; echo "*.w1 diff=w" >> .gitattributes;'
        " echo 1 > x.w1",
        "hooks": 'd=$(git rev-parse --git-path hooks); mkdir -p "$d"; for h in pre-commit post-commit post-checkout'
        " post-index-change reference-transaction post-merge pre-auto-gc fsmonitor-watchman; do"
        ' printf "#!/bin/sh\\n$EVIL hooks\\n" > "$d/$h"; chmod +x "$d/$h"; done',
        "hooks-path": 'mkdir -p tracked-hooks; cp "$(git rev-parse --git-path hooks)"/* tracked-hooks/ 2>/dev/null;'
        ' printf "#!/bin/sh\\n$EVIL hooks-path\\n" > tracked-hooks/post-index-change; chmod +x tracked-hooks/*;'
        ' git config core.hooksPath "$PWD/tracked-hooks"',
        "pager": 'git config pager.diff "$EVIL pager"; git config pager.status "$EVIL pager"',
        "alias": 'for a in status diff-tree add ls-tree cat-file; do git config alias.$a "!$EVIL alias"; done',
        "credential": 'git config credential.helper "!$EVIL credential"; git config remote.o.url https://localhost:1/x',
        "gpg": 'git config gpg.program "$EVIL gpg"; git config commit.gpgSign true',
        "editor": 'git config core.editor "$EVIL editor"; git config sequence.editor "$EVIL editor"',
        "pack-hook": 'git config uploadpack.packObjectsHook "$EVIL pack-hook"',
        "alternate-refs": 'git config core.alternateRefsCommand "$EVIL alternate-refs"',
        "askpass": 'git config core.askPass "$EVIL askpass"; git config core.gitProxy "$EVIL askpass"',
        "a-git-of-its-own": 'printf "#!/bin/sh\\n$EVIL a-git-of-its-own\\n" > git; chmod +x git;'
        " mkdir -p bin; cp git bin/git",
    },
    "nested": {
        "gitlink": "git init -q n; (cd n; echo 1 > f; git add f; git -c user.name=a -c user.email=a@b commit -qm n;"
        ' git config filter.e.clean "$EVIL gitlink"; echo "* filter=e" > .gitattributes;'
        ' git config core.fsmonitor "$EVIL gitlink"); git add n 2>/dev/null; echo 2 > n/f',
        "submodule": "git init -q m; (cd m; echo 1 > f; git add f; git -c user.name=a -c user.email=a@b commit -qm m;"
        ' git config core.fsmonitor "$EVIL submodule"; echo 2 > f);'
        ' printf "[submodule \\"m\\"]\\n\\tpath = m\\n\\turl = ./m\\n\\tupdate = !$EVIL submodule\\n" > .gitmodules',
        "modules": 'g=$(git rev-parse --git-dir); mkdir -p k; git init -q --bare "$g/modules/a/b";'
        ' git --git-dir "$g/modules/a/b" config core.fsmonitor "$EVIL modules";'
        ' git --git-dir "$g/modules/a/b" config core.bare false;'
        ' echo "gitdir: ../$g/modules/a/b" > k/.git; echo 1 > k/f',
        "file-below": 'git init -q --separate-git-dir "$PWD/elsewhere" p;'
        ' git -C p config core.fsmonitor "$EVIL file-below"; echo 1 > p/f',
    },
    "git-file": {
        "git-is-a-file": 'git init -q evil-repo; git -C evil-repo config core.fsmonitor "$EVIL git-is-a-file";'
        ' git -C evil-repo config core.worktree "$PWD"; mv .git .git-before 2>/dev/null;'
        ' echo "gitdir: $PWD/evil-repo/.git" > .git',
    },
    "git-link": {
        "git-is-a-link": 'git init -q evil-repo; git -C evil-repo config core.fsmonitor "$EVIL git-is-a-link";'
        " mv .git .git-before 2>/dev/null; ln -s evil-repo/.git .git",
    },
}
WAYS = [(name, way) for name, ways in SETS.items() for way in ways]


def evil(place: Path) -> Path:
    """The program of the agent's: it leaves a canary, but only after the agent has ended."""
    made = place / "evil"
    made.write_text(f'#!/bin/sh\n[ -e {place}/ended ] && touch {place}/canary-"$1"\ncat 2>/dev/null\nexit 0\n')
    made.chmod(0o755)
    return made


def script(name: str, place: Path) -> str:
    """Plants a whole set, and lets the agent end with a change that is its ordinary work."""
    has_one = "git rev-parse --show-toplevel >/dev/null 2>&1 && [ -e .git ] || git init -q ."
    ways = "\n".join(SETS[name].values())
    work = f'echo "the work" > work.txt\necho two > a.txt\ntouch {place}/ended\n'
    return f"EVIL={evil(place)}\n{has_one}\n{ways}\n{work}"


def canaries(place: Path) -> set[str]:
    return {path.name.removeprefix("canary-") for path in place.glob("canary-*")}


ACT = "runs_its_task_and_does_not_say_so"


async def attempt(place: Path, name: str, mode: WorkspaceMode) -> list[str]:
    """One confined run. Canaries can be left at any time, because they lie where nothing inside can write."""
    repository = make(place / "repo")
    # Ours may lie where another user cannot look; what the sidecar needs is in every Python.
    interpreter = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    (place / "bin").mkdir()
    sidecar = Path(shutil.copy(str(bad_sidecar.__file__), place / "bin"))
    (place / "ended").touch()
    job = Job(
        order=order(Path(repository.top), task=script(name, place)),
        backend=Backend(
            name="scripted", argv=(interpreter, "-I", "-S", str(sidecar), "runs_its_task_and_does_not_say_so")
        ),
        timing=QUICK,
        mode=mode,
        apply=True,
        anyway=True,
        check="cat a.txt",
        confinement=Confinement(use="on"),
    )
    receipt = await HostRun(job, ReceiptStore()).run()
    wrong = [f"ran: {one}" for one in canaries(place)]
    wrong += [] if receipt.outcome == "complete" else [f"{receipt.outcome}: {receipt.usage_raw['treadle']['end']}"]
    return wrong + ([] if Path(repository.top, "a.txt").read_text() == "two\n" else ["its work did not arrive"])


async def main(base: Path) -> dict[str, list[str]]:
    modes: tuple[WorkspaceMode, ...] = ("worktree", "pass_through")
    return {f"{name} {mode}": await attempt(base / f"{name}-{mode}", name, mode) for name in SETS for mode in modes}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
