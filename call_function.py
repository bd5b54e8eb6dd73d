"""From a function call of the model to the function, and from its result to a function response."""

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from google.genai import types

from functions.get_file_content import get_file_content, get_schema_get_file_content
from functions.get_files_info import get_files_info, get_schema_get_files_info
from functions.run_python_file import get_schema_run_python_file, run_python_file
from functions.text import valid, visible
from functions.write_file import get_schema_write_file, write_file

WORKING_DIRECTORY = "./calculator"

available_functions = types.Tool(
    function_declarations=[
        get_schema_get_files_info(),
        get_schema_get_file_content(),
        get_schema_run_python_file(),
        get_schema_write_file(),
    ],
)

function_map: dict[str, Callable[..., str]] = {
    "get_files_info": get_files_info,
    "get_file_content": get_file_content,
    "run_python_file": run_python_file,
    "write_file": write_file,
}


def call_function(function_call: types.FunctionCall, verbose: bool = False) -> types.Content:
    """The response to a call, with its id: `result` if the function ran, `error` if it did not."""
    name, args = function_call.name or "", function_call.args or {}
    if verbose:
        print(f" - Calling function: {visible(name)}")
        print(visible(json.dumps(args, ensure_ascii=False)))
    response = run_function(name, args)
    if verbose:
        print(f"-> {visible(''.join(response.values()))}")
    answer = valid({"id": function_call.id, "name": name, "response": response})
    part = types.Part(function_response=types.FunctionResponse(**answer))
    return types.Content(role="tool", parts=[part])


def run_function(name: str, args: dict[str, Any]) -> dict[str, str]:
    """`result` and what the function returned, or `error` and why it did not return."""
    if name not in function_map:
        return {"error": f"Unknown function: {name}. The known ones: {', '.join(function_map)}"}
    function = function_map[name]
    args = {**as_meant(name, args), "working_directory": WORKING_DIRECTORY}
    try:
        inspect.signature(function).bind(**args)
    except TypeError as error:
        expected = ", ".join(list(inspect.signature(function).parameters)[1:])
        return {"error": f"{name}: {error}; expected: {expected}"}
    try:
        return {"result": function(**args)}
    except Exception as error:
        return {"error": f"{name} failed: {type(error).__name__}: {error}"}


def as_meant(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """A copy of the arguments: no optional null, and a list that came as JSON text is a list."""
    declarations = available_functions.function_declarations or []
    schema = next((each.parameters for each in declarations if each.name == name), None)
    meant = dict(args)  # the history keeps what the model sent
    for parameter, declared in ((schema and schema.properties) or {}).items():
        value, is_string = args.get(parameter), declared.type == types.Type.STRING
        is_optional = parameter not in ((schema and schema.required) or [])
        if is_optional and (value is None or (value == "" and not is_string)):
            meant.pop(parameter, None)
        elif declared.type == types.Type.ARRAY and isinstance(value, str):
            with suppress(ValueError, RecursionError):
                read = json.loads(value)
                meant[parameter] = read if isinstance(read, list) else value
    return meant
