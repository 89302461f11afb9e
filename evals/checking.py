"""Makes a task's repository, and runs its check in a separate process: what a model wrote may do anything."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from evals.task import Task
from treadle.errors import LocalError
from treadle.io.process import child as children
from treadle.io.sandbox.methods import wanted
from treadle.io.sandbox.start import start
from treadle.io.tasks import within
from treadle.policy.environment import reduced
from treadle.session import Confinement

CHECK_SECONDS = 60.0
BEGIN = "evals-begin"
"""The tag of the commit that the agent starts from."""
HELPERS = '''\
import os, subprocess, sys
sys.path.insert(0, "")
sys.dont_write_bytecode = True
answer = os.environ.get("EVAL_ANSWER", "")

def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()

def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

def run(command):
    """The exit code of a shell command."""
    return subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

def output(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout

def unchanged():
    """Whether the repository is as it was when the agent came."""
    return not git("status", "--porcelain").strip() and not git("diff", "evals-begin").strip()

def tests_pass(*modules):
    """Run test modules as they are written: functions test_* , unittest cases, or plain statements."""
    code = """
import importlib, sys, unittest
sys.path.insert(0, "")
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for thing, value in list(vars(module).items()):
        if thing.startswith("test") and callable(value) and not isinstance(value, type):
            value()
        elif isinstance(value, type) and thing.startswith("Test") and not issubclass(value, unittest.TestCase):
            for method in dir(value):
                if method.startswith("test"):
                    getattr(value(), method)()
    found = unittest.defaultTestLoader.loadTestsFromModule(module)
    if not unittest.TextTestRunner(stream=open("/dev/null", "w")).run(found).wasSuccessful():
        sys.exit(1)
"""
    argv = [sys.executable, "-B", "-c", code, *modules]
    return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

'''


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    passed: bool
    why: str = ""
    """The last line that the check printed."""


@contextmanager
def workspace(task: Task) -> Iterator[Path]:
    """The task's repository, with its files committed; removed afterwards."""
    place = Path(tempfile.mkdtemp(prefix="treadle-eval-"))
    try:
        repository = place / "project"
        repository.mkdir()
        for path, content in task.files.items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_text(content)
        where = str(repository)
        for command in (
            ["init", "-q", "-b", "main"],
            ["config", "user.name", "eval"],
            ["config", "user.email", "eval@example.invalid"],
            ["add", "-A"],
            ["commit", "-q", "--allow-empty", "-m", "Begin"],
            ["tag", BEGIN],
        ):
            subprocess.run(["git", *command], cwd=where, check=True, capture_output=True)
        yield repository
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def shell(script: str, repository: Path) -> str:
    """Run a script of the task itself (its setup, or in tests its solution). Returns what it prints."""
    code, said = await _run(["bash", "-ec", script], repository, {})
    if code != 0:
        raise LocalError(f"a script of the task failed with exit code {code}: {said.strip()[-500:]}")
    return said


async def check(task: Task, repository: Path, answer: str) -> Verdict:
    """Whether the work is done, judged by the files and the answer."""
    argv = [sys.executable, "-B", "-c", HELPERS + task.check]
    code, said = await _run(argv, repository, {"EVAL_ANSWER": answer})
    if code == 0:
        return Verdict(passed=True)
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return Verdict(passed=False, why="the check took too long" if code is None else (lines or ["no word"])[-1][:300])


async def _run(argv: list[str], repository: Path, env: dict[str, str]) -> tuple[int | None, str]:
    asked = Confinement(network="off", write=(str(repository),))
    confinement = asked if wanted(asked, "full-auto") else None
    python = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    tail = children.Tail(8192)
    async with await start(
        confinement,
        argv,
        cwd=str(repository),
        env={**reduced(os.environ), "PATH": python, "PYTHONDONTWRITEBYTECODE": "1", **env},
        stderr="stdout",
    ) as child:
        try:
            async with within(CHECK_SECONDS):
                while data := await child.stdio.read():
                    tail.feed(data)
                return await child.wait(), tail.text
        except TimeoutError:
            return None, tail.text
