"""A typed value as the answer: python typed_answer.py"""

from dataclasses import dataclass

import treadle


@dataclass
class Review:
    verdict: str
    problems: list[str]


review = treadle.run("Review the last commit of this repository.", output_type=Review, mode="plan").value
print(review.verdict)
for problem in review.problems:
    print("-", problem)
