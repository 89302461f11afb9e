"""Clauses for a one-shot runner: a prompt in the arguments, an answer on stdout as text, one object, or a stream."""

import json
import signal
from typing import Any

from treadle.conform.kit import ANSWER, Candidate, Kit, Once, Untried, expect
from treadle.conform.lines import shown

KIT = Kit(protocol="oneshot", specification="one-shot runner: text, json, stream-json", clauses=[])
clause = KIT.clause

TEXT, JSON, STREAM, ENDING = "text", "json", "stream-json", "Exit codes"
FAILING = '[[reply]]\ntimes = "always"\n[reply.error]\nstatus = 400\n'
SLOW = '[[reply]]\ntext = "Slow."\ndelay = 600\ntimes = "always"\n'


async def asked(candidate: Candidate, form: str, prompt: str = "Hello.", **more: Any) -> Once:
    return await candidate.once(["-p", prompt, "--output-format", form], **more)


async def answered(candidate: Candidate, form: str, prompt: str = "Hello.") -> Once:
    """A run that got its answer; the clause is not tried on a program that could not reach its model."""
    found = await asked(candidate, form, prompt)
    if found.code != 0 and not found.requests:
        raise Untried(f"it did not ask the model that it was pointed at: {shown(found.errors or found.output)}")
    return found


def lines(found: Once) -> list[dict[str, Any]]:
    read = []
    for line in found.output.splitlines():
        try:
            read.append(json.loads(line))
        except ValueError:
            expect(False, line, "a line on stdout is no JSON")
        expect(isinstance(read[-1], dict), line, "a line on stdout is no JSON object")
    return read


def result(found: Once) -> dict[str, Any]:
    """The one object of the format json; some programs write it over several lines."""
    try:
        read = json.loads(found.output)
    except ValueError:
        read = None
    expect(isinstance(read, dict), found.output, "stdout is not exactly one JSON object")
    assert isinstance(read, dict)
    expect(read.get("type") == "result", read, "its type is not result")
    return read


@clause(TEXT, "text is the answer and a newline, and nothing else")
async def _(candidate: Candidate) -> str:
    found = await answered(candidate, "text")
    expect(found.output == ANSWER + "\n", found.output, "stdout is another")
    return shown(found.output)


@clause(TEXT, "the prompt reaches the model as it was given")
async def _(candidate: Candidate) -> str:
    prompt = "one two \U0001f9f5 'quoted' \"twice\" $HOME `x`"
    found = await answered(candidate, "text", prompt)
    expect(any(json.dumps(prompt)[1:-1] in json.dumps(body) for body in found.requests), prompt, "it was changed")
    return "unchanged"


@clause(TEXT, "the prompt may come on stdin")
async def _(candidate: Candidate) -> str:
    found = await candidate.once(["-p", "--output-format", "text"], stdin=b"From a pipe.\n")
    if found.code != 0 and not found.requests:
        raise Untried(f"it reads no prompt from stdin: {shown(found.errors)}")
    expect(
        any("From a pipe." in json.dumps(body) for body in found.requests), found.output, "the model was not asked it"
    )
    return "asked"


@clause(JSON, "json is exactly one object with type result, the answer, subtype success and a session_id")
async def _(candidate: Candidate) -> str:
    read = result(await answered(candidate, "json"))
    expect(read.get("result") == ANSWER, read, f"the result is not {ANSWER!r}")
    expect(read.get("subtype") == "success", read, "the subtype is not success")
    expect(isinstance(read.get("session_id"), str) and read["session_id"] != "", read, "it has no session_id")
    return shown(read)


@clause(JSON, "a run that failed is one object too, whose subtype is not success and whose result is empty or an error")
async def _(candidate: Candidate) -> str:
    found = await asked(candidate, "json", script=FAILING)
    if not found.requests:
        raise Untried("it did not ask the model that it was pointed at")
    read = result(found)
    failed = read.get("subtype") != "success" or read.get("is_error") is True
    expect(failed and read.get("result") != ANSWER, read, "it is called a success")
    return shown(read)


@clause(STREAM, "stream-json is JSON objects, a line each, and the last one is the only result")
async def _(candidate: Candidate) -> str:
    read = lines(await answered(candidate, "stream-json"))
    results = [line for line in read if line.get("type") == "result"]
    expect(len(results) == 1 and read[-1] is results[0], read[-1:], "the last line is not the only result")
    expect(results[0].get("result") == ANSWER, results[0], f"the result is not {ANSWER!r}")
    return f"{len(read)} lines"


@clause(STREAM, "the text is streamed as content_block_delta events that make up the result")
async def _(candidate: Candidate) -> str:
    read = lines(await answered(candidate, "stream-json"))
    events = [line.get("event") or {} for line in read if line.get("type") == "stream_event"]
    deltas = [event.get("delta") or {} for event in events if event.get("type") == "content_block_delta"]
    text = "".join(str(delta.get("text", "")) for delta in deltas if delta.get("type") == "text_delta")
    expect(text == ANSWER, text, f"streamed was not {ANSWER!r}, but")
    return f"{len(deltas)} deltas"


@clause(STREAM, "every line has the session's id, and every stream_event an id of its own")
async def _(candidate: Candidate) -> str:
    read = lines(await answered(candidate, "stream-json"))
    sessions = {line.get("session_id") for line in read}
    expect(
        len(sessions) == 1 and None not in sessions, sorted(map(str, sessions)), "the session_id differs or is missing"
    )
    ids = [line.get("uuid") for line in read if line.get("type") == "stream_event"]
    expect(len(set(ids)) == len(ids) and None not in ids, ids[:3], "a uuid is missing or used twice")
    return f"{len(read)} lines"


@clause(STREAM, "a run that failed ends with one result whose subtype is not success")
async def _(candidate: Candidate) -> str:
    found = await asked(candidate, "stream-json", script=FAILING)
    if not found.requests:
        raise Untried("it did not ask the model that it was pointed at")
    read = lines(found)
    results = [line for line in read if line.get("type") == "result"]
    expect(len(results) == 1 and read[-1] is results[0], read[-1:], "the last line is not the only result")
    expect(results[0].get("subtype") != "success" or results[0].get("is_error") is True, results[0], "it is a success")
    return shown(results[0])


@clause(ENDING, "a run that succeeded exits with 0, in every format")
async def _(candidate: Candidate) -> str:
    codes = {form: (await answered(candidate, form)).code for form in ("text", "json", "stream-json")}
    expect(set(codes.values()) == {0}, codes, "an exit code is another")
    return "0"


@clause(ENDING, "a run that failed exits with 1, in every format")
async def _(candidate: Candidate) -> str:
    codes = {form: (await asked(candidate, form, script=FAILING)).code for form in ("text", "json", "stream-json")}
    expect(set(codes.values()) == {1}, codes, "an exit code is another")
    return "1"


@clause(ENDING, "a failed run in text says why on stderr, and nothing on stdout that looks like an answer")
async def _(candidate: Candidate) -> str:
    found = await asked(candidate, "text", script=FAILING)
    expect(found.errors.strip() != "" or found.output.strip() != "", found.code, "it failed without a word")
    expect(ANSWER not in found.output, found.output, "it gave an answer")
    return shown(found.errors or found.output)


@clause(ENDING, "an unknown slash command is an error, and the model is not asked")
async def _(candidate: Candidate) -> str:
    found = await asked(candidate, "json", "/no-such-command-here")
    expect(not found.requests, found.output, "the model was asked")
    expect(found.output.strip() + found.errors.strip() != "", found.code, "nothing was reported")
    return f"exit code {found.code}: {shown(found.output or found.errors)}"


@clause(ENDING, "an interrupt ends a run at once, and stdout stays one JSON object")
async def _(candidate: Candidate) -> str:
    found = await asked(candidate, "json", script=SLOW, interrupt=signal.SIGINT)
    expect(found.output == "" or result(found) is not None, found.output, "stdout is broken")
    return f"exit code {found.code}"
