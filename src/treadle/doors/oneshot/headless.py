"""The runner under names that other hosts know: a headless runner, and a transport that gets its session later."""

from treadle.doors.oneshot.run import OneShot, Sink
from treadle.errors import LocalError
from treadle.session import Session
from treadle.wire.oneshot.records import OutputFormat


class Transport:
    """The runner as a transport: attach a session, start, read the exit code."""

    name = "headless"

    def __init__(self, prompt: str, output_format: OutputFormat, out: Sink | None, err: Sink | None) -> None:
        self._prompt = prompt
        self._format = output_format
        self._out = out
        self._err = err
        self._session: Session | None = None
        self._exit_code = 0

    def attach(self, session: Session) -> None:
        self._session = session

    async def start(self) -> None:
        """Run the prompt and write the output."""
        if self._session is None:
            raise LocalError("the headless transport has no session", hint="call attach(session) before start()")
        runner = OneShot(self._session, self._format, out=self._out, err=self._err)
        self._exit_code = await runner.run(self._prompt)

    async def stop(self) -> None:
        """Does nothing: start() has already ended what it began."""

    def get_exit_code(self) -> int:
        """The exit code; 0 before any run."""
        return self._exit_code


def create_headless_runner(
    session: Session,
    output_format: OutputFormat = "text",
    *,
    out: Sink | None = None,
    err: Sink | None = None,
) -> OneShot:
    """A runner over any session: `await runner.run(prompt)` prints to stdout, or `out`, and returns the exit code."""
    return OneShot(session, output_format, out=out, err=err)


def create_headless_transport(
    prompt: str,
    output_format: OutputFormat = "text",
    *,
    out: Sink | None = None,
    err: Sink | None = None,
) -> Transport:
    """The same as a transport that gets its session later, by `attach`."""
    return Transport(prompt, output_format, out, err)
