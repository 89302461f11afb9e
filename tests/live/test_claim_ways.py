"""A hundred ways to change what another holds, by the real programs with the hooks of `treadle coord setup`.

How many take effect and how many are told why is printed, for docs/how-to/claims.md.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import BIN, git
from tests.drivers.programs import PROGRAMS, environment
from tests.live.test_coordination import run, set_up
from tests.safety.corpora import CLAIM_WAYS, claim_way
from tests.safety.test_claims import changed
from tests.safety.test_claims import top as top  # a fixture
from treadle.coordination.identity import SESSION_VARIABLES

TOLD = ("COLLISION: cannot change", "the command does not show", "was put back", "could not be checked")
TOLD += ("Command injection detected",)  # by Gemini CLI itself, of `$(...)` and its like
AT_ONCE = 36
"""Ways in one session; a program has five minutes for it."""


@pytest.fixture(params=["checkout", "worktree"])
def place(request: pytest.FixtureRequest, top: Path) -> Path:
    """Where the program works: in the checkout in which the files are held, or in another worktree of it."""
    if request.param == "checkout":
        return top
    second = top.parent / "second"
    git(top, "worktree", "add", "-q", "-b", "second", str(second))
    return second


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
async def test_none_of_them_takes_effect_and_each_is_told_why(
    name: str, place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = place
    for variable in (*SESSION_VARIABLES, "HEIMDALL_HAID", "HEIMDALL_PLANNING_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path_factory.mktemp("state")))
    home = tmp_path_factory.mktemp(name)
    if name == "codex":
        environment(name, home, "http://127.0.0.1:1")  # its home, as the program itself would make it
        config = home / "codex" / "config.toml"
        config.write_text(config.read_text() + f'\n[projects."{top}"]\ntrust_level = "trusted"\n')
    set_up(name, top, home, *(["--trust"] if name == "codex" else []))
    subprocess.run(["heimdall-claim", "guard", "install"], cwd=top, check=True)
    told = 0
    for first in range(0, len(CLAIM_WAYS), AT_ONCE):
        calls = [
            PROGRAMS[name].tools.shell(claim_way(number))
            for number in range(first, min(first + AT_ONCE, len(CLAIM_WAYS)))
        ]
        said = await run(name, home, top, *calls, fresh=first == 0 and name != "codex")
        told += sum(map(said.count, TOLD))
    print(f"{name}: {len(CLAIM_WAYS)} ways, {len(changed(top))} took effect, {told} told: {changed(top)}")
    assert changed(top) == []
    assert told >= len(CLAIM_WAYS)
