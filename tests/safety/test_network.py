"""Where the network is limited, nothing is reached unasked: judged by what a listener on this machine was sent."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.conftest import Opened
from tests.agent.test_native import of, turn
from tests.scripts import calls, says
from treadle.events import Asked, ToolDenied, ToolEnded, Warned
from treadle.io.sandbox import methods
from treadle.session import Answer, Confinement, Rules

LISTED = Confinement(use="on", network="off", hosts=("pypi.org",))
FETCH = "no_proxy= NO_PROXY= python3 -c 'import sys,urllib.request as u; u.urlopen(sys.argv[1], timeout=20)' {}"
WAYS = (
    FETCH,
    "curl -sS --noproxy '*' {}",
    "curl -sS --noproxy '' {}",
    "exec 9<>/dev/tcp/127.0.0.1/${{url##*:}}; echo x >&9",
    "git ls-remote {}/x.git",
)

if not methods.available().network:
    pytest.skip("the network cannot be limited here", allow_module_level=True)


class Listener:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.url = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener()
    async with await asyncio.start_server(made, "127.0.0.1", 0) as server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made


def script(*commands: str) -> str:
    return "".join(calls("bash", {"command": command}) for command in commands) + says("done")


async def test_with_nobody_to_ask_nothing_is_sent_and_the_way_to_allow_it_is_told(
    opened: Opened,
    listener: Listener,
) -> None:
    commands = [f"url={listener.url}; " + way.format(listener.url) for way in WAYS]
    for asked in (LISTED, Confinement(use="on", network="off")):
        session = await opened(script(*commands), mode="full-auto", confinement=asked)
        events = await turn(session)
        ended = of(events, ToolEnded)
        assert len(ended) == len(commands) and listener.heard == []
        assert "--network" in ended[0].result and "settings" in ended[0].result
        assert len([one for one in of(events, Warned) if one.code == "network"]) == 1  # the first explains itself


async def test_a_person_is_asked_about_each_host_and_the_answer_holds_for_the_session(
    opened: Opened,
    listener: Listener,
) -> None:
    once = FETCH.format(listener.url)
    name = listener.url.removeprefix("http://")
    session = await opened(script(f"{once}; {once}", once), answers=True, mode="full-auto", confinement=LISTED)
    events = await turn(session, answer=Answer(decision="deny"))
    assert [one.args["host"] for one in of(events, Asked)] == ["127.0.0.1"] * 2 and listener.heard == []
    assert f"{name} may not be reached: only pypi.org" in of(events, ToolEnded)[0].result

    session = await opened(script(f"{once} && {once}", once), answers=True, mode="full-auto", confinement=LISTED)
    events = await turn(session, answer=Answer(decision="allow"))
    assert len(of(events, Asked)) == 2 and len(listener.heard) == 3  # each command asks for itself

    session = await opened(script(once, once), answers=True, mode="full-auto", confinement=LISTED)
    events = await turn(session, answer=Answer(decision="allow", scope="session"))
    assert len(of(events, Asked)) == 1 and len(listener.heard) == 5
    assert any(name in one.message for one in of(events, Warned))


async def test_web_fetch_follows_the_same_list(
    opened: Opened,
    listener: Listener,
    tmp_path: Path,
) -> None:
    fetch = calls("web_fetch", {"url": listener.url}) + says("done")
    for asked in (LISTED, Confinement(use="on", network="off")):
        events = await turn(await opened(fetch, mode="full-auto", confinement=asked))
        [denied] = of(events, ToolDenied)
        assert (
            denied.by == "nobody" and "127.0.0.1 may not be reached" in denied.reason and "--network" in denied.reason
        )
    session = await opened(fetch, answers=True, mode="full-auto", confinement=LISTED)
    events = await turn(session, answer=Answer(decision="deny"))
    assert [one.name for one in of(events, Asked)] == ["web_fetch"] and listener.heard == []
    allowed = Rules(allow=("WebFetch(domain:127.0.0.1)",))
    events = await turn(await opened(fetch, mode="full-auto", confinement=LISTED, rules=allowed))
    assert of(events, ToolDenied) == []  # then it is the tool that refuses private addresses
