"""Any program that speaks the sidecar wire."""

from treadle.drivers.card import Card, dropped, emulated, levels

CARDS = (
    Card(
        name="sidecar",
        title="any sidecar",
        driver="treadle.drivers.sidecar.driver:launched",
        how="the sidecar protocol, one process per turn",
        prefix=True,
        capabilities=levels(
            native="streaming tools results file_changes interrupt usage cost iterations model toolset tuning sandbox",
            emulated="rules session_id system_prompt structured_output",
        ),
        losses={
            "ThinkingDelta": dropped("the sidecar wire has no event for it"),
            "Asked": dropped("a sidecar cannot ask; what the rules deny ends the run when it is seen"),
            "ToolOutput": dropped("the sidecar wire gives a tool's output when it has ended"),
            "ToolStarted.kind": emulated("guessed from the tool's name and arguments"),
        },
        notes=("A sidecar has no memory of earlier orders: every turn starts from scratch.",),
    ),
)
