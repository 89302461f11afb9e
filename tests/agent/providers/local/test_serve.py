"""The program that holds a local model, without llama.cpp: what it sets, and what it says when that fails."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.agent.providers.local import serve
from treadle.agent.providers.local.serve import WITHOUT

LIBRARY = """
class Part: pass
class CommonParams:
    def __init__(self): self.model, self.cpuparams, self.cpuparams_batch = Part(), Part(), Part()
"""
SERVING = """
import json
def Server(parameters):
    [place] = parameters.hostnames
    open(place, "w").close()
    open(parameters.model.path, "w").write(json.dumps(vars(parameters), default=vars))
"""
REFUSING = """
def Server(parameters):
    raise RuntimeError("Failed to init server")
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that stands in for llama.cpp in this process."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = os.umask(0o022)
    yield tmp_path / "xllamacpp.py"
    os.umask(before)
    sys.modules.pop("xllamacpp", None)


def settings(tmp_path: Path, **more: Any) -> str:
    return json.dumps({"path": str(tmp_path / "m"), "socket": str(tmp_path / "s"), "context": 99, "threads": 3, **more})


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        ("raise ModuleNotFoundError('no xllamacpp')", WITHOUT, "local models need llama.cpp (no xllamacpp)"),
        (
            "raise ImportError('no libgomp')",
            1,
            "llama.cpp is installed, but this system lacks what it needs: no libgomp",
        ),
        (LIBRARY + REFUSING, 1, "Failed to init server"),
    ],
)
def test_what_is_missing_and_what_does_not_load_are_told_apart(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, code: int, says: str
) -> None:
    library.write_text(content)
    assert serve.main(settings(tmp_path)) == code
    assert capsys.readouterr() == ("", f"{says}\n")
    assert not (tmp_path / "s").exists(), "the trial of the socket leaves nothing"


def test_a_place_where_no_socket_can_be_is_named(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library.write_text(LIBRARY + SERVING)
    place = str(tmp_path / "none" / "x.sock")
    assert serve.main(settings(tmp_path, socket=place)) == 1
    assert f"no socket can be made at {place}: [Errno 2]" in capsys.readouterr().err


def test_it_serves_one_model_privately_until_it_is_told_to_end(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(LIBRARY + SERVING)
    argv = [sys.executable, "-m", "treadle.agent.providers.local.serve", settings(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert not (tmp_path / "s").exists()
    assert json.loads((tmp_path / "m").read_text()) == {
        "model": {"path": str(tmp_path / "m")},
        "cpuparams": {"n_threads": 3},
        "cpuparams_batch": {"n_threads": 3},
        "hostnames": [str(tmp_path / "s")],
        "n_ctx": 99,
        "n_parallel": 1,
        "cache_ram_mib": 0,
        "verbosity": 1,
        "ui": False,
    }
