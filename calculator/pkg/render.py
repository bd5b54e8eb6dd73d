"""How a result is printed."""

import json


def render(expression: str, result: int | float) -> str:
    """The expression and its result as one line of JSON."""
    return json.dumps({"expression": expression, "result": result}, ensure_ascii=False)
