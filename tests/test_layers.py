"""Imports point down only; siblings on one line do not import each other; light modules stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"
LAYERS = [
    {"cli"},
    {"fleet"},
    {"host"},
    {"agents"},
    {"losses"},
    {"doors", "drivers", "terminal"},
    {"agent", "coordination"},
    {"receipts"},
    {"sessions", "workspace", "settings"},
    {"io"},
    {"policy", "wire"},
    {"session"},
    {"events"},
    {"errors", "redact"},
    {"light"},
]
BESIDE = {"testing"}
"""Public helpers for tests may use what they help to test, and nothing in the product uses them."""

LIGHT = [
    "wire.common.framing",
    "wire.worker.versions",
    "agent.tools",
    "io.paths",
    "io.files",
    "io.process.tree",
    "io.process.keeper",
    "io.process.reaper",
    "io.process.table",
    "io.process.registry",
    "io.standard_streams",
    "io.sockets",
    "policy.patterns",
    "wire.heimdall.messages",
    "errors",
    "cli",
    "io.process.signals",
    "io.process.launch",
    "io.process.detached",
    "cli.worker_entry",
]
HEAVY = {"msgspec", "asyncio", "dataclasses", "psutil", "tomllib", "click"}


def rank(part: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(SRC).parts[1].removesuffix(".py"), path) for path in (SRC / "treadle").rglob("*.py")]


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("treadle.")}
    return found


@pytest.mark.parametrize(("part", "path"), modules(), ids=lambda value: str(value))
def test_a_module_imports_only_what_lies_below_it(part: str, path: Path) -> None:
    if part in {"__init__", "__main__"} | BESIDE:
        return
    for other in imported(path) - {part, "__version__"}:
        assert other not in BESIDE, f"{path} imports {other}, which is only for tests"
        assert rank(other) > rank(part), f"{path} ({part}) imports {other}, which is not below it"


def exists(module: str) -> bool:
    place = SRC / "treadle" / module.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").exists()


def test_a_session_is_opened_without_the_http_client() -> None:
    code = (
        "import sys, treadle.agent.native, treadle.agent.providers.http, treadle.doors.worker.door; print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert "httpx2" not in loaded.split()


@pytest.mark.parametrize("module", [module for module in LIGHT if exists(module)])
def test_a_light_module_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, treadle.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())
