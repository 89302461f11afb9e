"""What the docs say of the HTTP interface: its clients run."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.fleet.conftest import Start
from tests.serve.conftest import WAIT, Web

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http-api.md"


@pytest.mark.parametrize("language", ["python", "sh"])
async def test_a_client_of_the_docs_runs(language: str, web: Web, start_node: Start, tmp_path: Path) -> None:
    await start_node()
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)[:1]
    name = {"python": "client.py", "sh": "client.sh"}[language]
    (tmp_path / name).write_text(code)
    program = {"python": sys.executable, "sh": "sh"}[language]
    for other in ("curl", "jq") if language == "sh" else ():
        need(other)
    environment = {**os.environ, "TREADLE_URL": web.address, "TREADLE_TOKEN": web.token}
    child = await asyncio.create_subprocess_exec(
        need(program), name, cwd=tmp_path, env=environment, stdout=-1, stderr=-1
    )
    async with asyncio.timeout(WAIT):
        out, errors = await child.communicate()
    assert out.decode().strip() == "done", errors.decode()
