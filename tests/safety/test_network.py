"""Where the network is limited, nothing is reached unasked: judged by what a listener on this machine was sent."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.conftest import Opened
from tests.agent.test_native import of, turn
from tests.scripts import calls, says
from treadle.events import Asked, ToolDenied, ToolEnded, Warned
from treadle.io.paths import state_dir
from treadle.io.sandbox import methods, proxy
from treadle.session import Answer, Confinement, Rules

LISTED = Confinement(use="on", network="off", hosts=("registry.example",))
FETCH = "no_proxy= NO_PROXY= python3 -c 'import sys,urllib.request as u; u.urlopen(sys.argv[1], timeout=60)' {}"
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_person_is_asked_about_each_host_and_the_answer_holds_for_the_session(
    opened: Opened,
    listener: Listener,
) -> None:
    once = FETCH.format(listener.url)
    name = listener.url.removeprefix("http://")
    session = await opened(script(f"{once}; {once}", once), answers=True, mode="full-auto", confinement=LISTED)
    events = await turn(session, answer=Answer(decision="deny"))
    assert [one.args["host"] for one in of(events, Asked)] == ["127.0.0.1"] * 2 and listener.heard == []
    assert f"{name} may not be reached: only registry.example" in of(events, ToolEnded)[0].result

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


@pytest.mark.parametrize("mode", ["auto-edit", "full-auto"])
async def test_by_default_commands_and_web_fetch_reach_nothing_that_no_person_allowed(
    opened: Opened, listener: Listener, mode: str
) -> None:
    commands = [f"url={listener.url}; " + way.format(listener.url) for way in WAYS]
    run = Rules(allow=("Bash",))
    everything = script(*commands).removesuffix(says("done")) + calls("web_fetch", {"url": listener.url}) + says("done")
    events = await turn(await opened(everything, mode=mode, rules=run))
    assert len(of(events, ToolEnded)) == len(commands) and listener.heard == []
    assert "--network" in of(events, ToolEnded)[0].result and "--network" in of(events, ToolDenied)[0].reason
    asked = await opened(script(FETCH.format(listener.url)), mode=mode, rules=run, answers=True)
    events = await turn(asked, answer=Answer(decision="allow"))
    assert [one.name for one in of(events, Asked)] == ["network"] and len(listener.heard) == 1


async def test_an_order_reaches_nothing_by_default_and_waits_for_no_one(opened: Opened, listener: Listener) -> None:
    order = Confinement(use="possible")
    commands = [f"url={listener.url}; " + way.format(listener.url) for way in WAYS]
    everything = script(*commands).removesuffix(says("done")) + calls("web_fetch", {"url": listener.url}) + says("done")
    events = await turn(await opened(everything, mode=None, confinement=order, answers=True))
    assert of(events, Asked) == [] and listener.heard == []
    assert "--network" in of(events, ToolEnded)[0].result and "--network" in of(events, ToolDenied)[0].reason
    allowed = Confinement(use="possible", network="on")
    await turn(await opened(script(FETCH.format(listener.url)), mode=None, confinement=allowed))
    assert len(listener.heard) == 1


async def test_elsewhere_and_where_it_was_switched_on_commands_have_the_network(
    opened: Opened, listener: Listener
) -> None:
    command = script(FETCH.format(listener.url))
    await turn(await opened(command, mode="full-auto", confinement=Confinement(network="on")))
    await turn(await opened(command, mode="suggest", confinement=Confinement(use="on"), rules=Rules(allow=("Bash",))))
    await turn(await opened(command, mode="yolo"))
    assert len(listener.heard) == 3


async def test_a_server_of_the_command_itself_is_reached(opened: Opened) -> None:
    server = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1"
    serve = f"{server} & until curl -sf http://127.0.0.1:8123/ >o; do :; done"
    for answers in (False, True):
        events = await turn(
            await opened(script(serve), mode="full-auto", answers=answers), answer=Answer(decision="deny")
        )
        assert of(events, Asked) == [] and "exit code" not in of(events, ToolEnded)[0].result


SERVE = "python3 -m http.server {port} --bind 127.0.0.1"
ASK = "for i in $(seq 300); do curl -sf http://127.0.0.1:{port}/ >o && exit 0; sleep 0.1; done; exit 1"


@pytest.mark.parametrize("hosts", [(), ("registry.example",)])
async def test_commands_of_a_session_reach_each_others_ports_and_those_of_no_other(
    opened: Opened, listener: Listener, hosts: tuple[str, ...]
) -> None:
    walls = Confinement(use="on", network="off", hosts=hosts)
    servers = [calls("bash", {"command": SERVE.format(port=port), "background": True}) for port in (8124, 8125)]
    looks = script(*(ASK.format(port=port) for port in (8124, 8125)), FETCH.format(listener.url))
    session = await opened("".join(servers) + looks, mode="full-auto", confinement=walls)
    results = [one.result for one in of(await turn(session), ToolEnded)]
    assert [("exit code" in one) for one in results] == [False, False, False, False, True] and listener.heard == []
    other = await opened(script("curl -sf http://127.0.0.1:8124/"), mode="full-auto", confinement=walls)
    assert "exit code 7" in of(await turn(other), ToolEnded)[0].result
    await session.close()


SETTINGS = """
[[hooks.pre_tool]]
matcher = "Bash"
command = "bash -c 'exec 9<>/dev/tcp/127.0.0.1/{port}; echo hook >&9'"

[mcp_servers.one]
command = "bash"
args = ["-c", "exec 9<>/dev/tcp/127.0.0.1/{port}; echo server >&9"]
"""


@pytest.mark.parametrize(("network", "reached"), [("auto", {b"hook\n", b"server\n"}), ("off", set())])
async def test_hooks_and_servers_that_a_person_set_up_have_the_network_until_it_is_limited(
    opened: Opened, listener: Listener, network: str, reached: set[bytes]
) -> None:
    settings = Path(state_dir()) / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(SETTINGS.format(port=listener.url.rpartition(":")[2]))
    asked = Confinement(use="on", network=network)  # type: ignore[arg-type]
    await turn(await opened(script("true"), mode="full-auto", confinement=asked))
    assert set(listener.heard) == reached


async def test_web_fetch_follows_groups_of_registries(
    opened: Opened, listener: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tool on this machine says which hosts those are; here its settings are ours."""
    config = tmp_path / "npmrc"
    config.write_text(f"registry={listener.url}/\n")
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(config))
    proxy._asked.cache_clear()
    walls = Confinement(use="on", network="off", hosts=("npm",))
    fetches = "".join(calls("web_fetch", {"url": url}) for url in (f"{listener.url}/x", "http://other.example/"))
    events = await turn(await opened(fetches + says("done"), mode="full-auto", confinement=walls))
    proxy._asked.cache_clear()
    [denied] = of(events, ToolDenied)
    assert "other.example may not be reached" in denied.reason
    assert len(of(events, ToolEnded)) == 1  # and then it is the tool that refuses private addresses
