"""A program of a user's own: `library_client.py AGENT ABILITY` asks an agent for an ability, and prints the events."""

import asyncio
import sys
from typing import Any

import treadle
from treadle.session import Answer, Instructions, Limits, Reasoning, Subagent

agent, ability = sys.argv[1:]
OPTIONS: dict[str, dict[str, Any]] = {
    "effort": {"thinking": Reasoning(effort="low")},
    "fork": {"resume": "x", "fork": True},
    "resume": {"resume": "x"},
    "session_id": {"session_id": "x"},
    "session_name": {"name": "x"},
    "unsaved": {"persist": False},
    "sources": {"instructions": Instructions(sources=("user",))},
    "bare": {"project": False},
    "plugins": {"instructions": Instructions(plugins=(".",))},
    "skills": {"instructions": Instructions(skills=("a",))},
    "toolset": {"tools": ["read_file"]},
    "subagents": {"subagents": (Subagent(name="a", description="d", prompt="p"),)},
    "hooks": {"pre_tool": lambda use: None},
    "usage": {"limits": Limits(max_tokens=1)},
    "cost": {"limits": Limits(max_cost_usd=1.0)},
    "iterations": {"limits": Limits(max_iterations=1)},
    "repeats": {"limits": Limits(repeats=9)},
}


def change(asked: Any) -> Answer:
    return Answer(decision="allow", changed_args={"command": "touch other.txt"})


async def main() -> None:
    given = OPTIONS.get(ability, {}) | ({"on_ask": change} if ability == "changed_input" else {})
    prompt = {"steer": "[[sleep]]", "changed_input": "[[touch]]"}.get(ability, "[[hello]]")
    async with treadle.open(agent=agent, mode="suggest", **given) as conversation:
        async for event in conversation.turn(prompt):
            print(event)
            if ability == "steer" and type(event).__name__ == "TurnStarted":
                await conversation.steer("MARKED")


asyncio.run(main())
