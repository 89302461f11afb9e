"""Before a gigabyte is fetched: what the local model needs of the system."""

import os
import sys
from pathlib import Path

import pytest

from tests.cli.choosing.conftest import typed
from treadle import installation
from treadle.agent.providers.names import VENDORS
from treadle.cli import choice
from treadle.errors import ConfigError


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


def test_what_to_type_is_one_line_for_each_way_and_agents_that_are_here_are_left_out(nothing: Path) -> None:
    text = choice.ways_in(())
    for vendor in VENDORS.values():
        assert not vendor.key or f"  export {vendor.key}=..." in text
    assert "Claude Code; then run `claude` once and sign in" in text and "Nearly there" not in text
    assert "  ollama serve  " in text and "export TREADLE_BASE_URL=http://..." in text and text.endswith("\n")
    (nothing / "claude").write_text("#!/bin/sh\n")
    (nothing / "claude").chmod(0o755)
    nearly = choice.ways_in(("this is missing", "and that"))
    assert "Claude Code" not in nearly and nearly.endswith("\n\nNearly there:\n  this is missing\n  and that\n")
    columns = {line.index("a key for") for line in text.splitlines() if "a key for" in line}
    assert len(columns) == 1


def test_a_library_is_there_or_not() -> None:
    assert choice._loads("libc.so.6") and not choice._loads("libnot-there.so.9")
