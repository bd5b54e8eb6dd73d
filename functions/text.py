"""Text on its way out: to the model as valid JSON, to a terminal as something to look at.

A model can send half a surrogate pair or NaN, which no JSON request may hold; a file or a script
can hold control characters, which a terminal obeys.
"""

import math
import re
from typing import Any

# C0 and C1 but for newline and tab; the marks that turn the direction of writing.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escaped(character: re.Match[str]) -> str:
    return character[0].encode("unicode_escape").decode("ascii")


def visible(text: str) -> str:
    """The text with its control characters shown (`\\x1b`), except newline, CRLF and tab."""
    return CONTROL.sub(escaped, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """A file name as one line of valid text: bytes that are not UTF-8 become `\\xff`."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return NOT_IN_A_LINE.sub(escaped, text)


def valid(value: Any) -> Any:
    """A JSON value as JSON can carry it: halves of surrogate pairs become U+FFFD, NaN its name."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {valid(key): valid(item) for key, item in value.items()}
    if isinstance(value, list):
        return [valid(item) for item in value]
    return value
