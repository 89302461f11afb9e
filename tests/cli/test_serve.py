"""`treadle serve`: tokens are made, listed and taken back without a server."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from treadle.cli.serve import serve
from treadle.errors import NotFound
from treadle.serve.tokens import Tokens


def run(*words: str) -> Result:
    return CliRunner().invoke(serve, list(words), catch_exceptions=False)


def devices() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("--devices", "--json").stdout)
    return found


def test_a_token_is_shown_once_and_only_what_it_may_is_listed() -> None:
    made = json.loads(run("--token", "--right", "watch", "--json").stdout)
    assert made["right"] == "watch" and len(made["token"]) > 20
    (device,) = devices()
    assert (device["id"], device["right"], device["used"]) == (made["device"], "watch", 0)
    assert made["token"] not in json.dumps(devices()) + run("--devices").stdout
    assert "never" in run("--devices").stdout and made["device"] in run("--devices").stdout


def test_by_default_a_token_may_do_everything_and_a_wrong_right_is_refused() -> None:
    run("--token")
    assert devices()[0]["right"] == "all"
    refused = run("--token", "--right", "admin")
    assert refused.exit_code == 2 and len(devices()) == 1


def test_a_token_that_is_taken_back_is_worth_nothing() -> None:
    made = json.loads(run("--token", "--json").stdout)
    assert Tokens().check(made["token"]) is not None
    assert "may do nothing any more" in run("--revoke", made["device"]).stderr
    assert devices() == [] and Tokens().check(made["token"]) is None
    with pytest.raises(NotFound):
        run("--revoke", made["device"])


def test_there_is_no_link_without_a_server() -> None:
    with pytest.raises(NotFound, match="no server runs here"):
        run("--link")
