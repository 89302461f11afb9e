"""What a tool is. Each is one object, named in `TOOLS`.

A tool declares what it will touch (`access`) before it may run (`run`); the loop asks the guard in between. A failure
that the model should read and react to is a raised ToolError; any other exception is a bug.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from treadle.agent.messages import Image
from treadle.events import Asked, Event, Task, ToolKind, Warned
from treadle.policy.network import shown
from treadle.session import Access, Answer, Confinement, Instructions, Writing
from treadle.sessions.session import new_id

A = TypeVar("A", bound=msgspec.Struct)
Resolve: TypeAlias = Callable[[str], Path]
"""A path as the model wrote it -> absolute, relative to cwd, with symlinks and `..` resolved."""
ALLOW_PRIVATE = "web_fetch_allow_private"
"""Set this in the session's state, from the person's own configuration, to allow fetching from private addresses."""

DEFERRED, FOUND = "tools_deferred", "tools_found"
"""Keys of the session's state for the tools that can be searched for, and for the names of those that were found."""
SHELL = "shell"
"""Its key for what one command leaves for the next (`bash.ShellState`)."""


@contextmanager
def writing_freely(paths: tuple[str, ...]) -> Iterator[None]:
    """A Writing for a session without claims."""
    yield


class Background(Protocol):
    """Where a tool leaves work that goes on after its result: the session's tasks (agent/tasks.py)."""

    async def start_process(
        self,
        command: str,
        *,
        cwd: str,
        env: dict[str, str],
        confinement: Confinement | None = None,
        call: str | None = None,
    ) -> Task: ...

    async def run_agent(
        self, prompt: str, *, label: str, agent_type: str | None, background: bool, call: str | None = None
    ) -> Task:
        """With background=False, returns when the subagent is done; its answer is `task.output`."""
        ...


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running tool may use. Everything it does to the world goes through here or through treadle.io."""

    cwd: Path
    call: str
    emit: Callable[[Event], None]
    """FileChanged, CommandRun, ToolOutput, Warned ... as they happen."""
    ask: Callable[[str, tuple[str, ...]], Awaitable[Answer]]
    """Ask a person a question; when no one can answer, the Answer is a denial that says so."""
    env: dict[str, str]
    """The whole environment for children, already reduced to what is allowed."""
    backup: Callable[[Path], None]
    """Call before changing a file, so that rewind can restore it."""
    overflow: Callable[[str, str], Path]
    """overflow(call, text) stores the full text of a result that is too long and returns its path."""
    writing: Writing
    background: Background
    output_cap: int = 24 * 1024
    timeout: float = 120.0
    grace: float = 5.0
    """How many seconds an interrupted tool's processes have to end by themselves."""
    state: dict[str, Any] = {}
    """Kept for the whole session, for tools that remember (todo, which files were read)."""
    resolve: Resolve = Path
    inside: tuple[str, ...] = ()
    """The directories of the workspace; empty: `cwd`."""
    lasting: Callable[[dict[str, str], bool], dict[str, str]] = lambda variables, confined: variables
    """Those that a command may set for the next one."""
    hidden: Callable[[str], bool] = lambda path: False
    """Whether rules forbid reading this path: a tool that looks at many files must leave it out."""
    confinement: Callable[[], Confinement | None] = lambda: None
    """What a program that is started now must be confined to; None: nothing."""
    leave: Callable[[], None] = lambda: None
    """Call before a program is started without that."""
    instructions: Instructions = Instructions()
    """Which texts of the project, the person and plugins the session uses."""
    reaching: Callable[[str, int], Awaitable[bool]] | None = None
    """Whether a command may reach a host that is not in the list of its confinement; None: it may not."""
    keep_image: Callable[[bytes, str], str] | None = None
    """Stores an image for the model and returns its name; None: the model cannot be shown images."""
    documents: bool = False  # whether the service of the model takes PDFs
    images: list[Image] = []
    """The images that are shown with the result."""
    refused: Callable[[str], str] = lambda url: ""
    """Why this address may not be fetched without asking, or empty: for where a permitted one redirects to."""


class AnyArgs(msgspec.Struct, frozen=True):
    """Arguments that another program describes and checks (MCP): such a tool has its own JSON Schema, `parameters`."""

    values: dict[str, Any]


class Tool(Protocol, Generic[A]):
    """Implemented by a module-level object; see `session_tools.py` for short ones."""

    name: str
    description: str
    kind: ToolKind
    Args: type[A]
    """A msgspec Struct; its JSON schema is what the model sees."""

    def access(self, args: A, resolve: Resolve) -> Access:
        """What running with these arguments would touch."""
        ...

    async def run(self, args: A, context: ToolContext) -> str: ...


AnyTool = Tool[Any]


# The hosts that one command wants to reach and that are not in its list: each is asked about once.


def host_question(who: str, host: str, port: int, *, call: str | None, deadline: float | None) -> Asked:
    return Asked(
        request=new_id("ask"),
        kind="permission",
        text=f"{who} wants to reach {shown(host, port)}, which is not among the hosts that may be reached",
        call=call,
        name="network",
        args={"host": host, "port": port},
        tool_kind="network",
        deadline=deadline,
    )


def host_granted(host: str, port: int) -> Warned:
    name = shown(host, port)
    hint = "For good: add it to network in the settings, or to --network"
    return Warned(message=f"{name} can be reached for the rest of this session. {hint}")


class HostQuestions:
    def __init__(self, ask: Callable[[str, int], Awaitable[bool]] | None) -> None:
        """`ask` None: no one is asked, and none is reached."""
        self._ask = ask
        self._answers: dict[tuple[str, int], asyncio.Task[bool]] = {}
        self.refused: list[str] = []
        """As a person writes them in a list."""

    async def reach(self, host: str, port: int) -> bool:
        """A program that tries again, or gives up waiting, gets or leaves the one answer."""
        at = host.lower(), port
        if at not in self._answers:
            self._answers[at] = asyncio.create_task(self._decide(*at))
        return await asyncio.shield(self._answers[at])

    async def _decide(self, host: str, port: int) -> bool:
        if self._ask is not None and await self._ask(host, port):
            return True
        name = shown(host, port)
        if name not in self.refused:
            self.refused.append(name)
        return False

    def close(self) -> None:
        """The command is over: open questions are withdrawn."""
        for answer in self._answers.values():
            answer.cancel()
