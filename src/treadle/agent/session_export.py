"""A saved session as a document: Markdown to read, HTML to pass on, JSON for programs. Pure.

The document leaves the machine, so secrets are removed. The history itself keeps them, because resuming needs all of
it.
"""

import html
import time
from typing import Any

from treadle.agent.messages import ChatMessage, ToolResult, UserMessage
from treadle.agent.transcript import Transcript
from treadle.redact import Redactor
from treadle.sessions.totals import Totals

TITLE = 80
"""How many characters of the first prompt make a title."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
body {{ color: #1a1a1a; background: #fff }}
pre {{ overflow-x: auto; padding: .7rem; background: #f3f3f3; white-space: pre-wrap; overflow-wrap: anywhere }}
.user {{ border-left: 4px solid #2b6cb0; padding-left: .8rem }}
details {{ margin: .5rem 0 }} summary {{ cursor: pointer; color: #444 }} .about {{ color: #555 }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #e6e6e6; background: #141414 }} pre {{ background: #222 }} summary, .about {{ color: #aaa }}
}}
</style></head><body>
{body}
</body></html>
"""


class SessionDocument:
    """The contents of a session, redacted, before they get a form."""

    def __init__(self, transcript: Transcript, redactor: Redactor) -> None:
        self._clean = redactor.text
        self.id = transcript.header.id
        self.cwd = transcript.header.cwd
        self.model = transcript.model
        self.created = transcript.header.created
        self.name = transcript.name
        self.turns = transcript.listing.turns
        self.messages = [self._redacted(message) for message in transcript.everything()]
        self.totals = Totals.of(transcript.spent())
        first = " ".join(self._clean(transcript.listing.prompt).split())
        self.title = self._clean(self.name or "") or first[:TITLE] or f"session {self.id}"

    def about(self) -> str:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.created))
        cost = "cost unknown" if self.totals.cost_usd is None else f"${self.totals.cost_usd:.4f}"
        tokens = f"{self.totals.total_tokens} tokens" if self.totals.calls else "tokens unknown"
        return f"session {self.id} · {day} · {self.cwd} · {self.model} · {self.turns} turns · {tokens} · {cost}"

    def _redacted(self, message: ChatMessage) -> dict[str, Any]:
        if isinstance(message, UserMessage):
            return {"role": "user", "text": self._clean(message.text)}
        if isinstance(message, ToolResult):
            text = self._clean(message.text)
            return {"role": "tool", "call": message.call, "name": message.name, "ok": message.ok, "text": text}
        calls = [{"id": one.id, "name": one.name, "arguments": self._clean(one.arguments)} for one in message.calls]
        return {"role": "assistant", "text": self._clean(message.text), "model": message.model, "calls": calls}


def as_json(document: SessionDocument) -> dict[str, Any]:
    usage = document.totals
    return {
        "id": document.id,
        "name": document.name,
        "cwd": document.cwd,
        "model": document.model,
        "created": document.created,
        "turns": document.turns,
        "total_tokens": usage.total_tokens if usage.calls else None,
        "cost_usd": usage.cost_usd if usage.calls else None,
        "messages": document.messages,
    }


def as_markdown(document: SessionDocument, *, tools: bool = True) -> str:
    """Without `tools`, each call is shown only by its name and subject."""
    parts = [f"# {document.title}\n\n{document.about()}\n"]
    for message in document.messages:
        match message["role"]:
            case "user":
                parts.append(f"## You\n\n{message['text']}\n")
            case "tool" if tools:
                failed = "" if message["ok"] else ", which failed"
                parts.append(f"Result of `{message['name']}`{failed}:\n\n{fenced(message['text'])}\n")
            case "assistant":
                reply = [message["text"]] if message["text"].strip() else []
                reply += [_call(call, tools) for call in message["calls"]]
                parts.append("## Agent\n\n" + "\n\n".join(reply) + "\n")
    return "\n".join(parts)


def _call(call: dict[str, Any], whole: bool) -> str:
    if whole:
        return f"Calls `{call['name']}`:\n\n{fenced(call['arguments'])}"
    about = " ".join(call["arguments"].split())
    return f"- `{call['name']}` `{about[:100].replace('`', chr(39))}`"


def fenced(text: str) -> str:
    """A block of code, with a fence longer than any inside."""
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"


def as_html(document: SessionDocument) -> str:
    """One page that loads nothing: what an agent said is shown, and never runs or fetches."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parts = [f"<h1>{html.escape(document.title)}</h1>\n<p class=about>{html.escape(document.about())}</p>"]
    for message in document.messages:
        shown = markdown.render(message["text"]) if message["role"] != "tool" else ""
        match message["role"]:
            case "user":
                parts.append(f"<h2>You</h2>\n<div class=user>{shown}</div>")
            case "tool":
                failed = "" if message["ok"] else " (failed)"
                parts.append(_details(f"Result of {message['name']}{failed}", message["text"]))
            case "assistant":
                calls = "".join(_details(f"Calls {call['name']}", call["arguments"]) for call in message["calls"])
                parts.append(f"<h2>Agent</h2>\n{shown}{calls}")
    return PAGE.format(title=html.escape(document.title), body="\n".join(parts))


def _details(title: str, text: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>"
