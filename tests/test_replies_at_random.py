"""Checks that 300 replies which are nearly right do no harm.

python tests/test_replies_at_random.py

`python tests/fuzz_replies.py 3000 7` tries 3,000 others.
"""

import unittest

from fuzz_replies import run_many
from support import run_tests


class RepliesAtRandom(unittest.TestCase):
    def test_each_run_ends_with_an_answer_or_one_line_and_sends_what_the_api_takes(self) -> None:
        outcome = run_many(300, first=0)
        self.assertRegex(outcome, r"300 runs: [12]\d\d answered, \d+ ended with one line")


if __name__ == "__main__":
    run_tests()
