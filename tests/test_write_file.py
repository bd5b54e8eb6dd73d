"""Checks write_file: python tests/test_write_file.py."""

import errno
import os
import stat
from pathlib import Path
from unittest import mock

from support import InTemporaryDirectory, run_tests

from functions.write_file import write_file


class WriteFile(InTemporaryDirectory):
    def write(self, path: object, content: object = "new") -> str:
        return write_file(str(self.work), path, content)  # type: ignore[arg-type]

    def names(self) -> list[str]:
        """All that there is below the working directory."""
        return sorted(str(path.relative_to(self.work)) for path in self.work.rglob("*"))

    def assert_untouched(self) -> None:
        self.assertEqual((self.work / "main.py").read_text(), "print('main ran')\n")
        self.assertEqual(self.names(), ["main.py", "pkg", "pkg/render.py"])

    def test_a_new_file_is_written_and_the_characters_are_counted(self) -> None:
        self.assertEqual(
            self.write("new.txt", "grün"), 'Successfully wrote 4 characters to "new.txt"'
        )
        self.assertEqual((self.work / "new.txt").read_bytes(), "grün".encode())

    def test_an_existing_file_is_replaced_as_a_whole(self) -> None:
        self.write("main.py", "x")
        self.assertEqual((self.work / "main.py").read_text(), "x")

    def test_line_ends_are_written_as_given(self) -> None:
        self.write("ends.txt", "a\r\nb\rc\n")
        self.assertEqual((self.work / "ends.txt").read_bytes(), b"a\r\nb\rc\n")

    def test_the_empty_string_is_content(self) -> None:
        self.write("main.py", "")
        self.assertEqual((self.work / "main.py").read_bytes(), b"")

    def test_parents_are_made(self) -> None:
        self.write("a/b/c.txt", "deep")
        self.assertEqual((self.work / "a/b/c.txt").read_text(), "deep")

    def test_the_mode_of_the_old_file_is_kept(self) -> None:
        (self.work / "main.py").chmod(0o751)
        self.write("main.py")
        self.assertEqual(stat.S_IMODE((self.work / "main.py").stat().st_mode), 0o751)

    def test_no_file_stays_setuid(self) -> None:
        (self.work / "main.py").chmod(0o6755)
        self.write("main.py")
        self.assertEqual(stat.S_IMODE((self.work / "main.py").stat().st_mode), 0o755)

    def test_the_owner_of_the_old_file_is_kept(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        os.chown(self.work / "main.py", 1234, 1235)
        self.write("main.py")
        status = (self.work / "main.py").stat()
        self.assertEqual((status.st_uid, status.st_gid), (1234, 1235))

    def test_a_user_who_cannot_give_files_away_still_writes(self) -> None:
        with mock.patch("os.chown", side_effect=PermissionError):
            self.assertTrue(self.write("main.py").startswith("Successfully"))

    def test_a_new_file_has_the_usual_mode(self) -> None:
        self.addCleanup(os.umask, os.umask(0o027))
        self.write("new.txt")
        self.assertEqual(stat.S_IMODE((self.work / "new.txt").stat().st_mode), 0o640)

    def test_a_link_inside_is_written_through(self) -> None:
        (self.work / "link").symlink_to("main.py")
        self.write("link", "through")
        self.assertTrue((self.work / "link").is_symlink())
        self.assertEqual((self.work / "main.py").read_text(), "through")

    def test_a_path_outside_is_refused_in_the_fixed_words(self) -> None:
        for path in ("../new.txt", "/srv/new.txt", "pkg/../../new.txt", "../calculator-2/x", "~/x"):
            with self.subTest(path):
                self.assert_refused_as_outside(self.write(path), "write to", path)
        self.assert_untouched()

    def test_links_that_lead_outside_are_refused_the_dangling_ones_too(self) -> None:
        for name, target in (("f", "secret.txt"), ("dangling", "new.txt"), ("d", ".")):
            (self.work / name).symlink_to(self.outside / target)
        for path in ("f", "dangling", "d/new.txt", "d/new/deep.txt"):
            with self.subTest(path):
                self.assert_refused_as_outside(self.write(path), "write to", path)
        self.assertEqual(self.secret.read_text(), "TOP SECRET")
        self.assertFalse((self.outside / "new.txt").exists())
        self.assertFalse((self.outside / "new").exists())

    def test_content_that_is_no_string_touches_nothing(self) -> None:
        for content in (None, 3, {"a": 1}, ["x"], True):
            with self.subTest(content=content):
                self.assertIn("Error: The content must be a string", self.write("main.py", content))
        self.assert_untouched()

    def test_half_a_surrogate_pair_touches_nothing(self) -> None:
        answer = self.write("main.py", "ab\ud83d")
        self.assertIn("Error: The content holds half a surrogate pair at character 2", answer)
        self.assert_untouched()

    def test_content_that_cannot_be_written_makes_no_directory(self) -> None:
        for content in (None, "\ud83d"):
            self.assertTrue(self.write("new/deep.txt", content).startswith("Error: "))
        self.assert_untouched()

    def test_a_full_disk_leaves_the_old_file_whole_and_no_temporary_file(self) -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        for step in ("pathlib.Path.replace", "pathlib.Path.chmod"):
            with mock.patch(step, side_effect=full):
                answer = self.write("main.py")
            self.assertEqual(answer, 'Error: Cannot write to "main.py": No space left on device')
            self.assert_untouched()

    def test_an_interruption_leaves_no_temporary_file(self) -> None:
        with (
            mock.patch("pathlib.Path.replace", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            self.write("main.py")
        self.assert_untouched()

    def test_nobody_ever_sees_half_a_file(self) -> None:
        seen: list[str] = []
        replace = Path.replace

        def look(temporary: Path, target: Path) -> Path:
            seen.extend([target.read_text(), temporary.read_text()])
            return replace(temporary, target)

        with mock.patch("pathlib.Path.replace", look):
            self.write("main.py", "whole")
        self.assertEqual(seen, ["print('main ran')\n", "whole"])

    def test_a_read_only_file_is_not_replaced(self) -> None:
        (self.work / "main.py").chmod(0o444)
        with mock.patch("os.access", return_value=False):  # which root would be granted
            self.assertIn("as it is read-only", self.write("main.py"))
        self.assert_untouched()

    def test_a_directory_is_not_replaced(self) -> None:
        for path in ("pkg", ".", "calculator"):
            with self.subTest(path):
                self.assertIn(f'Error: "{path}" is a directory', self.write(path))
        self.assert_untouched()

    def test_a_file_is_not_taken_for_a_directory(self) -> None:
        for path in ("main.py/", "new.txt/"):
            self.assertTrue(self.write(path).startswith("Error: "), path)
        for path in ("main.py/x.txt", "main.py/x/y.txt"):
            with self.subTest(path):
                self.assertIn("a file stands where a directory would have to be", self.write(path))
        self.assert_untouched()

    def test_a_fifo_is_refused_at_once(self) -> None:
        os.mkfifo(self.work / "fifo")
        self.assertIn('Error: "fifo" is not a regular file', self.write("fifo"))

    def test_a_link_to_a_git_directory_does_not_open_it(self) -> None:
        (self.work / ".git").mkdir()
        (self.work / "plain").symlink_to(".git")
        self.assertIn("as .git directories are not to be changed", self.write("plain/config"))
        self.assertEqual(list((self.work / ".git").iterdir()), [])

    def test_git_directories_are_not_changed(self) -> None:
        for path in (".git/config", ".git/hooks/pre-commit", "pkg/.GIT/config", ".git"):
            with self.subTest(path):
                self.assertIn("as .git directories are not to be changed", self.write(path))
        self.assert_untouched()

    def test_a_new_name_that_nobody_means_is_refused(self) -> None:
        names = ("a\nb", "a\x1fb", "a\x7f", "a\x80b", "a\x9f", " a", "a ", "a\t", "a\\b")
        for path in (*names, "pkg\\util.py", "pkg/ new.py", "new /x.py", "new/deep\\er/x.py"):
            with self.subTest(path):
                answer = self.write(path)
                self.assertTrue(answer.startswith("Error: Cannot write to "), answer)
                self.assertIn("no control character, no blank at an end and no backslash", answer)
                self.assertEqual(len(answer.splitlines()), 1)
        self.assert_untouched()

    def test_blanks_inside_a_name_are_usual(self) -> None:
        self.assertTrue(self.write("a b/c d.txt").startswith("Successfully"))

    def test_a_file_that_has_such_a_name_can_be_replaced(self) -> None:
        for path in (" odd ", "back\\slash", "new\nline"):
            self.put(path, "old")
            self.assertTrue(self.write(path, "new").startswith("Successfully"), path)
            self.assertEqual((self.work / path).read_text(), "new")

    def test_a_new_file_can_be_made_in_a_directory_of_such_a_name(self) -> None:
        self.put("odd \\/old.txt")
        self.assertTrue(self.write("odd \\/new.txt").startswith("Successfully"))

    def test_a_name_that_the_system_refuses_is_an_error(self) -> None:
        for path in (
            "",
            "d/" * 1500 + "x",
            "x" * 300,
            "x" * 5000,
            "a\0b",
            "d/" * 3000 + "x",
            "\ud800",
        ):
            with self.subTest(path[:5]):
                self.assertTrue(self.write(path).startswith("Error: Cannot write to "))
        self.assert_untouched()


if __name__ == "__main__":
    run_tests()
