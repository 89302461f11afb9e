"""Which tools a session has, and which of them the model is offered at the moment."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.test_mcp_client import SERVER
from treadle.agent.configuration import Configuration
from treadle.agent.toolbox import Toolbox
from treadle.agent.tools.base import AnyArgs, AnyTool
from treadle.errors import NotFound
from treadle.session import Access, OwnTool, Rules, SessionSpec, Toolset
from treadle.wire.mcp.connection import tool_name


class Remote:
    """A tool of an MCP server, as far as the model sees it."""

    kind, Args = "execute", AnyArgs

    def __init__(self, number: int, description: str = "Looks something up in the archive of the department.") -> None:
        self.name = f"mcp__archive__look_up_{number}"
        self.description = description
        self.parameters = {"type": "object", "properties": {"query": {"type": "string"}}}

    def access(self, args: Any, resolve: Any) -> Access:
        return Access(tool=self.name, kind="execute")

    async def run(self, args: Any, context: Any) -> str:
        return ""


async def toolbox(work: Path, remote: int = 0, **spec: Any) -> Toolbox:
    configuration = await Configuration.load(SessionSpec.of(cwd=str(work), model="scripted:x", **spec), {})
    made = Toolbox(configuration, env={}, warn=print, confinement=lambda: None)
    for number in range(remote):
        made.registry.add(Remote(number))  # type: ignore[arg-type]
    return made


def names(tools: list[AnyTool]) -> set[str]:
    return {tool.name for tool in tools}


async def test_a_tool_that_a_rule_forbids_outright_is_not_offered(tmp_path: Path) -> None:
    box = await toolbox(tmp_path, rules=Rules(deny=("Bash", "WebFetch", "Write(.env)")))
    offered = names(box.offered(answers=False, skills=False))
    assert not {"bash", "web_fetch"} & offered and "write_file" in offered


async def test_three_hundred_tools_are_found_by_search_and_do_not_fill_the_context(tmp_path: Path) -> None:
    box = await toolbox(tmp_path, remote=300)
    offered = names(box.offered(answers=False, skills=False))
    assert not any(name.startswith("mcp__") for name in offered) and "tool_search" in offered
    assert len(box.deferred) == 300
    again = names(box.offered(answers=False, skills=False, found=["mcp__archive__look_up_7"]))
    assert again - offered == {"mcp__archive__look_up_7"}


@pytest.mark.parametrize("server", ["notes", "claude.ai Notes", "a__b", "n" * 70])
async def test_a_server_that_is_switched_off_takes_its_tools_along_whatever_its_name(
    tmp_path: Path, server: str
) -> None:
    async def call(given: dict[str, Any]) -> str:
        return ""

    box, name, other = await toolbox(tmp_path), tool_name(server, "recall"), tool_name("other", "recall")
    box.add_own(OwnTool(name=name, description="d", parameters={}, call=call) for name in (name, other))
    await box.switch(server, on=False)
    assert box.registry.known(name) is None and box.registry.known(other) == other
    assert not {name} & names(box.offered(answers=False, skills=False)) and box.states == {server: "disabled"}
    await box.switch(server, on=True)
    assert box.registry.known(name) == name


async def test_a_list_of_our_own_tools_starts_no_servers_and_servers_by_name_are_offered_whole(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": ["-c", SERVER.replace("MORE", "")]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": server}}))

    async def offered(**tools: Any) -> tuple[set[str], dict[str, str], list[str]]:
        spec = SessionSpec(cwd=str(tmp_path), model="scripted:x", trusted=True, tools=Toolset(**tools))
        box = Toolbox(await Configuration.load(spec, {}), env={}, warn=print, confinement=lambda: None)
        warnings: list[str] = []
        await box.start(warnings.append)
        await box.connected()
        try:
            return names(box.offered(answers=False, skills=False)), dict(box.states), warnings
        finally:
            await box.close()

    assert await offered(offered=("glob",)) == ({"glob"}, {}, [])
    assert (await offered())[1] == {"x": "connected"}
    assert (await offered(only_servers=True))[1] == {}
    assert (await offered(offered=("glob", "mcp__x__one"), later=True))[0] == {"glob", "mcp__x__one"}
    assert (await offered(offered=("glob",), servers={"y": server}))[0] == {"glob", "mcp__x__one", "mcp__y__one"}
    whole, _, warnings = await offered(denied=("mcp__x__one",), servers={"bad": {"command": 3}})
    assert "mcp__x__one" not in whole and len(warnings) == 1 and "bad" in warnings[0]


async def test_a_tool_for_the_host_alone_is_kept_from_the_model(tmp_path: Path) -> None:
    async def call(given: dict[str, Any]) -> str:
        return "answered"

    box = await toolbox(tmp_path)
    with pytest.raises(NotFound) as caught:
        box.reserve("mcp__a__b", there=True)
    assert caught.value.hint == "there are none"
    ask = box.reserve("mcp__a__b", there=False)
    with pytest.raises(NotFound, match="there is no MCP tool 'mcp__a__b'"):
        await ask({})
    box.add_own([OwnTool(name=name, description="d", parameters={}, call=call) for name in ("mcp__a__b", "mcp__a__c")])
    assert await ask({}) == "answered" and "mcp__a__b" not in box.registry and "mcp__a__c" in box.registry
    with pytest.raises(NotFound) as caught:
        box.reserve("read_file", there=True)
    assert caught.value.hint == "there are mcp__a__b, mcp__a__c"
