"""get_file_content: the text of a file, 10,000 characters at a time."""

import codecs
import os
import re
from typing import BinaryIO

from google.genai import types

from functions.paths import FAILURES, Refusal, error_text, regular_file

MAX_CHARACTERS = 10_000
MAX_BYTES = 4 * MAX_CHARACTERS  # no character of UTF-8 or UTF-16 takes more than four
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
STRAY_BYTE = re.compile(r"[\udc80-\udcff]")  # what surrogateescape makes of a byte that is no UTF-8
NOT_TEXT = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f]")


def get_schema_get_file_content() -> types.FunctionDeclaration:
    """What the model is told about get_file_content."""
    return types.FunctionDeclaration(
        name="get_file_content",
        description=(
            f"Reads a text file: at most {MAX_CHARACTERS} characters, exactly as they stand in it. "
            "If more follows, a notice at the end says that the text is truncated, the file's size "
            "and the offset to read on from. Read a file to its end before you replace it with "
            "write_file. Binary files are refused."
        ),
        parameters=types.Schema(
            type=types.Type.OBJECT,
            required=["file_path"],
            properties={
                "file_path": types.Schema(
                    type=types.Type.STRING,
                    description="The file, relative to the working directory: `pkg/render.py`.",
                ),
                "offset": types.Schema(
                    type=types.Type.INTEGER,
                    description=(
                        "Where to begin, in bytes from the start of the file: 0, or what a "
                        "truncation notice said."
                    ),
                ),
            },
        ),
    )


def get_file_content(working_directory: str, file_path: str, offset: int = 0) -> str:
    """The text from byte `offset` on, or a string that begins with `Error: `.

    Time and memory depend neither on the file's size nor on the offset.
    """
    try:
        target = regular_file(working_directory, file_path, "read")
        with open(target, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return read_text(file, size, whole_number(offset, size), file_path)
    except FAILURES as error:
        return error_text("read", file_path, error)


def whole_number(offset: object, size: int) -> int:
    """The offset as an int; models also send `5.0`, `"5"` and null."""
    if (isinstance(offset, str) and re.fullmatch(r"0*[0-9]{1,20}", offset)) or (
        isinstance(offset, float) and offset.is_integer()
    ):
        offset = int(offset)
    elif offset is None:
        offset = 0
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= size:
        raise Refusal(
            f"The offset must be a whole number from 0 to the file's size of {size} bytes"
        )
    return offset


def read_text(file: BinaryIO, size: int, offset: int, file_path: str) -> str:
    """The characters from `offset` on and, if more follow, the notice."""
    text, start, encoding = decode(file, size, offset)
    if "\0" in text or (STRAY_BYTE.search(text) and NOT_TEXT.search(text)):
        raise Refusal(f'"{file_path}" is a binary file of {size} bytes; only text can be read')
    text = text[:MAX_CHARACTERS]
    after = start + encoded_length(text, encoding)
    text = STRAY_BYTE.sub(lambda stray: chr(ord(stray[0]) - 0xDC00), text)
    if after >= size:
        return text
    return (
        f"{text}\n[...truncated at {MAX_CHARACTERS} characters; the file has {size} bytes; "
        f"to read on, call get_file_content with offset={after}]"
    )


def decode(file: BinaryIO, size: int, offset: int) -> tuple[str, int, str]:
    """The text from the character that the byte at `offset` belongs to, where that character
    begins, and the encoding. A byte that is no UTF-8 becomes half a surrogate pair."""
    mark, encoding = byte_order_mark(file)
    unit = 1 if encoding == "utf-8" else 2
    offset = max(offset - offset % unit, len(mark))
    start = max(offset - 4 + unit, len(mark))
    file.seek(start)
    data = file.read(MAX_BYTES + 3)
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if unit == 1 else "replace")
    text = decoder.decode(data, start + len(data) >= size)
    while text and start + (length := encoded_length(text[0], encoding)) <= offset:
        start, text = start + length, text[1:]
    return text, start, encoding


def encoded_length(text: str, encoding: str) -> int:
    return len(text.encode(encoding, "surrogateescape"))


def byte_order_mark(file: BinaryIO) -> tuple[bytes, str]:
    """The mark that the file begins with (or none), and the encoding to try."""
    head = file.read(3)
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return mark, encoding
    return b"", "utf-8"
