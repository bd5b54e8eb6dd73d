"""Checks call_function and the declarations: python tests/test_call_function.py."""

import contextlib
import inspect
import io
import itertools
import json
import os
from unittest import mock

from google.genai import types
from support import InTemporaryDirectory, run_tests

import call_function

# What a model might put anywhere. Each function gets each of them for each parameter.
ODD_VALUES: list[object] = [
    *(
        None,
        True,
        0,
        -1,
        3,
        10**30,
        1.5,
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        " ",
        ".",
        "..",
    ),
    *(
        "/",
        "~",
        "~/x",
        "//",
        "main.py",
        "main.py/",
        "main.py/x",
        "pkg",
        "pkg/..",
        "calculator",
        "./x",
    ),
    *(
        "a\0b",
        "\ud800",
        "\udcff",
        "x" * 300,
        "x" * 5000,
        "d/" * 3000,
        "a\nb",
        "*",
        "%2e%2e/x",
        "..\\x",
    ),
    *(
        "CON",
        "-c",
        "--help",
        "é😀",
        "\u202e",
        "loop",
        "fifo",
        "out",
        "dangling",
        "/dev/zero",
        "/proc/self",
    ),
    *(10**5000, "0" * 5000, "9" * 5000, "1e400", "[" * 5000, "[" * 500 + "]" * 500),
    *([], ["x"], [None], [["x"]], {}, {"a": {"b": []}}, ["\ud800"], ["a\0b"], [float("nan")]),
]

DEEP: list[object] = []
for _ in range(500):
    DEEP = [DEEP]


class CallFunction(InTemporaryDirectory):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.outside)

    def answer(self, call: types.FunctionCall) -> types.FunctionResponse:
        """The function response to a call."""
        content = call_function.call_function(call)
        self.assertEqual((content.role, len(content.parts or [])), ("tool", 1))
        response = (content.parts or [types.Part()])[0].function_response
        assert response
        return response

    def call(self, name: str, args: dict[str, object] | None) -> dict[str, str]:
        """What a function response holds: a result or an error."""
        return self.answer(types.FunctionCall(name=name, args=args)).response or {}

    def test_declarations_map_schemas_and_parameters_are_the_same_set(self) -> None:
        declared = {
            d.name: d for d in call_function.available_functions.function_declarations or []
        }
        self.assertEqual(declared.keys(), call_function.function_map.keys())
        for name, function in call_function.function_map.items():
            parameters = inspect.signature(function).parameters
            schema = declared[name].parameters or types.Schema()  # one may have no parameter
            self.assertEqual(["working_directory", *(schema.properties or {})], list(parameters))
            empty = inspect.Parameter.empty
            required = [p for p in parameters if parameters[p].default is empty][1:]
            self.assertEqual(schema.required or [], required)

    def test_every_function_and_parameter_is_described_and_arrays_have_items(self) -> None:
        for declaration in call_function.available_functions.function_declarations or []:
            self.assertGreater(len(declaration.description or ""), 40)
            parameters = declaration.parameters or types.Schema()
            for schema in (parameters.properties or {}).values():
                self.assertTrue(schema.description)
                self.assertEqual(schema.type == types.Type.ARRAY, schema.items is not None)

    def test_the_working_directory_is_never_declared(self) -> None:
        self.assertNotIn("working_directory", call_function.available_functions.model_dump_json())

    def test_the_response_is_one_part_of_role_tool_with_the_calls_name_and_id(self) -> None:
        response = self.answer(types.FunctionCall(id="7f", name="get_files_info", args={}))
        self.assertEqual((response.id, response.name), ("7f", "get_files_info"))

    def test_a_call_without_an_id_is_answered_without_one(self) -> None:
        self.assertIsNone(self.answer(types.FunctionCall(name="get_files_info")).id)

    def test_an_error_string_of_a_function_is_a_result(self) -> None:
        response = self.call("get_file_content", {"file_path": "../secret.txt"})
        wording = 'Error: Cannot read "../secret.txt" as it is outside working directory'
        self.assertEqual(response, {"result": wording})

    def test_an_unknown_function_is_an_error_that_names_the_known_ones(self) -> None:
        known = ", ".join(call_function.function_map)
        wanted = {"error": f"Unknown function: delete_file. The known ones: {known}"}
        self.assertEqual(self.call("delete_file", {}), wanted)

    def test_missing_and_extra_arguments_are_errors_that_name_the_expected(self) -> None:
        wrong: list[dict[str, object] | None] = [
            None,
            {},
            {"path": "x"},
            {"file_path": "x", "y": 1},
        ]
        for args in wrong:
            error = self.call("get_file_content", args)["error"]
            self.assertTrue(error.endswith("; expected: file_path, offset"), error)

    def test_a_function_that_raises_is_an_error(self) -> None:
        def broken(working_directory: str) -> str:
            raise ValueError(working_directory)

        with mock.patch.dict(call_function.function_map, get_files_info=broken):
            wanted = {"error": "get_files_info failed: ValueError: ./calculator"}
            self.assertEqual(self.call("get_files_info", {}), wanted)

    def test_the_working_directory_of_the_model_is_ignored(self) -> None:
        response = self.call("get_files_info", {"working_directory": "/etc"})
        self.assertIn("- main.py: ", response["result"])
        self.assertNotIn("passwd", response["result"])

    def test_the_arguments_are_left_as_they_came(self) -> None:
        call = types.FunctionCall(name="get_files_info", args={"directory": "."})
        self.answer(call)
        self.assertEqual(call.args, {"directory": "."})

    def test_null_is_left_in_them_too(self) -> None:
        call = types.FunctionCall(name="get_files_info", args={"directory": None})
        self.answer(call)
        self.assertEqual(call.args, {"directory": None})

    def received(self, **args: object) -> dict[str, object]:
        """What a function with a parameter of each kind is called with."""
        kinds = {"text": "STRING", "words": "ARRAY", "number": "INTEGER"}
        properties = {name: types.Schema(type=types.Type(kind)) for name, kind in kinds.items()}
        properties["words"].items = types.Schema(type=types.Type.STRING)
        properties["needed"] = types.Schema(type=types.Type.ARRAY)
        declaration = types.FunctionDeclaration(
            name="probe",
            parameters=types.Schema(
                type=types.Type.OBJECT, properties=properties, required=["needed"]
            ),
        )
        got: dict[str, object] = {}

        def probe(
            working_directory: str,
            needed: object,
            text: object = "default",
            words: object = "default",
            number: object = "default",
        ) -> str:
            got.update(locals())
            return ""

        tool = types.Tool(function_declarations=[declaration])
        with (
            mock.patch.object(call_function, "available_functions", tool),
            mock.patch.dict(call_function.function_map, probe=probe),
        ):
            self.call("probe", {"needed": [], **args})
        return got

    def test_null_leaves_an_optional_parameter_at_its_default(self) -> None:
        for name in ("text", "words", "number"):
            self.assertEqual(self.received(**{name: None})[name], "default")
        self.assertIsNone(self.received(needed=None)["needed"])

    def test_an_empty_string_leaves_an_optional_parameter_that_is_no_string_at_its_default(
        self,
    ) -> None:
        for name in ("words", "number"):
            self.assertEqual(self.received(**{name: ""})[name], "default")
        self.assertEqual(self.received(text="")["text"], "")
        self.assertEqual(self.received(needed="")["needed"], "")

    def test_a_list_that_comes_as_json_text_is_that_list(self) -> None:
        for sent, wanted in (
            ('["3 + 5"]', ["3 + 5"]),
            (' ["a", 1] ', ["a", 1]),
            ("[]", []),
            ("3 + 5", "3 + 5"),
            ("[1", "[1"),
            ('{"a": 1}', '{"a": 1}'),
            ("7", "7"),
            ("[" * 5000, "[" * 5000),
            (f"[{'9' * 5000}]", f"[{'9' * 5000}]"),
        ):
            self.assertEqual(self.received(words=sent)["words"], wanted)
            self.assertEqual(self.received(needed=sent)["needed"], wanted)
        self.assertEqual(self.received(text="[1]")["text"], "[1]")

    def test_a_name_or_id_that_no_json_can_carry_is_answered_with_valid_ones(self) -> None:
        response = self.answer(types.FunctionCall(id="\ud800", name="a\ud800"))
        self.assertEqual((response.id, response.name), ("\ufffd", "a\ufffd"))
        self.assertIn("Unknown function: a\ufffd.", (response.response or {})["error"])

    def test_nothing_is_printed_unless_verbose(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            self.call("get_files_info", {})
        self.assertEqual(stdout.getvalue(), "")

    def test_verbose_shows_the_call_its_arguments_and_its_result(self) -> None:
        call = types.FunctionCall(
            name="get_file_content", args={"file_path": "main.py", "offset": 6}
        )
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            call_function.call_function(call, verbose=True)
        self.assertEqual(
            stdout.getvalue(),
            " - Calling function: get_file_content\n"
            '{"file_path": "main.py", "offset": 6}\n'
            "-> 'main ran')\n\n",
        )

    def test_verbose_shows_a_long_result_whole(self) -> None:
        self.put("long.txt", "x" * 10_000)
        call = types.FunctionCall(name="get_file_content", args={"file_path": "long.txt"})
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            call_function.call_function(call, verbose=True)
        self.assertTrue(stdout.getvalue().endswith("\n-> " + "x" * 10_000 + "\n"))

    def test_each_function_takes_what_models_send_for_what_they_leave_out(self) -> None:
        self.put("echo.py", "import sys; print(sys.argv[1:])")
        for value in (None, ""):
            listed = self.call("get_files_info", {"directory": value})["result"]
            self.assertIn("- main.py: ", listed)
            read = self.call("get_file_content", {"file_path": "main.py", "offset": value})
            self.assertEqual(read, {"result": "print('main ran')\n"})
            ran = self.call("run_python_file", {"file_path": "echo.py", "args": value})["result"]
            self.assertIn("STDOUT: []\n", ran)
        ran = self.call("run_python_file", {"file_path": "echo.py", "args": '["3 + 5"]'})["result"]
        self.assertIn("STDOUT: ['3 + 5']\n", ran)

    def test_whatever_a_model_sends_is_answered_with_valid_text(self) -> None:
        (self.work / "loop").symlink_to("loop")
        (self.work / "out").symlink_to(self.outside)
        (self.work / "dangling").symlink_to(self.outside / "new")
        os.mkfifo(self.work / "fifo")
        before = sorted(path.name for path in self.outside.iterdir())
        usual = {
            "file_path": "main.py",
            "content": "x = 1\n",
            "directory": ".",
            "offset": 0,
            "args": [],
        }
        for name, function in call_function.function_map.items():
            names = list(inspect.signature(function).parameters)[1:]
            for odd, value in itertools.product(names, [*ODD_VALUES, DEEP]):
                args = {each: value if each == odd else usual.get(each) for each in names}
                shown = "a huge number" if value == 10**5000 else repr(value)[:20]
                with self.subTest(function=name, **{odd: shown}):
                    response = self.call(name, args)
                    json.dumps(response, allow_nan=False, ensure_ascii=False).encode()
                    self.assertEqual(list(response), ["result"], response)
                    self.assertLess(len(response["result"]), 21_000)
        self.assertEqual(sorted(path.name for path in self.outside.iterdir()), before)


if __name__ == "__main__":
    run_tests()
