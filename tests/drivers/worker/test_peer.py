"""A worker process: how a session with it is opened and closed, and what breaks the protocol."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.worker.workers import DELTA, OK, agent, ending, gone, session, turn
from treadle.drivers.worker.driver import WorkerAgent
from treadle.errors import (
    NotFound,
    PeerExited,
    PeerStalled,
    RemoteError,
    RemoteProtocolError,
    VersionMismatch,
)
from treadle.io.peer import Patience
from treadle.session import SessionSpec


async def test_a_late_heartbeat_after_the_result_is_skipped() -> None:
    beat = {"event": {"event": "heartbeat", "duration_ms": 5}}
    async with session({"send": [OK, beat]}) as opened:
        assert ending(await turn(opened)).outcome == "completed"
        assert ending(await turn(opened)).outcome == "completed"


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-worker"):
        await WorkerAgent("no-such-worker --x").open(SessionSpec(cwd=os.getcwd()))


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ({"init": [{"stderr": "no key"}, {"exit": 3}]}, PeerExited, "exited with code 3.*no key"),
        ({"init": [{"exit": 0}]}, PeerExited, "exited with code 0"),
        ({"init": [{"sleep": 60}]}, PeerStalled, "did not answer the init within 0.5 s"),
        (
            {"init": [{"repeat": "forever", "do": [{"raw": '{"type":"gossip"}\n'}, {"sleep": 0.01}]}]},
            PeerStalled,
            "did not answer the init within 0.5 s",
        ),
        ({"init": [{"stderr": "boom"}, {"raw": "Welcome!\n"}]}, RemoteProtocolError, "Invalid JSON.*boom"),
        ({"init": [{"raw": "\n"}]}, RemoteProtocolError, "Invalid JSON"),
        (
            {"init": [{"say": {"type": "init_ok", "id": "$id", "session_id": "s", "protocol_version": "1.0.0"}}]},
            VersionMismatch,
            "speaks version 1.0.0",
        ),
        (
            {"init": [{"result": {"status": "error", "error": {"code": "x", "message": "bad", "retryable": False}}}]},
            RemoteError,
            "refused to start a session: bad",
        ),
        (
            {
                "init": [
                    {
                        "say": {
                            "type": "init_ok",
                            "id": "$id",
                            "session_id": "",
                            "error": {"code": "protocol_version_mismatch", "message": "too old", "retryable": False},
                        }
                    }
                ]
            },
            VersionMismatch,
            "too old",
        ),
    ],
)
async def test_a_handshake_that_fails_says_why(script: Any, error: type[Exception], says: str) -> None:
    patience = Patience(handshake=0.5 if "0.5" in says else 60, grace=0.3)
    with pytest.raises(error, match=f"(?s){says}"):
        await agent(script, patience).open(SessionSpec(cwd=os.getcwd()))


async def test_a_worker_that_closes_its_output_and_lives_on_is_ended() -> None:
    patience = Patience(handshake=60, grace=0.3)
    async with session({"send": [DELTA, {"close": True}, {"sleep": 60}]}, patience) as opened:
        error = ending(await turn(opened)).error
    assert error is not None and error.code == "protocol_error" and "closed its output" in error.message


@pytest.mark.slow
async def test_a_worker_that_ignores_shutdown_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = {"shutdown": [{"child": str(pid)}, {"deaf": True}, {"sleep": 60}]}
    async with session(script, Patience(handshake=60, silence=60, shutdown=5, grace=0.3)) as opened:
        await turn(opened)
    assert gone(pid)
