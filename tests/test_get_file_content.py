"""Checks get_file_content: python tests/test_get_file_content.py."""

import os
import re
import stat
import time
import tracemalloc
from unittest import mock

from support import InTemporaryDirectory, run_tests

from functions.get_file_content import get_file_content


class GetFileContent(InTemporaryDirectory):
    def read(self, path: str, *offset: object) -> str:
        return get_file_content(str(self.work), path, *offset)  # type: ignore[arg-type]

    def read_all(self, path: str) -> str:
        """A file as a model reads it: on and on, from the offsets that the notices give."""
        text, offset = "", 0
        while True:
            answer = re.sub(r"\n\[\.\.\.this file is not UTF-8.*\]", "", self.read(path, offset))
            cut, notice, rest = answer.rpartition("\n[...truncated")
            if not notice:
                return text + answer
            text += cut
            found = re.search(r"offset=(\d+)", rest)
            assert found
            self.assertGreater(int(found[1]), offset)
            offset = int(found[1])

    def test_a_file_is_returned_as_it_stands(self) -> None:
        self.assertEqual(self.read("main.py"), "print('main ran')\n")

    def test_an_empty_file_is_empty(self) -> None:
        self.put("empty.txt")
        self.assertEqual(self.read("empty.txt"), "")

    def test_line_ends_are_left_as_they_are(self) -> None:
        self.put("ends.txt", b"a\r\nb\rc\nd")
        self.assertEqual(self.read("ends.txt"), "a\r\nb\rc\nd")

    def test_10000_characters_are_not_truncated(self) -> None:
        for count in (9_999, 10_000):
            self.put("exact.txt", "😀" * count)
            self.assertEqual(self.read("exact.txt"), "😀" * count)

    def test_the_10001st_character_is_cut_and_the_notice_tells_size_and_offset(self) -> None:
        self.put("over.txt", "é" * 10_001)
        text, _, notice = self.read("over.txt").partition("\n")
        self.assertEqual(text, "é" * 10_000)
        self.assertEqual(
            notice,
            "[...truncated at 10000 characters; the file has 20002 bytes; "
            "to read on, call get_file_content with offset=20000]",
        )

    def test_10000_characters_are_read_wherever_a_character_begins(self) -> None:
        self.put("long.txt", "a" + "😀" * 10_010)
        for offset in range(12):
            text, _, notice = self.read("long.txt", offset).partition("\n")
            self.assertEqual(len(text), 10_000)
            self.assertIn("truncated at 10000 characters", notice)

    def test_a_long_file_can_be_read_to_its_end_whatever_its_encoding(self) -> None:
        text = "aé€😀\r\n" * 7000
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-be"):
            with self.subTest(encoding):
                mark = "\ufeff" if encoding == "utf-16-be" else ""
                self.put("long.txt", (mark + text).encode(encoding))
                self.assertEqual(self.read_all("long.txt"), text)

    def test_a_long_latin_1_file_can_be_read_to_its_end(self) -> None:
        self.put("long.txt", ("caf\xe9 \xa9\n" * 4000).encode("latin-1"))
        self.assertEqual(self.read_all("long.txt"), "caf\xe9 \xa9\n" * 4000)

    def test_an_offset_inside_a_character_means_its_start(self) -> None:
        for encoding, mark in (
            ("utf-8", b""),
            ("utf-16-le", b"\xff\xfe"),
            ("utf-16-be", b"\xfe\xff"),
        ):
            self.put("text.txt", mark + "é€😀".encode(encoding))
            start = len(mark)
            for number, character in enumerate("é€😀"):
                for offset in range(start, start + len(character.encode(encoding))):
                    with self.subTest(encoding=encoding, offset=offset):
                        self.assertEqual(self.read("text.txt", offset), "é€😀"[number:])
                start += len(character.encode(encoding))

    def test_whole_floats_digits_and_null_are_offsets_too(self) -> None:
        self.put("digits.txt", "0123456789")
        for offset in (7, 7.0, "7", "0007", "0" * 5000 + "7"):
            self.assertEqual(self.read("digits.txt", offset), "789")
        self.assertEqual([self.read("digits.txt", size) for size in (9, 10)], ["9", ""])
        self.assertEqual(self.read("digits.txt", "0" * 5000), "0123456789")
        self.assertEqual(self.read("digits.txt", None), "0123456789")

    def test_other_offsets_are_an_error_that_says_the_size(self) -> None:
        self.put("digits.txt", "0123456789")
        odd: list[object] = [
            *(-1, 11, 10**30, 10**5000, "-1", "x", "", " 1", "1e1"),
            *("9" * 5000, "0" * 25 + "11", "1" + "0" * 19),
            *(0.5, 1e30, float("nan"), float("inf"), True, [], [[]], {}, "٣"),
        ]
        wanted = "Error: The offset must be a whole number from 0 to the file's size, 10 bytes"
        for offset in odd:
            self.assertEqual(self.read("digits.txt", offset), wanted)

    def test_byte_order_marks_are_removed(self) -> None:
        for encoding in ("utf-8-sig", "utf-16"):
            self.put("mark.txt", "bôm".encode(encoding))
            self.assertEqual(self.read("mark.txt"), "bôm")

    def test_one_stray_byte_spoils_no_other_character(self) -> None:
        self.put("stray.txt", "é".encode() * 9_000 + b"\xff" + "é".encode() * 9_000)
        self.assertEqual(self.read_all("stray.txt"), "é" * 9_000 + "ÿ" + "é" * 9_000)

    def test_a_character_that_is_cut_by_the_end_of_the_file_is_shown(self) -> None:
        self.put("cut.txt", "café".encode()[:-1])
        self.assertTrue(self.read("cut.txt").startswith("cafÃ\n[...this file is not UTF-8"))

    def test_binary_files_are_refused(self) -> None:
        for content in (
            bytes(range(256)),
            b"text\0text",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xfe\0\0a\0\0\0",
        ):
            self.put("binary", content)
            self.assertEqual(
                self.read("binary"),
                f'Error: "binary" is a binary file of {len(content)} bytes; only text can be read',
            )

    def test_a_path_outside_is_refused_in_the_fixed_words(self) -> None:
        for path in (
            "../secret.txt",
            str(self.secret),
            "/etc/passwd",
            "pkg/../../secret.txt",
            "~/x",
        ):
            with self.subTest(path):
                self.assert_refused_as_outside(self.read(path), "read", path)

    def test_a_link_that_leads_outside_is_refused(self) -> None:
        (self.work / "link.txt").symlink_to(self.secret)
        self.assert_refused_as_outside(self.read("link.txt"), "read", "link.txt")

    def test_a_missing_file_is_answered_with_the_nearest_names(self) -> None:
        self.assertEqual(
            self.read("mian.py"),
            'Error: "mian.py" not found; the closest names there: main.py; '
            "call get_files_info to see what there is",
        )

    def test_the_nearest_names_stay_one_line(self) -> None:
        self.put("ma\nin.py")
        self.assertIn(r"closest names there: main.py, ma\nin.py;", self.read("man.py"))

    def test_if_its_directory_is_missing_too_the_nearest_one_is_named(self) -> None:
        self.assertEqual(
            self.read("pgk/render.py"),
            'Error: "pgk/render.py" not found; the nearest directory is "."; the closest names '
            "there: pkg; call get_files_info to see what there is",
        )
        self.assertEqual(
            self.read("calculator/pkg/new/deep/x.py"),
            'Error: "calculator/pkg/new/deep/x.py" not found; the nearest directory is "pkg"; '
            "call get_files_info to see what there is",
        )

    def test_blanks_and_quotes_round_a_name_still_find_its_nearest(self) -> None:
        for path in (" main.py", "'main.py'", "main.py\n"):
            self.assertIn("not found; the closest names there: main.py;", self.read(path))

    def test_a_directory_is_refused_with_what_to_call_instead(self) -> None:
        self.assertEqual(
            self.read("pkg"),
            'Error: "pkg" is a directory, not a file; call get_files_info to see what it holds',
        )

    def test_a_file_is_not_taken_for_a_directory(self) -> None:
        for path in ("main.py/", "main.py/x"):
            self.assertTrue(self.read(path).startswith("Error: "), path)

    def test_a_chain_of_a_thousand_links_is_an_error(self) -> None:
        for number in range(1500):
            (self.work / f"link{number}").symlink_to(f"link{number + 1}")
        self.put("link1500", "end")
        self.assertTrue(self.read("link0").startswith("Error: "))

    def test_a_fifo_is_refused_at_once(self) -> None:
        os.mkfifo(self.work / "fifo")
        self.assertIn('Error: "fifo" is not a regular file', self.read("fifo"))

    def test_a_socket_is_refused_like_a_fifo(self) -> None:
        os.mknod(self.work / "socket", stat.S_IFSOCK | 0o600)
        self.assertIn('Error: "socket" is not a regular file', self.read("socket"))

    def test_a_file_may_grow_while_it_is_read(self) -> None:
        text = "é" * 5

        def grow(number: int) -> os.stat_result:
            status = os.stat(number)
            with open(self.work / "file", "ab") as end:
                end.write(b"x")
            return status

        for offset in (0, 10):
            self.put("file", text.encode("utf-16"))
            with mock.patch("os.fstat", grow):
                self.assertEqual(self.read("file", offset), text[max(offset // 2 - 1, 0) :])

    def test_if_a_directory_does_not_tell_its_names_none_are_said(self) -> None:
        with mock.patch("os.scandir", side_effect=PermissionError):
            wanted = 'Error: "mian.py" not found; call get_files_info to see what there is'
            self.assertEqual(self.read("mian.py"), wanted)

    def test_a_huge_file_costs_no_more_than_a_small_one(self) -> None:
        huge = self.put("huge.txt", "start " * 20_000)
        with huge.open("r+b") as file:
            file.seek(1 << 40)
            file.write(b"the end")
        tracemalloc.start()
        started = time.perf_counter()
        self.assertTrue(self.read("huge.txt").startswith("start "))
        self.assertEqual(self.read("huge.txt", 1 << 40), "the end")
        seconds, (_, peak) = time.perf_counter() - started, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(seconds, 0.5)
        self.assertLess(peak, 1 << 20)


if __name__ == "__main__":
    run_tests()
