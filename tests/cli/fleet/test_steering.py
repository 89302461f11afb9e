"""What steers orders, by unique beginnings of their ids and for programs."""

from tests.cli.fleet.commands import as_json, fleet
from tests.terminal.support import until


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


def test_budgets_limits_and_weights_are_set_and_shown(running: None) -> None:
    assert fleet("budget", "--max-usd", "5", "--max-tokens", "100") == ""
    part = as_json("budget", "project:p", "--max-usd", "2.5", "--share", "0.5")
    assert part == {"scope": "project:p", "usd": 2.5, "share": 0.5}
    until(lambda: "project:p" in fleet("budget"))
    head, *rows = [line.split() for line in fleet("budget").splitlines()]
    assert head == ["SCOPE", "MONEY", "TOKENS", "UNPRICED"]
    assert sorted(rows) == [
        ["fleet", "0.00", "of", "5.00", "USD", "0", "of", "100", "0"],
        ["project:p", "0.00", "of", "2.50", "USD", "0", "of", "-", "0"],
    ]
    assert set(as_json("budget")) == {"fleet", "project:p"}
    assert as_json("limit", "agent:a", "3") == {"scope": "agent:a", "most": 3}
    assert as_json("weight", "p", "2") == {"project": "p", "weight": 2.0}


def test_an_order_is_told_something_changed_ended_and_given_again(running: None) -> None:
    order = fleet("submit", "sleep", "--agent", "null:60:600").strip()
    assert fleet("say", order, "be quick").strip() == f"{order}.1"
    assert as_json("say", order, "then rest", "--after-turn") == {"message": f"{order}.2"}
    assert "now or after the turn" in fleet("say", order, "x", "--now", "--after-turn", code=1)
    assert "nothing is to be set" in fleet("set", order, code=1)
    assert as_json("approvals") == []
    assert fleet("cancel", order, "--why", "enough", "--wait").startswith(f"{order}  cancelled: ")
    again = fleet("retry", order).strip()
    assert again != order and as_json("cancel", again) == [{"id": again}]
    fleet("cancel", again, "--wait")
    listed = fleet("requeue", "--state", "cancelled", "--dry-run").split()
    assert again in listed and order not in listed
    (third,) = as_json("requeue", "--state", "cancelled")
    assert third["id"] not in (order, again)
    fleet("cancel", third["id"], "--wait")
