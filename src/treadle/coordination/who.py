"""Who is here, what each works on, since when, and who waits for whom."""

from treadle.coordination.claims import Claims
from treadle.light import Any


def rows(claims: Claims) -> list[dict[str, Any]]:
    """One row for each live session, and for each identity that holds or waits for something."""
    held = {claim.haid: claim for claim in claims.active()}
    waits = {wait["haid"]: wait for wait in claims.waits.all()}
    seats = {seat.haid: seat for seat in claims.seats.all()}
    here = {haid for haid, seat in seats.items() if claims.seats.living(haid)}
    writing: dict[str, list[dict[str, Any]]] = {}
    for lease in claims.leases.active():
        written = {"surface": lease.texts[0], "expires_at": lease.expires_at, "worktree": lease.fields["worktree"]}
        writing.setdefault(lease.haid, []).append(written)
    found = []
    for haid in sorted(held.keys() | waits.keys() | here | writing.keys()):
        seat, claim, wait = seats.get(haid), held.get(haid), waits.get(haid)
        row: dict[str, Any] = {"haid": haid, "here": haid in here if seat else None}
        if seat is not None:
            row |= {"session": seat.key, "since": seat.fields.get("since", ""), "cwd": seat.fields.get("cwd", "")}
            if haid not in here:
                row["not_connected_since"] = seat.seen
        if claim is not None:
            parts = [{"surface": text, **claim.part(text)} for text in claim.texts]
            row |= {"holds": parts, "expires_at": claim.expires_at}
        if haid in writing:
            row["writes"] = writing[haid]
        if wait is not None:
            row["waits"] = {name: wait[name] for name in ("surfaces", "task", "since", "holders")}
        row["waited_for_by"] = sorted(other["haid"] for other in waits.values() if haid in other["holders"])
        found.append(row)
    return found


def lines(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["(no one is here, and nothing is claimed)"]
    told = []
    for row in found:
        place = f" in {row['cwd']}" if row.get("cwd") else ""
        state = {True: f"here since {row.get('since')}{place}", None: "no session known"}.get(
            row["here"], f"not connected since {row.get('not_connected_since')}"
        )
        told.append(f"{row['haid']}  {state}")
        for part in row.get("holds", ()):
            told.append(f"  holds {part['surface']} ({part['mode']}, task {part['task']}, since {part['since']})")
        for lease in row.get("writes", ()):
            told.append(f"  writes {lease['surface']} in {lease['worktree']} (lease until {lease['expires_at']})")
        if wait := row.get("waits"):
            told.append(f"  waits for {' '.join(wait['surfaces'])} since {wait['since']}: {', '.join(wait['holders'])}")
        if row["waited_for_by"]:
            told.append(f"  waited for by {', '.join(row['waited_for_by'])}")
    return told
