"""`treadle a2a` as it is typed; what it serves is in tests/serve/test_a2a.py."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from tests.installed import treadle as run
from treadle.cli.doors import _announce, a2a
from treadle.errors import ConfigError
from treadle.serve.tokens import Tokens, directory
from treadle.wire.a2a.messages import CARD_PATH

TREADLE = str(Path(sys.executable).parent / "treadle")


def test_a_client_gets_a_token_is_listed_and_loses_it() -> None:
    token = run("a2a", "--token", "laptop").stdout.strip()
    assert len(token) > 40
    [listed] = json.loads(run("a2a", "--clients", "--json").stdout)
    assert listed["name"] == "laptop" and token not in json.dumps(listed)
    assert run("a2a", "--revoke", "laptop").returncode == 0
    assert json.loads(run("a2a", "--clients", "--json").stdout) == []


def test_clients_are_told_with_when_they_were_seen_and_programs_get_the_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = json.loads(CliRunner().invoke(a2a, ["--token", "laptop", "--json"]).output)
    assert made["client"] == "laptop" and len(made["token"]) > 40
    assert CliRunner().invoke(a2a, ["--clients"]).output == "laptop  never seen\n"
    tokens = Tokens(os.path.join(directory(), "a2a.json"))
    assert tokens.check(made["token"]) is not None
    assert CliRunner().invoke(a2a, ["--clients"]).output == "laptop  seen 0s ago\n"
    (listed,) = json.loads(CliRunner().invoke(a2a, ["--clients", "--json"]).output)
    assert sorted(listed) == ["created", "id", "name", "used"]
    gone = CliRunner().invoke(a2a, ["--revoke", "laptop"])
    assert (gone.stdout, gone.stderr) == ("", "laptop may do nothing any more\n")
    for token, access in (
        (True, "Clients need a token: treadle a2a --token NAME. "),
        (False, "Every program here may use it. "),
    ):
        _announce("http://x", False, token=token)
        assert capsys.readouterr() == ("http://x/\n", f"{access}Ctrl-C ends it.\n")
    _announce("http://x", True, token=True)
    out, err = capsys.readouterr()
    assert json.loads(out) == {"url": "http://x/"} and err == ""


def test_what_is_given_several_times_is_taken_each_time() -> None:
    words = ["--name", "a", "--name", "b", "--webhook-host", "h", "--webhook-host", "i", "--behind-proxy", "--no-token"]
    found = a2a.make_context("x", words).params
    assert (found["names"], found["webhooks"], found["behind_proxy"], found["no_token"]) == (
        ("a", "b"),
        ("h", "i"),
        True,
        True,
    )
    plain = a2a.make_context("x", []).params
    assert (plain["host"], plain["port"], plain["behind_proxy"], plain["no_token"]) == ("127.0.0.1", 7475, False, False)
    refused = CliRunner().invoke(a2a, ["--port", "0", "--no-sandbox", "--network", "off"])
    assert "nothing can limit the network" in str(refused.exception)


def test_without_tokens_only_this_machine_may_use_it() -> None:
    for words in (["--host", "0.0.0.0"], ["--behind-proxy"]):
        refused = CliRunner().invoke(a2a, ["--no-token", "--port", "0", *words])
        assert isinstance(refused.exception, ConfigError) and "loopback" in str(refused.exception)
    wild = CliRunner().invoke(a2a, ["--port", "0", "--permission-mode", "wild"])
    assert isinstance(wild.exception, ConfigError) and "no permission mode 'wild'" in str(wild.exception)


def test_an_address_that_others_reach_needs_tls_and_tokens() -> None:
    plain = run("a2a", "--host", "0.0.0.0", "--port", "0", "--name", "x.example")
    assert plain.returncode != 0 and "plain text" in plain.stderr
    open_to_all = run("a2a", "--host", "0.0.0.0", "--port", "0", "--no-token", "--tls-cert", "x.pem")
    assert open_to_all.returncode != 0 and "loopback" in open_to_all.stderr
    proxied = run("a2a", "--no-token", "--behind-proxy", "--port", "0")
    assert proxied.returncode != 0 and "loopback" in proxied.stderr


def test_it_says_its_address_serves_the_card_and_ends_at_sigterm(tmp_path: Path) -> None:
    words = [TREADLE, "a2a", "--port", "0", "--agent", "native"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().decode().strip()
            with urlopen(url.rstrip("/") + CARD_PATH, timeout=60) as answer:
                assert json.load(answer)["supportedInterfaces"][0]["url"] == url
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()
