"""The native agent: ask the model, run the tools it asked for, repeat until it answers."""
