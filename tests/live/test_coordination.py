"""Claude Code and Codex, the real programs, in two worktrees of one repository: claims bind what they write and commit.

`treadle coord setup` is what people type, and what git does to the worktrees in between costs nobody a claim.
"""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import BIN, git
from tests.drivers.programs import PROGRAMS, environment
from tests.drivers.scenarios import USED
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.coordination.identity import SESSION_VARIABLES
from treadle.testing.server import ModelServer

COMMANDS = {
    "claude": "claude -p begin --permission-mode acceptEdits --allowedTools Bash,Write,mcp__heimdall",
    "codex": "codex exec --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check begin",
    "gemini": "gemini --approval-mode yolo -p begin",
    "opencode": "opencode run begin",
    "qwen": "qwen --approval-mode yolo -p begin",
    "copilot": "copilot --allow-all-tools --allow-all-paths --trust-folder -p begin",
}
CLAIM = {"claude": "mcp__heimdall__make_claim", "codex": "mcp__heimdall::make_claim"}
CLAIM |= {"gemini": "mcp_heimdall_make_claim", "opencode": "heimdall_make_claim"}
CLAIM |= {"qwen": "mcp__heimdall__make_claim", "copilot": "heimdall-make_claim"}
SIX = ("read_claims", "make_claim", "release_claim", "read_capsules", "append_decision", "raise_conflict_pr")
Call = tuple[str, dict[str, Any]]


def claim(name: str, *surfaces: str) -> Call:
    return tool(name, "make_claim", surfaces=list(surfaces), task="T-1")


def tool(name: str, what: str, **arguments: Any) -> Call:
    """A tool of the server, as the model of this program calls it."""
    return CLAIM[name].replace("make_claim", what), arguments


def tools_size(given: Any) -> int:
    """Bytes of a request that describe tools of the server, without what the program adds to every tool of its own."""
    if isinstance(given, dict) and "heimdall" in str(given.get("name")):
        json_text = json.dumps(given, separators=(",", ":"))
        return len(re.sub(r'"wait_for_previous":\{[^}]*\},?', "", json_text))
    inside = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return sum(map(tools_size, inside))


async def run(name: str, home: Path, cwd: Path, *calls: Call, fresh: bool = True) -> str:
    """Have the program make these calls, one after the other; gives everything that its model was told."""
    replies = [
        ScriptedReply(call=(CallLine(name=called, arguments=arguments, id=f"call_{number}"),), usage=USED)
        for number, (called, arguments) in enumerate(calls)
    ]
    title = ScriptedReply(system="You are a title generator", text="A title", usage=USED, times="always")
    done = ScriptedReply(text="done", usage=USED, times="always")
    async with ModelServer(Script(reply=(title, *replies, done))) as server:
        env = environment(name, home, server.url, fresh=fresh)
        env |= {"PATH": f"{BIN}:{env['PATH']}", "GIT_CONFIG_NOSYSTEM": "1", "TREADLE_HOME": os.environ["TREADLE_HOME"]}
        for settings in (home / "codex" / "config.toml", home / ".config" / "opencode" / "opencode.json"):
            if settings.exists():  # of an earlier run, with the address of an earlier model
                text = re.sub(r"http://127\.0\.0\.1:\d+", server.url, settings.read_text())
                settings.write_text(text.replace('"ask"', '"allow"'))  # no one is there to ask
        process = await asyncio.create_subprocess_exec(
            *COMMANDS[name].split(), cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), 300)
        finally:
            if process.returncode is None:
                process.kill()
        bodies = [request.body for request in server.asked]
        told = json.dumps(bodies[-1:])
        begun = [body for body in map(json.dumps, bodies) if "title generator" not in body]
    (home / "first.txt").write_text(begun[0])
    (home / "last.txt").write_text(f"{out.decode()}\n{err.decode()}\n{told}")
    return told


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two worktrees of a repository with the guard installed."""
    for variable in (*SESSION_VARIABLES, "HEIMDALL_HAID", "HEIMDALL_PLANNING_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "state"))
    one, other = tmp_path / "one", tmp_path / "two"
    (one / "src").mkdir(parents=True)
    (one / "src" / "a.py").write_text("a = 1\n")
    git(tmp_path, "init", "-q", "-b", "main", str(one))
    git(one, "config", "user.email", "ann@example.org")
    git(one, "config", "user.name", "Ann")
    git(one, "add", ".")
    git(one, "commit", "-qm", "start")
    git(one, "worktree", "add", "-q", str(other), "-b", "second")
    subprocess.run(["heimdall-claim", "guard", "install"], cwd=one, check=True)
    return one, other


def set_up(name: str, cwd: Path, home: Path, *more: str) -> None:
    env = {**os.environ, "HOME": str(home), "CODEX_HOME": str(home / "codex")}
    subprocess.run(["treadle", "coord", "setup", name, *more], cwd=cwd, env=env, check=True)


def holders(cwd: Path) -> list[str]:
    told = subprocess.check_output(["heimdall-claim", "list", "--json"], cwd=cwd, text=True)
    return [claim["haid"].partition("/")[2] for claim in json.loads(told)]


async def test_two_programs_in_two_worktrees(two: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    one, other = two
    homes = {name: tmp_path_factory.mktemp(name) for name in ("claude", "codex")}
    set_up("claude", one, homes["claude"])
    write = PROGRAMS["claude"].tools.write(str(one / "src" / "a.py"), "a = 2\n")
    commit = PROGRAMS["claude"].tools.shell("git commit -qam 'a is two' && git log --oneline | head -1")
    read = ("Read", {"file_path": str(one / "src" / "a.py")})
    told = await run("claude", homes["claude"], one, claim("claude", "src/**"), read, write, commit)
    assert holders(other) == ["claude-code"]
    assert "a is two" in git(one, "log", "--oneline"), told  # its own commit went through
    for words in (["stash", "-u"], ["clean", "-fdxq"], ["checkout", "-q", "--detach"], ["rebase", "-q", "main"]):
        git(one, *words)
        assert holders(one) == ["claude-code"], words

    (homes["codex"] / "trust").mkdir()
    environment("codex", homes["codex"], "http://127.0.0.1:1")  # its home, as the program itself would make it
    config = homes["codex"] / "codex" / "config.toml"
    config.write_text(config.read_text() + f'\n[projects."{one}"]\ntrust_level = "trusted"\n')
    set_up("codex", other, homes["codex"], "--trust")
    codex = PROGRAMS["codex"].tools
    patch = codex.shell(
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/a.py\n@@\n-a = 1\n+a = 3\n*** End Patch\nEOF"
    )
    told = await run("codex", homes["codex"], other, patch, claim("codex", "src/a.py"), fresh=False)
    assert "COLLISION" in told and "claude-code" in told, (homes["codex"] / "last.txt").read_text()
    assert (other / "src" / "a.py").read_text() == "a = 1\n"
    assert holders(one) == ["claude-code"]
    who = subprocess.check_output(["treadle", "coord", "who"], cwd=one, text=True)
    assert "waited for by" in who and "codex-mcp-client" in who

    holder = json.loads(subprocess.check_output(["heimdall-claim", "list", "--json"], cwd=one))[0]["haid"]
    subprocess.run(["heimdall-claim", "release"], cwd=one, env={**os.environ, "HEIMDALL_HAID": holder}, check=True)
    commit = codex.shell("git commit -qam 'a is three'")
    await run("codex", homes["codex"], other, claim("codex", "src/a.py"), patch, commit, fresh=False)
    assert "a is three" in git(other, "log", "--oneline"), (homes["codex"] / "last.txt").read_text()
    assert holders(one) == ["codex-mcp-client"]
    git(one, "worktree", "remove", "--force", str(other))
    assert holders(one) == ["codex-mcp-client"]


async def test_two_programs_in_two_clones(two: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    one, _ = two
    base = tmp_path_factory.mktemp("clones")
    homes = {name: tmp_path_factory.mktemp(name) for name in ("claude", "codex")}
    git(base, "clone", "-q", "--bare", str(one), str(base / "shop.git"))
    git(one, "remote", "add", "origin", str(base / "shop.git"))
    git(base, "clone", "-q", str(base / "shop.git"), str(base / "other"))
    set_up("claude", one, homes["claude"], "--share", "origin")
    environment("codex", homes["codex"], "http://127.0.0.1:1")
    config = homes["codex"] / "codex" / "config.toml"
    config.write_text(config.read_text() + f'\n[projects."{base / "other"}"]\ntrust_level = "trusted"\n')
    set_up("codex", base / "other", homes["codex"], "--trust", "--share", "origin")
    await run("claude", homes["claude"], one, claim("claude", "src/**"))
    patch = PROGRAMS["codex"].tools.shell("echo 'a = 3' > src/a.py")
    elsewhere = PROGRAMS["codex"].tools.shell("echo x > notes.txt")
    calls = (claim("codex", "src/a.py"), patch, elsewhere)
    told = await run("codex", homes["codex"], base / "other", *calls, fresh=False)
    assert told.count("COLLISION") >= 2 and "claude-code" in told, (homes["codex"] / "last.txt").read_text()
    assert (base / "other" / "src" / "a.py").read_text() == "a = 1\n" and (base / "other" / "notes.txt").exists()
    who = subprocess.check_output(["treadle", "coord", "who"], cwd=base / "other", text=True)
    assert "waits for src/a.py" in who and "claude-code" in who


@pytest.mark.parametrize("name", ["gemini", "opencode", "qwen", "copilot"])
async def test_another_program_is_refused_and_then_granted(
    name: str, two: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, other = two
    home = tmp_path_factory.mktemp(name)
    set_up(name, other, home)
    bob = {**os.environ, "HEIMDALL_HAID": "haid:bob.box-0002"}
    subprocess.run(["heimdall-claim", "claim", "src/new.py", "--task", "rework"], cwd=one, env=bob, check=True)
    write = PROGRAMS[name].tools.write(str(other / "src" / "new.py"), "b = 3\n")
    told = await run(name, home, other, write, claim(name, "src/new.py"))
    assert told.count("COLLISION") >= 2, (home / "last.txt").read_text()
    assert not (other / "src" / "new.py").exists()
    subprocess.run(["heimdall-claim", "release"], cwd=one, env=bob, check=True)
    commit = PROGRAMS[name].tools.shell("git add -A src && git commit -qm new")
    await run(name, home, other, claim(name, "src/new.py"), write, commit, fresh=False)
    assert "new" in git(other, "log", "--oneline"), (home / "last.txt").read_text()
    assert len(holders(one)) == 1


@pytest.mark.parametrize("name", list(CLAIM))
async def test_a_program_uses_all_six_tools(
    name: str, two: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, _ = two
    home = tmp_path_factory.mktemp(name)
    (one / ".planning" / "protocol" / "capsules").mkdir(parents=True)
    subprocess.run(["heimdall-capsule", "write", "w1", "--what", "laid the keel"], cwd=one, check=True)
    if name == "codex":
        environment(name, home, "http://127.0.0.1:1")
        config = home / "codex" / "config.toml"
        config.write_text(config.read_text() + f'\n[projects."{one}"]\ntrust_level = "trusted"\n')
    set_up(name, one, home)
    conflict = {"id": "keel", "title": "the keel", "surfaces": ["src/a.py"], "displaced_haid": "haid:bob.box-0002"}
    told = await run(
        name,
        home,
        one,
        claim(name, "src/a.py"),
        tool(name, "read_claims"),
        tool(name, "read_capsules"),
        tool(name, "append_decision", title="oak", body="because it floats"),
        tool(name, "raise_conflict_pr", **conflict, overriding_intent="steel", displaced_intent="oak"),
        tool(name, "release_claim"),
        fresh=name != "codex",
    )
    first = (home / "first.txt").read_text()
    assert "Several agents work in this repository" in first and all(one in first for one in SIX), first
    print(f"{name}: {tools_size(json.loads(first))} bytes of tools in {len(first)}")
    assert tools_size(json.loads(first)) <= 3000
    seen = (home / "last.txt").read_text()
    assert "active_claims" in told and "laid the keel" in told and "given" in told, seen
    assert "because it floats" in (one / ".planning" / "ledger" / "decisions.md").read_text(), seen
    assert len(list((one / ".planning" / "ledger" / "conflicts").glob("*-keel.md"))) == 1, seen
    trail = (one / ".planning" / "protocol.log").read_text()
    assert "\tclaim\tclaim\t" in trail and "\tclaim\trelease\t" in trail and holders(one) == [], seen
