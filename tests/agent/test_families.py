"""Which way of editing a model gets, and that a session offers it."""

from pathlib import Path
from typing import Any

import pytest

from treadle.agent.native import NativeAgent
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.agent.session import NativeSession
from treadle.agent.toolbox import EditFormat, about_replacing, edit_format
from treadle.errors import ConfigError
from treadle.session import Change, OwnProgram, Rules, SessionSpec, Start, Toolset

ENV = {"TREADLE_BASE_URL": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("gpt-5.2", "patch"),
        ("openai/gpt-5-mini", "patch"),
        ("gpt-4.1", "patch"),
        ("gpt-5.3-codex", "patch"),
        ("codex-mini-latest", "patch"),
        ("o3", "patch"),
        ("o4-mini", "patch"),
        ("gpt-oss:120b", "patch"),
        ("gpt-4o", "replace"),
        ("gpt-3.5-turbo", "replace"),
        ("claude-opus-4-8", "replace"),
        ("qwen3-coder-480b", "replace"),
        ("gemini-3-pro", "replace"),
        ("m", "replace"),
    ],
)
def test_the_table_names_how_each_family_edits(model: str, wanted: EditFormat) -> None:
    assert edit_format(resolve(f"chat:{model}", ENV, ModelSettings()), None) == wanted


def test_a_setting_goes_first() -> None:
    provider = resolve("chat:gpt-5", ENV, ModelSettings())
    assert (edit_format(provider, "replace"), edit_format(provider, "auto")) == ("replace", "patch")
    with pytest.raises(ConfigError, match="edits is 'magic'"):
        edit_format(provider, "magic")


async def session(tmp_path: Path, model: str, **more: Any) -> NativeSession:
    spec = SessionSpec(cwd=str(tmp_path), model=f"chat:{model}", env=ENV, start=Start(persist=False), **more)
    opened = await NativeAgent({}).open(spec)
    assert isinstance(opened, NativeSession)
    return opened


async def offered(tmp_path: Path, model: str, **more: Any) -> tuple[set[str], bool]:
    opened = await session(tmp_path, model, **more)
    try:
        return set(opened.info.tools) & {"edit_file", "apply_patch"}, "apply_patch" in opened.system()
    finally:
        await opened.close()


async def test_a_session_offers_what_suits_its_model_and_its_prompt_says_so(tmp_path: Path) -> None:
    assert await offered(tmp_path, "gpt-5") == ({"apply_patch"}, True)
    assert await offered(tmp_path, "claude-sonnet-5") == ({"edit_file"}, False)
    assert await offered(tmp_path, "m", extra={"edits": "patch"}) == ({"apply_patch"}, True)


async def test_when_the_model_changes_so_does_the_way_to_edit(tmp_path: Path) -> None:
    opened = await session(tmp_path, "gpt-5")
    assert "apply_patch" in opened.info.tools
    await opened.configure(Change(model="chat:claude-sonnet-5"))
    assert "apply_patch" not in opened.info.tools and "edit_file" in opened.info.tools
    await opened.close()


async def test_a_list_of_tools_is_offered_as_it_was_given(tmp_path: Path) -> None:
    assert await offered(tmp_path, "gpt-5", tools=Toolset(offered=("edit_file",))) == ({"edit_file"}, True)
    assert "apply_patch" not in (await offered(tmp_path, "gpt-5", tools=Toolset(denied=("edit_file",))))[0]


async def test_where_hooks_or_rules_look_at_a_tools_name_text_is_replaced(tmp_path: Path) -> None:
    async def judge(use: object) -> None: ...

    assert (await offered(tmp_path, "gpt-5", program=OwnProgram(pre_tool=judge)))[0] == {"edit_file"}
    assert (await offered(tmp_path, "gpt-5", rules=Rules(deny=("edit_file(x)",))))[0] == {"edit_file"}
    assert not about_replacing(Rules(deny=("Edit(x)", "Write(.env)"))), "these are about writing, by whatever tool"
