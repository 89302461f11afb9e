"""The same program with any agent: python any_agent.py claude "PROMPT"; native, codex, gemini ... work as well"""

import sys

import treadle

result = treadle.run(sys.argv[2], agent=sys.argv[1], mode="plan")
print(result.text)
print(f"{result.usage.input_tokens} tokens in, {result.usage.output_tokens} out")
