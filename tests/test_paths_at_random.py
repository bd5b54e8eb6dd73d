"""Checks the three functions of files against the kernel: python tests/test_paths_at_random.py.

Random trees of directories, files, links and circles, and random paths into them. The kernel says
what a path reaches: what lies outside stays untold and untouched, what lies inside is shown.
"""

import os
import random
import stat
import tempfile
import unittest
from pathlib import Path

from support import run_tests

from functions.get_file_content import get_file_content
from functions.get_files_info import get_files_info
from functions.write_file import write_file

TREES, PATHS = 300, 40
NAMES, WEIGHTS = ["a", "b", "c", ".git", ".GIT", "calculator"], [9, 9, 9, 1, 1, 1]
LENGTHS = [1, 2, 3, 3, 4, 4]
SECRET = "TOP SECRET"
WRITTEN = "written by the test"
OUTSIDE = "as it is outside working directory"


def random_path(chance: random.Random, root: Path) -> str:
    """A path that may lead anywhere, in or out, through links, circles and what is missing."""
    steps = chance.choices(
        [*NAMES, "missing", "..", ".", ""], [*WEIGHTS, 1, 1, 1, 1], k=chance.choice(LENGTHS)
    )
    path = "/".join(step + chance.choice(["", "/.."]) for step in steps)
    start = chance.choice(["", "", "", "", "", "../", f"{root}/", f"{root.parent}/"])
    return (start + path + chance.choice(["", "", "", "/"])) or "."


def make_tree(chance: random.Random, root: Path) -> None:
    """A tree in `root`, with links, and one around it, in which all is secret."""
    kinds = ["file", "directory", "link", "link", "link"]
    entries = [(root.parent, kind, SECRET) for kind in chance.choices(kinds[:2], k=8)]
    entries += [(root, kind, "text") for kind in chance.choices(kinds, k=12)]
    for base, kind, content in entries:
        base.mkdir(exist_ok=True)
        places = [base, base, *(p for p in base.iterdir() if p.is_dir() and not p.is_symlink())]
        place = chance.choice(places) / chance.choices(NAMES, WEIGHTS)[0]
        if os.path.lexists(place) or place == root:
            continue
        if kind == "link":
            place.symlink_to(chance.choice([place.name, "..", "..", random_path(chance, root)]))
        elif kind == "directory":
            place.mkdir()
            (place / content).touch()
        else:
            place.write_text(f"{content} of {place.name}")


def is_git(path: Path, root: Path) -> bool:
    return any(name.lower() == ".git" for name in path.relative_to(root).parts)


def snapshot(root: Path) -> dict[str, object]:
    """All that nobody may change: what is around the root, and the .git directories in it."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(root.parent):
        for name in folders + files:
            path = Path(place, name)
            if not path.is_relative_to(root) or is_git(path, root):
                kind = stat.S_IFMT(path.lstat().st_mode)
                is_file = stat.S_ISREG(kind)
                found[str(path)] = path.read_bytes() if is_file else kind
    return found


def reached(root: Path, path: str) -> tuple[Path, bool] | None:
    """What the kernel reaches by a path, and whether it is a regular file; None if nothing."""
    first, _, rest = path.lstrip("./").partition("/")
    if (
        first == root.name
        and not path.startswith(("/", ".."))
        and not os.path.lexists(root / first)
    ):
        path = rest or "."  # its own name means the working directory
    try:
        found = os.open(os.path.join(root, path), os.O_RDONLY)
    except OSError:
        return None
    place, mode = Path(os.readlink(f"/proc/self/fd/{found}")), os.fstat(found).st_mode
    os.close(found)
    return place, stat.S_ISREG(mode)


@unittest.skipUnless(os.path.exists("/proc/self/fd"), "only /proc tells what the kernel reached")
class PathsAtRandom(unittest.TestCase):
    def check(self, root: Path, path: str) -> str:
        """Send a path to the three functions. Says what the kernel found there."""
        found = reached(root, path)
        shown, listed = get_file_content(str(root), path), get_files_info(str(root), path)
        self.assertNotIn(SECRET, shown + listed, path)
        if not found:
            return "nothing"
        place, is_file = found
        if not place.is_relative_to(root):
            self.assertEqual(shown, f'Error: Cannot read "{path}" {OUTSIDE}')
            self.assertEqual(listed, f'Error: Cannot list "{path}" {OUTSIDE}')
            return "outside"
        if is_file:
            self.assertEqual(shown, place.read_text(), path)
        else:
            for name in os.listdir(place):
                self.assertIn(f"- {name}: ", listed, path)
        return "inside"

    def check_writing(self, root: Path, path: str) -> None:
        found = reached(root, path)
        done = write_file(str(root), path, WRITTEN)
        if found and found[1] and found[0].is_relative_to(root):
            is_allowed = not is_git(found[0], root)
            self.assertEqual(done.startswith("Successfully wrote"), is_allowed, (path, done))
            self.assertEqual(found[0].read_text() == WRITTEN, is_allowed)

    def test_what_the_kernel_finds_inside_is_shown_and_nothing_outside_is_touched(self) -> None:
        counts = dict.fromkeys(("inside", "outside", "nothing"), 0)
        for seed in range(TREES):
            chance = random.Random(seed)  # noqa: S311
            with tempfile.TemporaryDirectory() as directory, self.subTest(seed=seed):
                root = Path(directory).resolve() / "calculator"
                make_tree(chance, root)
                before = snapshot(root)
                for _ in range(PATHS):
                    path = random_path(chance, root)
                    counts[self.check(root, path)] += 1
                    if chance.random() < 0.3:
                        self.check_writing(root, path)
                self.assertEqual(snapshot(root), before)
        self.assertGreater(min(counts.values()), TREES, counts)


if __name__ == "__main__":
    run_tests()
