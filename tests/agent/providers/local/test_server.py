"""The process of a local model: started when needed, shared, started again when it died, gone at the end."""

import asyncio
import hashlib
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.waiting import until
from treadle.agent.providers.known import LocalSettings
from treadle.agent.providers.local import models as module
from treadle.agent.providers.local.models import LocalServer, Weights, hold
from treadle.agent.providers.local.serve import WITHOUT
from treadle.errors import ConfigError, MissingExtra, ProviderError

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
SETTINGS = LocalSettings(threads=1)


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    file = tmp_path / "m.gguf"
    file.write_text('[[reply]]\ntext = "hi"\ntimes = "always"\n')
    return Weights(name="m", path=str(file))


def pid_of(server: LocalServer) -> int:
    assert server._child is not None
    return server._child.pid


async def test_it_runs_from_the_first_use_until_the_last_holder_lets_go(weights: Weights) -> None:
    one, two = hold(weights, SETTINGS, STAND_IN), hold(weights, SETTINGS, STAND_IN)
    assert one is two
    try:
        assert os.path.exists(await one.running())
        pid = pid_of(one)
        assert await two.running() == one.socket and pid_of(two) == pid
        assert os.stat(os.path.dirname(one.socket)).st_mode & 0o777 == 0o700
        await one.release()
        os.kill(pid, 0)
    finally:
        await two.release()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_one_that_died_is_started_again_at_the_next_use(weights: Weights) -> None:
    server = hold(weights, SETTINGS, STAND_IN)
    try:
        await server.running()
        first = server._child
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: first.exit_code is not None)
        await server.running()
        assert pid_of(server) != first.pid and os.path.exists(server.socket)
    finally:
        await server.release()


async def test_weights_that_cannot_be_read_are_an_error_with_the_reason(weights: Weights) -> None:
    Path(weights.path).write_text("broken")
    server = hold(weights, SETTINGS, STAND_IN)
    try:
        with pytest.raises(ProviderError, match="cannot read the weights"):
            await server.running()
    finally:
        await server.release()


async def test_a_file_that_is_not_the_pinned_one_is_not_run(weights: Weights) -> None:
    pinned = Weights(name="m", path=weights.path, sha256="0" * 64)
    server = LocalServer(pinned, SETTINGS, STAND_IN)
    with pytest.raises(ConfigError, match=hashlib.sha256(Path(weights.path).read_bytes()).hexdigest()):
        await server.running()


async def test_a_directory_too_long_for_sockets_is_not_used(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    server = hold(weights, SETTINGS, STAND_IN)
    try:
        assert (await server.running()).startswith("/tmp/treadle-")
    finally:
        await server.release()


async def test_the_real_program_says_what_is_missing_or_wrong(weights: Weights) -> None:
    """Without the extra it names the extra; with it, llama.cpp refuses a file that is no model."""
    server = LocalServer(weights, SETTINGS)
    with pytest.raises((ConfigError, ProviderError), match=r"treadle\[local\]|could not be loaded"):
        await server.running()


async def test_several_first_requests_start_one_server_and_a_pin_that_fits_is_checked_once(weights: Weights) -> None:
    digest = hashlib.sha256(Path(weights.path).read_bytes()).hexdigest()
    server = hold(Weights(name="m", path=weights.path, sha256=digest), SETTINGS, STAND_IN)
    try:
        places = await asyncio.gather(*(server.running() for _ in range(3)))
        assert len(set(places)) == 1 and os.path.exists(places[0])
        socket = places[0]
    finally:
        await server.release()
    assert not os.path.exists(socket)
    checked = LocalServer(Weights(name="m", path=weights.path, sha256="0" * 64, checked=True), SETTINGS, STAND_IN)
    checked.holders = 1
    assert os.path.exists(await checked.running()), "what was checked when it was fetched is not read again"
    await checked.release()


async def test_one_that_is_not_loaded_in_time_is_ended(weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.1)
    server = LocalServer(weights, SETTINGS, ("/bin/sh", "-c", "exec sleep 600"))
    with pytest.raises(ProviderError, match=r"the local model m was not loaded within 0\.1 s"):
        await server.running()
    assert server._child is None


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        (f"exit {WITHOUT}", MissingExtra, r"^a local model.*treadle\[local\]"),
        ("exit 5", ProviderError, "the local model m could not be loaded: exit code 5"),
        ("echo first >&2; echo last >&2; exit 1", ProviderError, "the local model m could not be loaded: last"),
    ],
)
async def test_why_it_could_not_be_loaded_is_said(
    weights: Weights, script: str, error: type[Exception], says: str
) -> None:
    server = LocalServer(weights, SETTINGS, ("/bin/sh", "-c", script))
    with pytest.raises(error, match=says):
        await server.running()


async def test_only_sockets_of_processes_that_are_gone_are_removed(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t-") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        place = Path(base, "treadle")
        place.mkdir(mode=0o700)
        names = (
            "llama-999999999-0.sock",
            f"llama-{os.getpid()}-0.sock",
            "llama-x-0.sock",
            "llama-999999999.sock",
            "other-999999999-0.sock",
        )
        for name in names:
            (place / name).touch()
        server = hold(weights, SETTINGS, STAND_IN)
        try:
            assert (await server.running()).startswith(f"{place}/llama-{os.getpid()}-")
        finally:
            await server.release()
        assert sorted(os.listdir(place)) == sorted(names[1:])
