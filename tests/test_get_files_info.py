"""Checks get_files_info: python tests/test_get_files_info.py."""

import errno
import os
import socket
from pathlib import Path
from unittest import mock

from support import InTemporaryDirectory, run_tests

from functions.get_files_info import get_files_info


class GetFilesInfo(InTemporaryDirectory):
    def list(self, directory: str = ".") -> str:
        return get_files_info(str(self.work), directory)

    def test_each_entry_is_one_line_with_its_size_and_whether_it_is_a_directory(self) -> None:
        size = (self.work / "pkg").stat().st_size
        self.assertEqual(
            self.list(),
            "- main.py: file_size=18 bytes, is_dir=False\n"
            f"- pkg: file_size={size} bytes, is_dir=True",
        )

    def test_a_subdirectory_is_listed(self) -> None:
        self.assertEqual(self.list("pkg"), "- render.py: file_size=23 bytes, is_dir=False")

    def test_entries_are_sorted_by_name(self) -> None:
        for name in ("b", "C", "a", "10", "9"):
            self.put(f"sorted/{name}")
        names = [line.split(":")[0] for line in self.list("sorted").splitlines()]
        self.assertEqual(names, ["- 10", "- 9", "- C", "- a", "- b"])

    def test_an_empty_directory_is_said_to_be_empty(self) -> None:
        (self.work / "empty").mkdir()
        self.assertEqual(self.list("empty"), "(the directory is empty)")

    def test_an_empty_path_means_the_working_directory(self) -> None:
        self.assertEqual(self.list(""), self.list("."))

    def test_a_directory_outside_is_refused_in_the_fixed_words(self) -> None:
        for path in ("..", "../", "/", "/bin", "pkg/../.."):
            with self.subTest(path):
                self.assert_refused_as_outside(self.list(path), "list", path)

    def test_a_link_to_a_directory_outside_is_refused(self) -> None:
        (self.work / "out").symlink_to(self.outside)
        self.assert_refused_as_outside(self.list("out"), "list", "out")

    def test_a_file_is_not_listed_but_explained(self) -> None:
        self.assertEqual(
            self.list("main.py"),
            'Error: "main.py" is not a directory; call get_file_content to read a file',
        )

    def test_a_missing_directory_is_answered_with_the_nearest_names(self) -> None:
        self.assertIn('Error: "pgk" not found; the closest names there: pkg', self.list("pgk"))

    def test_broken_links_and_loops_are_listed_with_their_own_size(self) -> None:
        (self.work / "links").mkdir()
        (self.work / "links/broken").symlink_to("nowhere")
        (self.work / "links/loop").symlink_to("loop")
        self.assertEqual(
            self.list("links"),
            "- broken: file_size=7 bytes, is_dir=False\n- loop: file_size=4 bytes, is_dir=False",
        )

    def test_a_link_to_a_directory_inside_counts_as_a_directory(self) -> None:
        (self.work / "links").mkdir()
        (self.work / "links/inside").symlink_to("../pkg")
        self.assertEqual(self.list("links"), "- inside: file_size=6 bytes, is_dir=True")

    def test_special_files_are_listed(self) -> None:
        (self.work / "special").mkdir()
        os.mkfifo(self.work / "special/fifo")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.work / "special/socket"))
        self.assertEqual(len(self.list("special").splitlines()), 2)

    def test_names_that_are_no_utf_8_are_escaped(self) -> None:
        os.mkdir(self.work / "names")
        open(os.fsencode(self.work) + b"/names/caf\xe9", "w").close()
        self.assertEqual(self.list("names"), "- caf\\xe9: file_size=0 bytes, is_dir=False")

    def test_a_name_with_a_newline_stays_one_line(self) -> None:
        self.put("names/a\n- fake.py: file_size=1 bytes, is_dir=False\u2028\x1b[2J")
        self.assertEqual(len(self.list("names").splitlines()), 1)
        self.assertIn(r"a\n- fake.py", self.list("names"))
        self.assertIn(r"\u2028\x1b[2J", self.list("names"))

    def test_10000_characters_are_listed_and_one_more_is_not(self) -> None:
        line = len("- 000: file_size=0 bytes, is_dir=False\n")
        count = 10_000 // line - 1
        for number in range(count):
            self.put(f"many/{number:03}")
        last = self.put("many/" + "z" * (10_000 - count * line - line + len("000\n")))
        self.assertEqual(len(self.list("many")), 10_000)
        self.assertIn("- zzzz", self.list("many"))
        last = last.rename(last.with_name(last.name[1:]))
        self.assertEqual(len(self.list("many")), 9_999)
        last.rename(last.with_name(last.name + "zz"))
        self.assertEqual(self.list("many").splitlines()[-1], "(1 more entries are left out)")

    def test_a_long_listing_says_how_much_is_left_out(self) -> None:
        for number in range(1000):
            self.put(f"many/{number:03}-{'x' * 50}")
        listing = self.list("many").splitlines()
        self.assertEqual(listing[-1], f"({1000 - len(listing) + 1} more entries are left out)")

    def test_a_directory_without_permission_is_an_error(self) -> None:
        refused = PermissionError(errno.EACCES, "Permission denied", str(self.work))
        with mock.patch("os.listdir", side_effect=refused):
            self.assertEqual(self.list("pkg"), 'Error: Cannot list "pkg": Permission denied')

    def test_an_entry_that_cannot_be_looked_at_is_listed(self) -> None:
        lstat = Path.lstat

        def refuse(path: Path) -> os.stat_result:
            if path.name == "render.py":
                raise PermissionError(errno.EACCES, "Permission denied")
            return lstat(path)

        with mock.patch("pathlib.Path.lstat", refuse):
            self.assertIn("- render.py: file_size=unknown bytes", self.list("pkg"))


if __name__ == "__main__":
    run_tests()
