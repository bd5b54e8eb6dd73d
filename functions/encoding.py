"""Which characters the bytes of a file are, so that what is read and written back changes no byte.

A text is UTF-8, or UTF-16 if it begins with a mark. Here it is "raw": a byte that is not UTF-8 is
half a surrogate pair. A model sees what the byte is in Windows-1252; a half of UTF-16, U+FFFD."""

import codecs
import re
from collections import defaultdict

MAX_OLD_BYTES = 1 << 20  # of a file that is replaced: more than a model can send back
ERRORS = {"utf-8": "surrogateescape", "utf-16-le": "surrogatepass", "utf-16-be": "surrogatepass"}
UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
HALF = re.compile(r"[\ud800-\udfff]")
ONE_BYTE = re.compile(r"[\x00-\x7f\ud800-\udfff]+")
NOT_IN_TEXT = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
# Windows-1252 lacks five bytes: they stay the control characters of their numbers.
SHOWN = {0xDC00 + n: bytes([n]).decode("cp1252", "ignore") or chr(n) for n in range(128, 256)}
RAW = {ord(character): chr(half) for half, character in SHOWN.items()}


def mark_of(head: bytes, size: int) -> tuple[bytes, str]:
    """The mark that a file of `size` bytes begins with (b"" if none), and its encoding."""
    if head[:2] in UTF_16 and size % 2 == 0:
        return head[:2], UTF_16[head[:2]]
    return codecs.BOM_UTF8 if head.startswith(codecs.BOM_UTF8) else b"", "utf-8"


def decode(data: bytes, encoding: str, is_end: bool = True) -> str:
    """The raw text of some data; if more follows, without a character that is cut at its end."""
    return codecs.getincrementaldecoder(encoding)(ERRORS[encoding]).decode(data, is_end)


def encode(raw: str, encoding: str) -> bytes:
    return raw.encode(encoding, ERRORS[encoding])


def shown(raw: str, encoding: str) -> str:
    """What a model sees of a raw text."""
    return raw.translate(SHOWN) if encoding == "utf-8" else HALF.sub("\ufffd", raw)


def is_binary(raw: str) -> bool:
    """Whether it is not text: it holds NULs, or control characters beside stray bytes."""
    return "\0" in raw or bool(HALF.search(raw) and NOT_IN_TEXT.search(raw))


def is_read_as(data: bytes, content: str) -> bool:
    """Whether a file of these bytes is shown as this content."""
    mark, encoding = mark_of(data, len(data))
    raw = decode(data[len(mark) :], encoding)
    return not is_binary(raw) and shown(raw, encoding) == content


def encode_like(old: bytes, content: str) -> tuple[bytes, bool]:
    """The bytes that write `content` over `old`, and whether the encoding stays. A line that was
    shown before keeps its bytes; new lines are Windows-1252 if most of the file's other characters
    were. If those bytes would be read as another text, all of it becomes UTF-8."""
    mark, encoding = mark_of(old, len(old))
    raw = decode(old[len(mark) :], encoding, len(old) < MAX_OLD_BYTES)
    if encoding == "utf-8" and not HALF.search(raw):
        return mark + content.encode(), True  # nothing to keep; the rest would take 10 times longer
    whole, stray = ONE_BYTE.sub("", raw), len(raw) - len(HALF.sub("", raw))
    is_one_byte = encoding == "utf-8" and stray > len(whole)
    kept = defaultdict(list)
    for line in reversed(raw.split("\n")):
        kept[shown(line, encoding)].append(line)
    new = "\n".join(
        kept[line].pop() if kept[line] else line.translate(RAW if is_one_byte else {})
        for line in content.split("\n")
    )
    data = mark + encode(new, encoding)
    is_mixed = is_one_byte and not set(ONE_BYTE.sub("", new)) <= set(whole)
    if not is_binary(raw) and not is_mixed and is_read_as(data, content):
        return data, True
    plain = (mark if encoding == "utf-8" else b"") + content.encode()
    return plain, data == plain
