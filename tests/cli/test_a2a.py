"""`treadle a2a` as it is typed; what it serves is in tests/serve/test_a2a.py."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from tests.installed import treadle as run
from treadle.wire.a2a.records import CARD_PATH

TREADLE = str(Path(sys.executable).parent / "treadle")


def test_a_client_gets_a_token_is_listed_and_loses_it() -> None:
    token = run("a2a", "--token", "laptop").stdout.strip()
    assert len(token) > 40
    [listed] = json.loads(run("a2a", "--clients", "--json").stdout)
    assert listed["name"] == "laptop" and token not in json.dumps(listed)
    assert run("a2a", "--revoke", "laptop").returncode == 0
    assert json.loads(run("a2a", "--clients", "--json").stdout) == []


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
