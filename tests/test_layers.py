"""Imports point down only; siblings on one line do not import each other; light modules stay light."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests import house
from tests.house import SRC, imported, names, parsed, started
from tests.imports import loaded_by

LAYERS = [
    {"cli"},
    {"conform"},
    {"serve"},
    {"goals"},
    {"landing"},
    {"fleet"},
    {"host", "library"},
    {"agents"},
    {"doors", "drivers", "terminal"},
    {"agent", "coordination"},
    {"gateway"},
    {"sandboxed"},
    {"receipts"},
    {"verification"},
    {"sessions", "workspace", "settings"},
    {"io"},
    {"policy", "wire"},
    {"session"},
    {"confinement"},
    {"events"},
    {"errors", "redact"},
    {"light", "installation"},
]
BESIDE = {"testing"}
NOT_IN_THE_GATE = ("tests/live", "tests/soak", "tests/differential", "benchmarks", "evals")
RUN_BY_OTHERS = {"tests.live.codex_python_client", "tests.live.library_client"}
"""Programs that a test starts with arguments, or where other libraries are."""
"""Public helpers for tests may use what they help to test. Nothing in the product uses them but the conformance kit."""

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
    "io.process.lifetime",
    "io.sockets",
    "policy.patterns",
    "wire.heimdall.messages",
    "errors",
    "cli",
    "io.process.signals",
    "io.process.launch",
    "cli.worker_entry",
    "cli.heimdall.dispatch",
]
HEAVY = {"msgspec", "asyncio", "dataclasses", "psutil", "tomllib", "click"}


def rank(part: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


@cache
def modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(SRC).parts[1].removesuffix(".py"), path) for path in (SRC / "treadle").rglob("*.py")]


def test_a_module_imports_and_starts_only_what_lies_below_it() -> None:
    """Commands are an exception: to start one is what a person or another program does, too."""
    wrong = []
    for name, path in names().items():
        part = path.relative_to(SRC).parts[1].removesuffix(".py")
        if part not in {"__init__", "__main__"} | BESIDE:
            programs = {other for other in started(name) if not other.startswith("treadle.cli.")}
            for other in (imported(name) | programs) - {"treadle"}:
                below = other.split(".")[1]
                if below in BESIDE and part == "conform":
                    continue
                if below in BESIDE:
                    wrong.append(f"{name} imports {other}, which is only for tests")
                elif below != part and rank(below) <= rank(part):
                    wrong.append(f"{name} imports {other}, which is not below it")
    assert wrong == []


def defines(module: str, name: str) -> bool:
    """Whether a module of ours has a name, which it defines, imports or makes when it is asked for."""
    return module in names() and re.search(rf"\b{name}\b", names()[module].read_text()) is not None


MODULE = re.compile(r"treadle(\.[a-z_0-9]+){2,}")


def test_a_module_that_is_named_in_a_string_is_there() -> None:
    """Programs of ours that are started with `-m`, and what is loaded by name: a type checker sees neither."""
    gone = []
    for name, path in names().items():
        for text in parsed(path).strings:
            place, _, attribute = text.partition(":")
            inside, _, last = place.rpartition(".")
            if MODULE.fullmatch(place) and (place not in names() and not defines(inside, last)):
                gone.append(f"{name} names {text}")
            elif place in names() and attribute.isidentifier() and not defines(place, attribute):
                gone.append(f"{name} names {text}")
    assert gone == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Neither when it is loaded, nor later inside of a function, nor for its types."""
    left = {name: set(imported(name)) for name in names()}
    while ready := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in ready}
    assert left == {}, "pass fewer things, or move what both need to where both can reach it"


ACTS = {
    *("open", "os.open", "os.fdopen", "os.rename", "os.replace", "os.link", "fcntl.flock", "fcntl.lockf"),
    *("os.fork", "os.execv", "os.execve", "os.posix_spawn", "os.posix_spawnp", "os.kill", "os.killpg"),
    *("subprocess.run", "subprocess.Popen", "subprocess.check_output", "signal.pidfd_send_signal", "shutil.move"),
    # Ctrl-C would break into a step of the loop: io.process.loop runs it.
    *("asyncio.run", "asyncio.Runner"),
}
ACTING_METHODS = {"read_text", "write_text", "read_bytes", "write_bytes", "add_signal_handler"}
ACT_THEMSELVES = {
    # The lock is the pid file: opened, locked and looked at again in one place, so that no two take it over at once.
    "terminal/lock.py": 2,
    # A supervisor is forked and not started, to share memory with the one that forks: there may be hundreds.
    "terminal/launch.py": 2,
    # The files of a supervisor are held open as bare descriptors, for memory.
    "terminal/history.py": 1,
    # A notification of the supervisor, which has neither keeper nor event loop to wait for it; and the program's own
    # side of the pty, which alone tells whether keys are unread, and which no one else may open without O_NOCTTY.
    "terminal/pty.py": 2,
    # Ctrl-Z: it stops itself, as every program in the foreground does.
    "terminal/viewers/attach.py": 1,
    # The metadata of the installed package, which only look like files that are read.
    "fleet/join/machines.py": 1,
    "installation.py": 1,
}
"""How often a module outside of io opens, starts, signals, renames or locks by itself, and why."""


def acts(path: Path) -> list[str]:
    calls = parsed(path).calls
    methods = tuple(f".{method}" for method in ACTING_METHODS)
    return [f"{called}, line {line}" for called, line in calls if called in ACTS or called.endswith(methods)]


def test_only_io_opens_starts_signals_renames_and_locks() -> None:
    wrong = []
    for part, path in modules():
        if part not in {"io"} | BESIDE:
            found = acts(path)
            if len(found) > ACT_THEMSELVES.get(str(path.relative_to(SRC / "treadle")), 0):
                wrong.append(f"{path} acts by itself ({'; '.join(found)}): use treadle.io, or add a function there")
    assert wrong == []


LONGEST = 1000
"""Lines of a module. Most have 150 to 600: it is one thing, whole."""
SHORT = 60
"""Lines under which a module must be used by several others, or be started by its name."""
FLAT = 25
"""How many modules one folder may have: a reader takes them in at a glance."""


def test_no_module_is_too_long_to_be_one_thing() -> None:
    assert [name for name in house.modules() if house.length(name) > LONGEST] == [], "find what can be a module"


def test_a_short_module_is_used_by_several_others() -> None:
    short = [name for name in house.single_importers() if house.length(name) < SHORT]
    assert short == [], "it belongs to the one that imports it"


def test_a_folder_has_few_modules() -> None:
    found = Counter(name.rpartition(".")[0] for name in house.modules())
    assert [folder for folder, count in found.items() if count > FLAT] == [], "merge what belongs together"


def test_what_may_act_by_itself_still_does() -> None:
    there = {module: len(acts(SRC / "treadle" / module)) for module in ACT_THEMSELVES}
    assert there == ACT_THEMSELVES, "lower the number, or take it off the list"


def test_a_class_name_has_one_meaning() -> None:
    """Except `Connection`, which every wire has: the contract test of wires looks for it by that name."""
    places: dict[str, list[str]] = {}
    for name, path in names().items():
        for defined in parsed(path).classes:
            if not (defined == "Connection" and name.startswith("treadle.wire.")):
                places.setdefault(defined, []).append(name)
    several = {name: where for name, where in places.items() if len(where) > 1}
    assert several == {}, "find a name that says what is meant here"


IMPURE = {"os", "glob", "shutil", "tempfile", "subprocess", "socket", "select", "signal", "asyncio", "threading"}


@pytest.mark.parametrize("part", ["policy", "wire"])
def test_policy_and_wires_are_pure(part: str) -> None:
    for path in (SRC / "treadle" / part).rglob("*.py"):
        for node in parsed(path).imports:
            within = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            assert not IMPURE & {name.partition(".")[0] for name in within}, f"{path} looks around by itself"


def exists(module: str) -> bool:
    place = SRC / "treadle" / module.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").exists()


FORKS = """
import os, sys
for modules in sys.argv[1:]:
    if (child := os.fork()) == 0:
        for module in modules.split(","):
            __import__(module)
        print(modules, *sys.modules, flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{modules} cannot be imported")
"""
OPENED = "treadle.agent.native,treadle.agent.providers.http,treadle.doors.worker.door"


@cache
def loaded() -> dict[str, set[str]]:
    """What is loaded after a light module, or after those that open a session: one process, which forks for each."""
    light = [f"treadle.{module}" for module in LIGHT if exists(module)]
    command = [sys.executable, "-I", "-c", FORKS, OPENED, *light]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[0]: set(words[1:]) for words in map(str.split, lines)}


def test_a_session_is_opened_without_the_http_client() -> None:
    assert not {"h11", "httpx2"} & loaded()[OPENED]


@pytest.mark.parametrize("module", [module for module in LIGHT if exists(module)])
def test_a_light_module_imports_nothing_heavy(module: str) -> None:
    assert not HEAVY & loaded()[f"treadle.{module}"]


@pytest.mark.slow
def test_what_the_gate_does_not_run_can_still_be_loaded() -> None:
    """A name that was changed in what they share would only be missed by the next person who measures something."""
    root = SRC.parent
    paths = [path for place in NOT_IN_THE_GATE for path in (root / place).rglob("*.py")]
    names = {".".join(path.relative_to(root).with_suffix("").parts) for path in paths if path.stem != "__main__"}
    loading = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)"
    command = [sys.executable, "-c", loading, *sorted(names - RUN_BY_OTHERS)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=100)
    assert len(names) > 100 and done.returncode == 0, done.stderr


def test_every_folder_says_what_belongs_there_and_every_room_what_does_not() -> None:
    folders = [path for _, path in modules() if path.name == "__init__.py"]
    assert not [path for path in folders if not parsed(path).docstring]
    missing = []
    for path in folders:
        inside = path.relative_to(SRC / "treadle").parts
        if len(inside) == 2 and len(parsed(path).docstring.split("\n\n")) < 2:
            missing.append(inside[0])
    assert missing == [], "a first paragraph says what belongs there, a last one what does not"


def test_the_page_about_the_architecture_has_a_row_for_every_room() -> None:
    page = (SRC.parent / "docs" / "explanation" / "architecture.md").read_text()
    found = [path.parent for _, path in modules() if path.name == "__init__.py"]
    rooms = {path.name for path in found if path.parent.name == "treadle"}
    diagram = page.partition("```text\n")[2].partition("```")[0]
    assert not [name for name in rooms if not re.search(rf"^(.*  )?{name}\b", diagram, re.MULTILINE)]


OURS = {"a turn": 94, "a worker's turn with a command": 117}
"""How many modules of ours may be loaded. Each costs about 0.3 ms and 30 kB in every run and in every worker: import
late what most do not need, and lower these numbers when you can."""
NEVER = {"rich", "prompt_toolkit", "h11", "httpx2", "anyio", "pydantic", "mcp", "nats", "psutil", "starlette"}
"""Nothing of them is needed without HTTP, a screen or a fleet."""


def test_a_turn_loads_no_more_modules_than_its_budget(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[[reply]]\ntext = "hello"\n')
    said, loaded = loaded_by("-p", "hi", "--model", f"scripted:{tmp_path / 's.toml'}", cwd=tmp_path)
    assert said == "hello\n"
    within_budget("a turn", loaded)


def test_a_worker_s_turn_with_a_command_loads_no_more_modules_than_its_budget(tmp_path: Path) -> None:
    call = '[[reply]]\n[[reply.call]]\nname = "bash"\narguments = { command = "echo hi" }\n'
    (tmp_path / "s.toml").write_text(f'{call}[[reply]]\ntext = "done"\n')
    config = {"model": f"scripted:{tmp_path / 's.toml'}", "system_prompt": "", "tools": ["bash"]}
    requests = [{"type": "init", "id": "1", "config": config}, {"type": "send", "id": "2", "message": "go"}]
    said, loaded = loaded_by("worker", cwd=tmp_path, given="".join(f"{json.dumps(line)}\n" for line in requests))
    assert json.loads(said.splitlines()[-1])["response"] == "done"
    within_budget("a worker's turn with a command", loaded)


def within_budget(what: str, loaded: set[str]) -> None:
    assert not NEVER & loaded
    ours = sorted(name for name in loaded if name.partition(".")[0] == "treadle")
    assert len(ours) <= OURS[what], f"{what} loads {len(ours)} modules of ours: {' '.join(ours)}"
