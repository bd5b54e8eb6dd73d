"""Checks where a path may point: python tests/test_paths.py."""

import errno
from typing import Any
from unittest import mock

from support import InTemporaryDirectory, run_tests

from functions.get_file_content import get_file_content
from functions.get_files_info import get_files_info
from functions.paths import Refusal, resolve
from functions.write_file import write_file


class Paths(InTemporaryDirectory):
    def resolved(self, path: object) -> str:
        """Where the path leads, relative to the working directory; or the refusal."""
        try:
            return str(resolve(str(self.work), path, "read").relative_to(self.work))
        except Refusal as refusal:
            return str(refusal)

    def assert_outside(self, path: str) -> None:
        self.assertEqual(
            self.resolved(path), f'Cannot read "{path}" as it is outside working directory'
        )

    def test_relative_paths_lead_inside(self) -> None:
        for path in ("pkg/render.py", "./pkg//render.py", "pkg/../pkg/render.py", "pkg/render.py/"):
            with self.subTest(path):
                self.assertEqual(self.resolved(path), "pkg/render.py")

    def test_an_absolute_path_inside_is_inside(self) -> None:
        self.assertEqual(self.resolved(str(self.work / "pkg")), "pkg")

    def test_dots_and_absolute_paths_outside_are_outside(self) -> None:
        paths = (
            "..",
            "../secret.txt",
            "pkg/../../secret.txt",
            "/",
            "/etc/passwd",
            str(self.secret),
        )
        for path in (*paths, "//etc/passwd", f"/..{self.secret}"):
            with self.subTest(path):
                self.assert_outside(path)

    def test_a_sibling_with_the_same_beginning_is_outside(self) -> None:
        (self.outside / "calculator-2").mkdir()
        self.assert_outside("../calculator-2")
        self.assert_outside(f"{self.work}-2")

    def test_links_are_followed_before_the_check(self) -> None:
        (self.work / "file").symlink_to(self.secret)
        (self.work / "directory").symlink_to("..")
        (self.work / "chain").symlink_to("directory/secret.txt")
        (self.work / "dangling").symlink_to(self.outside / "new")
        (self.work / "process").symlink_to("/proc/self/cwd")
        for path in ("file", "directory", "directory/secret.txt", "chain", "dangling", "process/x"):
            with self.subTest(path):
                self.assert_outside(path)

    def test_dots_after_a_link_are_taken_from_where_it_leads(self) -> None:
        (self.outside / "deep/down").mkdir(parents=True)
        (self.work / "down").symlink_to(self.outside / "deep/down")
        self.assert_outside("down/../secret.txt")

    def test_a_link_that_stays_inside_works(self) -> None:
        (self.work / "inner").symlink_to("pkg")
        self.assertEqual(self.resolved("inner/render.py"), "pkg/render.py")

    def test_the_working_directory_may_itself_be_reached_through_a_link(self) -> None:
        (self.outside / "link").symlink_to("calculator")
        for path in (
            "pkg/render.py",
            "link/pkg/render.py",
            str(self.outside / "link/pkg/render.py"),
        ):
            with self.subTest(path):
                found = resolve(str(self.outside / "link"), path, "read")
                self.assertEqual(found, self.work / "pkg/render.py")

    def test_its_own_name_in_front_means_the_working_directory(self) -> None:
        for path in ("calculator/main.py", "./calculator/main.py", "calculator/pkg/../main.py"):
            with self.subTest(path):
                self.assertEqual(self.resolved(path), "main.py")
        self.assertEqual(self.resolved("calculator"), ".")
        self.assert_outside("calculator/../secret.txt")

    def test_an_entry_of_that_name_inside_goes_before(self) -> None:
        self.put("calculator/main.py")
        self.assertEqual(self.resolved("calculator/main.py"), "calculator/main.py")

    def test_even_a_link_of_that_name_that_leads_nowhere_goes_before(self) -> None:
        (self.work / "calculator").symlink_to("missing")
        self.assertEqual(self.resolved("calculator/main.py"), "missing/main.py")

    def test_a_home_directory_is_outside(self) -> None:
        for path in ("~", "~/x", "~root/x"):
            with self.subTest(path):
                self.assert_outside(path)
        self.assertEqual(self.resolved("~$report.docx"), "~$report.docx")
        with mock.patch("os.path.expanduser", lambda path: path):  # as where there is no home
            self.assert_outside("~/x")

    def test_what_is_no_possible_file_name_is_refused(self) -> None:
        for path, shown in (
            ("a\0b", r"a\x00b"),
            ("\ud800", "\ufffd"),
            ("\udcff", "\ufffd"),
            ("x" * 4096, "x" * 100),
            ("é" * 2048, "é" * 100),
        ):
            with self.subTest(shown):
                wanted = f'Cannot read "{shown}" as it is no possible file name'
                self.assertEqual(self.resolved(path), wanted)

    def test_a_name_that_the_locale_does_not_have_is_refused(self) -> None:
        failure = UnicodeEncodeError("latin-1", "中", 0, 1, "ordinal not in range(256)")
        with mock.patch("os.fsencode", side_effect=failure):
            self.assertIn('"中" as it is no possible file name', self.resolved("中"))

    def test_what_is_no_string_is_refused(self) -> None:
        for path in (None, 3, ["main.py"], {"a": 1}, True):
            with self.subTest(path=path):
                self.assertIn("it must be a string", self.resolved(path))

    def test_no_argument_makes_a_function_of_files_raise(self) -> None:
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        odd: list[Any] = [None, True, -1, 10**5000, 0.5, float("nan"), float("inf"), {}, deep]
        odd += ["", "0" * 5000, "9" * 5000, "\0", "\ud800", "/" * 4095, "a/" * 2000, "~", b"x"]
        work: Any = str(self.work)
        for value in odd:
            for answer in (
                get_files_info(work, value),
                get_file_content(work, value),
                get_file_content(work, "main.py", value),
                write_file(work, value, "x"),
                write_file(work, "new.txt", value),
            ):
                self.assertIsInstance(answer, str)

    def test_links_in_a_circle_are_refused(self) -> None:
        for name, target in (("one", "two"), ("two", "one"), ("self", "self"), ("deep", "deep/x")):
            (self.work / name).symlink_to(target)
        for path in ("one", "self", "self/../main.py", "deep"):
            wanted = f'Cannot read "{path}" as its symbolic links lead in a circle'
            self.assertEqual(self.resolved(path), wanted)

    def test_a_circle_opens_no_way_round_the_check(self) -> None:
        (self.work / "loop").symlink_to("loop")
        (self.work / "up").symlink_to("..")
        (self.work / "plain").symlink_to("loop/../up")
        for path in ("loop/../up/secret.txt", "plain/secret.txt", "plain"):
            wanted = f'Cannot read "{path}" as its symbolic links lead in a circle'
            self.assertEqual(self.resolved(path), wanted)

    def test_40_links_are_followed_as_the_kernel_does_and_41_are_not(self) -> None:
        for number in range(41):
            (self.work / f"link{number}").symlink_to(f"link{number + 1}")
        self.put("link41", "end")
        self.assertEqual((self.work / "link1").read_text(), "end")
        self.assertEqual(self.resolved("link1"), "link41")
        with self.assertRaises(OSError):
            (self.work / "link0").read_text()
        self.assertIn("lead in a circle", self.resolved("link0"))

    def test_an_absolute_path_with_two_slashes_is_one(self) -> None:
        self.assertEqual(self.resolved(f"/{self.work}/pkg"), "pkg")
        (self.work / "link").symlink_to(f"/{self.work}/pkg")
        self.assertEqual(self.resolved("link"), "pkg")

    def test_what_is_missing_is_taken_by_its_letters_and_dots_take_it_back(self) -> None:
        self.assertEqual(self.resolved("new/deep/x"), "new/deep/x")
        self.assertEqual(self.resolved("new/../main.py"), "main.py")
        self.assertEqual(self.resolved("main.py/../pkg"), "pkg")
        self.assert_outside("new/../../secret.txt")

    def test_a_link_to_what_is_missing_leads_there(self) -> None:
        (self.work / "dangling").symlink_to("pkg/new")
        self.assertEqual(self.resolved("dangling"), "pkg/new")
        (self.work / "twisted").symlink_to("missing/../escape")
        (self.work / "escape").symlink_to("../secret.txt")
        self.assert_outside("twisted")

    def test_a_path_has_at_most_4095_bytes(self) -> None:
        longest = "./" * 2044 + "main.py"
        self.assertEqual(len(longest), 4095)
        self.assertEqual(self.resolved(longest), "main.py")
        self.assertIn("is no possible file name", self.resolved(f"{longest}/"))

    def test_what_the_system_hides_outside_is_outside(self) -> None:
        refused = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch("os.readlink", side_effect=refused):
            self.assert_outside("../locked/x")
            self.assert_outside("/locked/x")

    def test_without_a_working_directory_nothing_is_there(self) -> None:
        for function in (get_files_info, get_file_content):
            answer = function(str(self.outside / "new"), "secret")
            self.assertRegex(answer, "^Error: [^;]*: No such file or directory$")

    def test_a_directory_that_cannot_be_searched_is_an_error_of_the_system(self) -> None:
        refused = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch("os.readlink", side_effect=refused), self.assertRaises(PermissionError):
            resolve(str(self.work), "pkg/x", "read")


if __name__ == "__main__":
    run_tests()
