"""Orders for our own agent with a scripted model, in a small repository."""

import os
import subprocess
from pathlib import Path
from typing import Any

import tomlkit

from tests.fleet.conftest import spec
from tests.installed import TREADLE
from treadle.io.files import write_atomic
from treadle.io.paths import config_file, private_dir
from treadle.wire.fleet.orders import Spec

SLOW = "null:600:600"


def git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()


def work(repository: Path, model: str, **fields: object) -> Spec:
    base = git(repository, "rev-parse", "HEAD")
    return spec("native", root=str(repository), base=base, model=model, **{"mode": "auto-edit", **fields})


# What a scripted model says


DONE: dict[str, Any] = {"text": "Done.", "times": "always"}


def says(text: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One reply: what the model says and what it wants done; more is as in a script (`when`, `turn`, `usage`)."""
    return {"text": text, **more, **({"call": list(calls)} if calls else {})}


def write(path: str, content: str = "x") -> dict[str, Any]:
    return {"name": "write_file", "arguments": {"file_path": path, "content": content}}


def read(path: str) -> dict[str, Any]:
    return {"name": "read_file", "arguments": {"file_path": path}}


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def model(tmp_path: Path, *replies: dict[str, Any], name: str = "model") -> str:
    path = tmp_path / f"{name}.toml"
    path.write_text(tomlkit.dumps({"reply": list(replies)}))
    return f"scripted:{path}"


def other_agents(**models: str) -> None:
    """Agents with a program of their own, and what their models say."""
    private_dir(os.path.dirname(config_file()))
    one = "[agents.{}]\nspeaks = 'acp'\ncommand = '{} acp --model {}'\n"
    write_atomic(config_file(), "".join(one.format(name, TREADLE, said) for name, said in models.items()).encode())


def edits(tmp_path: Path, name: str, file: str, text: str, command: str = "") -> str:
    """A model that changes one file, and perhaps wants to run a command."""
    changes = says("I write.", read(file), write(file, text), usage={"input": 100, "output": 10})
    asks = [says("", bash(command))] if command else []
    return model(tmp_path, changes, *asks, says("Done."), name=name)
