"""Checks that files keep their encoding, on random ones: python tests/test_encoding.py."""

import codecs
import random
import re
import tracemalloc
from typing import Any

from support import InTemporaryDirectory, run_tests

from functions.encoding import encode_like
from functions.get_file_content import get_file_content
from functions.write_file import write_file

FILES = 400
ALPHABETS = [
    "abc {}()=",
    "éüñ€",
    "中文字",
    "Привет",
    "😀𝄞",
    "\t",
    "\x81\x8d\x90",
    "\ufeff",
    "ÃƒÂ©",
    "ÿþ",
    "\x01",
]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "cp1252", "latin-1", "koi8-r", "gbk"]
MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
NOTICE = re.compile(r"\n\[\.\.\.truncated at .* offset=(\d+)\]\Z")
STRAY = re.compile(r"\n\[\.\.\.this file is not UTF-8: [^\n]*\](?=\n\[|\Z)")


def random_file(chance: random.Random) -> bytes:
    """Lines of several alphabets in one encoding, some with bytes that it does not have."""
    encoding = chance.choice(ENCODINGS)
    letters = "".join(chance.sample(ALPHABETS, chance.randint(1, 3))) + "ab  "
    lines = [
        "".join(chance.choices(letters, k=chance.randint(0, 30))) + chance.choice(["\n", "\r\n"])
        for _ in range(chance.choice([0, 1, 5, 5, 40, 40, 40, 900]))
    ]
    data = MARKS.get(encoding, b"") + "".join(lines).encode(encoding, "ignore")
    if encoding not in MARKS and chance.random() < 0.3:
        for _ in range(3):
            at = chance.randint(0, len(data))
            data = data[:at] + bytes([chance.randint(128, 255)]) + data[at:]
    if encoding in MARKS and chance.random() < 0.3:
        half = chance.choice(["\ud800", "\udc00"]).encode(encoding, "surrogatepass")
        at = 2 + chance.randint(0, len(data) // 2 - 1) * 2
        data = data[:at] + half + data[at:]
    return data


def lines_of(data: bytes) -> list[Any]:
    """The lines of a file, none of its bytes lost. In UTF-16 a byte of 10 need not end one."""
    if data[:2] in MARKS.values() and len(data) % 2 == 0:
        return data.decode("utf-16", "surrogatepass").split("\n")
    return data.split(b"\n")


class Encoding(InTemporaryDirectory):
    def read_all(self, path: str) -> tuple[str, bool]:
        """A file as a model reads it, and whether it was told that it is not UTF-8."""
        text, offset, told = "", 0, False
        while True:
            answer = get_file_content(str(self.work), path, offset)
            if notice := NOTICE.search(answer):
                answer, offset = answer[: notice.start()], int(notice[1])
            if stray := STRAY.search(answer):
                answer, told = answer[: stray.start()], True
            text += answer
            if not notice:
                return text, told

    def write(self, content: str) -> str:
        return write_file(str(self.work), "file", content)

    def test_what_is_read_and_written_back_changes_no_byte(self) -> None:
        for seed in range(FILES):
            data = random_file(random.Random(seed))  # noqa: S311
            file = self.put("file", data)
            text, _ = self.read_all("file")
            if text.startswith("Error: "):
                self.assertIn("is a binary file", text, seed)
                continue
            answer = self.write(text)
            self.assertTrue(answer.endswith('characters to "file"'), (seed, answer))
            self.assertEqual(file.read_bytes(), data, seed)

    def test_a_changed_line_leaves_the_bytes_of_the_others(self) -> None:
        converted = 0
        for seed in range(FILES):
            chance = random.Random(seed)  # noqa: S311
            data = random_file(chance)
            file = self.put("file", data)
            lines = self.read_all("file")[0].split("\n")
            if lines[0].startswith("Error: "):
                continue
            number = chance.randrange(len(lines))
            lines[number] = "changed" + chance.choice(["", lines[number]])
            answer = self.write("\n".join(lines))
            self.assertEqual(self.read_all("file")[0], "\n".join(lines), seed)
            if "it is UTF-8 now" in answer:
                converted += 1  # as one byte a character, the line would be read as UTF-8
                continue
            old, new = lines_of(data), lines_of(file.read_bytes())
            del old[number], new[number]
            self.assertEqual(new, old, seed)
        self.assertLess(converted, FILES // 50)

    def test_what_is_written_is_what_is_read_afterwards(self) -> None:
        for seed in range(FILES):
            chance = random.Random(seed)  # noqa: S311
            self.put("file", random_file(chance))
            content = "".join(chance.choices("".join(ALPHABETS) + "\n\n", k=chance.randint(0, 40)))
            content = chance.choice(["", "\xff\xfe"]) + content.lstrip("\ufeff")
            answer = self.write(content)
            self.assertTrue(answer.startswith(f"Successfully wrote {len(content)} char"), answer)
            self.assertEqual(self.read_all("file")[0], content, seed)

    def test_each_offset_shows_what_follows_in_the_whole(self) -> None:
        for seed in range(60):
            data = random_file(random.Random(seed))[:300]  # noqa: S311
            self.put("file", data)
            whole = STRAY.sub("", get_file_content(str(self.work), "file"))
            if whole.startswith("Error: "):
                continue
            lengths = []
            for offset in range(len(data) + 1):
                rest = STRAY.sub("", get_file_content(str(self.work), "file", offset))
                self.assertTrue(whole.endswith(rest), (seed, offset))
                lengths.append(len(rest))
            self.assertEqual(lengths, sorted(lengths, reverse=True))
            self.assertEqual(set(lengths), set(range(len(whole) + 1)), seed)

    def test_a_file_with_stray_bytes_is_shown_as_windows_1252_and_the_model_is_told(self) -> None:
        self.put("file", "café 5 €\n".encode("cp1252") + bytes([0x81, 0x9D]))
        answer = get_file_content(str(self.work), "file")
        text, _, notice = answer.rpartition("\n")
        self.assertEqual(text, "café 5 €\n\x81\x9d")
        self.assertTrue(notice.startswith("[...this file is not UTF-8: "), notice)
        for word in ("Windows-1252", "write_file"):
            self.assertIn(word, notice)

    def test_a_file_of_utf_8_or_utf_16_has_no_such_notice(self) -> None:
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            self.put("file", "café\n".encode(encoding))
            self.assertEqual(self.read_all("file"), ("café\n", False))
        self.put("file", "é\ud800\n".encode("utf-16", "surrogatepass"))
        self.assertEqual(self.read_all("file"), ("é\ufffd\n", False))

    def test_the_colours_of_a_terminal_make_no_file_binary(self) -> None:
        self.put("file", b"\x1b[1mcaf\xe9\x1b[0m\n")
        self.assertEqual(self.read_all("file"), ("\x1b[1mcafé\x1b[0m\n", True))

    def test_new_lines_of_a_one_byte_file_have_one_byte_a_character(self) -> None:
        file = self.put("file", "# coding: cp1252\nname = 'café'\n".encode("cp1252"))
        self.write("# coding: cp1252\nname = 'naïve €'\n")
        self.assertEqual(file.read_bytes(), "# coding: cp1252\nname = 'naïve €'\n".encode("cp1252"))

    def test_new_lines_of_a_file_that_is_mostly_utf_8_are_utf_8(self) -> None:
        file = self.put("file", "äöü\nß\n".encode() + b"\xff\n")
        self.write("äöü\nneu: ß\nÿ\n")
        self.assertEqual(file.read_bytes(), "äöü\nneu: ß\n".encode() + b"\xff\n")

    def test_text_that_does_not_fit_the_old_encoding_becomes_utf_8_and_the_answer_says_so(
        self,
    ) -> None:
        for content in ("café → 中\n", "café Ã©\n"):
            file = self.put("file", "café\n".encode("cp1252"))
            answer = self.write(content)
            self.assertEqual(file.read_bytes(), content.encode())
            self.assertRegex(
                answer, r'^Successfully wrote \d+ characters to "file"; it is UTF-8 now'
            )
            self.assertEqual(self.read_all("file"), (content, False))

    def test_a_mark_of_utf_8_stays_even_then(self) -> None:
        file = self.put("file", codecs.BOM_UTF8 + b"caf\xe9\xe9\n")
        self.write("中\n")
        self.assertEqual(file.read_bytes(), codecs.BOM_UTF8 + "中\n".encode())

    def test_as_many_stray_bytes_as_whole_characters_leave_a_file_utf_8(self) -> None:
        file = self.put("file", "é\n".encode() + b"\xff\n")
        self.write("éé\nÿ\n")
        self.assertEqual(file.read_bytes(), "éé\n".encode() + b"\xff\n")

    def test_marks_are_kept(self) -> None:
        for encoding in ("utf-8-sig", "utf-16"):
            file = self.put("file", "a\n".encode(encoding))
            self.write("é😀\n")
            self.assertEqual(file.read_bytes(), "é😀\n".encode(encoding))

    def test_an_empty_file_or_a_binary_one_becomes_utf_8(self) -> None:
        for old in (b"", b"\0", bytes(range(256)), b"\xff\xfe\0", b"\xff\xfe\0\0"):
            self.assertEqual(encode_like(old, "é")[0], "é".encode())

    def test_what_would_be_utf_8_anyway_is_not_said_to_be_it_now(self) -> None:
        for old, content in ((b"\0", "é"), (b"", "\ufeffx"), (b"x", "é\0")):
            self.assertEqual(encode_like(old, content), (content.encode(), True))

    def test_control_characters_of_windows_1252_make_no_file_binary(self) -> None:
        self.put("file", "\x81".encode() + b"\xe9\x81")
        self.assertEqual(self.read_all("file"), ("\x81é\x81", True))

    def test_a_file_that_only_its_parts_show_as_text_does_not_change_silently(self) -> None:
        file = self.put("file", b"\xe9" + b"a" * 60_000 + b"\x01" + b"b" * 60_000 + b"\xe9")
        content = self.read_all("file")[0]
        self.assertEqual(len(content), 120_003)
        self.assertIn("; it is UTF-8 now, because", self.write(content))
        self.assertEqual(file.read_bytes(), content.encode())

    def test_the_first_mebibyte_of_a_huge_file_says_its_encoding(self) -> None:
        line = "naïve café €\n".encode("cp1252")
        for mark, old, encoding in (
            (b"", line * (1 << 18), "cp1252"),
            (codecs.BOM_UTF16_LE, "é\n".encode("utf-16-le") * (1 << 19), "utf-16-le"),
            (b"", b"a" * ((1 << 20) - 1) + "é".encode() * 2, "utf-8"),
            (b"", b"a" * ((1 << 20) - 2) + b"\xe9aa", "cp1252"),
            (b"", b"a" * (1 << 20) + b"\xe9a", "utf-8"),
        ):
            file = self.put("file", mark + old)
            tracemalloc.start()
            self.assertNotIn("UTF-8", self.write("é"))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertEqual(file.read_bytes(), mark + "é".encode(encoding))
            self.assertLess(peak, 64 << 20)

    def test_a_new_file_is_utf_8(self) -> None:
        self.write("é")
        self.assertEqual((self.work / "file").read_bytes(), "é".encode())


if __name__ == "__main__":
    run_tests()
