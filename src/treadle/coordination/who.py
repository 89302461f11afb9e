"""Who is here, what each works on, since when, and who waits for whom."""

from treadle.coordination.claims import Claims
from treadle.light import Any


def rows(claims: Claims) -> list[dict[str, Any]]:
    """One row for each live session, and for each identity that holds or waits for something."""
    held = {claim.haid: claim for claim in claims.active()}
    waits = {wait["haid"]: wait for wait in claims.waits.all()}
    bindings = {binding.haid: binding for binding in claims.bindings.all()}
    here = {haid for haid, binding in bindings.items() if claims.bindings.living(haid)}
    writing: dict[str, list[dict[str, Any]]] = {}
    for lease in claims.leases.active():
        written = {"surface": lease.texts[0], "expires_at": lease.expires_at, "worktree": lease.fields["worktree"]}
        writing.setdefault(lease.haid, []).append(written)
    found = []
    for haid in sorted(held.keys() | waits.keys() | here | writing.keys()):
        binding, claim, wait = bindings.get(haid), held.get(haid), waits.get(haid)
        row: dict[str, Any] = {"haid": haid, "here": haid in here if binding else None}
        if binding is not None:
            row |= {
                "session": binding.key,
                "since": binding.fields.get("since", ""),
                "cwd": binding.fields.get("cwd", ""),
            }
            if haid not in here:
                row["not_connected_since"] = binding.seen
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
    shown = []
    for row in found:
        place = f" in {row['cwd']}" if row.get("cwd") else ""
        state = {True: f"here since {row.get('since')}{place}", None: "no session known"}.get(
            row["here"], f"not connected since {row.get('not_connected_since')}"
        )
        shown.append(f"{row['haid']}  {state}")
        for part in row.get("holds", ()):
            shown.append(f"  holds {part['surface']} ({part['mode']}, task {part['task']}, since {part['since']})")
        for lease in row.get("writes", ()):
            shown.append(f"  writes {lease['surface']} in {lease['worktree']} (lease until {lease['expires_at']})")
        if wait := row.get("waits"):
            shown.append(
                f"  waits for {' '.join(wait['surfaces'])} since {wait['since']}: {', '.join(wait['holders'])}"
            )
        if row["waited_for_by"]:
            shown.append(f"  waited for by {', '.join(row['waited_for_by'])}")
    return shown
