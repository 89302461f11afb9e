"""Models that run on this machine: llama.cpp in a process of its own, started at the first request.

`catalog` lists the known models and finds their files, `fetch` downloads one, `serve` is the program that holds it,
`server` starts and ends that program, `provider` is what the loop talks to.
"""
