"""Any program that speaks the worker wire."""

from treadle.drivers.card import Card, dropped, emulated, levels

CARDS = (
    Card(
        name="worker",
        title="any worker",
        driver="treadle.drivers.worker.driver:launched",
        how="the worker protocol, one process per session",
        prefix=True,
        capabilities=levels(
            native="streaming tools results interrupt usage cost iterations model toolset system_prompt sandbox",
            emulated="questions permissions rules steer resume file_changes structured_output",
        ),
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
