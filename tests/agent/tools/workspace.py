"""A real ToolContext over a directory: what it emits, asks, backs up and keeps can be looked at afterwards."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from treadle.agent import toolbox
from treadle.agent.tools import files
from treadle.agent.tools.base import ToolContext
from treadle.errors import Denied, NotFound
from treadle.events import ErrorInfo, Event, Task
from treadle.session import Answer, Confinement


class Tasks:
    """Background work, recorded; a subagent answers with its prompt backwards."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str, dict[str, str]]] = []
        self.agents: list[dict[str, Any]] = []
        self.agent_status = "completed"
        self.agent_error: ErrorInfo | None = None
        self.agent_output = True

    async def start_process(
        self,
        command: str,
        *,
        cwd: str,
        env: dict[str, str],
        confinement: Confinement | None = None,
        call: str | None = None,
    ) -> Task:
        self.started.append((command, cwd, env))
        return Task(id="task-1", kind="process", label=command, status="running", pid=4711, log_path="/logs/task-1")

    async def run_agent(
        self, prompt: str, *, label: str, agent_type: str | None, background: bool, call: str | None = None
    ) -> Task:
        self.agents.append({"prompt": prompt, "label": label, "agent_type": agent_type, "background": background})
        if agent_type == "nobody":
            raise NotFound("there is no agent type 'nobody'", hint="try another")
        status: Any = "running" if background else self.agent_status
        output = None if background or not self.agent_output else prompt[::-1]
        return Task(id="task-2", kind="agent", label=label, status=status, output=output, error=self.agent_error)


class Workspace:
    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = Path(os.path.realpath(root))
        self.events: list[Event] = []
        self.backups: list[tuple[Path, bytes | None]] = []
        self.questions: list[tuple[str, tuple[str, ...]]] = []
        self.answer = Answer(decision="allow", text="yes")
        self.claimed: set[str] = set()
        self.tasks = Tasks()
        self.kept = root.parent / f"{root.name}-kept"
        values: dict[str, Any] = {
            "cwd": self.root,
            "call": "call-1",
            "emit": self.events.append,
            "ask": self._ask,
            "env": {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"},
            "backup": self._backup,
            "overflow": self._overflow,
            "writing": self._writing,
            "background": self.tasks,
            "state": {},
            "resolve": partial(files.resolve, self.root),
        }
        self.context = ToolContext(**{**values, **settings})

    async def run(self, name: str, **args: Any) -> str:
        """As the loop does it: find the tool, read the arguments, say what will be touched, run."""
        tool = toolbox.builtin().get(name)
        decoded = toolbox.decode(tool, json.dumps(args))
        tool.access(decoded, self.context.resolve)
        return await toolbox.run(tool, decoded, self.context)

    async def edit(self, name: str, **args: Any) -> str:
        """The same, for a file that is known: whatever is there was read just now."""
        path = self.context.resolve(args["file_path"])
        if path.is_file():
            files.saw(self.context, path, files.load(path).stamp)
        return await self.run(name, **args)

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    async def _ask(self, question: str, options: tuple[str, ...]) -> Answer:
        self.questions.append((question, options))
        return self.answer

    def _backup(self, path: Path) -> None:
        self.backups.append((path, path.read_bytes() if path.exists() else None))

    def _overflow(self, call: str, text: str) -> Path:
        self.kept.mkdir(exist_ok=True)
        path = self.kept / f"{call}.txt"
        path.write_bytes(text.encode())
        return path

    @contextmanager
    def _writing(self, touched: tuple[str, ...]) -> Iterator[None]:
        for path in touched:
            if path in self.claimed:
                raise Denied(f"{path} is claimed by another agent")
        yield
