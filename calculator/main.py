"""A calculator for the command line: python main.py "3 + 7 * 2"."""

import sys

from pkg.calculator import Calculator, CalculatorError
from pkg.render import render


def main() -> int:
    """Print the value of the expression in the arguments; return the exit code."""
    expression = " ".join(sys.argv[1:])
    if not sys.argv[1:]:
        print('Usage: python main.py "EXPRESSION", for example: python main.py "3 + 7 * 2"')
        return 0
    try:
        print(render(expression, Calculator().evaluate(expression)))
    except CalculatorError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
