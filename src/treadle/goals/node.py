"""A node of a fleet on which goals are carried out and work lands by itself: `python -m treadle.goals.node NAME`."""

from treadle.fleet import node
from treadle.goals.foreman import Foreman
from treadle.landing.train import Conductor

if __name__ == "__main__":
    node.start([Conductor(), Foreman()])
