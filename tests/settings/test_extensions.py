"""What other distributions add is listed, and loaded only in the version that the person's own settings name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.distributions import EXAMPLES, add_distribution
from treadle.agents import find_agent
from treadle.cli.root import treadle
from treadle.errors import ConfigError, TreadleError
from treadle.io.paths import config_file
from treadle.landing.forge.kinds import forge_of
from treadle.settings import config

pytestmark = pytest.mark.usefixtures("state_home")
ADDRESS = "git@git.example:shop/web.git"


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(treadle, list(words))
    return done.exit_code, done.output + str(done.exception or "")


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str, text: str = "CARD = 1\n") -> None:
    """A distribution `odd` with these entry points, and a module `odd_one` that leaves a file when it is imported."""
    source = tmp_path / "odd"
    (source / "src").mkdir(parents=True)
    (source / "pyproject.toml").write_text(f'[project]\nname = "odd"\nversion = "0.1.0"\n{entries}')
    (source / "src" / "odd_one.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w').close()\n{text}")
    monkeypatch.delitem(sys.modules, "odd_one", raising=False)
    add_distribution(monkeypatch, source, tmp_path / "installed", allowed="")


AGENT = '[project.entry-points."treadle.agents"]\n'


def test_nothing_is_loaded_before_it_is_allowed_and_an_update_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_distribution(monkeypatch, EXAMPLES / "forges", tmp_path / "there", allowed="0.0.9")
    with pytest.raises(ConfigError, match=r"gitlab of treadle-forges 0.1.0 is not allowed") as refused:
        forge_of("gitlab", "", ADDRESS)
    assert refused.value.hint == "if you trust it: treadle extensions allow treadle-forges"
    assert "not allowed: treadle extensions allow treadle-forges" in run("extensions")[1]
    assert run("extensions", "allow", "treadle-forges")[0] == 0
    assert forge_of("gitlab", "", ADDRESS) is not None
    rows = json.loads(run("extensions", "--json")[1])
    assert [(row["kind"], row["name"], row["allowed"]) for row in rows] == [
        ("forges", "gitlab", True),
        ("forges", "forgejo", True),
    ]
    assert run("extensions", "allow", "no-such")[1].startswith("no-such adds no extension")


def test_a_project_cannot_allow_one_trusted_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text('[extensions]\ntreadle-forges = "0.1.0"\n')
    monkeypatch.chdir(tmp_path)
    add_distribution(monkeypatch, EXAMPLES / "forges", tmp_path / "there", allowed="")
    for trusted in (True, False):
        loaded = config.load(str(tmp_path), trusted=trusted)
        assert loaded.settings.extensions == {} and "never taken from a project" in loaded.warnings[0]
    with pytest.raises(ConfigError, match="is not allowed"):
        forge_of("forgejo", "", ADDRESS)


def test_a_name_of_ours_is_never_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, monkeypatch, AGENT + 'claude = "odd_one:CARD"\nnative = "odd_one:CARD"\n')
    run("extensions", "allow", "odd")
    assert find_agent("claude", {}).name == "claude" and find_agent("native").name == "native"
    assert run("extensions")[1].count("never used: the name is ours") == 2
    assert not (tmp_path / "loaded").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CARD = 1\n", "mine of odd 0.1.0 is not a Card"),
        ("raise RuntimeError('broken')\n", "mine of odd 0.1.0 cannot be loaded: RuntimeError: broken"),
        (
            "from treadle.drivers.card import Card\nCARD = Card(name='x', title='', driver='', how='')\n",
            "card named 'x'",
        ),
    ],
)
def test_what_is_no_agent_is_refused_with_the_reason(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, monkeypatch, AGENT + 'mine = "odd_one:CARD"\n', text)
    assert "not allowed" in run("agents", "mine")[1] and not (tmp_path / "loaded").exists()
    run("extensions", "allow", "odd")
    with pytest.raises(ConfigError, match=says):
        find_agent("mine", {})


@pytest.mark.parametrize("says", ["", "Metadata-Version: 2.1\nName: odd\n", "Metadata-Version: 2.1\nVersion: 0.1.0\n"])
def test_one_that_does_not_say_its_name_and_version_is_not_there(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, monkeypatch, AGENT + 'mine = "odd_one:CARD"\n')
    (tmp_path / "installed" / "odd-0.1.0.dist-info" / "METADATA").write_text(says)
    with pytest.raises(TreadleError, match="no agent"):
        find_agent("mine", {})
    assert "no extensions are installed" in run("extensions")[1] and not (tmp_path / "loaded").exists()


def test_a_door_of_another_distribution_serves_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    door = "class Lines:\n    def __init__(self, agent, stream):\n        self.agent, self.stream = agent, stream\n"
    door += (
        "    async def run(self, spec):\n        await self.stream.write(self.agent.name.encode())\n        return 7\n"
    )
    made(tmp_path, monkeypatch, '[project.entry-points."treadle.doors"]\nlines = "odd_one:Lines"\n', door)
    run("extensions", "allow", "odd")
    assert "no installed extension adds the door 'other'" in run("door", "other")[1]
    path = os.pathsep.join(each for each in sys.path if each)
    program = [sys.executable, "-c", "from treadle.cli import main; main()", "door", "lines", "--agent", "claude"]
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=60)
    assert (done.stdout, done.returncode) == (b"claude", 7), done.stderr
    assert Path(config_file()).read_text().startswith("[extensions]")


def test_two_distributions_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_distribution(monkeypatch, EXAMPLES / "forges", tmp_path / "there")
    made(tmp_path, monkeypatch, '[project.entry-points."treadle.forges"]\ngitlab = "odd_one:CARD"\n')
    with pytest.raises(ConfigError, match="treadle-forges and odd both have 'gitlab' among their forges"):
        forge_of("gitlab", "", ADDRESS)
