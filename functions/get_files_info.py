"""get_files_info: what a directory holds."""

import os
from pathlib import Path

from google.genai.types import FunctionDeclaration, Schema, Type

from functions.paths import FAILURES, Refusal, error_text, not_found, resolve
from functions.text import one_line

MAX_CHARACTERS = 10_000


def get_schema_get_files_info() -> FunctionDeclaration:
    """What the model is told about get_files_info."""
    directory = "The directory, relative to the working directory: `pkg`. The default is `.`."
    properties = {"directory": Schema(type=Type.STRING, description=directory)}
    return FunctionDeclaration(
        name="get_files_info",
        description=(
            "Lists a directory: one line per entry, sorted by name, as "
            "`- NAME: file_size=N bytes, is_dir=BOOL`. Does not go into subdirectories. "
            f"After {MAX_CHARACTERS} characters it says how many entries it left out. "
            "Call it first, to see which files there are, and whenever a file is not found."
        ),
        parameters=Schema(type=Type.OBJECT, properties=properties),
    )


def get_files_info(working_directory: str, directory: str = ".") -> str:
    """One line per entry of `directory`, or a string that begins with `Error: `."""
    try:
        target = resolve(working_directory, directory, "list")
        if not target.exists():
            raise not_found(working_directory, target, directory)
        if not target.is_dir():
            raise Refusal(f'"{directory}" is not a directory; call get_file_content to read a file')
        return listing(target, sorted(os.listdir(target)))
    except FAILURES as error:
        return error_text("list", directory, error)


def listing(target: Path, names: list[str]) -> str:
    """The entries' lines, as many as fit into MAX_CHARACTERS."""
    lines: list[str] = []
    room = MAX_CHARACTERS + 1  # the last line has no newline
    for name in names:
        line = describe(target / name)
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*lines, f"({len(names) - len(lines)} more entries are left out)"])
        lines.append(line)
    return "\n".join(lines) or "(the directory is empty)"


def describe(entry: Path) -> str:
    """One line. A link counts with its own size; it may well lead nowhere."""
    try:
        size: int | str = entry.lstat().st_size
    except OSError:
        size = "unknown"
    return f"- {one_line(entry.name)}: file_size={size} bytes, is_dir={os.path.isdir(entry)}"
