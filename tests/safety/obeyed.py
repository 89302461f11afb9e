"""Files that other programs obey later, and a listener on this machine: what a confined command does to them.

`python obeyed.py DIRECTORY` tries it as the user that it runs as, and prints what came of it as JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.io.sandbox.rooms import sh
from treadle.errors import ConfigError, Denied
from treadle.io.paths import DISK
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Confinement, Rules

FILES = [
    *(".husky/pre-commit", ".githooks/pre-push", ".github/workflows/ci.yml", ".github/actions/a/action.yml"),
    *(".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".zed/tasks.json", "x.code-workspace"),
    *(".devcontainer/devcontainer.json", ".envrc", ".npmrc", ".yarnrc.yml", ".yarn/releases/yarn.cjs", ".pypirc"),
    *(".cargo/config.toml", ".mvn/jvm.config", ".bazelrc", ".tool-versions", "mise.toml", ".pre-commit-config.yaml"),
    *("lefthook.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", ".travis.yml", ".gdbinit", ".exrc"),
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md", ".mcp.json"),
    *(
        ".claude/settings.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".cursor/mcp.json",
        ".treadle/config.toml",
    ),
    *(".opencode/opencode.json", ".agents/skills/a/SKILL.md", ".dir-locals.el"),
]
DEPTHS = ["", "packages/one/"]
ATTACK = """
import os, shutil, sys
def tried(way, *given):
    try: way(*given)
    except OSError: pass
def write(name):
    with open(name, "w") as file: file.write("evil")
for name in sys.argv[1:]:
    top = name.split("/")[0]
    for way in (write, os.remove, os.truncate, os.rename, os.replace, os.symlink, os.rmdir):
        given = {os.truncate: (name, 0), os.rename: (name, "moved")}
        given |= {os.replace: ("mine", name), os.symlink: ("mine", name)}
        write("mine")
        tried(way, *given.get(way, (name,)))
    tried(os.rename, top, "elsewhere")
    tried(os.rename, os.path.dirname(name) or top, "elsewhere")
    shutil.rmtree(top, ignore_errors=True)
"""


def every() -> list[str]:
    return [depth + name for depth in DEPTHS for name in FILES]


def confining(place: Path, asked: Confinement) -> Confining:
    made = Confining(str(place), (), asked, session="s")
    made.obey(RuleSet(Rules(), str(place), DISK), "full-auto")
    return made


async def main(base: Path) -> dict[str, list[str]]:
    old, new = base / "old", base / "new"
    for name in every():
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text("as it was")
    (old / "attack.py").write_text(ATTACK)
    new.mkdir()
    found = {"changed": await _attacked(old), "left": await _planted(new)}
    return {**found, "hidden": await _hidden(base / "hidden"), "sent": await _sent(new)}


async def _hidden(place: Path) -> list[str]:
    """What is left where a command takes our rights to look, and to move things."""
    place.mkdir()
    made = confining(place, Confinement(use="on"))
    check = made.watching(None)()
    plant = "mkdir -p {0}/.vscode; echo x > {0}/.vscode/t; "
    plants = plant.format(".") + plant.format("d") + plant.format("e/f") + "mkfifo .vscode/fifo; "
    await sh(made.now(), f"{plants} chmod 500 .vscode; chmod 311 d; chmod 000 e/f e", place)
    _told(check)
    made.close()
    return [name for name in (".vscode", "d/.vscode", "e/f/.vscode") if os.path.lexists(place / name)]


async def _attacked(place: Path) -> list[str]:
    made = confining(place, Confinement(use="on"))
    check = made.watching(None)()
    await sh(made.now(), f"python3 -I -S attack.py {' '.join(every())}", place)
    _told(check)
    made.close()
    return [name for name in every() if not (place / name).is_file() or (place / name).read_text() != "as it was"]


async def _planted(place: Path) -> list[str]:
    made = confining(place, Confinement(use="on"))
    check = made.watching(None)()
    above = " ".join({os.path.dirname(name) or "." for name in every()})
    await sh(made.now(), f"mkdir -p {above}\n" + "\n".join(f"echo evil > {name}" for name in every()), place)
    _told(check)
    made.close()
    return [name for name in every() if os.path.lexists(place / name)]


def _told(check: Callable[[], None]) -> None:
    with suppress(Denied):
        check()


async def _sent(place: Path) -> list[str]:
    """What a listener hears of commands with the network off, and of one outside."""
    heard: list[str] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readline()).decode())
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        made = confining(place, Confinement(use="on", network="off"))
        tries = (f"exec 9<>/dev/tcp/127.0.0.1/{port}; echo x >&9", f"curl -s --noproxy '*' http://127.0.0.1:{port}/")
        try:
            for one in tries:
                await sh(made.now(), one, place)
        except ConfigError:
            return ["refused to run"]
        finally:
            made.close()
        await sh(None, tries[0].replace("x >", "free >"), place)
        async with asyncio.timeout(60):
            while "free\n" not in heard:
                await asyncio.sleep(0.02)
    return heard


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
