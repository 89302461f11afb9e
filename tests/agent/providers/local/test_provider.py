"""A local model as a provider: over a private socket, ended with its session."""

import os
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.agent.providers.helpers import ask
from treadle.agent.messages import Reply
from treadle.agent.providers.known import LocalSettings
from treadle.agent.providers.local.models import LocalProvider, Weights

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    file = tmp_path / "m.gguf"
    file.write_text('[[reply]]\ntext = "hi"\ntimes = "always"\nusage = {input = 5, output = 2}\n')
    return Weights(name="m", path=str(file))


async def test_it_answers_for_nothing_and_leaves_no_process(weights: Weights) -> None:
    provider = LocalProvider(weights, LocalSettings(context=2048), program=STAND_IN)
    assert (provider.name, provider.model, provider.context_window) == ("local", "m", 2048)
    try:
        for _ in range(2):
            async with aclosing(provider.stream(ask())) as stream:
                items = [item async for item in stream]
            reply = items[-1]
            assert isinstance(reply, Reply) and reply.message.text == "hi"
            assert reply.usage is not None and reply.usage.cost_usd == 0.0
        assert provider._server is not None
        socket = provider._server.socket
        assert provider._server._child is not None
        pid = provider._server._child.pid
        assert await provider.models() == ["m"] and provider.priced and not provider.sees
    finally:
        await provider.aclose()
        await provider.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert os.path.basename(socket).startswith(f"llama-{os.getpid()}-")


async def test_a_provider_that_was_never_asked_starts_nothing(weights: Weights) -> None:
    provider = LocalProvider(weights, LocalSettings(), program=STAND_IN)
    assert await provider.models() == ["m"]
    await provider.aclose()
