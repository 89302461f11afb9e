"""Where the server listens: a port or a Unix socket, the names it is reached by, and its certificate."""

from __future__ import annotations

import socket
import ssl

from treadle.errors import ConfigError
from treadle.io import sockets
from treadle.policy.network import is_loopback
from treadle.serve.gate import own_names

PORT = 7474


class Listening:
    """Where a server listens, and how it is reached from there."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        unix: str = "",
        names: tuple[str, ...] = (),
        tls_cert: str = "",
        tls_key: str = "",
        behind_proxy: bool = False,
    ) -> None:
        self.host, self.unix = host, unix
        self.tls = (tls_cert, tls_key or tls_cert) if tls_cert else None
        self.behind_proxy = behind_proxy
        self.names = own_names("localhost" if unix else host, names)
        if not unix and not self.tls and not behind_proxy and not is_loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines, and this would be plain text",
                hint="--tls-cert FILE, or --behind-proxy when a proxy on this machine does TLS",
            )
        if not self.names:
            raise ConfigError("this server needs a host name", hint="--name fleet.example")
        self.socket = sockets.listen(unix, owned=True) if unix else _tcp_socket(host, port)
        self.port = 0 if unix else int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        name = next((each for each in sorted(self.names) if not is_loopback(each)), "") or self.host
        name = f"[{name}]" if ":" in name else name
        if self.behind_proxy:
            return f"https://{name}"
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}" if not self.unix else "http://localhost"


def _tcp_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="--port N, or 0 for any that is free"
        ) from None
    made.listen(512)
    return made


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {certificate} cannot be used: {error}") from None
    return context
