"""`treadle models`: what every service that is set up offers, and fetching a model of this machine."""

import asyncio
import json
import os
import sys
from datetime import date
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.cli.choosing.conftest import typed
from treadle import installation
from treadle.agent.providers.known import refreshed_file
from treadle.agent.providers.local.models import DEFAULT, KNOWN, ModelRecord, file_of, record_of
from treadle.agent.providers.script import parse
from treadle.cli import choice
from treadle.cli.choice import DownloadBar, _before, fetch
from treadle.cli.models import HOW, ListedModels, _list, _show, models
from treadle.errors import ConfigError, ProviderError, TreadleError
from treadle.testing.server import ModelServer

SCRIPT = parse('model = "loom-1"\n[[reply]]\ntext = "hi"\n')


async def test_models_of_a_service_are_listed_under_the_names_that_can_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ModelServer(SCRIPT) as server:
        monkeypatch.setenv("TREADLE_BASE_URL", f"{server.url}/v1")
        assert await _list(["chat"], as_json=False, asked=True) == 0
        assert "chat:loom-1" in capsys.readouterr().out
        assert await _list(["chat"], as_json=True, asked=True) == 0
        [vendor] = json.loads(capsys.readouterr().out)
        assert vendor["name"] == "chat" and "loom-1" in vendor["models"]


def test_a_service_that_does_not_answer_is_an_error_and_not_a_hang(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TREADLE_BASE_URL", "http://127.0.0.1:9/v1")
    assert asyncio.run(_list(["chat"], as_json=False, asked=True)) == 1
    assert "chat:" in capsys.readouterr().err


def test_a_local_model_is_listed_and_pulled_again_without_fetching() -> None:
    known = KNOWN[DEFAULT]
    with open(file_of(DEFAULT), "wb") as file:
        file.truncate(known.size)
    record = ModelRecord(name=DEFAULT, sha256=known.sha256, size=known.size)
    with open(record_of(DEFAULT), "wb") as file:
        file.write(msgspec.json.encode(record))
    assert CliRunner().invoke(models, ["local"]).output == f"local:{DEFAULT}\n"
    result = CliRunner().invoke(models, ["pull"])
    assert result.exit_code == 0 and f"--model local:{DEFAULT}" in result.output
    result = CliRunner().invoke(models, ["pull", "--json"])
    assert json.loads(result.output)["sha256"] == known.sha256


def test_what_a_service_says_is_told_but_an_ollama_that_is_not_there_only_when_it_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    quiet, broken = ListedModels(name="ollama", error="no"), ListedModels(name="openai", error="odd\x1b")
    for asked, said in ((True, "ollama: no\nopenai: odd\ufffd\n"), (False, "openai: odd\ufffd\n")):
        _show([quiet, broken, ListedModels(name="chat", models=["a", "b"])], asked)
        assert capsys.readouterr() == ("chat:a\nchat:b\n", said)
    _show([quiet], False)
    assert capsys.readouterr() == ("", f"no service is set up: {HOW}\n")


async def test_prices_of_today_are_fetched_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(SCRIPT) as server:
        monkeypatch.setenv("OPENROUTER_BASE_URL", f"{server.url}/v1")
        found = json.loads((await asyncio.to_thread(CliRunner().invoke, models, ["refresh", "--json"])).output)
        text = await asyncio.to_thread(CliRunner().invoke, models, ["refresh"])
    assert (found["at"], found["source"]) == (date.today().isoformat(), f"{server.url}/v1")
    assert text.output == f"{len(found['models'])} models as of {found['at']}, in {refreshed_file()}\n"
    assert Path(refreshed_file()).exists()


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "did not answer within 0 s"), (10.0, "cannot reach")])
def test_prices_that_cannot_be_fetched_leave_those_that_are_there(
    seconds: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("treadle.cli.models.SECONDS", seconds)
    result = CliRunner().invoke(models, ["refresh"])
    assert isinstance(result.exception, ProviderError) and said in str(result.exception)
    assert not Path(refreshed_file()).exists()


def test_a_log_has_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    bar = DownloadBar()
    for size in range(0, 1_000_000_001, 1_000_000):
        bar.show(size, 1_000_000_000)
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{100 * tenth:,} of 1,000 MB ({10 * tenth} %)" for tenth in range(11)]


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_before_a_gigabyte_is_fetched_it_is_said_what_it_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, known = _before(KNOWN[name]), KNOWN[name]
    assert said.startswith(f"{known.title}: {known.size / 1e9:.1f} GB to fetch") and "of memory while it runs" in said
    monkeypatch.setitem(installation.PROVIDES, "local", "absent_part")
    assert "; to run it: " in _before(known)
    monkeypatch.setitem(installation.PROVIDES, "local", "json")
    assert "; to run it: " not in _before(known)


async def test_what_is_here_already_is_not_fetched_again_and_an_address_needs_a_hash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = next(iter(KNOWN.values()))
    with open(file_of(known.name), "wb") as file:
        file.truncate(known.size)
    record = ModelRecord(name=known.name, sha256=known.sha256, size=known.size)
    with open(record_of(known.name), "wb") as file:
        file.write(msgspec.json.encode(record))
    assert await fetch(next(iter(KNOWN))) == record and capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="only with its SHA-256"):
        await fetch("https://127.0.0.1:9/x.gguf")
    assert capsys.readouterr().err.startswith("https://127.0.0.1:9/x.gguf: it needs at least as much memory")
    with pytest.raises(ConfigError, match="is not the address of a model"):
        await fetch("https://127.0.0.1:9/x.gguf", "0" * 64, "a/b")


async def test_what_a_model_takes_is_said_before_it_is_fetched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = next(iter(KNOWN.values()))
    os.mkdir(file_of(known.name) + ".lock")  # so that nothing is asked of the network
    with pytest.raises(TreadleError):
        await fetch(next(iter(KNOWN)))
    assert capsys.readouterr() == ("", _before(known) + "\n")


async def test_a_library_that_the_system_lacks_is_named_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(choice, "OPENMP", "libnot-there.so.9")
    monkeypatch.setenv("PATH", str(tmp_path))  # no apt-get
    with pytest.raises(ConfigError, match=r"needs libnot-there\.so\.9") as raised:
        await choice.fetch_local()
    assert raised.value.hint is not None and "apt install libgomp1" in raised.value.hint
    assert raised.value.hint.endswith("; then try again")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may install it")
async def test_root_is_asked_whether_to_install_it_and_it_must_be_there_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(choice, "OPENMP", "libnot-there.so.9")
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for answer, ran in (("q\n", ""), ("", ""), ("i\n", "update\ninstall -y libgomp1\n")):
        with typed(answer), pytest.raises(ConfigError, match="which this system does not have"):
            await choice.fetch_local(plain=True)
        assert "i  install it now: apt-get update && apt-get install -y libgomp1\nq  leave\n" in capsys.readouterr().out
        assert ((tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else "") == ran
    monkeypatch.setattr(choice, "OPENMP", "libc.so.6")
    with typed("i\n"):
        await choice._install_openmp(plain=True)


async def test_what_runs_local_models_is_installed_beside_and_must_be_there_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    monkeypatch.setitem(installation.PROVIDES, "local", "part_that_was_fetched")
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    for script in ("exit 1", "exit 0", f"touch {place}/part_that_was_fetched.py; exit 1"):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(ConfigError, match=r"treadle\[local\] could not be installed") as failed:
            await choice._install("local")
        assert str(failed.value.hint).startswith(f"{program} -m pip install ")
    program.write_text("#!/bin/sh\nexit 0\n")
    await choice._install("local")
    assert capsys.readouterr().err.startswith("treadle: installing llama.cpp (34 MB), which runs it: ")
