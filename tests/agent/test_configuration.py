"""A session's settings: the spec over the files, the allow-list for children, and where keys come from."""

from pathlib import Path
from typing import Any

import pytest

from treadle.agent.configuration import Configuration
from treadle.errors import ConfigError
from treadle.session import Limits, Rules, SessionSpec


@pytest.fixture
def config(state_home: Path) -> Path:
    path = state_home / "treadle" / "config.toml"
    path.parent.mkdir()
    return path


async def load(tmp_path: Path, environ: dict[str, str] | None = None, **spec: Any) -> Configuration:
    return await Configuration.load(SessionSpec.of(cwd=str(tmp_path), **spec), environ or {})


async def test_rules_add_up_and_limits_are_the_specs_else_the_files(config: Path, tmp_path: Path) -> None:
    config.write_text('[permissions]\ndeny = ["Write(.env*)"]\n[limits]\nmax_iterations = 9\nmax_tokens = 5\n')
    configuration = await load(tmp_path, rules=Rules(allow=("Bash",)), limits=Limits(max_iterations=2))
    assert configuration.rules == Rules(allow=("Bash",), deny=("Write(.env*)",))
    limits = configuration.limits
    assert (limits.max_iterations, limits.max_tokens, limits.repeats) == (2, 5, 3)


async def test_children_see_what_is_listed_and_added_by_name_and_never_a_key(config: Path, tmp_path: Path) -> None:
    config.write_text('env = ["MY_*"]\n')
    environ = {"PATH": "/bin", "MY_COLOUR": "red", "OPENAI_API_KEY": "k", "SOMETHING": "x"}
    configuration = await load(tmp_path, environ, env={"ADDED": "1", "ADDED_TOKEN": "secret"})
    assert configuration.child_env == {"PATH": "/bin", "MY_COLOUR": "red", "ADDED": "1"}
    assert configuration.env["OPENAI_API_KEY"] == "k"


async def test_a_key_command_gives_the_key_when_nothing_else_does(config: Path, tmp_path: Path) -> None:
    config.write_text('key_command = "echo the-key"\n')
    assert (await load(tmp_path)).models.api_key == "the-key"
    assert (await load(tmp_path, {"TREADLE_API_KEY": "other"})).models.api_key == ""


@pytest.mark.parametrize("command", ["exit 3", "true", "echo no >&2; false"])
async def test_a_key_command_that_gives_no_key_is_an_error(config: Path, tmp_path: Path, command: str) -> None:
    config.write_text(f'key_command = "{command}"\n')
    with pytest.raises(ConfigError, match="key_command printed no key"):
        await load(tmp_path)


async def test_what_an_untrusted_project_asked_for_is_named(tmp_path: Path) -> None:
    (tmp_path / ".treadle").mkdir()
    (tmp_path / ".treadle" / "config.toml").write_text('[permissions]\nallow = ["Bash"]\n')
    configuration = await load(tmp_path)
    assert configuration.rules.allow == () and "treadle trust" in configuration.notes[0]
    trusted = await load(tmp_path, trusted=True)
    assert trusted.rules.allow == ("Bash",) and trusted.notes == ()
