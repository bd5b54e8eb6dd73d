"""How the service behaves: which failures are worth another try, and what a reply holds."""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from functions.text import valid

if TYPE_CHECKING:
    from google.genai.types import Content
    from google.genai.types import GenerateContentResponse as Reply

MAX_TRIES = 4
MAX_WAIT_SECONDS = 60
SECONDS = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
PASSING = {408, 429, 499}  # the codes below 500 that another try can help
USED_UP = r'PerDay|limit: 0\b|"quotaValue": "0"|deplet|spending cap|spend limit'
# Exceptions by the names of their classes: which library sends the requests is the SDK's affair.
NO_REPLY = {"HTTPError", "TimeoutError"}
NO_REQUEST = {"UnsupportedProtocol", "InvalidURL", "SSLCertVerificationError", "ImportError"}

# Reasons to end a reply: the service's own decision, and the model's mistake.
STOPPED = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
STOPPED |= {"IMAGE_SAFETY", "MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"}
UNUSABLE = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"}
# What a part can hold. The call comes last, because the signature goes with the last.
KINDS = ["text", "inline_data", "file_data", "executable_code", "code_execution_result"]
KINDS += ["tool_call", "tool_response", "function_call"]


class AgentError(Exception):
    """Ends the run; its text tells the user why."""


class Failure(NamedTuple):
    """A request without a usable reply, in the same terms whichever exception told of it."""

    words: str  # for the user: no class, no link
    code: int = 0  # HTTP's; 0 if no reply came, or none that can be read
    body: str = ""  # the server's error as JSON, of any shape
    delay: float = 0  # the seconds that the server asks to wait
    is_unknown_model: bool = False  # another 404 is about the address
    is_lasting: bool = False  # a setting is wrong, and no other try can mend it


def why_give_up(failure: Failure, tries: int) -> str:
    """Why not to try again after this many tries, or "". The first row that applies decides."""
    code, body, delay = failure.code, failure.body, failure.delay
    used_up = code == 402 or (code == 429 and re.search(USED_UP, body))
    key_rejected = code in (401, 403) or "API_KEY_INVALID" in body
    rows = (
        (failure.is_lasting, "Gemini cannot be asked (GOOGLE_GEMINI_BASE_URL, SSL_CERT_FILE)"),
        (used_up, "the quota or credit is used up"),
        (key_rejected, "Gemini rejected the API key (GEMINI_API_KEY)"),
        (failure.is_unknown_model, "there is no such model; GEMINI_MODEL chooses another"),
        (0 < code < 500 and code not in PASSING, "the request was refused"),
        (tries >= MAX_TRIES, f"given up after {MAX_TRIES} tries"),
        (delay > MAX_WAIT_SECONDS, f"Gemini asks to wait {delay:.0f} s, which is too long"),
    )
    return next((why for applies, why in rows if applies), "")


def seconds_to_wait(failure: Failure, tries: int) -> float:
    """The seconds until the next try: growing, with jitter, and at least what is asked for."""
    return max(failure.delay, 2.0 ** (tries - 1) * random.uniform(0.75, 1.25))  # noqa: S311


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of the SDK, or of a library below it, stands for."""
    from google.genai.errors import APIError

    if not isinstance(error, APIError):
        return lost(error)
    body = json.dumps(error.details, ensure_ascii=False)
    told = error.message if isinstance(error.message, str) and error.message else body
    words = f"{error.code} {error.status or ''}".strip() + ": " + re.sub("<[^>]*>", " ", told)
    is_unknown_model = (error.code, error.status) == (404, "NOT_FOUND")
    return Failure(words, error.code, body, asked_delay(error.response, body), is_unknown_model)


def asked_delay(response: Any, body: str) -> float:
    """The seconds that the server asks to wait, in Retry-After, RetryInfo or its message, or 0."""
    from google.protobuf.duration_pb2 import Duration

    header = getattr(response, "headers", {}).get("retry-after", "")
    delays, info = [float(header) if header.isdecimal() else 0.0], Duration()
    for value in re.findall(r'"retryDelay": "([^"]*)"', body):
        with suppress(ValueError):  # another form asks for none
            info.FromJsonString(value)
            delays.append(info.ToNanoseconds() / 1e9)
    for words in re.findall(r"(?:retry|try again) in ((?:[\d.]+ ?(?:h|ms|m|s) ?)+)", body):
        parts = re.findall(r"(\d+(?:\.\d+)?) ?(h|ms|m|s)", words)
        delays.append(sum(float(number) * SECONDS[unit] for number, unit in parts))
    return max(delays)


def lost(error: Exception) -> Failure:
    """A request without a reply, or with one that cannot be read."""
    causes: list[BaseException] = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    is_reply = not kinds & (NO_REPLY | NO_REQUEST)
    words = "the reply cannot be read" if is_reply else f"no reply: {plain(error)}"
    return Failure(words, is_lasting=bool(kinds & NO_REQUEST))


def plain(error: Exception) -> str:
    """The first sentence of an error, without its number and the line of C that it came from."""
    sentence = re.split(r"\. |\n", str(error))[0]
    return re.sub(r"^\[[^]]*\] *| *\(_ssl\.c:\d+\)", "", sentence)


def raise_error_in_200(response: Any) -> None:
    """For the HTTP client to call with each response: gateways send errors with the status 200."""
    from google.genai.errors import APIError

    if b'"error"' in response.read() and response.status_code == 200:
        with suppress(ValueError, RecursionError):  # the SDK will meet the same
            body = response.json()
            if isinstance(body, dict) and body.get("error") and not body.get("candidates"):
                code = body["error"].get("code") if isinstance(body["error"], dict) else None
                raise APIError(code if isinstance(code, int) else 500, body, response)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the `with` block takes longer; an alarm interrupts any wait."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"none within {seconds} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def turn(role: str, parts: list[Any]) -> Content:
    """One turn of the conversation. Its parts are Part objects or dicts with the same fields."""
    from google.genai import types

    return types.Content.model_validate({"role": role, "parts": parts})


def checked(reply: Reply) -> Reply:
    """The same reply, or ValueError if it is empty or nested too deep to be sent back."""
    if not reply.model_dump(mode="json", exclude={"sdk_http_response"}, exclude_none=True):
        raise ValueError
    return reply


def text_of(reply: Reply) -> str:
    """The text of a reply without its thoughts; "" if that is blank."""
    text = "".join(part.text or "" for part in reply.parts or [] if not part.thought)
    return text if text.strip() else ""


def finish_reason(reply: Reply) -> str:
    """The name of the reason for which the reply ended; "" if none came."""
    candidates = reply.candidates
    return candidates[0].finish_reason.name if candidates and candidates[0].finish_reason else ""


def trouble(reply: Reply) -> tuple[str, bool]:
    """Why a reply cannot be used ("" if it can), and whether asking again may help."""
    reason, feedback = finish_reason(reply), reply.prompt_feedback
    calls, text = reply.function_calls or [], text_of(reply)
    if feedback and feedback.block_reason and not reply.candidates:
        return f"Gemini blocked the prompt: {feedback.block_reason.name}", False
    if reason in STOPPED:
        return f"Gemini stopped its reply: {reason}", False
    if reason == "MAX_TOKENS" and (calls or not text):
        return f"Gemini's reply was cut off: {reason}", False
    if reason in UNUSABLE or not (calls or text) or not all(call.name for call in calls):
        return f"unusable reply, no text and no valid call: {reason or 'no reason'}", True
    return "", False


def model_turn(reply: Reply) -> Content:
    """The reply as a turn to send back: as it came, signatures included, except that text becomes
    valid and each part holds exactly one kind of data, because the API refuses anything else."""
    parts: list[dict[str, Any]] = []
    for part in [each.model_dump(exclude_none=True) for each in reply.parts or []]:
        marks = {mark: part[mark] for mark in ("thought", "thought_signature") if mark in part}
        kinds = [{kind: part[kind]} for kind in KINDS if part.get(kind) not in (None, "")]
        *others, last = kinds or [{"text": ""}]
        parts += [*others, last | marks] if part else []
    return turn("model", valid(parts))
