"""The two factories that other hosts know, over any session."""

import io
import json

import pytest

from tests.doors.oneshot.test_run import FORMATS, HELLO, Commanded, Sink
from treadle import create_headless_runner, create_headless_transport
from treadle.errors import LocalError, PeerClosed, ProviderError, TimedOut
from treadle.wire.oneshot.connection import OutputFormat


async def test_the_runner_prints_text_to_stdout_unless_told_otherwise_and_can_run_again(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    runner = create_headless_runner(Commanded(HELLO, HELLO))
    assert [await runner.run("a"), await runner.run("b")] == [0, 0]
    assert capfdbinary.readouterr() == (b"Hello\nHello\n", b"")


async def test_the_runner_prints_to_whatever_stdout_is_at_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = create_headless_runner(session=Commanded(HELLO), output_format="json")
    monkeypatch.setattr("sys.stdout", printed := io.StringIO())
    assert await runner.run("a") == 0
    assert json.loads(printed.getvalue())["result"] == "Hello"


@pytest.mark.parametrize("output_format", FORMATS)
async def test_the_transport_runs_the_prompt_when_started_and_keeps_the_exit_code(
    output_format: OutputFormat, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    transport = create_headless_transport(output_format=output_format, prompt="go")
    assert transport.name == "headless" and transport.get_exit_code() == 0
    transport.attach(session := Commanded(HELLO, [ProviderError("down")]))
    assert session.events().ready() == []
    await transport.start()
    await transport.stop()
    assert transport.get_exit_code() == 0 and b"Hello" in capfdbinary.readouterr().out
    await transport.start()
    out, err = capfdbinary.readouterr()
    assert transport.get_exit_code() == 1 and b"down" in (err if output_format == "text" else out)


async def test_a_transport_without_a_session_says_what_to_do() -> None:
    with pytest.raises(LocalError, match="attach"):
        await create_headless_transport("go").start()


async def test_an_error_that_nobody_can_read_is_still_the_exit_code() -> None:
    class Closed(Sink):
        async def write(self, data: bytes) -> None:
            raise PeerClosed("gone")

    assert await create_headless_runner(Commanded([TimedOut("late")]), err=Closed()).run("go") == 1
