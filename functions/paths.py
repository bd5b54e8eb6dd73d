"""Where a path from the model may point: into the working directory, and nowhere else.

The functions open what `resolve` returned. A process that swaps links in between could slip
through; if the kernel confines scripts, there is none, because no script outlives its run.
"""

import contextlib
import difflib
import errno
import os
import re
import stat
from itertools import islice
from pathlib import Path

from functions.text import one_line, valid

MAX_PATH = 4096  # bytes, with the NUL at the end: PATH_MAX of Linux
MAX_LINKS = 40  # in one path: MAXSYMLINKS of Linux
NO_LINK = (errno.EINVAL, errno.ENOENT, errno.ENOTDIR)  # another kind of file, or none
SEE = "call get_files_info to see"
ODD_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|^\s|\s$")


class Refusal(Exception):
    """Something a function does not do; its text tells the model why, and what to do instead."""


FAILURES = (OSError, RecursionError, Refusal)  # what a function may meet; os.makedirs recurses


def resolve(working_directory: str, path: object, verb: str) -> Path:
    """The absolute path, links resolved, that `path` means; its last names need not exist. Raises
    Refusal if it is not a path or leads outside, OSError if the system cannot follow it. `verb`
    (list, read, write to, execute) is for the text of the refusal."""
    if not isinstance(path, str):
        raise Refusal(f"Cannot {verb} a path of type {type(path).__name__}; it must be a string")
    if not is_file_name(path):
        shown = one_line(valid(path[:100]))
        raise Refusal(f'Cannot {verb} "{shown}" as it is no possible file name')
    root = Path(os.path.realpath(working_directory, strict=True))
    inner, own_name = Path(path), os.path.basename(os.path.abspath(working_directory))
    if inner.parts[:1] == (own_name,) and not os.path.lexists(root / own_name):
        inner = Path(*inner.parts[1:])  # `calculator/main.py` means `main.py`
    target = follow(root, inner)
    if not target:
        raise Refusal(f'Cannot {verb} "{path}" as its symbolic links lead in a circle')
    # The system takes "~" for a name; a model that writes it means a home directory.
    is_home = inner.parts[:1] == ("~",) or os.path.expanduser(path) != path
    if is_home or not target.is_relative_to(root):
        raise Refusal(f'Cannot {verb} "{path}" as it is outside working directory')
    return target


def is_file_name(path: str) -> bool:
    """Whether the system can have such a name, in the locale that Python found."""
    with contextlib.suppress(UnicodeEncodeError):
        return path == valid(path) and "\0" not in path and len(os.fsencode(path)) < MAX_PATH
    return False


def follow(root: Path, path: Path) -> Path | None:
    """Where the kernel arrives when it goes from `root` along `path`; None after too many links.

    A name that is missing, a file, or outside and unreachable is kept as written, and `..` removes
    it. (At a circle, os.path.realpath before Python 3.13 keeps the whole rest as written.)
    """
    place, names, links = str(root), [*reversed(path.parts)], 0  # a Path would be 100 times slower
    while names:
        name = names.pop().replace("//", "/")  # the first part of some absolute paths
        place = os.path.dirname(place) if name == ".." else os.path.join(place, name)
        try:
            names += reversed(Path(os.readlink(place)).parts)
        except OSError as error:
            if error.errno not in NO_LINK and Path(place).is_relative_to(root):
                raise
            continue
        place, links = os.path.dirname(place), links + 1
        if links > MAX_LINKS:
            return None
    return Path(place)


def regular_file(working_directory: str, path: object, verb: str) -> Path:
    """Like `resolve`, for a file that must be there."""
    target = resolve(working_directory, path, verb)
    check_is_file(working_directory, target, path, verb)
    return target


def check_is_file(working_directory: str, target: Path, path: object, verb: str) -> None:
    """Raise Refusal unless `target`, which `path` means, is a file. To open a FIFO would block."""
    if not path:
        raise Refusal(f"Cannot {verb} a file without a name; give the path of a file")
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        raise not_found(working_directory, target, path) from None
    if stat.S_ISDIR(mode):
        raise Refusal(f'"{path}" is a directory, not a file; {SEE} what it holds')
    if str(path).endswith("/"):
        raise Refusal(f'"{path}" is a file, not a directory; leave out the slash at its end')
    if not stat.S_ISREG(mode):
        raise Refusal(f'"{path}" is not a regular file (but a FIFO, a socket or a device)')


def missing_names(target: Path) -> tuple[Path, list[str]]:
    """The nearest directory above `target` that is there, and the names below it that are not."""
    nearest = next(parent for parent in target.parents if parent.is_dir())
    return nearest, list(target.relative_to(nearest).parts)


def check_new_name(target: Path, path: object) -> None:
    """Raise Refusal if a file is to be made under a name that nobody means."""
    if any(map(ODD_NAME.search, missing_names(target)[1])):
        why = "a new name has no control character, no blank at an end and no backslash (use /)"
        raise Refusal(f'Cannot write to "{one_line(str(path))}" as {why}')


def not_found(working_directory: str, target: Path, path: object) -> Refusal:
    """The refusal for what is not there, with the nearest directory and the nearest names."""
    nearest, missing = missing_names(target)
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(nearest) as entries:
        names += [one_line(entry.name) for entry in islice(entries, 500)]
    # Names of more than 50 characters are left out: to compare them takes long.
    close = difflib.get_close_matches(missing[0][:50], [n for n in names if len(n) <= 50])
    shown = one_line(os.path.relpath(nearest, os.path.realpath(working_directory)))
    where = f'; the nearest directory is "{shown}"' if missing[1:] else ""
    there = f"; the closest names there: {', '.join(close)}" if close else ""
    return Refusal(f'"{path}" not found{where}{there}; {SEE} what there is')


def error_text(verb: str, path: object, error: Exception) -> str:
    """The answer to the model for one of FAILURES; an OSError's own text holds absolute paths."""
    if isinstance(error, Refusal):
        return f"Error: {error}"
    return f'Error: Cannot {verb} "{path}": {getattr(error, "strerror", "it is too deep")}'
