"""The blackboard: facts that one agent found out and every other can read by key."""

from treadle.coordination.table import Table


class Blackboard(Table):
    actor = "blackboard"
    file = "blackboard.json"
    field = "facts"
    what = "fact"
    lister = "heimdall-blackboard list"

    def delete(self, key: str) -> None:
        """Forget a fact; one that is not there is already forgotten."""
        self.document.change(lambda entries: entries.pop(key, None))
        self.planning.log(self.actor, "del", key)
