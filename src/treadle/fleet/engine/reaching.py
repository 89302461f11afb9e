"""How the engine is reached: its address, the client's options for it, and a try that tells what is wrong."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import MissingExtra

if TYPE_CHECKING:
    from nats.aio.client import Client


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine is, and as whom to connect."""

    url: str
    user: str = ""
    password: str = ""
    creds: str = ""
    """A credentials file, for servers with their own accounts."""
    ca: str = ""
    """A file with the authority that the server's certificate is checked against."""


def options(address: Address) -> dict[str, Any]:
    made: dict[str, Any] = {"servers": [part.strip() for part in address.url.split(",")]}
    if address.user:
        made |= {"user": address.user, "password": address.password}
        # Someone who may only watch must not read the answers to others.
        made["inbox_prefix"] = f"_INBOX_{address.user}"
    if address.creds:
        made["user_credentials"] = address.creds
    if address.ca or "tls://" in address.url:
        import ssl

        # Closing a TLS connection makes Python log a warning that means nothing to people.
        logging.getLogger("asyncio").addFilter(_about_eof)
        made["tls"] = ssl.create_default_context(cafile=address.ca or None)
    return made


def _about_eof(record: logging.LogRecord) -> bool:
    return "eof_received" not in record.getMessage()


def shown(url: str) -> str:
    """An address without the password that may be in it."""
    return re.sub(r"//[^/@,]*@", "//", url)


async def probed(options: dict[str, Any], patience: float) -> Exception | None:
    """Connect and disconnect. Returns what went wrong."""
    nats = library()
    probe = nats.NATS()
    heard: list[Exception] = []

    async def hear(error: Exception) -> None:
        heard.append(error)

    quiet: dict[str, Any] = {"error_cb": hear, "allow_reconnect": False, "max_reconnect_attempts": 1}
    try:
        async with asyncio.timeout(patience):
            await probe.connect(**options, **quiet, reconnect_time_wait=0.1, connect_timeout=patience)
        return None
    except (OSError, TimeoutError, nats.errors.Error) as error:
        # The last message it reported on the way says more, for example about a certificate.
        return heard[-1] if heard else error
    finally:
        await close(probe)


def hung_up(error: Exception | None) -> bool:
    """Whether someone answered and closed the connection, as the engine may while it reads its users again."""
    ended = isinstance(error, ConnectionResetError | library().errors.UnexpectedEOF)
    return ended or "empty response" in str(error)


async def close(client: Client) -> None:
    """Close a client, also one that never got far enough to close itself."""
    transport = getattr(client, "_transport", None)
    try:
        # After a failed handshake, the client waits for an end that never comes.
        async with asyncio.timeout(1.0):
            await client.close()
    except TimeoutError:
        pass
    if transport is not None:
        transport.close()


def library() -> Any:
    try:
        import nats
        import nats.errors
    except ImportError:
        raise MissingExtra("the fleet", "fleet") from None
    return nats
