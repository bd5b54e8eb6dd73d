"""Tests of the calculator: python tests.py."""

import contextlib
import io
import json
import sys
import unittest
from unittest import mock

from pkg.calculator import Calculator, CalculatorError
from pkg.render import render

from main import main

VALUES = {
    "3 + 5": 8,
    "3 + 7 * 2": 17,
    "2 * 3 - 8 / 2 + 5": 7,
    "10 - 4 - 3": 3,
    "16 / 4 / 2": 2,
    "(3 + 7) * 2": 20,
    "((2))": 2,
    "-3 + 5": 2,
    "2 * -3": -6,
    "--4": 4,
    "-(1 + 2)": -3,
    "2-1": 1,
    " 7 ": 7,
    "0.1 + 0.2": 0.3,
    "1.5 * 2": 3,
    ".5 + 5.": 5.5,
    "1 / 4": 0.25,
}
ERRORS = {
    "": "empty",
    "  ": "empty",
    "2 & 3": "unknown character: &",
    "two": "unknown character: t",
    "3 +": "an operand is missing at the end",
    "* 3": "an operand is missing before *",
    "()": "an operand is missing before )",
    "3 4": "an operator is missing before 4",
    "2 (3)": "an operator is missing before (",
    "(3 + 4": "an opening parenthesis has no closing one",
    "3 + 4)": "a closing parenthesis has no opening one",
    "1 / 0": "division by zero",
    "1 / (2 - 2)": "division by zero",
    "9" * 5000: "not a number",
}


class CalculatorTests(unittest.TestCase):
    def test_expressions_have_their_values(self) -> None:
        for expression, value in VALUES.items():
            with self.subTest(expression):
                self.assertEqual(Calculator().evaluate(expression), value)

    def test_whole_results_are_integers(self) -> None:
        self.assertIsInstance(Calculator().evaluate("8 / 2"), int)
        self.assertIsInstance(Calculator().evaluate("9 / 2"), float)

    def test_wrong_expressions_are_explained(self) -> None:
        for expression, message in ERRORS.items():
            with self.subTest(expression[:20]):
                with self.assertRaises(CalculatorError) as caught:
                    Calculator().evaluate(expression)
                self.assertIn(message, str(caught.exception))


class RenderTests(unittest.TestCase):
    def test_a_result_is_one_line_of_json(self) -> None:
        self.assertEqual(render("3 + 5", 8), '{"expression": "3 + 5", "result": 8}')


class ProgramTests(unittest.TestCase):
    def run_main(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of main.py."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["main.py", *arguments]),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            code = main()
        return code, stdout.getvalue(), stderr.getvalue()

    def test_a_value_is_printed_with_its_expression(self) -> None:
        code, printed, _ = self.run_main("3 + 7 * 2")
        self.assertEqual(
            (code, json.loads(printed)), (0, {"expression": "3 + 7 * 2", "result": 17})
        )

    def test_a_wrong_expression_ends_with_1(self) -> None:
        code, _, message = self.run_main("1 / 0")
        self.assertEqual((code, message), (1, "Error: division by zero\n"))

    def test_usage_is_shown_without_arguments(self) -> None:
        code, printed, _ = self.run_main()
        self.assertEqual((code, printed[:5]), (0, "Usage"))


if __name__ == "__main__":
    unittest.main()
