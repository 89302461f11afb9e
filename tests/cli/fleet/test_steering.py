"""What steers orders, by unique beginnings of their ids and for programs."""

from tests.cli.fleet.commands import as_json, fleet


def test_every_command_that_steers_tells_programs_what_it_did(running: None) -> None:
    order = fleet("submit", "sleep", "--agent", "null:60:600").strip()
    short = order[:7]
    assert as_json("pause", f"order:{short}", "--now") == {"scope": f"order:{order}", "paused": True}
    assert as_json("resume", f"order:{short}") == {"scope": f"order:{order}", "paused": False}
    told = as_json("set", short, "--priority", "7", "--max-seconds", "50")
    assert told == {"id": order, "priority": 7, "limits": {"seconds": 50.0}}
    assert "asks nothing now" in fleet("answer", short, "allow", "--json", code=1)
    assert as_json("drain", "n1") == {"node": "n1", "drained": True}
    assert as_json("drain", "n1", "--undo") == {"node": "n1", "drained": False}
    (ended,) = as_json("cancel", short, "--why", "enough", "--wait")
    assert ended["state"] == "cancelled" and any("priority 5 -> 7" in note["what"] for note in ended["notes"])
