"""The blackboard: facts that one agent found out and all others can read by key."""

from treadle.coordination.table import Table


class Blackboard(Table):
    actor = "blackboard"
    file = "blackboard.json"
    field = "facts"
    what = "fact"
    lister = "heimdall-blackboard list"

    def delete(self, key: str) -> None:
        """Remove a fact, if it exists."""
        self.document.change(lambda entries: entries.pop(key, None))
        self.planning.log(self.actor, "del", key)
