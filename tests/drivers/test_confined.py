"""A driven agent in a sandbox, judged by what it could do."""

import sys
from pathlib import Path

import pytest

from treadle.agents import find_agent
from treadle.drivers.confined import confinement
from treadle.errors import ConfigError
from treadle.io.sandbox import methods
from treadle.session import Confinement, SessionSpec
from treadle.sessions.session import run_turn

SCRIPT = """
[[reply]]
[[reply.call]]
name = "bash"
arguments = {{ command = '''echo x > here; python3 -c "open('{out}', 'w')"; true''' }}
[[reply]]
text = "Done."
"""
ASKED = Confinement(use="on")


@pytest.mark.parametrize("prefix", ["worker", "sidecar"])
async def test_a_program_that_is_driven_can_write_in_its_workspace_only(tmp_path: Path, prefix: str) -> None:
    workspace, outside = tmp_path / "w", tmp_path / "out"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "script.toml").write_text(SCRIPT.format(out=outside / "there"))
    program = Path(sys.executable).with_name(f"treadle-{prefix}")
    spec = SessionSpec(cwd=str(workspace), model="scripted:script.toml", mode="full-auto", confinement=ASKED)
    agent = find_agent(f"{prefix}:{program}")
    if methods.available().method is None:
        with pytest.raises(ConfigError, match="cannot be kept"):
            await agent.open(spec)
        return
    session = await agent.open(spec)
    try:
        async for _ in run_turn(session, "go"):
            pass
    finally:
        await session.close()
    assert (workspace / "here").exists() and not (outside / "there").exists()


def test_nobody_is_confined_unasked_and_an_agent_keeps_its_own_home(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert confinement(SessionSpec(cwd=str(tmp_path), mode="full-auto"), "codex", ["codex"], env) is None
    if methods.available().method is not None:
        made = confinement(SessionSpec(cwd=str(tmp_path), confinement=ASKED), "codex", ["codex"], env)
        assert made is not None and str(tmp_path / ".codex") in made.write and (tmp_path / ".codex").is_dir()
