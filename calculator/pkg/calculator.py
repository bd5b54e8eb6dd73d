"""Infix arithmetic by the shunting-yard algorithm.

Numbers are kept as fractions, so that 0.1 + 0.2 is 0.3; only the result is rounded.
"""

import operator
import re
from collections.abc import Callable
from fractions import Fraction

TOKEN = re.compile(r"\s*(\d+\.?\d*|\.\d+|\S)")
NEGATE = "negate"
OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, NEGATE: 3}


class CalculatorError(ValueError):
    """An expression that has no value; the message says why."""


class Calculator:
    """Evaluates + - * / with precedence, left associativity, unary minus and parentheses."""

    def evaluate(self, expression: str) -> int | float:
        """The value of the expression, whole numbers as int. Raises CalculatorError."""
        values: list[Fraction] = []
        waiting: list[str] = []
        operand_is_next = True
        for token in self.tokens(expression):
            if operand_is_next:
                operand_is_next = self.take_operand(token, values, waiting)
            else:
                operand_is_next = self.take_operator(token, values, waiting)
        if operand_is_next:
            raise CalculatorError("an operand is missing at the end")
        while waiting:
            self.apply(waiting.pop(), values)
        return self.rounded(values.pop())

    def tokens(self, expression: str) -> list[str]:
        tokens = TOKEN.findall(expression)
        if not tokens:
            raise CalculatorError("the expression is empty")
        for token in tokens:
            if not (token in OPERATORS or token in "()" or token[-1] in ".0123456789"):
                raise CalculatorError(f"unknown character: {token}")
        return tokens

    def take_operand(self, token: str, values: list[Fraction], waiting: list[str]) -> bool:
        """A number, a minus sign or an opening parenthesis; whether an operand is still to come."""
        if token == "-":
            waiting.append(NEGATE)
        elif token == "(":
            waiting.append(token)
        elif token in PRECEDENCE or token == ")":
            raise CalculatorError(f"an operand is missing before {token}")
        else:
            values.append(self.number(token))
            return False
        return True

    def take_operator(self, token: str, values: list[Fraction], waiting: list[str]) -> bool:
        """An operator or a closing parenthesis; whether an operand comes next."""
        if token == ")":
            while waiting and waiting[-1] != "(":
                self.apply(waiting.pop(), values)
            if not waiting:
                raise CalculatorError("a closing parenthesis has no opening one")
            waiting.pop()
            return False
        if token not in OPERATORS:
            raise CalculatorError(f"an operator is missing before {token}")
        while waiting and PRECEDENCE.get(waiting[-1], 0) >= PRECEDENCE[token]:
            self.apply(waiting.pop(), values)
        waiting.append(token)
        return True

    def apply(self, name: str, values: list[Fraction]) -> None:
        if name == "(":
            raise CalculatorError("an opening parenthesis has no closing one")
        right = values.pop()
        if name == NEGATE:
            values.append(-right)
        elif name == "/" and right == 0:
            raise CalculatorError("division by zero")
        else:
            values.append(OPERATORS[name](values.pop(), right))

    def number(self, token: str) -> Fraction:
        try:
            return Fraction(token)
        except ValueError:
            raise CalculatorError(f"not a number: {token[:20]}") from None

    def rounded(self, value: Fraction) -> int | float:
        try:
            return value.numerator if value.denominator == 1 else float(value)
        except OverflowError:
            raise CalculatorError("the result is too large") from None
