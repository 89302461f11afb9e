"""A session's settings: the spec over the files, the allow-list for children, and where keys come from."""

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.agent import configuration as module
from treadle.agent.configuration import Configuration
from treadle.errors import ConfigError
from treadle.session import SessionSpec


@pytest.fixture
def config(state_home: Path) -> Path:
    path = state_home / "treadle" / "config.toml"
    path.parent.mkdir()
    return path


async def load(tmp_path: Path, environ: dict[str, str] | None = None, **spec: Any) -> Configuration:
    return await Configuration.load(SessionSpec.of(cwd=str(tmp_path), **spec), environ or {})


async def test_children_see_what_is_listed_and_added_by_name_and_never_a_key(config: Path, tmp_path: Path) -> None:
    config.write_text('env = ["MY_*"]\n')
    environ = {"PATH": "/bin", "MY_COLOUR": "red", "OPENAI_API_KEY": "k", "SOMETHING": "x"}
    configuration = await load(tmp_path, environ, env={"ADDED": "1", "ADDED_TOKEN": "secret"})
    assert configuration.child_env == {"PATH": "/bin", "MY_COLOUR": "red", "ADDED": "1"}
    assert configuration.env["OPENAI_API_KEY"] == "k"


async def test_what_a_caller_sets_for_tools_goes_before_what_files_set(config: Path, tmp_path: Path) -> None:
    config.write_text('variables = { COLOUR = "red", SIZE = "1" }\n')
    for inherits in (True, False):
        configuration = await load(tmp_path, {"SIZE": "0"}, env={"COLOUR": "blue"}, inherit_env=inherits)
        assert configuration.child_env == {"COLOUR": "blue", "SIZE": "1"}


async def test_a_key_command_gives_the_key_when_nothing_else_does(config: Path, tmp_path: Path) -> None:
    config.write_text('key_command = "echo the-key; test $PWD = /"\n')
    assert (await load(tmp_path)).models.api_key == "the-key"
    assert (await load(tmp_path, {"TREADLE_API_KEY": "other"})).models.api_key == ""


@pytest.mark.parametrize("command", ["exit 3", "true", "echo no >&2; echo key; false"])
async def test_a_key_command_that_gives_no_key_is_an_error(config: Path, tmp_path: Path, command: str) -> None:
    config.write_text(f'key_command = "{command}"\n')
    with pytest.raises(ConfigError, match=r"key_command printed no key \(exit code \d\):") as caught:
        await load(tmp_path)
    assert ("no" in caught.value.message.split("): ")[-1]) == ("echo no" in command)


async def test_all_permissions_are_skipped_only_where_the_settings_do_not_forbid_it(
    config: Path, tmp_path: Path
) -> None:
    config.write_text("bypass = false\n")
    with pytest.raises(ConfigError, match="forbid skipping all permissions") as caught:
        await load(tmp_path, mode="yolo")
    assert caught.value.hint == "choose another --permission-mode"
    assert (await load(tmp_path, mode="full-auto")).spec.mode == "full-auto"
    config.write_text("")
    assert (await load(tmp_path, mode="yolo")).spec.mode == "yolo"


async def test_a_hook_that_might_forbid_something_and_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    hooks = {"hooks": {"PreToolUse": [{"hooks": [{"type": "agent", "prompt": "x"}]}]}}
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(hooks))
    with pytest.raises(ConfigError, match="PreToolUse.* may forbid something") as caught:
        await load(tmp_path, trusted=True)
    assert "--setting-sources" in (caught.value.hint or "")


async def test_a_model_that_cannot_be_had_is_named_with_the_file_that_it_comes_from(
    config: Path, tmp_path: Path
) -> None:
    config.write_text('model = "scripted:/nowhere"\n')
    configuration = await load(tmp_path)
    with pytest.raises(ConfigError, match=rf"\(the model is set in .*{config.name}\)$"):
        configuration.provider("scripted:/nowhere")
    for asked, wanted in (("scripted:/nowhere", "scripted:/nowhere"), (None, "scripted:/elsewhere")):
        with pytest.raises(ConfigError) as caught:
            (await load(tmp_path, model=asked)).provider(wanted)
        assert "is set in" not in caught.value.message, "the person has just written it"


async def test_a_key_command_is_not_run_where_a_key_is_set_and_one_that_hangs_is_given_up(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(f'key_command = "touch {tmp_path}/ran; echo k"\n[models]\napi_key = "set"\n')
    assert (await load(tmp_path)).models.api_key == "set" and not (tmp_path / "ran").exists()
    monkeypatch.setattr(module, "KEY_COMMAND_SECONDS", 0.1)
    config.write_text('key_command = "exec sleep 600"\n')
    with pytest.raises(ConfigError, match=r"key_command took more than 0\.1 s") as caught:
        await load(tmp_path)
    assert caught.value.hint == "run it by hand"
