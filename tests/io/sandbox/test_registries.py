"""The hosts of package registries, as the tools say them: a real pip, and programs that print what npm and go print."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.io.process import programs
from treadle.io.sandbox import proxy

NPM = """#!/bin/sh
[ "$1 $2 $3" = "config list --json" ] && [ "$PWD" = / ] || exit 1
echo '{ "registry": "https://npm.example/", "@team:registry": "http://npm.team.example:4873/", "fund": false }'
echo 'npm warn see https://other.example' >&2
"""
GO = """#!/bin/sh
[ "$*" = "env GOPROXY GOSUMDB" ] || exit 1
echo 'https://go.example|https://go2.example:8443,direct'
echo sum.example https://sums.example/x
"""
PAGE = b'<!DOCTYPE html><html><body><a href="https://files.example/pip-1.0-py3-none-any.whl">pip-1.0</a>\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    proxy._asked.cache_clear()
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CARGO_HOME", "XDG_CONFIG_HOME", "PIP_EXTRA_INDEX_URL", *proxy.UV):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    proxy._asked.cache_clear()


def tool(home: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    place = home / "bin" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place.parent}:/usr/bin:/bin")


class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_npm_names_its_registry_and_those_of_scopes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(home, monkeypatch, "npm", NPM)
    assert proxy.registry_hosts(("npm", "a.example")) == (("npm.example", "npm.team.example:4873"), "")


def test_go_names_its_proxies_and_the_database_of_sums(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(home, monkeypatch, "go", GO)
    assert proxy.registry_hosts(["go"]).hosts == ("go.example", "go2.example:8443", "sums.example", "sum.example")


@pytest.mark.slow
def test_pip_names_its_index_and_where_the_files_of_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        found = proxy.registry_hosts(["pypi"])
        server.shutdown()
    assert found == ((f"127.0.0.1:{server.server_port}", "files.example"), "")


def test_uv_names_its_indexes_also_where_there_is_no_pip(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.setenv("UV_INDEX", "team=https://uv.team.example/simple")
    (home / ".config" / "uv").mkdir(parents=True)
    (home / ".config" / "uv" / "uv.toml").write_text('[[index]]\nurl = "https://uv.example/simple"\ndefault = true\n')
    assert proxy.registry_hosts(["pypi"]).hosts == ("uv.team.example", "uv.example")


def test_cargo_names_what_is_in_its_settings_and_in_the_indexes_that_it_has_used(home: Path) -> None:
    index = home / ".cargo" / "registry" / "index" / "index.example-1949cf8c6b5b557f"
    index.mkdir(parents=True)
    (index / "config.json").write_text('{"dl": "https://files.example/crates", "api": "https://api.example"}')
    settings = '[source.mirror]\nregistry = "sparse+https://mirror.example/index/"\n[source.near]\ndirectory = "/x"\n'
    (home / ".cargo" / "config.toml").write_text(settings)
    assert proxy.registry_hosts(["crates"]).hosts == ("mirror.example", "index.example", "files.example", "api.example")


def test_where_a_tool_names_none_it_is_said_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(home, monkeypatch, "npm", "#!/bin/sh\necho '{}'\n")
    tool(home, monkeypatch, "go", "#!/bin/sh\necho off; echo off\n")
    monkeypatch.setenv("PATH", str(home / "bin"))
    hosts, missing = proxy.registry_hosts(("npm", "pypi", "crates", "go"))
    assert hosts == () and missing.count("name the hosts of its registry instead") == 4
    assert "npm is in the list, but npm says no registry" in missing and "pip cannot be asked" in missing


def test_a_tool_that_an_agent_may_have_written_is_not_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_distrusted", {str(home / "bin")})
    tool(home, monkeypatch, "go", GO)
    assert "go.example" not in proxy.registry_hosts(["go"]).hosts


def test_settings_elsewhere_and_of_older_kinds_are_read_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cargo, settings = home / "[cargo]", home / "settings"
    index = cargo / "registry" / "index" / "near-index.example-1949cf8c6b5b557f"
    for place in (index, settings / "uv"):
        place.mkdir(parents=True)
    (index / "config.json").write_text("{}")
    (cargo / "config").write_text('[registries.team]\nindex = "https://team.example/git"\n')
    (settings / "uv" / "uv.toml").write_text('index-url = "https://old.example/simple"\n')
    for name, value in (
        ("CARGO_HOME", str(cargo)),
        ("XDG_CONFIG_HOME", str(settings)),
        ("PATH", str(home)),
        ("UV_DEFAULT_INDEX", "https://default.example/simple"),
        ("UV_INDEX", "https://one.example a=https://two.example"),
    ):
        monkeypatch.setenv(name, value)
    assert proxy.registry_hosts(["crates"]).hosts == ("team.example", "near-index.example")
    wanted = ("default.example", "one.example", "two.example", "old.example")
    assert proxy.registry_hosts(["pypi"]).hosts == wanted
