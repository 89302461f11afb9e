"""A right agent of the Agent Client Protocol, small, with one fault if its argument names one (`rpc.py`)."""

import http.client
import json
import os
import pathlib
import subprocess
import threading
import urllib.parse
from typing import Any

from rpc import NAME, F, Peer, Refused

PEER = Peer()
PIECE = 4000
MODES = [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]
WRITE = {
    "name": "write_file",
    "description": "Write a file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
}
TOOL = {
    "name": "run_command",
    "description": "Run a shell command",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


class Cancelled(Exception):
    pass


class Session:
    def __init__(self, name: str, cwd: str) -> None:
        self.name, self.cwd = name, cwd
        self.messages: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = [TOOL, WRITE]
        self.mode = "ask"
        self.options = {"effort": "low", "depth": "low"}
        self.stop = threading.Event()
        self.wire: http.client.HTTPConnection | None = None
        self.child: subprocess.Popen[bytes] | None = None
        self.calls = 0
        self.dead = False

    def update(self, kind: str, /, **fields: Any) -> None:
        name = "another" if F("updates name another session") else self.name
        name = next(iter(SESSIONS)) if F("updates of all sessions name the first") else name
        update = {"sessionUpdate": kind, **fields}
        if F("updates have no kind"):
            del update["sessionUpdate"]
        PEER.tell("session/update", {"sessionId": name, "update": update})

    def text(self, text: str, kind: str = "agent_message_chunk") -> None:
        if F("what is not ASCII is lost"):
            text = text.encode("ascii", "replace").decode()
        if F("a long answer is cut"):
            text = text[:65536]
        if F("the answer is a thought") and kind == "agent_message_chunk":
            kind = "agent_thought_chunk"
        for at in range(0, len(text), PIECE):
            content: Any = {"type": "text", "text": text[at : at + PIECE]}
            self.update(kind, content=content["text"] if F("content is plain text") else content)
            if F("pieces come twice"):
                self.update(kind, content=content)

    # A turn

    def model(self) -> dict[str, Any]:
        url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
        assert url.hostname
        self.wire = wire = http.client.HTTPConnection(url.hostname, url.port)
        asked = self.messages[-1:] if F("it forgets what was said before") else self.messages
        if F("sessions share their memory"):
            asked = [message for session in SESSIONS.values() for message in session.messages]
        tools = [{"type": "function", "function": tool} for tool in self.tools]
        body = json.dumps({"model": "m", "messages": asked, "tools": tools})
        try:
            wire.request("POST", f"{url.path}/chat/completions", body, {"content-type": "application/json"})
            answer = wire.getresponse()
            found = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if self.stop.is_set():
                raise Cancelled from error
            raise
        if self.stop.is_set():
            raise Cancelled
        if answer.status != 200:
            raise Refused(-32603, "the model failed")
        message: dict[str, Any] = found["choices"][0]["message"]
        return message

    def turn(self, text: str) -> str:
        self.stop.clear()
        if NAME == "asks before every answer" and not self.allowed("c0", "go"):  # that is no fault
            raise Refused(-32603, "no one allowed it")
        self.messages.append({"role": "user", "content": text[:65536] if F("a long prompt is cut") else text})
        while True:
            message = self.model()
            self.messages.append(message)
            if message.get("content") and not F("there is no text"):
                self.text(message["content"])
            calls = message.get("tool_calls") or []
            if not calls:
                return "end_turn"
            for call in calls:
                if F("the result does not reach the model"):
                    self.tool(call)
                    result = "done"
                else:
                    result = self.tool(call)
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    def tool(self, call: dict[str, Any]) -> str:
        self.calls += 1
        ident = "call" if F("every call has the same id") else f"{self.name}-{self.calls}"
        given = json.loads(call["function"]["arguments"])
        command = given.get("command", "true")
        kind = "shell" if F("the kind of a tool is unknown") else "execute"
        about: dict[str, Any] = {"toolCallId": ident, "title": command, "kind": kind, "status": "pending"}
        if F("a tool call has no title"):
            del about["title"]
        if F("a tool call has no id"):
            del about["toolCallId"]
        if not F("calls are not reported") and not F("a call is only updated"):
            self.update("tool_call", **about)
        if F("permission is asked when it is too late"):
            self.run(command)
        if not self.allowed(ident, command):
            self.ends(ident, "failed", "rejected")
            return "the person said no"
        if self.stop.is_set():
            raise Cancelled
        if not F("calls are not reported"):
            self.update("tool_call_update", toolCallId=ident, status="in_progress")
        if given.get("path") and FILES:
            path = os.path.basename(given["path"]) if F("the path of a file is relative") else given["path"]
            for method in ("fs/read_text_file", "fs/write_text_file"):
                about = {"sessionId": self.name, "path": path, "content": given["content"]}
                found = PEER.ask(method, about)
                if found is None and F("a file that is not there is waited for"):
                    threading.Event().wait()
        output = "done" if F("a call is reported and not done") else self.run(command)
        self.ends(ident, "done" if F("the status of a tool is unknown") else "completed", output)
        return output

    def ends(self, ident: str, status: str, output: str) -> None:
        if F("calls are not reported") or F("calls never end"):
            return
        if F("another call ends"):
            ident += "-x"
        content: Any = [{"type": "content", "content": {"type": "text", "text": output}}]
        if F("a tool's content is plain text"):
            content = output
        if F("a tool's content is bare"):
            content = [{"type": "text", "text": output}]
        self.update("tool_call_update", toolCallId=ident, status=status, content=content)

    def run(self, command: str) -> str:
        if TERMINALS or F("terminals of the client are used without its offer"):
            where = {"sessionId": self.name}
            where |= PEER.ask("terminal/create", {**where, "command": "sh", "args": ["-c", command]}) or {}
            PEER.ask("terminal/wait_for_exit", where)
            found = PEER.ask("terminal/output", where) or {}
            if not F("terminals are not released"):
                PEER.ask("terminal/release", where)
            return str(found.get("output"))
        self.child = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        output, _ = self.child.communicate()
        if self.stop.is_set():
            raise Cancelled
        return output.decode()

    def allowed(self, ident: str, command: str) -> bool:
        yes, no = ("yes", "yes") if F("two options have one id") else ("yes", "no")
        options: list[dict[str, Any]] = [
            {"optionId": yes, "name": "Allow", "kind": "allow" if F("an option's kind is unknown") else "allow_once"},
            {"optionId": no, "name": "Reject", "kind": "reject_once"},
        ]
        if F("there are no options"):
            options = []
        if F("options have no names"):
            options = [{key: value for key, value in option.items() if key != "name"} for option in options]
        tool = {"toolCallId": ident, **({} if F("a call is only updated") else {"title": command})}
        asked = {"sessionId": self.name, "toolCall": tool, "options": options}
        if F("permission is asked for another session"):
            asked["sessionId"] = "another"
        if F("permission is asked for no call"):
            del asked["toolCall"]
        if F("permission is asked for another call"):
            asked["toolCall"] = {"toolCallId": "z"}
        found = PEER.ask("session/request_permission", asked)
        if F("permission is asked twice"):
            found = PEER.ask("session/request_permission", asked)
        outcome = found.get("outcome") if isinstance(found, dict) else None
        if F("an error is a yes") and outcome is None:
            return True
        outcome = outcome if isinstance(outcome, dict) else {}
        if outcome.get("outcome") == "cancelled" and not F("a question that was cancelled is a yes"):
            if not F("a question that was cancelled ends the turn as if all were well"):
                self.stop.set()
            return False
        if F("a no ends the turn with an error") and outcome.get("optionId") == "no":
            raise Refused(-32603, "rejected")
        if F("a no is a yes") and outcome:
            return True
        if F("a yes is a no"):
            return False
        return outcome.get("optionId") == "yes" or outcome.get("outcome") == "cancelled"

    def cancel(self) -> None:
        self.stop.set()
        if self.wire is not None and self.wire.sock is not None:
            self.wire.sock.shutdown(2)
        if self.child is not None and not F("a cancelled tool is waited for"):
            if F("a cancelled tool goes on"):
                self.child.stdout.close()  # type: ignore[union-attr]
                return
            try:
                os.killpg(self.child.pid, 9)
            except ProcessLookupError:
                pass


SESSIONS: dict[str, Session] = {}
CAPABILITIES: dict[str, Any] = {
    "loadSession": "yes" if F("a capability is text") else True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": False, "sse": False},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
}


FILES: list[bool] = []
TERMINALS: list[bool] = []


def initialize(params: dict[str, Any]) -> Any:
    if params.get("clientCapabilities", {}).get("fs", {}).get("writeTextFile"):
        FILES.append(True)
    if params.get("clientCapabilities", {}).get("terminal"):
        TERMINALS.append(True)
    version: Any = params["protocolVersion"] if F("any version is spoken") else 1
    if F("the version is text"):
        version = "1"
    about = {"name": "right", "version": "1.0"}
    found: dict[str, Any] = {"protocolVersion": version, "agentCapabilities": CAPABILITIES, "agentInfo": about}
    found["authMethods"] = {} if F("the ways to sign in are no list") else []
    if F("it has no version"):
        del found["protocolVersion"]
    if F("the capabilities are a list"):
        found["agentCapabilities"] = ["loadSession"]
    if F("the agent has no name"):
        found["agentInfo"] = {"version": "1.0"}
    return found


def opened(params: dict[str, Any]) -> Session:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) and not F("a session needs no directory"):
        raise Refused(-32602)
    if not os.path.isabs(str(cwd)) and not F("a session needs no directory"):
        raise Refused(-32602)
    name = "s" if F("every session has the same id") else f"s{len(SESSIONS)}"
    if F("sessions have no id"):
        name = ""
    session = SESSIONS[name] = Session(name, str(cwd))
    connect(session, params.get("mcpServers") or [])
    return session


def connect(session: Session, servers: list[dict[str, Any]]) -> None:
    if F("MCP servers are not started"):
        return
    for server in servers:
        env = {each["name"]: each["value"] for each in server.get("env", [])}
        args = [] if F("MCP servers get no arguments") else server["args"]
        env = {**os.environ, **({} if F("MCP servers get no variables") else env)}
        child = subprocess.Popen([server["command"], *args], env=env, stdin=-1, stdout=-1, text=True)
        assert child.stdin and child.stdout
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "right", "version": "1"}}
        for number, (method, params) in enumerate([("initialize", hello), ("tools/list", {})]):
            line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            child.stdin.write(json.dumps(line) + "\n")
            child.stdin.flush()
            found = json.loads(child.stdout.readline() or '{"result": {}}')["result"]
        for tool in found.get("tools", []):
            if not F("tools of MCP servers are not offered"):
                session.tools.append({"name": tool["name"], "parameters": tool["inputSchema"]})


def setup(session: Session) -> dict[str, Any]:
    current = "other" if F("the mode is none of the modes") else session.mode
    return {"modes": {"currentModeId": current, "availableModes": MODES}, **options(session)}


def options(session: Session) -> dict[str, Any]:
    values = [{"value": value, "name": value} for value in ("low", "high")]
    found = [
        {"id": name, "name": name, "type": "select", "currentValue": value, "options": values}
        for name, value in session.options.items()
    ]
    if F("an option has no value"):
        del found[1]["currentValue"]
    return {"configOptions": found}


def configure(params: dict[str, Any]) -> Any:
    session = found(params)
    if params.get("value") not in ("low", "high") and not F("an option takes any value"):
        raise Refused(-32602)
    before = options(session)
    for each in SESSIONS.values() if F("an option is of all sessions") else [session]:
        each.options[params["configId"]] = params["value"]
    if F("an option is answered alone"):
        return {"configOptions": [one for one in options(session)["configOptions"] if one["id"] == params["configId"]]}
    return before if F("an option is answered as it was") else options(session)


def new(params: dict[str, Any]) -> Any:
    session = opened(params)
    return {"sessionId": session.name, **setup(session)}


def found(params: dict[str, Any]) -> Session:
    session = SESSIONS.get(params.get("sessionId", ""))
    if F("an unknown session is any session") and SESSIONS:
        return next(iter(SESSIONS.values()))
    if session is None:
        raise Refused(-32602, "no such session")
    return session


def load(params: dict[str, Any]) -> Any:
    if F("load is offered and absent"):
        raise Refused(-32601)
    if F("an unknown session is loaded") and params["sessionId"] not in SESSIONS:
        SESSIONS[params["sessionId"]] = Session(params["sessionId"], params["cwd"])
    kept = pathlib.Path(str(params.get("cwd")), f".{params['sessionId']}.json")
    if params["sessionId"] not in SESSIONS and kept.exists() and not F("sessions end with the process"):
        SESSIONS[params["sessionId"]] = Session(params["sessionId"], params["cwd"])
        SESSIONS[params["sessionId"]].messages = json.loads(kept.read_text())
    session = found(params)
    if F("loading forgets"):
        replay(session)
        session.messages = []
    elif F("the replay comes after the response"):
        threading.Timer(0.1, replay, [session]).start()
    elif not F("nothing is replayed"):
        replay(session)
    return setup(session)


def replay(session: Session) -> None:
    for message in session.messages:
        if message["role"] == "user" and not F("only the answers are replayed"):
            session.text(message["content"], "user_message_chunk")
        elif message["role"] == "assistant" and not F("only the prompts are replayed"):
            session.text(message.get("content") or "", "agent_message_chunk")
    if F("another session is replayed too"):
        for other in SESSIONS.values():
            session.text("".join(each["content"] or "" for each in other.messages), "user_message_chunk")


def resume(params: dict[str, Any]) -> Any:
    if F("resume is offered and absent"):
        raise Refused(-32601)
    session = found(params)
    if F("resume replays"):
        replay(session)
    if F("resuming forgets"):
        session.messages = []
    return setup(session)


def listed(params: dict[str, Any]) -> Any:
    if F("a list is offered and absent"):
        raise Refused(-32601)
    cwd = params.get("cwd")
    fitting = [one for one in SESSIONS.values() if F("the list is of all directories") or cwd in (None, one.cwd)]
    if F("the list is empty"):
        fitting = []
    first = int(params.get("cursor") or 0)
    page = [{"sessionId": one.name, "cwd": one.cwd, "title": "A talk"} for one in fitting[first : first + 2]]
    if F("sessions of the list have no directory"):
        page = [{"sessionId": one["sessionId"]} for one in page]
    if F("the list has no end"):
        return {"sessions": page, "nextCursor": "0"}
    if F("the next page is a number") and len(fitting) > first + 2:
        return {"sessions": page, "nextCursor": first + 2}
    return {"sessions": page, **({"nextCursor": str(first + 2)} if len(fitting) > first + 2 else {})}


def close(params: dict[str, Any]) -> Any:
    if F("close is offered and absent"):
        raise Refused(-32601)
    session = found(params)
    if not F("a closed session goes on"):
        del SESSIONS[session.name]
    return {}


def set_mode(params: dict[str, Any]) -> Any:
    if F("modes are offered and cannot be set"):
        raise Refused(-32601)
    session = found(params)
    if params.get("modeId") not in ("ask", "plan") and not F("any mode can be set"):
        raise Refused(-32602)
    session.mode = params["modeId"]
    session.update("current_mode_update", currentModeId="none" if F("an unknown mode is told") else session.mode)
    command = {"name" if not F("commands have no name") else "command": "help", "description": "x", "input": None}
    session.update("available_commands_update", availableCommands=[command])
    return {}


def prompted(blocks: list[dict[str, Any]]) -> str:
    texts = []
    for block in blocks:
        match block.get("type"):
            case "text":
                texts.append(block["text"])
            case "resource_link":
                if F("links are refused"):
                    raise Refused(-32602)
                texts.append(block["uri"])
            case "resource":
                if F("resources are offered and refused"):
                    raise Refused(-32602)
                if not F("resources are offered and dropped"):
                    texts.append(block["resource"].get("text", ""))
            case "image":
                if F("images are offered and refused"):
                    raise Refused(-32602)
                texts.append("[image]" if F("images are offered and dropped") else block["data"])
            case _:
                raise Refused(-32602)
    if F("only the first block is read"):
        texts = texts[:1]
    return "\n".join(texts)


ONE = threading.Lock()


def prompt(params: dict[str, Any]) -> Any:
    session = found(params)
    if not params.get("prompt"):
        if F("a prompt needs no content"):
            return {"stopReason": "end_turn"}
        raise Refused(-32602)
    if session.dead:
        raise Refused(-32603, "it was cancelled")
    text = prompted(params["prompt"])
    if F("one session at a time"):
        with ONE:
            return turned(session, text)
    if F("a second prompt is not answered") and session.messages:
        threading.Event().wait()
    return turned(session, text)


def turned(session: Session, text: str) -> Any:
    try:
        reason = session.turn(text)
        pathlib.Path(session.cwd, f".{session.name}.json").write_text(json.dumps(session.messages))
        if F("the stop reason is unknown"):
            reason = "done"
        if F("text comes after the response"):
            threading.Timer(0.1, session.text, ["More."]).start()
    except Cancelled:
        if F("a cancel is an error"):
            raise Refused(-32603, "cancelled") from None
        session.dead = F("a cancelled session is lost")
        reason = "end_turn" if F("a cancelled turn ends by itself") else "cancelled"
        if F("text comes after a cancel"):
            threading.Timer(0.1, session.text, ["More."]).start()
    except Refused:
        if F("a model that fails ends the turn as if all were well"):
            return {"stopReason": "end_turn"}
        raise
    return {} if F("there is no stop reason") else {"stopReason": reason}


EARLY: set[str] = set()


def cancel(params: dict[str, Any]) -> None:
    if F("a cancel is ignored"):
        return
    if F("a cancel ends every session"):
        for session in SESSIONS.values():
            session.cancel()
    if F("a cancel of an unknown session is fatal") and params["sessionId"] not in SESSIONS:
        os._exit(1)
    if params["sessionId"] in SESSIONS:
        session = SESSIONS[params["sessionId"]]
        if F("a cancel ends the next prompt too"):
            session.turn = lambda text: "cancelled"  # type: ignore[method-assign]
        session.cancel()


def main() -> None:
    PEER.methods = {
        "initialize": initialize,
        "session/new": new,
        "session/load": load,
        "session/resume": resume,
        "session/list": listed,
        "session/close": close,
        "session/set_mode": set_mode,
        "session/set_config_option": configure,
        "session/prompt": prompt,
    }
    PEER.notices = {"session/cancel": cancel}
    PEER.slow = {"session/prompt"}
    if F("files of the client are read without its offer"):
        before = Session.turn

        def turn(self: Session, text: str) -> str:
            PEER.ask("fs/read_text_file", {"sessionId": self.name, "path": str(pathlib.Path(self.cwd, "a.txt"))})
            return before(self, text)

        Session.turn = turn  # type: ignore[method-assign]
    PEER.serve()


if __name__ == "__main__":
    main()
