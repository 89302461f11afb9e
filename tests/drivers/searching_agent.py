"""An agent over ACP that asks its model once for each prompt, and at "search" searches all that it can read for keys.

    python searching_agent.py BASE_VARIABLE KEY_VARIABLE PATH_OF_THE_MODEL MARK

Every key that it could find holds the mark, which is given backwards so that its own words do not hold it.

Its answer is JSON: the service's status, what it sees in the two variables, and where it found what.
"""

import contextlib
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator


def main(base: str, key: str, path: str, mark: str) -> None:
    for line in sys.stdin:
        call = json.loads(line)
        if "id" not in call or "method" not in call:
            continue
        result: dict[str, object] = {}
        if call["method"] == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
        elif call["method"] == "session/new":
            result = {"sessionId": "s1"}
        elif call["method"] == "session/prompt":
            wanted = call["params"]["prompt"][-1]["text"].endswith("search")
            places = sorted(set(search(mark[::-1].encode()))) if wanted else []
            found = json.dumps({**asked(base, key, path), "found": places})
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": found}}
            say({"method": "session/update", "params": {"sessionId": "s1", "update": chunk}})
            result = {"stopReason": "end_turn"}
        say({"id": call["id"], "result": result})


def say(message: dict[str, object]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def asked(base: str, key: str, path: str) -> dict[str, object]:
    body = {"model": "m", "max_tokens": 1000, "messages": [{"role": "user", "content": "hi"}], "contents": []}
    headers = {"x-goog-api-key": os.environ[key], "content-type": "application/json"}
    request = urllib.request.Request(os.environ[base] + path, json.dumps(body).encode(), headers)
    seen: dict[str, object] = {"base": os.environ[base], "key": os.environ[key]}
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return {**seen, "status": answer.status, "said": answer.read().decode()}
    except urllib.error.HTTPError as error:
        return {**seen, "status": error.code, "said": error.read().decode()}


def search(wanted: bytes) -> list[str]:
    """Everything that a program here can read: variables and words of processes, files, sockets' places, logs."""
    found = [f"variable {name}" for name, value in os.environ.items() if wanted in value.encode()]
    places = [f"/proc/{pid}/{what}" for pid in os.listdir("/proc") if pid.isdigit() for what in ("environ", "cmdline")]
    for top in (os.getcwd(), os.environ["HOME"], "/tmp", "/run", "/var/log"):
        for folder, _, names in os.walk(top):
            places += [os.path.join(folder, name) for name in names]
    for place in places:
        try:
            if os.path.isfile(place):
                with open(place, "rb") as file:
                    found += [place] if wanted in file.read(1 << 20) else []
        except OSError:
            continue
    others = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid()]
    return found + [f"/proc/{pid}/mem" for pid in others if any(wanted in part for part in memory(pid))]


def memory(pid: str) -> Iterator[bytes]:
    """What a process has written, which is what its core dump has: of each part the first 16 MB."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as parts, open(f"/proc/{pid}/mem", "rb", 0) as file:
        for words in (line.split() for line in parts):
            begin, end = (int(each, 16) for each in words[0].split("-"))
            if words[1].startswith("rw"):
                with contextlib.suppress(OSError):
                    file.seek(begin)
                    yield file.read(min(end - begin, 16 << 20))


if __name__ == "__main__":
    main(*sys.argv[1:])
