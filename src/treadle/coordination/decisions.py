"""decisions.md, the append-only record of why things are as they are, and the records of conflicts."""

import os
from collections.abc import Sequence

from treadle.coordination.capsules import check_id
from treadle.coordination.planning import Planning, make_dirs, one_line, write_text
from treadle.errors import ConfigError
from treadle.io.files import append_lines

UNSPECIFIED = "(unspecified)"

RECORD = """# Conflict {name} — {title}

- Date: {date}
- Overriding HAID: `{haid}`
- Displaced HAID: `{displaced}`
- Surfaces:
{surfaces}

## Both intents

**Overriding:** {overriding_intent}

**Displaced:** {displaced_intent}

## Resolution

(unspecified)

## Recovery path

The displaced work is kept on the branch `{branch}`.
"""


def append(planning: Planning, title: str, body: str, signature: str = "") -> str:
    """Add an entry and return its timestamp. The signature is one line in italics: who wrote it, and with what."""
    title, body = one_line(title.strip()), body.strip()
    if not title or not body:
        raise ConfigError("a decision needs a title and a body")
    now = planning.now()
    text = f"\n## {now} — {title}\n\n{body}" + (f"\n\n_{one_line(signature)}_" if signature else "")
    path = planning.path("ledger", "decisions.md")
    make_dirs(os.path.dirname(path))
    append_lines(path, [line.encode(errors="surrogateescape") for line in text.split("\n")], mode=0o644)
    planning.log("decision", "append", title)
    return now


def raise_conflict(
    planning: Planning,
    name: str,
    title: str,
    surfaces: Sequence[str],
    haid: str,
    *,
    displaced: str = "",
    overriding_intent: str = "",
    displaced_intent: str = "",
    via: str = "",
) -> dict[str, str]:
    """Write the record of a conflict and link it from the decisions. Returns where it is, and how the work is kept."""
    check_id(name, "conflict id")
    if not title.strip():
        raise ConfigError("a conflict needs a title")
    file = f"{planning.now()[:10]}-{name}.md"
    path = planning.path("ledger", "conflicts", file)
    branch = f"displaced/{displaced.replace(':', '_').replace('/', '_') or 'unknown'}-{name}"
    text = RECORD.format(
        name=name,
        title=one_line(title.strip()),
        date=planning.now(),
        haid=haid,
        displaced=one_line(displaced) or UNSPECIFIED,
        surfaces="\n".join(f"  - `{one_line(surface)}`" for surface in surfaces),
        overriding_intent=overriding_intent.strip() or UNSPECIFIED,
        displaced_intent=displaced_intent.strip() or UNSPECIFIED,
        branch=branch,
    )
    with planning.lock("conflicts"):
        if os.path.exists(path):
            raise ConfigError(f"conflict {name} was already raised today: {path}", hint="give it another id")
        write_text(path, text)
    # The record comes before its link: a crash in between leaves one that no line names, never a line to nothing.
    link = f"See [conflicts/{file}](conflicts/{file}): {one_line(title.strip())}"
    append(planning, f"conflict {name} raised", link, via)
    return {
        "conflict_file": path,
        "relative_path": f"ledger/conflicts/{file}",
        "preserved_branch": branch,
        "pr_path": f"open a pull request from branch conflict/{name} with ledger/conflicts/{file}",
        "haid": haid,
    }
