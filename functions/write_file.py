"""write_file: a file made new or replaced as a whole."""

import contextlib
import os
import uuid
from pathlib import Path

from google.genai.types import FunctionDeclaration, Schema, Type

from functions.encoding import HALF, MAX_OLD_BYTES, encode_like
from functions.paths import FAILURES, Refusal, check_is_file, check_new_name, error_text, resolve


def get_schema_write_file() -> FunctionDeclaration:
    """What the model is told about write_file."""
    path = "The file, relative to the working directory: `pkg/render.py`."
    content = "The whole new text of the file, line ends included."
    properties = {
        "file_path": Schema(type=Type.STRING, description=path),
        "content": Schema(type=Type.STRING, description=content),
    }
    return FunctionDeclaration(
        name="write_file",
        description=(
            "Writes a text file: makes it, with its parent directories, or replaces all that it "
            "held. Returns how many characters were written. Give the whole new content, never a "
            "part; read an existing file to its end before you replace it."
        ),
        parameters=Schema(type=Type.OBJECT, required=[*properties], properties=properties),
    )


def write_file(working_directory: str, file_path: str, content: str) -> str:
    """How many characters were written, or a string that begins with `Error: `: then none were."""
    try:
        target = writable_file(working_directory, file_path)
        data, is_kept = new_bytes(target, content)
        os.makedirs(target.parent, exist_ok=True)
        replace(target, data)
    except (FileExistsError, NotADirectoryError):
        why = "a file stands where a directory would have to be"
        return f'Error: Cannot write to "{file_path}" as {why}'
    except FAILURES as error:
        return error_text("write to", file_path, error)
    note = "" if is_kept else "; it is UTF-8 now, because the text does not fit its old encoding"
    return f'Successfully wrote {len(content)} characters to "{file_path}"{note}'


def writable_file(working_directory: str, file_path: object) -> Path:
    """The file to write, there already or not."""
    target = resolve(working_directory, file_path, "write to")
    # Git runs programs that the files in there name.
    if ".git" in str(target.relative_to(os.path.realpath(working_directory))).lower().split(os.sep):
        raise Refusal(f'Cannot write to "{file_path}" as .git directories are not to be changed')
    if not file_path or str(file_path).endswith("/") or os.path.lexists(target):
        check_is_file(working_directory, target, file_path, "write to")
        if not os.access(target, os.W_OK):
            raise Refusal(f'Cannot write to "{file_path}" as it is read-only')
    else:
        check_new_name(target, file_path)
    return target


def new_bytes(target: Path, content: object) -> tuple[bytes, bool]:
    """The bytes to write, made before any file is touched, and whether its encoding stays."""
    if not isinstance(content, str):
        kind = type(content).__name__
        raise Refusal(f"The content must be a string, not {kind}; nothing was written")
    if half := HALF.search(content):
        what = f"half a surrogate pair at character {half.start()}"
        raise Refusal(f"The content holds {what}; nothing was written")
    old = b""
    with contextlib.suppress(FileNotFoundError), open(target, "rb") as file:
        old = file.read(MAX_OLD_BYTES)
    return encode_like(old, content)


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
