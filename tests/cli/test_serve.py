"""`treadle serve`: tokens are made, listed and taken back without a server."""

import json
import signal
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from tests.installed import started
from treadle.cli.serve import _announce, serve
from treadle.errors import NotFound
from treadle.serve import background
from treadle.serve.tokens import Tokens


def run(*words: str) -> Result:
    return CliRunner().invoke(serve, list(words), catch_exceptions=False)


def devices() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("--devices", "--json").stdout)
    return found


def test_a_token_that_is_taken_back_is_worth_nothing() -> None:
    made = json.loads(run("--token", "--json").stdout)
    assert Tokens().check(made["token"]) is not None
    assert "has no access any more" in run("--revoke", made["device"]).stderr
    assert devices() == [] and Tokens().check(made["token"]) is None
    with pytest.raises(NotFound):
        run("--revoke", made["device"])


def test_a_device_is_listed_by_its_name_and_when_it_was_seen() -> None:
    tokens = Tokens()
    made, secret = tokens.make("phone", "answer")
    assert tokens.check(secret) is not None
    rows = [line.split() for line in run("--devices").stdout.splitlines()]
    assert rows[0] == ["DEVICE", "RIGHT", "SEEN", "NAME"] and rows[1][:2] == [made.id, "answer"] and len(rows) == 2
    assert rows[1][-1] == "phone" and run("--token").stdout.strip() not in run("--devices").stdout


def test_the_link_is_told_for_a_person_or_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    listening = SimpleNamespace(address="https://fleet.example", port=1, unix="")
    _announce(Tokens(), listening, "watch", False)
    out, err = capsys.readouterr()
    lines = out.splitlines()
    device, *_ = Tokens().exchange(lines[1].rpartition("#")[2]) or pytest.fail("the link is worth nothing")
    assert (device.name, device.right, err) == ("browser", "watch", "Ctrl-C ends it.\n")
    assert lines[0] == "Open this link, once, within ten minutes:" and lines[1].startswith("  https://fleet.example/#")
    assert lines[2:] == []
    listening.unix = "/s"
    _announce(Tokens(), listening, "watch", False)
    assert capsys.readouterr().err == "It listens on /s\nCtrl-C ends it.\n"
    listening.unix = ""
    _announce(Tokens(), listening, "watch", True)
    told = json.loads(capsys.readouterr().out)
    assert (told["port"], told["unix"]) == (1, "") and told["url"].startswith("https://fleet.example/#")


def test_a_link_to_the_server_that_runs_has_the_right_that_was_typed(state_home: Any) -> None:
    with background.noted("http://127.0.0.1:7", ""):
        typed, told = run("--link", "--right", "watch").stdout.strip(), json.loads(run("--link", "--json").stdout)
    for url, right in ((typed, "watch"), (told["url"], "all")):
        assert url.startswith("http://127.0.0.1:7/#")
        device, *_ = Tokens().exchange(url.rpartition("#")[2]) or pytest.fail("the link is worth nothing")
        assert device.right == right
    made, _ = Tokens().make("", "all")
    assert run("--revoke", made.id).stderr == f"{made.id} has no access any more\n"
    assert run("--token").stdout.strip() and run("--devices").stdout.splitlines()[1].split()[-1] != "-"


def test_the_page_is_served_until_ctrl_c_and_found_meanwhile(state_home: Any) -> None:
    with started("serve", "--port", "0", "--json", "--right", "watch") as process:
        assert process.stdout is not None
        told = ""
        while not told.endswith("}\n"):
            told += process.stdout.readline()
        link = json.loads(told)
        address, _, code = link["url"].partition("/#")
        found = background.find()
        assert found is not None and found.address == address == f"http://127.0.0.1:{link['port']}"
        assert found.unix == "" and found.terminals and not found.background
        device, *_ = Tokens().exchange(code) or pytest.fail("the link is worth nothing")
        assert device.right == "watch"
        with urlopen(address, timeout=60) as page:
            assert page.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert background.find() is None
