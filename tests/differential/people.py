"""Directories as people have them, run by Claude Code and by us with `-p`, and what came of them compared.

`python -m tests.differential.people [WORDS] [--ours]`: the cases whose names have one of the words; `--ours` runs
Treadle alone beside what Claude Code did when it was last run. A fact is *same*; *said*, if a line of ours on stderr
has the words of the case's `said`, or the reason is in `MEANT`; else *silent*, which ends with 1.
"""

import asyncio
import json
import os
import random
import re
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.differential.driving import Seen, program_of, variables
from tests.differential.layouts import CASES, MEANT, Case
from tests.drivers.programs import CACHE
from treadle.agent.providers.script import parse
from treadle.testing.server import ModelServer

RESULTS = CACHE.parent / "people.jsonl"
STRICTER = "what forbids is read broadly, what allows narrowly; the call is refused with the rule or the reason"
REFUSED = "the run does not begin, and its error says why"
AT_ONCE = 2
SEED = 55
PATIENCE = 120
TOOLS = ("bash", "read", "write", "edit", "task", "skill", "websearch", "webfetch", "glob", "grep")


async def run(case: Case, program: str, home: Path) -> dict[str, Any]:
    """What was seen of one run."""
    seen = Seen(program, home)

    def filled(text: str) -> str:
        return text.replace("{home}", str(home)).replace("{work}", str(seen.work))

    for name, text in case.files.items():
        path = home / name if name.startswith("claude/") else seen.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(filled(text).encode())
        if text.startswith("#!"):
            path.chmod(0o755)
    async with ModelServer(parse(filled(case.script))) as server:
        env = variables(seen, server.url) | {"LOG": str(home / "log")}
        env.pop("TREADLE_MODEL", None)
        env |= {name: filled(text) for name, text in case.env.items()}
        more = ["--trust"] if program == "treadle" and case.trusted else []
        given = [program_of(program), "-p", filled(case.prompt), "--output-format", "stream-json", "--verbose", *more]
        child = await asyncio.create_subprocess_exec(
            *given, *map(filled, case.args), cwd=seen.work / case.inside, env=env,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await asyncio.wait_for(child.communicate(), PATIENCE)
        except TimeoutError:
            child.kill()
            await child.communicate()
            raise
        asked = [one.body for one in server.asked if isinstance(one.body, dict) and one.body.get("messages")]
    lines = [json.loads(line) for line in out.decode(errors="replace").splitlines() if line.startswith("{")]
    found = facts(case, asked, lines, home)
    place = {str(home): "~", str(home.resolve()): "~"}
    text = json.dumps(found)
    for path, short in place.items():
        text = text.replace(path, short)
    said = "".join(line for line in err.decode(errors="replace").splitlines(True) if "like a secret" not in line)
    return {**json.loads(text), "exit": min(child.returncode or 0, 1), "_said": said}


def facts(case: Case, asked: list[dict[str, Any]], lines: list[dict[str, Any]], home: Path) -> dict[str, Any]:
    init: dict[str, Any] = next((line for line in lines if line.get("subtype") == "init"), {})
    result: dict[str, Any] = next((line for line in reversed(lines) if line.get("type") == "result"), {})
    first, every = json.dumps(asked[:1], ensure_ascii=False), json.dumps(asked, ensure_ascii=False)
    blocks = [
        block
        for line in lines if line.get("type") == "user" and isinstance(line["message"]["content"], list)
        for block in line["message"]["content"] if block.get("type") == "tool_result"
    ]  # fmt: skip
    names = {name.lower() for name in init.get("tools") or ()}
    log = home / "log"
    return {
        "first": sorted(set(re.findall(r"word-\w+", first))),
        "words": sorted(set(re.findall(r"word-\w+", every))),
        "made": sorted({str(path.relative_to(home)) for path in home.rglob("made*")} ),
        "contents": sorted(path.read_text().strip() for path in home.rglob("made*") if path.is_file()),
        "models": [one["model"] for one in asked],
        "asked": len(asked),
        "failed": [bool(block.get("is_error")) for block in blocks],
        "denied": len(result.get("permission_denials") or ()),
        "subtype": result.get("subtype"),
        "is_error": result.get("is_error"),
        "result": result.get("result") if result.get("subtype") == "success" else None,
        "mode": init.get("permissionMode"),
        "servers": sorted(f"{one['name']} {one['status']}" for one in init.get("mcp_servers") or ()),
        "commands": sorted(name for name in init.get("slash_commands") or () if re.search(case.named, name)),
        "agents": sorted(name for name in init.get("agents") or () if re.search(case.named, name)),
        "tools": [name for name in TOOLS if name in names] if case.offers else None,
        "hooks": _hooks(log.read_text()) if log.exists() else [],
    }  # fmt: skip


def _hooks(text: str) -> list[Any]:
    """Each line that a hook wrote of its stdin, less what is of one run or of one program."""
    found = []
    for line in text.splitlines():
        try:
            table = json.loads(line)
        except ValueError:
            table = None
        if not isinstance(table, dict):
            found.append(line)
            continue
        wanted = ("hook_event_name", "tool_name", "source", "reason", "stop_hook_active", "prompt", "agent_type", "cwd")
        found.append({name: table[name] for name in wanted if name in table} | {"fields": sorted(table)})
    return found


def compared(case: Case, theirs: dict[str, Any], ours: dict[str, Any]) -> list[tuple[str, str, Any, Any, str]]:
    """(fact, verdict, theirs, ours, why)"""
    found = []
    for fact in theirs:
        if fact.startswith("_"):
            continue
        one, other = theirs[fact], ours.get(fact)
        if fact == "models" and not re.search(r'--model|"model"|model:|_MODEL', repr(case)):
            one, other = len(one), len(other)  # which one is usual differs, and is documented
        if fact in ("subtype", "is_error", "result") and theirs["subtype"] is None and theirs["exit"] == ours["exit"]:
            other = one  # wrong use: a line on stderr there, here that and a result
        refused = ours["denied"] > theirs["denied"] and fact in ("made", "contents", "failed", "denied", "words")
        reasons = (why for (at, what), why in MEANT.items() if fnmatchcase(case.name, at) and what == fact)
        loud = ours["exit"] and not ours["asked"] and theirs["asked"]
        meant = STRICTER if refused else REFUSED if loud else next(reasons, "")
        said = case.said if case.said and case.said in ours["_said"] else ""
        verdict = "same" if one == other else "said" if meant or said else "silent"
        found.append((fact, verdict, one, other, meant or said))
    return found


async def main(words: list[str]) -> int:
    ours = "--ours" in words
    words = [word for word in words if word != "--ours"]
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    random.Random(SEED).shuffle(cases)  # what a run that was broken off has seen is a sample
    text = RESULTS.read_text() if RESULTS.exists() else ""
    before = {name: (files, seen) for name, files, seen in map(json.loads, text.splitlines())}
    limit, count, bad = asyncio.Semaphore(AT_ONCE), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:

        async def one(number: int, case: Case) -> None:
            nonlocal bad
            place = Path(folder) / str(number)
            key = repr(case)
            async with limit:
                known = before.get(case.name, ("", None))
                theirs = known[1] if known[0] == key else None
                if theirs is None and ours:
                    return
                try:
                    if theirs is None:
                        theirs = await run(case, "claude", place / "claude")
                        with RESULTS.open("a") as file:
                            file.write(json.dumps([case.name, key, theirs]) + "\n")
                    seen = await run(case, "treadle", place / "treadle")
                except TimeoutError:
                    print(f"not run {case.name}: it took too long", flush=True)
                    return
            checks = compared(case, theirs, seen)
            worst = max((verdict for _, verdict, *_ in checks), key=("same", "said", "silent").index)
            count[worst] += 1
            for fact, verdict, a, b, why in checks:
                if verdict != "same":
                    print(f"{verdict:<7}{case.name}: {fact}: theirs {a!s:.300} ours {b!s:.300} {why}", flush=True)
            if worst == "silent":
                bad += 1
                print(f"       {case.name}: our lines: {seen['_said'][:600]!r}", flush=True)

        await asyncio.gather(*(one(number, case) for number, case in enumerate(cases)))
    share = 100 * count["same"] / max(sum(count.values()), 1)
    print(f"{sum(count.values())} cases: {count['same']} same ({share:.1f} %), {count['said']} said, {bad} silent")
    return 1 if bad else 0


if __name__ == "__main__":
    os.environ.pop("CLAUDECODE", None)
    sys.exit(asyncio.run(main(sys.argv[1:])))
