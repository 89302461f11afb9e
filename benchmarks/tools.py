"""The search tools against the usual programs, on 20,000 generated files: same tree, same patterns, in turn."""

import asyncio
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from treadle.agent.tools import files, search
from treadle.agent.tools.base import ToolContext
from treadle.agent.tools.search import Glob, GlobArgs, Grep, GrepArgs
from treadle.session import Answer

FILES = 20_000
ROUNDS = 5
WORDS = ["def", "return", "import", "value", "self", "result", "error", "path", "index", "handler", "0", "1", "x + y"]


def generate(root: Path) -> int:
    """A tree like a big repository: most files small, a few long, some binary, some ignored. Returns its bytes."""
    chooser = random.Random(7)
    lines = [" ".join(chooser.choices(WORDS, k=chooser.randint(1, 9))) for _ in range(5000)]
    size = 0
    for number in range(FILES):
        directory = root / f"d{number % 40:02}" / f"e{number % 400 // 40}"
        directory.mkdir(parents=True, exist_ok=True)
        text = "\n".join(chooser.choices(lines, k=chooser.choice([5, 20, 60, 400])))
        if number % 997 == 0:
            text += "\nneedle_in_haystack(42)\n"
        kind = "bin" if number % 50 == 0 else ("py", "txt", "md")[number % 3]
        data = text.encode() + (b"\0\1" if kind == "bin" else b"\n")
        (directory / f"f{number}.{kind}").write_bytes(data)
        size += len(data)
    (root / ".gitignore").write_text("/d07/\n*.tmp\n")
    return size


def context(root: Path) -> ToolContext:
    async def ask(question: str, options: tuple[str, ...]) -> Answer:
        return Answer(decision="deny")

    unused: Any = None
    return ToolContext(
        cwd=root, call="bench", emit=lambda event: None, ask=ask, env=dict(os.environ), backup=lambda path: None,
        overflow=lambda call, text: root, writing=unused, background=unused, resolve=partial(files.resolve, root),
    )  # fmt: skip


async def compare(runs: dict[str, Callable[[], Awaitable[object]]], against: str) -> None:
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            started = time.perf_counter()
            await run()
            taken[name].append((time.perf_counter() - started) * 1000)
    peer = statistics.median(taken[against])
    for name, times in taken.items():
        median = statistics.median(times)
        print(f"  {name:34} {median:8.1f} ms   {median / peer:5.2f}x {against}")


def program(*argv: str, **env: str) -> Callable[[], Awaitable[object]]:
    async def run() -> object:
        return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **env})

    return run


async def measure(root: Path) -> None:
    here = context(root)
    for title, pattern in (("rare literal", "needle_in_haystack"), ("regular expression", r"needle_\w+\(\d+\)")):
        print(f"grep, {title} {pattern!r}, whole tree:")
        args = GrepArgs(pattern=pattern, include_ignored=True)
        posix = pattern.replace(r"\w", "[[:alnum:]_]").replace(r"\d", "[0-9]")
        runs = {
            "grep -rE": program("grep", "-rE", posix, str(root), LC_ALL="C"),
            "rg by itself": program(search.find() or "rg", "--no-ignore", "--hidden", pattern, str(root)),
            "our grep": partial(Grep().run, args, here),
        }
        await compare(runs, "grep -rE")
    print("glob **/*.py:")
    await compare(
        {
            "find -name": program("find", str(root), "-name", "*.py", "-not", "-path", "*/.git/*"),
            "our glob, with .gitignore": partial(Glob().run, GlobArgs(pattern="**/*.py"), here),
        },
        "find -name",
    )


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="treadle-bench-"))
    try:
        size = generate(root)
        print(f"{FILES:,} files, {size / 1e6:.0f} MB, warm cache, median of {ROUNDS} rounds; {search.find()}")
        asyncio.run(measure(Path(os.path.realpath(root))))
    finally:
        shutil.rmtree(root)
