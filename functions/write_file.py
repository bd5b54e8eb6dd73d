"""write_file: a file made new or replaced as a whole."""

import contextlib
import os
import uuid
from pathlib import Path

from google.genai import types

from functions.paths import FAILURES, Refusal, check_is_file, error_text, resolve


def get_schema_write_file() -> types.FunctionDeclaration:
    """What the model is told about write_file."""
    return types.FunctionDeclaration(
        name="write_file",
        description=(
            "Writes a text file: makes it, with its parent directories, or replaces all that it "
            "held. Returns how many characters were written. Give the whole new content, never a "
            "part; read an existing file to its end before you replace it."
        ),
        parameters=types.Schema(
            type=types.Type.OBJECT,
            required=["file_path", "content"],
            properties={
                "file_path": types.Schema(
                    type=types.Type.STRING,
                    description="The file, relative to the working directory: `pkg/render.py`.",
                ),
                "content": types.Schema(
                    type=types.Type.STRING,
                    description="All the text that the file shall hold, line ends included.",
                ),
            },
        ),
    )


def write_file(working_directory: str, file_path: str, content: str) -> str:
    """Says how many characters were written, or why none, in a string that begins with `Error: `.

    The file holds either all of its old content or all of the new, whatever fails.
    """
    try:
        target = writable_file(working_directory, file_path)
        data = encode(content)
        os.makedirs(target.parent, exist_ok=True)
        replace(target, data)
    except (FileExistsError, NotADirectoryError):
        why = "a file stands where a directory would have to be"
        return f'Error: Cannot write to "{file_path}" as {why}'
    except FAILURES as error:
        return error_text("write to", file_path, error)
    return f'Successfully wrote {len(content)} characters to "{file_path}"'


def writable_file(working_directory: str, file_path: object) -> Path:
    """The file to write, there already or not."""
    target = resolve(working_directory, file_path, "write to")
    # Git runs programs that the files in there name.
    if ".git" in str(target.relative_to(os.path.realpath(working_directory))).lower().split(os.sep):
        raise Refusal(f'Cannot write to "{file_path}" as .git directories are not to be changed')
    if not file_path or str(file_path).endswith("/") or os.path.lexists(target):
        check_is_file(target, file_path, "write to")
        if not os.access(target, os.W_OK):
            raise Refusal(f'Cannot write to "{file_path}" as it is read-only')
    return target


def encode(content: object) -> bytes:
    """The bytes to write, made before any file is touched."""
    if not isinstance(content, str):
        kind = type(content).__name__
        raise Refusal(f"The content must be a string, not {kind}; nothing was written")
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"half a surrogate pair at character {error.start}"
        raise Refusal(f"The content holds {half}; nothing was written") from None


def replace(target: Path, data: bytes) -> None:
    """Put a finished new file in the old one's place, with the old one's owner and mode."""
    temporary = target.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        if target.exists():
            old = target.stat()
            with contextlib.suppress(PermissionError):
                os.chown(temporary, old.st_uid, old.st_gid)
            temporary.chmod(old.st_mode & 0o777)  # never setuid: a script may have made it so
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
