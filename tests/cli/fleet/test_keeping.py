"""`treadle fleet backup`, `restore` and `clean`, as a person types them."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.cli.fleet.commands import as_json, fleet, requested, stored, typed, typed_json
from treadle.fleet.control import Control
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode


@pytest.mark.slow
def test_what_is_stored_is_saved_cleaned_and_brought_back(running: None, tmp_path: Path) -> None:
    order = fleet("submit", "nothing", "--agent", "null", "--wait").split()[0]
    assert "orders are kept for 90 days after they ended, or until they take 8 GB" in fleet("clean")
    assert as_json("clean", "--keep", "forever", "--keep-size", "1") == {"keep_seconds": 0.0, "keep_bytes": 1024**3}
    assert " MB in " in fleet("backup", str(tmp_path / "saved"))
    assert "is not empty" in fleet("backup", str(tmp_path / "saved"), code=1)
    assert "needs --older-than" in fleet("clean", "--archive", "x", code=1)
    assert as_json("clean", "--older-than", "1d", "--dry-run") == {"orders": []}
    archive = tmp_path / "old.jsonl"
    while f"order.{order}" not in (archive.read_text() if archive.exists() else ""):  # until it is a second old
        fleet("clean", "--older-than", "1s", "--archive", str(archive))
    kept = json.loads(archive.read_text().splitlines()[0])
    assert kept[f"receipt.{order}"]["outcome"] == "done" and f"spec.{order}" in kept
    while order in fleet("ls"):  # the scheduler removes it, and may be busy with it now
        fleet("clean", "--older-than", "1s")
    assert "there is no order" in fleet("show", order, code=1)
    fleet("down", "--forget", "--yes")
    assert "holds no whole backup" in fleet("restore", str(tmp_path), code=1)
    assert as_json("restore", str(tmp_path / "saved")) == {"restored": str(tmp_path / "saved")}
    fleet("up", "--name", "n1", "--no-page")
    assert as_json("show", order)["receipt"]["outcome"] == "done"


@pytest.mark.slow
def test_a_copy_of_a_stopped_fleet_is_a_backup(running: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = fleet("submit", "x", "--agent", "null:0.1:2", "--wait").split()[0]
    fleet("pause", "fleet", "--why", "backup")
    waiting = fleet("submit", "y", "--agent", "null").strip()
    fleet("down")
    home = os.environ["TREADLE_HOME"]
    shutil.copytree(home, tmp_path / "copy")
    shutil.rmtree(home)
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "copy"))
    try:
        fleet("up", "--name", "n1", "--no-page")
        assert fleet("logs", done).count(" of 2") == 2 and as_json("show", waiting)["order"]["state"] == "queued"
        fleet("resume", "fleet")
        fleet("wait", waiting, "--timeout", "60")
    finally:
        fleet("down")


async def test_what_is_kept_is_shown_set_and_cleaned_as_typed(bus: Bus, tmp_path: Path) -> None:
    for keep_seconds, keep_bytes, said in (
        (86400.0, 0, "orders are kept for 1 days after they ended\n"),
        (0.0, 1024**3 // 2, "orders are kept for ever, or until they take 0.5 GB\n"),
    ):
        await bus.put("control", encode(Control(keep_seconds=keep_seconds, keep_bytes=keep_bytes)))
        assert await typed("clean") == said and await requested(bus) == []
    keeps = {"keep_seconds": 0.0, "keep_bytes": 1024**3 // 2}
    for words, asked, found in (
        (("--keep", "2d"), {"keep_seconds": 172800.0}, {"keep_seconds": 172800.0}),
        (("--keep", "forever"), {"keep_seconds": 0.0}, {}),
        (("--keep-size", "0"), {"keep_bytes": 0}, {"keep_bytes": 0}),
        (("--keep-size", "2"), {"keep_bytes": 2 * 1024**3}, {"keep_bytes": 2 * 1024**3}),
    ):
        assert await typed_json("clean", *words) == {**keeps, **found}
        assert await requested(bus) == [{"do": "keep", **asked}]
    await stored(bus, "old", changed=time.time() - 7200)
    await stored(bus, "busy", changed=time.time() - 7200, state="running")
    await stored(bus, "new")
    archive = tmp_path / "archive"
    clean = ["clean", "--older-than", "1h", "--archive", str(archive)]
    assert await typed(*clean, "--dry-run") == "1 orders would be removed; what others wait for stays\n"
    assert await requested(bus) == [] and not archive.exists()
    assert await typed(*clean) == "1 orders are removed; what others wait for stays\n"
    assert await requested(bus) == [{"do": "clean", "orders": ["old"]}]
    assert json.loads(archive.read_text()).keys() == {"spec.old", "order.old"}
    assert await typed_json("clean", "--older-than", "1h", "--keep", "1d") == {"orders": ["old"]}
    assert [request["do"] for request in await requested(bus)] == ["keep", "clean"]
    saved = await typed_json("backup", str(tmp_path / "saved"))
    assert saved["bytes"] > 1000 and (tmp_path / "saved").is_dir()
    again = await typed("backup", str(tmp_path / "again"), both=True)
    assert again.endswith(f" MB in {tmp_path / 'again'}\n") and len(again.splitlines()) == 1
