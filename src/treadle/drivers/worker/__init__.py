"""Any program that speaks the worker wire."""

from treadle.drivers.card import Card, dropped, emulated

CARDS = (
    Card(
        name="worker",
        title="any worker",
        driver="treadle.drivers.worker.driver:launched",
        how="the worker protocol, one process per session",
        prefix=True,
        capabilities={
            "streaming": "native",
            "tools": "native",
            "interrupt": "native",
            "usage": "native",
            "questions": "emulated",
            "steer": "emulated",
            "resume": "emulated",
            "thinking": "unsupported",
            "fork": "unsupported",
            "cost": "native",
        },
        losses={
            "ThinkingDelta": dropped("the worker wire has no event for it"),
            "Message": emulated("made from the result"),
            "ToolOutput": dropped("the worker wire gives a tool's output when it has ended"),
            "FileChanged": emulated("guessed from the tool's name and arguments"),
            "Usage.reasoning_tokens": dropped("the worker wire does not count them"),
        },
        notes=("Steering, answers and resume need a worker that announces those extensions, as ours does.",),
    ),
)
