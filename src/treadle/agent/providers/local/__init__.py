"""Models that run on this machine: llama.cpp in a process of its own, started when it is first asked.

`catalog` says which models are known and where a file is, `fetch` gets one, `serve` is the program that holds it,
`server` starts and ends that program, `provider` is what the loop talks to.
"""
