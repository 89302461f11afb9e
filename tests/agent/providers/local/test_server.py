"""The process of a local model: started when needed, shared, started again when it died, gone at the end."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.waiting import until
from treadle.agent.providers.local.catalog import Weights
from treadle.agent.providers.local.server import LocalServer, hold
from treadle.agent.providers.local.settings import LocalSettings
from treadle.errors import ConfigError, ProviderError

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


async def test_sockets_of_killed_processes_are_removed(weights: Weights) -> None:
    server = hold(weights, SETTINGS, STAND_IN)
    try:
        left = os.path.join(os.path.dirname(await server.running()), "llama-999999999-00.sock")
        Path(left).touch()
        os.kill(pid_of(server), signal.SIGKILL)
        await until(lambda: server._child is not None and server._child.exit_code is not None)
        await server.running()
        assert not os.path.exists(left)
    finally:
        await server.release()


async def test_a_directory_too_long_for_sockets_is_not_used(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    server = hold(weights, SETTINGS, STAND_IN)
    try:
        assert (await server.running()).startswith("/tmp/treadle-")
    finally:
        await server.release()


REFUSING = """
import sys
class CommonParams:
    def __init__(self):
        self.model = self.cpuparams = self.cpuparams_batch = type("P", (), {})()
def Server(parameters):
    print("0.00.1 E llama_model_load: model is corrupted or incomplete", file=sys.stderr)
    print("0.00.2 E srv load_model: failed to load model", file=sys.stderr)
    raise RuntimeError("Failed to init server, please check the input params.")
"""


async def test_what_llama_cpp_names_first_is_the_reason(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text(REFUSING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ProviderError, match="could not be loaded: llama_model_load: model is corrupted"):
        await LocalServer(weights, SETTINGS).running()


async def test_the_real_program_says_what_is_missing_or_wrong(weights: Weights) -> None:
    """Without the extra it names the extra; with it, llama.cpp refuses a file that is no model."""
    server = LocalServer(weights, SETTINGS)
    with pytest.raises((ConfigError, ProviderError), match=r"treadle\[local\]|could not be loaded"):
        await server.running()


async def test_a_library_of_the_system_that_is_missing_is_named(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a minimal Debian llama.cpp is installed, but cannot be loaded."""
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ProviderError, match=r"lacks what it needs: libgomp\.so\.1"):
        await LocalServer(weights, SETTINGS).running()
