"""What tools say and do in a small workspace: `tests/golden/translations/tools.txt`."""

import asyncio
import itertools
import os
import re
from pathlib import Path
from typing import Any

from tests.agent.tools.workspace import Workspace
from tests.test_golden import GOLDEN, same
from tests.wire.test_translations import played
from treadle.errors import ToolError
from treadle.events import ToolOutput


def test_each_tool_gives_or_refuses_what_it_did_and_leaves_the_files_that_it_did(tmp_path: Path) -> None:
    numbers = itertools.count(1)

    class Tools:
        """A workspace of its own for each conversation."""

        def __init__(self) -> None:
            root = tmp_path / str(next(numbers))
            root.mkdir()
            self._workspace = Workspace(root)

        def write(self, name: str, data: str) -> None:
            self._workspace.write(name, data)

        def write_bytes(self, name: str, data: bytes) -> None:
            self._workspace.write(name, data)

        def run(self, tool: str, **arguments: Any) -> str:
            return self._plain(self._workspace.run(tool, **arguments))

        def edit(self, tool: str, **arguments: Any) -> str:
            return self._plain(self._workspace.edit(tool, **arguments))

        def _plain(self, call: Any) -> str:
            root = re.escape(str(self._workspace.root))
            try:
                return re.sub(root, "/w", asyncio.run(call))
            except ToolError as error:
                raise ToolError(re.sub(root, "/w", str(error))) from None

        @property
        def files(self) -> dict[str, str]:
            found = sorted(path for path in self._workspace.root.rglob("*") if path.is_file())
            return {os.path.relpath(path, self._workspace.root): path.read_bytes().decode("latin-1") for path in found}

        @property
        def events(self) -> list[str]:
            return [type(event).__name__ for event in self._workspace.events if not isinstance(event, ToolOutput)]

    path = "translations/tools.txt"
    same(path, "".join(played((GOLDEN / path).read_text(), {"tools": (Tools, "files events")})), own_version="")
