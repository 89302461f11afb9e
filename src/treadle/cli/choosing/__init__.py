"""Which agent and which model a run uses when the person has not said it: look, choose, remember."""
