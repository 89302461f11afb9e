"""The house in figures: `make house`. Modules, lines, who imports whom, and how many modules a first request takes.

Counted from the sources alone, but for the last two, which are counted in a real run up to the first connection.
"""

import ast
import gc
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).parent.parent
SRC = TOP / "src"


class Parsed(NamedTuple):
    """What the rules look at in a module. No nodes but imports: the collector would go through whole trees."""

    calls: list[tuple[str, int]]  # what is called, and in which line
    imports: list[ast.Import | ast.ImportFrom]
    classes: list[str]
    docstring: str
    strings: list[str]
    dynamic: list[str]  # what `__import__` is given as a constant


@cache
def parsed(path: Path) -> Parsed:
    collecting = gc.isenabled()
    gc.disable()  # it would look through the growing tree again and again: six times the work of parsing
    try:
        tree = ast.parse(path.read_text())
        found = Parsed([], [], [], ast.get_docstring(tree) or "", [], [])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found.calls.append((name := ast.unparse(node.func), node.lineno))
                if name in ("__import__", "importlib.import_module", "import_module"):
                    found.dynamic.extend(each.value for each in node.args[:1] if isinstance(each, ast.Constant))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.imports.append(node)
            elif isinstance(node, ast.ClassDef):
                found.classes.append(node.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.strings.append(node.value)
    finally:
        if collecting:
            gc.enable()
    return found


@cache
def names() -> dict[str, Path]:
    """The modules by the name that they are imported by."""
    paths = (SRC / "treadle").rglob("*.py")
    parts = {path: path.relative_to(SRC).with_suffix("").parts for path in paths}
    return {".".join(name[:-1] if name[-1] == "__init__" else name): path for path, name in parts.items()}


@cache
def imported(name: str) -> frozenset[str]:
    """The modules of ours that one imports, wherever in it: also inside functions, and for types only."""
    path, found = names()[name], set()
    for node in parsed(path).imports:
        if isinstance(node, ast.ImportFrom):
            package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found |= {full if (full := f"{module}.{alias.name}") in names() else module for alias in node.names}
        else:
            found |= {alias.name for alias in node.names}
    found |= set(parsed(path).dynamic)
    return frozenset(found & names().keys() - {name})


@cache
def started(name: str) -> frozenset[str]:
    """The modules of ours that one names in a string, `treadle.fleet.node` or `treadle.cli:main`, to load or start."""
    texts = [text.partition(":")[0] for text in parsed(names()[name]).strings]
    return frozenset(text for text in texts if text in names() and text != "treadle") - {name}


def modules() -> list[str]:
    """All but those that only say what a folder holds."""
    return sorted(name for name, path in names().items() if path.name != "__init__.py")


def importers() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in names()}
    for name in names():
        for other in imported(name):
            found[other].add(name)
    return found


def length(name: str) -> int:
    return names()[name].read_bytes().count(b"\n")


def lines(folder: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (TOP / folder).rglob("*.py"))


NOWHERE = "http://127.0.0.1:9"
COUNTED = """
import json, os, sys
called, changes, last, done = set(), 0, "", False
def look(frame, event, argument):
    global changes, last, done
    module = frame.f_globals.get("__name__", "")
    if done or event != "call" or not module.startswith("treadle."):
        return
    if module == "treadle.io.http" and frame.f_code.co_name == "_connect":
        done = True
        os.write(2, json.dumps([len(called), changes]).encode() + b"\\n")
        os._exit(0)
    elif frame.f_code.co_name != "<module>":
        changes, last = changes + (module != last), module
        called.add(module)
sys.setprofile(look)
from treadle.cli import main
main()
"""
"""Counts the modules whose functions run, and the changes from one to another, until the first request is sent."""


def single_importers() -> list[str]:
    """Modules that exactly one other imports, and that no other names to start."""
    scripts = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["scripts"]
    started_somewhere = {other for name in names() for other in started(name)}
    started_somewhere |= {place.partition(":")[0] for place in scripts.values()}
    return [name for name in modules() if len(importers()[name]) == 1 and name not in started_somewhere]


def before_a_request() -> tuple[int, int]:
    """How many modules run before the first byte to the model of `treadle -p hi`, and how often one follows another."""
    with tempfile.TemporaryDirectory() as place:
        env = {"PATH": os.environ["PATH"], "HOME": place, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": NOWHERE}
        command = [sys.executable, "-c", COUNTED, "-p", "hi", "--model", "anthropic:claude-sonnet-5"]
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=100)
    found = next((line for line in done.stderr.splitlines() if line.startswith("[")), "")
    assert found, done.stderr
    called, changes = json.loads(found)
    return called, changes


def main() -> None:
    sizes = sorted(map(length, modules()))
    folders = Counter(name.rpartition(".")[0] for name in modules())
    single = single_importers()
    called, changes = before_a_request()
    figures = {
        "modules": len(sizes),
        "lines in src": lines("src"),
        "lines in tests": lines("tests"),
        "median module": sizes[len(sizes) // 2],
        "longest module": sizes[-1],
        "modules under 60 lines": sum(1 for size in sizes if size < 60),
        "modules with one importer": len(single),
        "percent with one importer": round(100 * len(single) / len(sizes), 1),
        "largest folder": folders.most_common(1)[0][1],
        "modules before a request": called,
        "changes of module before a request": changes,
    }
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=2))
        return
    for what, figure in figures.items():
        print(f"{figure:>9,}  {what}")


if __name__ == "__main__":
    main()
