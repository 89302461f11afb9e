"""Models that run on this machine: llama.cpp in a process of its own, started at the first request.

`models` lists the known models, finds and downloads their files, and has the provider that the loop talks to, which
starts and ends the program that holds a model: `serve`.
"""
