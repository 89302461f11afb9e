"""A command that comes up to a limit of the sandbox: the agent is told what it was, and a person too."""

from pathlib import Path

from tests.agent.tools.workspace import Workspace
from tests.io.sandbox.rooms import WRITES_TOO_MUCH, writing_counts
from treadle.confinement import ResourceLimits
from treadle.events import Warned
from treadle.session import Confinement


@writing_counts
async def test_what_was_too_much_is_in_the_result_and_a_person_is_told_once(tmp_path: Path) -> None:
    walls = Confinement(use="on", write=(str(tmp_path),), limits=ResourceLimits(disk=5 << 20))
    workspace = Workspace(tmp_path, confinement=lambda: walls)
    for _ in range(2):
        said = await workspace.run("bash", command=WRITES_TOO_MUCH)
        assert "[stopped: it had written " in said
        assert ", more than 5 MB (limits of [sandbox] in the settings)]" in said
    [warned] = [event for event in workspace.events if isinstance(event, Warned)]
    assert warned.code == "sandbox" and warned.message.startswith("stopped: it had written")
