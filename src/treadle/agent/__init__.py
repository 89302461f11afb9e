"""The native agent: ask the model, run the tools it asked for, repeat until it answers.

Outside agents are in `drivers`; claims reach it as a guard that is handed in, never by import.
"""
