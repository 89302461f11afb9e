"""Any agent that speaks A2A."""

from treadle.drivers.card import Card, dropped, emulated, levels

_NOT_IN_A2A = dropped("A2A has no message for it")
_ITS_OWN = dropped("what it does, it does elsewhere")

CARDS = (
    Card(
        name="a2a",
        title="any agent over A2A",
        driver="treadle.drivers.a2a.driver:A2aAgent",
        how="the Agent2Agent protocol over HTTP; nothing is started here",
        prefix=True,
        takes="URL",
        environment=("TREADLE_A2A_TOKEN",),
        capabilities=levels(native="streaming questions permissions interrupt images", emulated="structured_output"),
        losses={
            **dict.fromkeys(
                ("ToolStarted", "ToolEnded", "ToolOutput", "ToolDenied", "FileChanged", "CommandRun"), _ITS_OWN
            ),
            **dict.fromkeys(("ThinkingDelta", "Usage", "Retrying", "ModelRouted", "TaskChanged"), _NOT_IN_A2A),
            **dict.fromkeys(("ContextPruned", "ContextCompacted", "ContextHandoff"), _NOT_IN_A2A),
            "Asked": emulated(
                "a task that needs input asks in words; whether for a permission, only Treadle's own say"
            ),
        },
        notes=(
            "It works where it runs, not in the working directory here: our rules, modes and sandbox do not reach it.",
            "Its token is read from TREADLE_A2A_TOKEN.",
        ),
    ),
)
