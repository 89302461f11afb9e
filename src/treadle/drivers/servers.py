"""The MCP servers that a session's owner gives to a driven agent, besides those of the agent's own settings."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from treadle.agent.mcp import given_servers
from treadle.errors import ConfigError
from treadle.io import files
from treadle.io.paths import private_dir, state_dir
from treadle.session import SessionSpec
from treadle.settings.config import McpServer
from treadle.wire.acp.servers import transport


def settled(spec: SessionSpec, environ: Mapping[str, str]) -> SessionSpec:
    """The spec with each server as the agent will start it: checked, and with every `${NAME}` filled in.

    The agent gets only the variables on its card, so it could not fill them in itself. Servers inside the process of
    the program that opened the session are left to that program.
    """
    if not spec.tools.servers:
        return spec
    wrong: list[str] = []
    found = given_servers(spec.tools.servers, {**environ, **spec.env}, wrong)
    wrong += [
        f"mcpServers.{name} has neither a command nor a url" for name, one in found.items() if not one.command + one.url
    ]
    if wrong:
        raise ConfigError("; ".join(wrong), hint='a server is {"command": ..., "args": [...]} or {"url": ...}')
    servers = {name: _entry(server) for name, server in found.items()}
    return msgspec.structs.replace(spec, tools=msgspec.structs.replace(spec.tools, servers=servers))


def _entry(server: McpServer) -> dict[str, Any]:
    entry = msgspec.to_builtins(server)
    return {name: value for name, value in entry.items() if value}


@contextmanager
def in_a_file(spec: SessionSpec, option: str) -> Iterator[tuple[SessionSpec, list[str]]]:
    """Write the servers to a private file, which exists while the agent starts, and return the words of the command
    line that name it. The servers' variables may hold keys, which must not be on the command line.
    """
    if not option or not spec.tools.servers:
        yield spec, []
        return
    path = os.path.join(private_dir(os.path.join(state_dir(), "driven", "servers")), f"{os.urandom(8).hex()}.json")
    entries = {name: {**entry, "type": transport(entry)} for name, entry in spec.tools.servers.items()}
    files.write_atomic(path, msgspec.json.encode({"mcpServers": entries}), sync=False)
    seen = msgspec.structs.replace(spec.confinement, read_only=(*spec.confinement.read_only, path))
    try:
        yield msgspec.structs.replace(spec, confinement=seen), [option.format(file=path)]
    finally:
        os.remove(path)


def programs(spec: SessionSpec) -> list[list[str]]:
    """The command lines of servers that the agent will start, which must be visible in its sandbox."""
    servers = [server for server in spec.tools.servers.values() if server.get("command")]
    return [[server["command"], *server.get("args", ())] for server in servers]


def addresses(spec: SessionSpec) -> list[str]:
    """Those of servers that the agent will connect to."""
    return [str(server["url"]) for server in spec.tools.servers.values() if server.get("url")]
