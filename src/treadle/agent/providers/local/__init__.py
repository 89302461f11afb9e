"""Models that run on this machine: llama.cpp in a process of its own, started at the first request.

`catalog` lists the known models and finds their files, `fetch` downloads one, `serve` is the program that holds it, and
`provider`, which the loop talks to, starts and ends that program.
"""
