"""Reaching the engine: what is in the way is said, and not tried for ever."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.cluster import certificate
from tests.fleet.engine.buses import restart
from tests.waiting import until
from treadle.errors import Denied
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.places import Address, hung_up, library, options, probed, shown


async def test_a_dead_port_is_told_at_once() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        async with asyncio.timeout(60):
            with pytest.raises(Unreachable, match="no one answers"):
                await Bus.connect(Address(url=f"nats://127.0.0.1:{silent.getsockname()[1]}"))


@pytest.mark.parametrize("how", ["before it says anything", "after its greeting"])
async def test_an_engine_that_hangs_up_is_asked_again_and_told_when_it_goes_on(fleet: places.Fleet, how: str) -> None:
    """As it does with the one who comes in the moment in which it reads its users again."""
    host, _, port = fleet.url.removeprefix("nats://").rpartition(":")
    hangs_up, asked = 1, 0

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        there, back = await asyncio.open_connection(host, int(port))
        if asked <= hangs_up:
            if how.startswith("after"):
                writer.write(await there.readline())
            back.close()
            return writer.close()
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as between:
        address = replace(fleet.address("admin"), url=f"nats://127.0.0.1:{between.sockets[0].getsockname()[1]}")
        bus = await Bus.connect(address, patience=60)
        assert await bus.get("order.none") is None
        await bus.close()
        hangs_up = asked + 1000
        with pytest.raises(Unreachable, match="no one answers"):
            await Bus.connect(address, patience=0.5)
        assert asked > 4


async def test_wrong_credentials_are_told_and_not_tried_for_ever(fleet: places.Fleet) -> None:
    with pytest.raises(Denied, match="credentials"):
        await Bus.connect(Address(url=fleet.url, user="admin", password="wrong"))


async def test_what_listens_is_called_when_the_engine_is_back_even_if_another_fails(
    fleet: places.Fleet, bus: Bus
) -> None:
    calls = []

    def broken() -> None:
        raise RuntimeError("a listener of ours is broken")

    bus.returned += [broken, lambda: calls.append(1)]
    restart(fleet)
    await until(lambda: calls)
    assert await bus.put("order.a", b"1", expect=0)


def test_each_login_has_its_own_options_and_what_is_not_given_is_left_out(tmp_path: Path) -> None:
    assert options(Address(url="nats://a:1, nats://b:2")) == {"servers": ["nats://a:1", "nats://b:2"]}
    by_word = options(Address(url="nats://a", user="watch", password="w"))
    assert by_word == {"servers": ["nats://a"], "user": "watch", "password": "w", "inbox_prefix": "_INBOX_watch"}
    assert options(Address(url="nats://a", creds="me.creds")) == {
        "servers": ["nats://a"],
        "user_credentials": "me.creds",
    }
    plain = options(Address(url="tls://a"))["tls"]
    assert plain.verify_mode == ssl.CERT_REQUIRED and plain.cert_store_stats()["x509_ca"] > 1
    pem, _ = certificate(tmp_path)
    own = options(Address(url="nats://a", ca=str(pem)))["tls"]
    assert own.cert_store_stats()["x509_ca"] == 1, "only that authority counts"
    record = logging.LogRecord("asyncio", logging.WARNING, "", 0, "returning true from eof_received()", (), None)
    other = logging.LogRecord("asyncio", logging.WARNING, "", 0, "a task was destroyed", (), None)
    log = logging.getLogger("asyncio")
    assert not log.filter(record) and log.filter(other)


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("nats://me:word@a:1", "nats://a:1"),
        ("nats://me:w@a:1,tls://you:x@b:2", "nats://a:1,tls://b:2"),
        ("nats://a:1/x@y", "nats://a:1/x@y"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, clean: str) -> None:
    assert shown(url) == clean


async def test_a_try_says_what_is_wrong_and_leaves_no_connection(fleet: places.Fleet) -> None:
    good = options(fleet.address("admin"))
    assert await probed(good, 60.0) is None
    wrong = await probed({**good, "password": "wrong"}, 60.0)
    assert wrong is not None and "Authorization" in str(wrong) and not hung_up(wrong)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        assert isinstance(await probed({"servers": [f"nats://127.0.0.1:{port}"]}, 0.2), Exception)


def test_who_hangs_up_is_told_from_who_is_not_there() -> None:
    assert hung_up(ConnectionResetError()) and hung_up(library().errors.UnexpectedEOF())
    assert hung_up(ValueError("nats: empty response from server when expecting INFO message"))
    assert not hung_up(ConnectionRefusedError()) and not hung_up(None)
