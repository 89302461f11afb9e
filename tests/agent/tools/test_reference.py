"""The reference page says what the code says, and the how-to's tool is a tool."""

import re
import sys
import types
from pathlib import Path

import pytest

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools import BUILTIN, bash, file_tools, files, search, web_fetch

DOCS = Path(__file__).parents[3] / "docs"


def section(name: str) -> str:
    page = (DOCS / "reference/tools.md").read_text()
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.S | re.M)
    assert found, f"{name} has no section"
    return found[1]


@pytest.mark.parametrize("name", BUILTIN)
def test_every_tool_is_documented_with_its_kind_and_exactly_its_arguments(name: str) -> None:
    text = section(name)
    tool = toolbox.load(name)
    assert f"Kind `{tool.kind}`" in text
    rows = re.findall(r"`(\w+)`", "".join(re.findall(r"^- ([`\w, ]+)", text, re.M)))
    assert sorted(rows) == sorted(toolbox.parameters(tool)["properties"])


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    for name, words in {
        "read_file": f"at most {file_tools.MAX_LINES:,}",
        "edit_file": f"at most {files.MAX_EDIT >> 20} MiB",
        "glob": f"at most {search.MAX_FILES:,}",
        "grep": f"; {search.MAX_MATCHES}\n",
        "bash": f"at most {bash.MAX_TIMEOUT:,.0f}; 120",
        "web_fetch": f"{web_fetch.MAX_BYTES >> 20} MiB, {web_fetch.MAX_SECONDS:g} s and {web_fetch.MAX_REDIRECTS} red",
        "What all of them share": f"at most {toolbox.DISK_CAP >> 20} MiB",
    }.items():
        assert words in section(name), (name, words)


async def test_the_tool_of_the_how_to_works(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    source = re.search(r"```python\n(.*?)```", (DOCS / "how-to/add-a-tool.md").read_text(), re.S)
    assert source
    module = types.ModuleType("count_words")
    monkeypatch.setitem(sys.modules, "count_words", module)  # where its annotations are looked up
    exec(source[1], module.__dict__)
    workspace.write("a.txt", "one two\nthree\n")
    args = toolbox.decode(module.COUNT_WORDS, '{"path": "a.txt"}')
    assert await toolbox.run(module.COUNT_WORDS, args, workspace.context) == "3 words"
