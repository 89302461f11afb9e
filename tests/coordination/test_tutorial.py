"""The tutorial, typed as written: every command prints what the page shows."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import BIN

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "two-agents-one-repository.md"
MARK = "%%%"


def plain(text: str) -> str:
    """The text without what differs between people, machines and days."""
    text = re.sub(r"haid:[a-z0-9-]+\.[a-z0-9-]+-[0-9a-f]{4}", "HAID", text)
    text = re.sub(r"human [a-z0-9-]+", "human H", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text).strip()


@pytest.mark.slow
def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = step.partition("\n")
            steps.append((command, printed))
    assert len(steps) > 20
    script = "".join(f"{command}\nset -- $?; echo '{MARK}'; (exit $1)\n" for command, _ in steps)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash"], input=script, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = done.stdout.replace(str(tmp_path), "/home/ann").split(f"{MARK}\n")
    for (command, printed), output in zip(steps, said[:-1], strict=True):
        assert plain(output) == plain(printed), command
