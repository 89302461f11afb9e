"""One attempt at an order, in a process of its own: where it works, what it reports, what it asks, what it leaves.

The run itself is the host's (`treadle.host`); here is what the fleet adds. Which attempt counts is decided in
`schedule`.
"""
