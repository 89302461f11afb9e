"""A node of a fleet on which finished work lands by itself: `python -m treadle.landing.node NAME`."""

from treadle.fleet import node
from treadle.landing.conductor import Conductor

if __name__ == "__main__":
    node.start([Conductor()])
