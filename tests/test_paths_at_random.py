"""Checks the three functions of files against the kernel: python tests/test_paths_at_random.py.

Random trees of directories, files, links and circles, and random paths into them. The kernel says
what a path reaches: what lies outside stays untold and untouched, what lies inside is shown.
"""

import itertools
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

TREES, PATHS = 300, 60
NAMES = ["a", "b", "c", "d", ".git", "calculator"]
SECRET = "TOP SECRET"
WRITTEN = "written by the test"


def random_path(chance: random.Random, root: Path) -> str:
    """A path that may lead anywhere, in or out, through links, circles and what is missing."""
    steps = chance.choices([*NAMES, "..", ".", "", "missing"], [6] * 4 + [1, 1, 9, 1, 1, 1], k=5)
    path = "/".join(steps[: chance.choice([1, 2, 3, 4, 4, 5])])
    start = chance.choice(["", "", "", "", f"{root}/", f"{root.parent}/", "/"])
    return start + path + chance.choice(["", "", "", "/"])


def make_tree(chance: random.Random, root: Path) -> None:
    """A tree in `root` and a smaller one around it, which holds the secrets."""
    root.mkdir()
    numbers = itertools.count()
    for base in (root, root, root, root.parent):
        for _ in range(5):
            parents = [p for p in (base, *base.rglob("*")) if p.is_dir() and not p.is_symlink()]
            inside = [p for p in parents if base == root or root not in (p, *p.parents)]
            place = chance.choice([base, *inside]) / chance.choice(NAMES)
            kinds = ["directory", "file", "link", "link"] if base == root else ["file", "directory"]
            kind = chance.choice(kinds)
            if os.path.lexists(place):
                continue
            if kind == "directory":
                place.mkdir()
            elif kind == "file":
                place.write_text(f"text {next(numbers)}" if base == root else SECRET)
            else:
                target = chance.choice([place.name, "..", random_path(chance, root) or "."])
                place.symlink_to(target)


def snapshot(root: Path) -> dict[str, object]:
    """All that nobody may change: what is around the root, and the .git directories in it."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(root.parent):
        for name in folders + files:
            path = Path(place, name)
            if not path.is_relative_to(root) or ".git" in path.relative_to(root).parts:
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
        is_inside = found is not None and found[0].is_relative_to(root)
        if found and is_inside:
            place, is_file = found
            self.assertEqual(shown == place.read_text() if is_file else None, is_file or None, path)
            if not is_file:
                names = [f"- {name}: " for name in os.listdir(place)]
                self.assertTrue(all(name in listed for name in names), (path, listed))
        elif found:
            for answer, verb in ((shown, "read"), (listed, "list")):
                wording = f'Error: Cannot {verb} "{path}" as it is outside working directory'
                self.assertEqual(answer, wording)
        self.assertNotIn(SECRET, shown + listed, path)
        return "inside" if is_inside else "outside" if found else "nothing"

    def check_writing(self, root: Path, path: str) -> None:
        found = reached(root, path)
        done = write_file(str(root), path, WRITTEN)
        if found and found[1] and found[0].is_relative_to(root):
            is_git = ".git" in found[0].relative_to(root).parts
            self.assertEqual(done.startswith("Successfully wrote"), not is_git, (path, done))
            self.assertEqual(found[0].read_text() == WRITTEN, not is_git)

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
