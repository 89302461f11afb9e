"""Codex's own SDK for Python, with `treadle` in place of `codex`: a turn with an approval, and its thread resumed.

python codex_python_client.py PROGRAM DIRECTORY
"""

import json
import os
import sys

from openai_codex import CodexConfig
from openai_codex.client import CodexClient

program, directory = sys.argv[1:]
asked = []


def approve(method, params):
    asked.append(method)
    return {"action": "accept"} if "elicitation" in method else {"decision": "accept"}


def client():
    opened = CodexClient(CodexConfig(codex_bin=program, cwd=directory, env=dict(os.environ)), approval_handler=approve)
    opened.start()
    opened.initialize()
    return opened


def run(codex, thread, text):
    turn = codex.turn_start(thread, text).turn.id
    types, tokens = [], 0
    while True:
        told = codex.next_turn_notification(turn)
        if told.method == "item/completed":
            types.append(told.payload.item.root.type)
        elif told.method == "thread/tokenUsage/updated":
            tokens = told.payload.token_usage.total.total_tokens
        elif told.method == "turn/completed":
            return {"status": told.payload.turn.status.value, "types": types, "tokens": tokens}


codex = client()
models = [model.model for model in codex.model_list().data]
started = codex.thread_start({"cwd": directory, "approvalPolicy": "untrusted", "sandbox": "read-only"})
thread = started.thread.id
seen = {"models": models, "first": run(codex, thread, "[[touch]]"), "asked": asked}
codex.close()
codex = client()
try:
    resumed = codex.thread_resume(thread, {"cwd": directory})
    seen["past"] = [item.root.type for turn in resumed.thread.turns for item in turn.items]
    seen["second"] = run(codex, thread, "[[hello]]")
except Exception as error:
    seen["refused"] = str(error)
codex.close()
print(json.dumps(seen))
