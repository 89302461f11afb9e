"""After an edit: what a fast checker says of it, if the project uses one that is installed here.

It runs like a command of the agent, confined as these are, and has little time: one that takes longer is not run again
in this session. Nothing is installed, and nothing of the project is run to find out.
"""

import os
from collections.abc import Callable, Mapping

import msgspec

from treadle.errors import TreadleError
from treadle.io.reading import read_ends
from treadle.session import Access, Confinement

SECONDS = 5.0
NOT_RUN = (126, 127)
"""Exit codes of a shell, a sandbox and `env` for a program that cannot be run, for one because it is hidden there."""
LINES, LINE = 30, 300
"""How much of what a checker says is shown."""


class Checker(msgspec.Struct, frozen=True, kw_only=True):
    """`signs`: a file in the working directory that shows that the project uses it, with words that must be in it."""

    argv: tuple[str, ...]
    endings: tuple[str, ...]
    signs: tuple[tuple[str, str], ...]
    by_file: bool = False
    """Whether it takes the changed files as arguments; if not, it looks at everything."""
    runs_code: bool = False
    """Whether it runs the project's own code, and so needs a sandbox."""
    own: str = ""
    """Where a project has one of its own, which is run in a sandbox only, and then rather than the one on PATH."""


CHECKERS = (
    Checker(
        argv=("ruff", "check", "--quiet", "--no-fix", "--force-exclude", "--output-format=concise", "--"),
        endings=(".py", ".pyi"),
        signs=(("ruff.toml", ""), (".ruff.toml", ""), ("pyproject.toml", "[tool.ruff")),
        by_file=True,
    ),
    Checker(
        argv=("tsc", "--noEmit", "--pretty", "false"),
        endings=(".ts", ".tsx", ".mts", ".cts"),
        signs=(("tsconfig.json", ""),),
        own="node_modules/.bin/tsc",
    ),
    Checker(
        argv=("cargo", "check", "--quiet", "--message-format=short"),
        endings=(".rs",),
        signs=(("Cargo.toml", ""),),
        runs_code=True,
    ),
)


class Diagnostics:
    def __init__(
        self,
        *,
        cwd: str,
        env: Mapping[str, str],
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None] = lambda: None,
    ) -> None:
        self._cwd = cwd
        self._env = env
        self._warn = warn
        self._confinement = confinement
        self._given_up: set[str] = set()

    async def after(self, access: Access) -> str:
        """What checkers have to say after a tool has written these paths; mostly nothing."""
        findings = [await self._ask(one, access.paths) for one in CHECKERS] if access.kind == "write" else []
        return "".join(f"\n{text}" for text in findings if text)

    async def _ask(self, checker: Checker, paths: tuple[str, ...]) -> str:
        name = checker.argv[0]
        changed = [path for path in paths if path.endswith(checker.endings) and os.path.isfile(path)]
        if not changed or name in self._given_up or not self._used(checker):
            return ""
        confinement = self._confinement()
        program = self._program(checker, confined=confinement is not None)
        if program is None:
            return ""
        argv = [program, *checker.argv[1:], *(changed if checker.by_file else [])]
        output = await self._run(name, argv, confinement)
        lines = [line[:LINE] for line in output.splitlines()]
        more = [f"[{len(lines) - LINES} more lines]"] if len(lines) > LINES else []
        return "\n".join([f"[{name} says:]", *lines[:LINES], *more]) if lines else ""

    def _program(self, checker: Checker, *, confined: bool) -> str | None:
        from shutil import which  # imported here because few sessions come this far

        own = os.path.join(self._cwd, checker.own)
        if checker.own and confined and os.access(own, os.X_OK):
            return own
        if checker.runs_code and not confined:
            return None
        return which(checker.argv[0], path=self._env.get("PATH"))

    async def _run(self, name: str, argv: list[str], confinement: Confinement | None) -> str:
        from treadle.io.process.consulted import consult
        from treadle.io.sandbox.start import start

        try:
            child = await start(confinement, argv, env=dict(self._env), cwd=self._cwd, stdin="pipe", stderr="stdout")
            async with child:
                ran = await consult(child, b"", SECONDS)
        except TreadleError as error:
            self._give_up(name, str(error))
            return ""
        if ran.exit_code is None:
            self._give_up(name, f"it took more than {SECONDS:g} s")
            return ""
        if ran.exit_code in NOT_RUN:
            self._give_up(name, ran.stdout.strip() or f"it ended with exit code {ran.exit_code}")
            return ""
        return ran.stdout.strip() if ran.exit_code else ""

    def _give_up(self, name: str, why: str) -> None:
        self._given_up.add(name)
        self._warn(f"{name} is not asked after edits any more in this session: {why}")

    def _used(self, checker: Checker) -> bool:
        for sign, words in checker.signs:
            path = os.path.join(self._cwd, sign)
            if os.path.isfile(path) and (not words or _has(path, words)):
                return True
        return False


def _has(path: str, words: str) -> bool:
    try:
        return words.encode() in read_ends(path, 256 * 1024)
    except TreadleError:
        return False
