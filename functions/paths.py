"""Where a path from the model may point: into the working directory, and nowhere else.

Each function asks `resolve` and opens what it returned. The check and the opening are two steps, so
a process that swaps links between them could slip through. Where the kernel confines scripts, there
is none: no script outlives its run (see confine.py).
"""

import difflib
import os
import stat
from itertools import islice
from pathlib import Path

from functions.text import one_line, valid

MAX_PATH = 4096  # bytes; the system takes no longer one


class Refusal(Exception):
    """Something a function does not do; its text tells the model why, and what to do instead."""


# What a function may meet. The library follows deep paths and long chains of links by recursion.
FAILURES = (OSError, RecursionError, Refusal)


def resolve(working_directory: str, path: object, verb: str) -> Path:
    """The place that `path` means, symbolic links followed, inside the working directory.

    `verb` (list, read, write to, execute) words the refusal. Raises Refusal for what is no path or
    leads outside, OSError for what the system cannot follow.
    """
    if not isinstance(path, str):
        raise Refusal(f"Cannot {verb} a path of type {type(path).__name__}; it must be a string")
    if not is_file_name(path):
        shown = one_line(valid(path[:100]))
        raise Refusal(f'Cannot {verb} "{shown}" as it is no possible file name')
    root = Path(os.path.realpath(working_directory))
    inner = without_own_name(root, os.path.basename(os.path.abspath(working_directory)), path)
    target = Path(os.path.realpath(root / inner))
    # The system would take "~" for a name; whoever writes it means a home directory.
    is_home = inner.parts[:1] == ("~",) or os.path.expanduser(path) != path
    if is_home or not target.is_relative_to(root):
        raise Refusal(f'Cannot {verb} "{path}" as it is outside working directory')
    if target.is_symlink():
        raise Refusal(f'Cannot {verb} "{path}" as its symbolic links lead in a circle')
    return target


def is_file_name(path: str) -> bool:
    """Whether the system can have such a name, in the locale that Python found."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return b"\0" not in name and len(name) < MAX_PATH and path == valid(path)


def without_own_name(root: Path, own_name: str, path: str) -> Path:
    """`calculator/main.py` means `main.py`, unless the working directory holds a `calculator`."""
    parts = Path(path).parts
    if parts[:1] == (own_name,) and not os.path.lexists(root / own_name):
        return Path(*parts[1:])
    return Path(path)


def regular_file(working_directory: str, path: object, verb: str) -> Path:
    """Like `resolve`, for a file that must be there."""
    target = resolve(working_directory, path, verb)
    check_is_file(target, path, verb)
    return target


def check_is_file(target: Path, path: object, verb: str) -> None:
    """Raise Refusal unless `target`, which `path` means, is a file. Only its kind is looked at:
    opening a FIFO to find out would wait for ever."""
    if not path:
        raise Refusal(f"Cannot {verb} a file without a name; give the path of a file")
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        raise not_found(target, path) from None
    if stat.S_ISDIR(mode):
        raise Refusal(
            f'"{path}" is a directory, not a file; call get_files_info to see what it holds'
        )
    if str(path).endswith("/"):
        raise Refusal(f'"{path}" is a file, not a directory; leave out the slash at its end')
    if not stat.S_ISREG(mode):
        raise Refusal(f'"{path}" is not a regular file (but a FIFO, a socket or a device)')


def not_found(target: Path, path: object) -> Refusal:
    """The refusal for what is not there, with the names nearest to it."""
    try:
        with os.scandir(target.parent) as entries:
            names = [one_line(entry.name) for entry in islice(entries, 500)]
    except OSError:
        names = []
    # Names of more than 50 characters are left out: to compare them takes long.
    close = difflib.get_close_matches(target.name[:50], [n for n in names if len(n) <= 50])
    there = f"; the closest names there: {', '.join(close)}" if close else ""
    return Refusal(f'"{path}" not found{there}; call get_files_info to see what there is')


def error_text(verb: str, path: object, error: Exception) -> str:
    """The answer to the model when a function failed, with one of FAILURES. An OSError's own text
    is not used: it holds the absolute path."""
    if isinstance(error, Refusal):
        return f"Error: {error}"
    reason = getattr(error, "strerror", None) or "it is too deep or too large"
    return f'Error: Cannot {verb} "{path}": {reason}'
