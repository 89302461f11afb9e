"""What the elected scheduler does: it alone writes the state of orders.

`book` has the rules, `placing` says which order goes where, `scheduler` reads and writes. What a runner does with an
order that it was given is in `run`.
"""
