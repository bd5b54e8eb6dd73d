"""Sends the agent replies that are nearly right, and checks what it makes of them.

    python tests/fuzz_replies.py 3000 7      3,000 runs, from seed 7

Each run plays a few replies of calls, text and thoughts, broken in a random place: a key dropped, a
value of another type or an odd one, a part doubled. tests/test_replies_at_random.py does 300.
"""

import contextlib
import copy
import io
import os
import random
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

from offline_gemini import SIGNATURE, Json, OfflineGemini, calls, environment, reply, text
from support import WithAgent

import main

DEEP: Json = {}
for _ in range(300):
    DEEP = {"a": DEEP}
ODD: list[Any] = [None, True, 0, -1, 7, 1.5, float("nan"), 10**400, "", " ", "x", "a\0b"]
ODD += [
    [],
    [None],
    ["x"],
    {},
    {"directory": "\ud83d"},
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "OTHER",
    "\u202e",
    DEEP,
]
REASONS = ["STOP"] * 8 + ["MAX_TOKENS", "OTHER", "MALFORMED_FUNCTION_CALL", "SAFETY", "NEW"]
CALLS: list[tuple[str, Json | None]] = [
    ("get_files_info", {"directory": "."}),
    ("get_files_info", None),
    ("get_file_content", {"file_path": "main.py", "offset": 3}),
    ("write_file", {"file_path": "made.txt", "content": "x"}),
    ("no_such_function", {}),
]


def right_reply(chance: random.Random) -> Json:
    """A reply as a model sends it: thoughts, text, calls, in any mixture."""
    thought = {"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}
    if chance.random() < 0.3:
        return text("All done.", finish=chance.choice(REASONS))
    made = calls(*chance.choices(CALLS, k=chance.randint(1, 3)), finish=chance.choice(REASONS))
    parts = made["candidates"][0]["content"]["parts"]
    more: list[Json] = [thought, {"text": "Look."}, {"thoughtSignature": SIGNATURE}, {"new": {}}]
    for extra in more:
        if chance.random() < 0.25:
            parts.insert(chance.randint(0, len(parts)), copy.deepcopy(extra))
    return made


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in a JSON value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def break_one_place(body: Json, chance: random.Random) -> None:
    holder, key = chance.choice([*places(body), (body, "more")])
    action = chance.choice(["drop", "odd", "double"])
    if action == "drop" and key != "more":
        holder.pop(key)
    elif action == "double" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[key] = copy.deepcopy(chance.choice(ODD))


def nearly_right_replies(chance: random.Random) -> list[Json]:
    made = [right_reply(chance) for _ in range(chance.randint(1, 4))]
    for body in made:
        for _ in range(chance.choice([0, 1, 1, 2])):
            break_one_place(body, chance)
    return [*made, reply({"text": "The end."})]


class Fuzz(WithAgent):
    """One server and one client serve all runs, which saves most of their time."""

    def setUp(self) -> None:
        super().setUp()
        self.api = self.enterContext(OfflineGemini([]))
        self.enterContext(mock.patch.dict(os.environ, environment(self.api.url)))
        self.enterContext(mock.patch.object(main, "PROJECT", str(self.project)))
        self.enterContext(mock.patch("main.sleep"))
        self.enterContext(mock.patch("main.connect", return_value=main.connect()))

    def check(self, seed: int) -> int:
        """One run: it ends with an answer or one line, and no request is one that the API refuses
        (the stand-in checks pairs of calls and responses, parts, the last turn). Its exit code."""
        replies = nearly_right_replies(random.Random(seed))  # noqa: S311
        self.api.replies, self.api.sent = iter(replies), []
        stdout, stderr = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["main.py", "Do it", "--verbose"]),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            code = main.run()
        screen, lines = stdout.getvalue(), stderr.getvalue().splitlines()
        told = f"seed {seed}: {replies}\n{screen[-500:]}\n{lines}"
        self.assertEqual(self.api.refusals, [], told)
        if code == 0:
            self.assertIn("\nFinal response:\n", screen, told)
        else:
            self.assertEqual(code, 1, told)
            self.assertTrue(lines[-1].startswith("Error: "), told)
        for word in ("Traceback", "pydantic", "None", "Error("):
            self.assertNotIn(word, str(lines), told)
        return code


def run_many(count: int, first: int) -> str:
    """Check the runs from one seed on; what came of them, in words."""
    case = Fuzz()
    case.setUp()
    try:
        codes = [case.check(seed) for seed in range(first, first + count)]
    finally:
        case.doCleanups()
    return f"{count} runs: {codes.count(0)} answered, {codes.count(1)} ended with one line"


if __name__ == "__main__":
    print(run_many(*(int(argument) for argument in (*sys.argv[1:], "300", "0")[:2])))
