"""Orders for our own agent with a scripted model, in a small repository."""

import subprocess
from pathlib import Path

from tests.fleet.conftest import spec
from treadle.fleet.orders import Spec

SLOW = "null:60:600"


def git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()


def edits(tmp_path: Path, name: str, file: str, text: str, command: str = "") -> str:
    """A scripted model that changes one file, and perhaps wants to run a command."""
    call = f'[[reply.call]]\nname = "bash"\narguments = {{ command = "{command}" }}\n[[reply]]\n' if command else ""
    path = tmp_path / f"{name}.toml"
    path.write_text(
        f'[[reply]]\ntext = "I write."\nusage = {{ input = 100, output = 10 }}\n[[reply.call]]\nname = "read_file"\n'
        f'arguments = {{ file_path = "{file}" }}\n[[reply.call]]\nname = "write_file"\n'
        f'arguments = {{ file_path = "{file}", content = "{text}" }}\n[[reply]]\n{call}text = "Done."\n'
    )
    return f"scripted:{path}"


def work(repository: Path, model: str, **fields: object) -> Spec:
    base = git(repository, "rev-parse", "HEAD")
    return spec("native", root=str(repository), base=base, model=model, **{"mode": "auto-edit", **fields})


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "model.toml"
    path.write_text(text)
    return f"scripted:{path}"
