"""get_file_content: the text of a file, 10,000 characters at a time."""

import os
import re
from typing import BinaryIO

from google.genai.types import FunctionDeclaration, Schema, Type

from functions.encoding import HALF, decode, encode, is_binary, mark_of, shown
from functions.paths import FAILURES, Refusal, error_text, regular_file

MAX_CHARACTERS = 10_000
LONGEST = 4  # bytes of a character, in UTF-8 and in UTF-16
STRAY_BYTES = "[...this file is not UTF-8: it is shown as Windows-1252, which write_file keeps]"


def get_schema_get_file_content() -> FunctionDeclaration:
    """What the model is told about get_file_content."""
    path = "The file, relative to the working directory: `pkg/render.py`."
    offset = "Where to begin, in bytes from the start: 0, or what a truncation notice said."
    properties = {
        "file_path": Schema(type=Type.STRING, description=path),
        "offset": Schema(type=Type.INTEGER, description=offset),
    }
    return FunctionDeclaration(
        name="get_file_content",
        description=(
            f"Reads a text file: at most {MAX_CHARACTERS} characters, exactly as they stand in it. "
            "If more follows, a notice at the end gives the file's size and the offset to read on "
            "from; another says if it is not UTF-8. Read a file to its end before you replace it."
        ),
        parameters=Schema(type=Type.OBJECT, required=["file_path"], properties=properties),
    )


def get_file_content(working_directory: str, file_path: str, offset: int = 0) -> str:
    """The text from byte `offset` on, in time that no file size changes, or an `Error: ` string."""
    try:
        target = regular_file(working_directory, file_path, "read")
        with open(target, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return read_text(file, size, whole_number(offset, size), file_path)
    except FAILURES as error:
        return error_text("read", file_path, error)


def whole_number(offset: object, size: int) -> int:
    """The offset as an int (models also send `5.0`, `"5"`, null). Refusal if outside the file."""
    if isinstance(offset, str) and re.fullmatch(r"0*[0-9]{1,20}", offset):
        offset = int(offset[-20:])  # int() takes no 5,000 digits, even if they are zeros
    elif offset is None or (isinstance(offset, float) and offset.is_integer()):
        offset = int(offset or 0)
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= size:
        raise Refusal(f"The offset must be a whole number from 0 to the file's size, {size} bytes")
    return offset


def read_text(file: BinaryIO, size: int, offset: int, file_path: str) -> str:
    """The characters from `offset` on and the notices, each a line of its own."""
    mark, encoding = mark_of(file.read(3), size)
    raw, start = read_raw(file, size, max(offset, len(mark)), encoding)
    if is_binary(raw):
        raise Refusal(f'"{file_path}" is a binary file of {size} bytes; only text can be read')
    raw = raw[:MAX_CHARACTERS]
    lines = [shown(raw, encoding)]
    if encoding == "utf-8" and HALF.search(raw):
        lines.append(STRAY_BYTES)
    after = start + len(encode(raw, encoding))
    if after < size:
        lines.append(
            f"[...truncated at {MAX_CHARACTERS} characters; the file has {size} bytes; "
            f"to read on, call get_file_content with offset={after}]"
        )
    return "\n".join(lines)


def read_raw(file: BinaryIO, size: int, offset: int, encoding: str) -> tuple[str, int]:
    """The raw text from `offset` on, and where it begins: up to three bytes earlier if `offset` is
    inside a character."""
    start = max(offset - LONGEST, 0)
    start -= start % 2  # UTF-16 comes in pairs of bytes, its mark too
    file.seek(start)
    data = file.read(min(LONGEST * (MAX_CHARACTERS + 2), size - start))  # it may be growing
    raw = decode(data, encoding, start + len(data) >= size)
    for number, character in enumerate(raw):
        length = len(encode(character, encoding))
        if start + length > offset:
            return raw[number:], start
        start += length
    return "", start
