"""A node on which goals are carried out and work comes and lands by itself: `python -m treadle.goals.node NAME`."""

from treadle.fleet import node
from treadle.goals.foreman import Foreman
from treadle.landing.train import Conductor
from treadle.landing.watching import Watcher

if __name__ == "__main__":
    node.start([Conductor(), Foreman(), Watcher()])
