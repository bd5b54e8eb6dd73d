"""Let Gemini work on the files in ./calculator until it has an answer.

exit codes:
  0    answered
  1    failed, or no answer after 20 iterations
  2    wrong usage
  130  interrupted with Ctrl-C

environment variables (also read from .env beside main.py):
  GEMINI_API_KEY          the API key; required
  GEMINI_MODEL            another model than gemini-2.5-flash
  GOOGLE_GEMINI_BASE_URL  another server that speaks Gemini's REST format
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn

from functions.text import one_line, valid, visible

# The SDK takes a second to import. Only what needs it does, so that --help answers at once.
if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import Content, FunctionCall, GenerateContentResponse, Part

PROJECT = os.path.dirname(os.path.realpath(__file__))
STARTED = monotonic()
MAX_ITERATIONS = 20
MAX_UNUSABLE_REPLIES = 3
MAX_TRIES = 4
MAX_WAIT_SECONDS = 60
MAX_LINE = 1000
TIMEOUT_MILLISECONDS = 120_000  # for each read; a server that sends byte by byte never meets it
MAX_REQUEST_SECONDS = 240
DEFAULT_MODEL, REPLACEMENT_MODEL = "gemini-2.5-flash", "gemini-3.5-flash-lite"
NUDGE = "Your last reply was empty or malformed. Call one of the functions, or answer in text."

# Finish reasons: on purpose, and by mistake.
STOPPED = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
STOPPED |= {"IMAGE_SAFETY", "MODEL_ARMOR"}
UNUSABLE = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"}
# HTTP codes, and what a lost or garbled reply raises, by name: the HTTP client is the SDK's affair.
TEMPORARY = {408, 429, 500, 502, 503, 504, "HTTPError", "JSONDecodeError", "UnicodeDecodeError"}
TEMPORARY |= {"ValidationError", "TypeError", "ConnectionError", "TimeoutError"}


class Error(Exception):
    """A failure that ends the run; its text is what the user reads."""


def main() -> None:
    """Answer one prompt: arguments, client, the loop of at most 20 replies, the exit code."""
    with failures_as_exit_codes():
        arguments = parse_arguments()
        client, models = connect()
        messages = [turn("user", [{"text": arguments.prompt}])]
        if arguments.verbose:
            print(f"User prompt: {visible(arguments.prompt)}")
        unusable: list[str] = []  # the reasons, since the last reply that was of use
        spent: Counter[str] = Counter()
        for iteration in range(1, MAX_ITERATIONS + 1):
            step = f"[{iteration}/{MAX_ITERATIONS}]"
            show_status(f"{step} {models[0]}", arguments.verbose)
            response = ask(client, messages, models)
            if arguments.verbose:
                print_usage(f"{step} {models[0]}", response, spent)
            if reason := why_unusable(response):
                ask_again(messages, unusable, reason)
                continue
            unusable.clear()
            if answer := generate_conversation(response, messages, arguments.verbose, step):
                return print_conversation(answer, arguments.verbose)
        raise Error(f"no final answer after {MAX_ITERATIONS} iterations; see them with --verbose")


def parse_arguments() -> argparse.Namespace:
    """The prompt, as valid text, and --verbose. Exits with 2 on wrong usage."""
    about, _, details = str(__doc__).partition("\n\n")
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, epilog=details, formatter_class=layout)
    parser.add_argument("prompt", help="what is to be done; - reads it from standard input")
    parser.add_argument("--verbose", action="store_true", help="show calls, results and tokens too")
    arguments = parser.parse_args()
    # The bytes that were typed, whatever the locale made of them.
    prompt = arguments.prompt.encode("utf-8", "surrogateescape")
    if prompt == b"-":
        prompt = sys.stdin.buffer.read() if sys.stdin else b""
    arguments.prompt = prompt.decode("utf-8-sig", "replace")
    if not arguments.prompt.strip():
        parser.error("the prompt is empty")
    return arguments


def connect() -> tuple[Client, list[str]]:
    """The client of the run, and its models: the first one, and the next where that is gone."""
    os.chdir(PROJECT)
    load_environment()
    key = api_key()
    with ctrl_c_at_once():
        import logging

        from google import genai

        from functions.confine import what_is_not_held

    warn(what_is_not_held())
    warnings.simplefilter("ignore")  # the SDK warns of each finish reason that it does not know
    logging.getLogger("google_genai").setLevel(logging.CRITICAL)
    options = genai.types.HttpOptions(
        api_version="v1beta",
        timeout=TIMEOUT_MILLISECONDS,
        client_args={"follow_redirects": False},  # to another host they would carry the key
    )
    client = genai.Client(api_key=key, vertexai=False, http_options=options)
    chosen = os.environ.get("GEMINI_MODEL", "").strip()
    return client, [chosen] if chosen else [DEFAULT_MODEL, REPLACEMENT_MODEL]


@contextmanager
def ctrl_c_at_once() -> Iterator[None]:
    """Let Ctrl-C end the program where it is: in imports, a KeyboardInterrupt can get lost."""

    def end(*_: object) -> None:
        warn("Interrupted")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before if before == signal.SIG_IGN else end)
    yield
    signal.signal(signal.SIGINT, before)


def api_key() -> str:
    key = os.environ.get("GEMINI_API_KEY", "").strip()
    if not key:
        how = "put GEMINI_API_KEY=... into .env (see .env.example) or export it"
        raise RuntimeError(f"Gemini API key not set: {how}")
    if not re.fullmatch(r"[!#-&(-\[\]-~]+", key):  # printable ASCII without quotes or backslash
        raise Error("GEMINI_API_KEY holds characters that no key has; copy it again")
    return key


def load_environment() -> None:
    """Put what .env says into the environment, where that says nothing, or only blanks."""
    from dotenv import dotenv_values

    try:
        values = dotenv_values(os.path.join(PROJECT, ".env"), encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Error(".env is not UTF-8 text; save it as such") from None
    for name, value in values.items():
        if value and not os.environ.get(name, "").strip():
            os.environ[name] = value


def turn(role: str, parts: list[Any]) -> Content:
    """One content of the conversation, from its parts or from what they are made of."""
    from google.genai import types

    return types.Content.model_validate({"role": role, "parts": parts})


def ask(client: Client, messages: list[Content], models: list[str]) -> GenerateContentResponse:
    """One request, made again while that may help. A model that is gone leaves the list, if
    another follows. Raises Error."""
    tries = 0
    while True:
        try:
            with time_limit(MAX_REQUEST_SECONDS):
                return generate_content(client, messages, models[0])
        except Exception as error:  # the SDK lets errors of HTTP, JSON and pydantic through
            if is_gone(error) and len(models) > 1:
                warn(f"{models.pop(0)} is not available; going on with {models[0]}")
                continue
            tries += 1
            seconds = seconds_to_wait(error, tries, models[0])
            warn(f"{reason_of(error)}; try {tries + 1} of {MAX_TRIES} in {seconds:.1f} s")
            sleep(seconds)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError where the body takes longer; an alarm interrupts whatever waits."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"no whole reply within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def generate_content(
    client: Client, messages: list[Content], model: str = DEFAULT_MODEL
) -> GenerateContentResponse:
    """One request: the whole conversation, the system prompt, the functions."""
    from google.genai import types

    from call_function import available_functions
    from prompts import system_prompt

    config = types.GenerateContentConfig(
        system_instruction=system_prompt,
        tools=[available_functions],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    name = model.removeprefix("models/")
    if name.startswith("gemini-2"):
        config.temperature = 0  # later models ignore it, or will refuse it
    if name == REPLACEMENT_MODEL:
        # Its own default, minimal, ends work of several steps early.
        config.thinking_config = types.ThinkingConfig(thinking_level=types.ThinkingLevel.MEDIUM)
    response = client.models.generate_content(model=model, contents=list(messages), config=config)
    if not response.model_dump(exclude={"sdk_http_response"}, exclude_none=True):
        raise ConnectionError("the server answered without a reply")
    return response


def why_unusable(response: GenerateContentResponse) -> str:
    """Why a reply has nothing to go on with, or "". Raises Error where the service stopped on
    purpose: to ask again would not help."""
    feedback = response.prompt_feedback
    if feedback and feedback.block_reason:
        raise Error(f"Gemini blocked the prompt: {feedback.block_reason.name}")
    reason = finish_reason(response)
    calls, text = calls_and_text(response)
    if reason in STOPPED:
        raise Error(f"Gemini stopped its reply: {reason}")
    if reason == "MAX_TOKENS" and not text:
        raise Error("Gemini's reply was cut off before any text: MAX_TOKENS")
    if reason in UNUSABLE or not (calls or text) or not all(call.name for call in calls):
        return reason or "no finish reason"
    return ""


def finish_reason(response: GenerateContentResponse) -> str:
    candidates = response.candidates
    return candidates[0].finish_reason.name if candidates and candidates[0].finish_reason else ""


def parts_of(response: GenerateContentResponse) -> list[Part]:
    content = response.candidates[0].content if response.candidates else None
    return (content and content.parts) or []


def calls_and_text(response: GenerateContentResponse) -> tuple[list[FunctionCall], str]:
    """The function calls of a reply, and its text without the thoughts; "" where that is blank."""
    parts = parts_of(response)
    calls = [part.function_call for part in parts if part.function_call]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    return calls, text if text.strip() else ""


def ask_again(messages: list[Content], unusable: list[str], reason: str) -> None:
    """Prepare to ask once more after an unusable reply, the second time in other words."""
    unusable.append(reason)
    if len(unusable) == MAX_UNUSABLE_REPLIES:
        raise Error(f"{len(unusable)} unusable replies in a row, the last: {reason}")
    if len(unusable) == MAX_UNUSABLE_REPLIES - 1:
        messages.append(turn("user", [{"text": NUDGE}]))
    warn(f"unusable reply ({reason}); asking again")


def generate_conversation(
    response: GenerateContentResponse,
    messages: list[Content],
    verbose: bool = False,
    step: str = "",
) -> str:
    """Do what a reply asks for: its content appended, its calls run, their responses appended. The
    content goes back as it came, thought signatures and all, but for parts without a field and for
    text that no JSON can carry. Returns the answer, or "" where there were calls."""
    from call_function import call_function

    calls, text = calls_and_text(response)
    if finish_reason(response) == "MAX_TOKENS":
        warn("the answer is cut off: MAX_TOKENS")
        return text
    parts = [part.model_dump(exclude_none=True) for part in parts_of(response)]
    messages.append(turn("model", valid(list(filter(None, parts)))))
    responses: list[Part] = []
    for call in calls:
        show_status(f"{step} {call.name}", verbose)
        responses += call_function(call, verbose).parts or []
    if responses:
        messages.append(turn("user", responses))
    return "" if calls else text


def print_conversation(answer: str, verbose: bool = False) -> None:
    """The answer, on stdout; whoever closed that has read enough."""
    show_status("")
    with suppress(BrokenPipeError):
        print("\nFinal response:" if verbose else "Final response:")
        print(visible(answer))


def print_usage(label: str, response: GenerateContentResponse, spent: Counter[str]) -> None:
    """The tokens of one request, and of the run so far, to which they are added."""
    usage = response.usage_metadata
    counts = {
        "prompt": (usage and usage.prompt_token_count) or 0,
        "response": (usage and usage.candidates_token_count) or 0,
        "thinking": (usage and usage.thoughts_token_count) or 0,
    }
    spent.update(counts)
    tokens = ", ".join(f"{kind} {n} ({spent[kind]} in all)" for kind, n in counts.items())
    print(f"{label}, {monotonic() - STARTED:.1f} s. Tokens: {tokens}")


def seconds_to_wait(error: Exception, tries: int, model: str) -> float:
    """How long to wait before the next try. Raises Error where none is due."""
    code, text = getattr(error, "code", None), str(error)  # an APIError's text holds its details
    kinds = {code, *(kind.__name__ for kind in type(error).__mro__)}
    if code == 402 or (code == 429 and re.search(r"PerDay|limit: 0\b|'quotaValue': '0'", text)):
        verdict = "the quota or credit is used up"
    elif code in (401, 403) or "API_KEY_INVALID" in text:
        verdict = "Gemini rejected the API key (GEMINI_API_KEY)"
    elif is_gone(error):
        verdict = f"there is no model {model}; GEMINI_MODEL chooses another"
    elif not TEMPORARY & kinds or "UnsupportedProtocol" in kinds:
        verdict = "the request was refused"
    elif tries == MAX_TRIES:
        verdict = f"given up after {MAX_TRIES} tries"
    elif (asked := asked_delay(error)) > MAX_WAIT_SECONDS:
        verdict = f"Gemini asks to wait {asked:.0f} s, and {MAX_WAIT_SECONDS} s is the most"
    else:
        return asked or 2 ** (tries - 1) * random.uniform(0.75, 1.25)  # noqa: S311
    raise Error(f"{verdict}: {reason_of(error)}")


def is_gone(error: Exception) -> bool:
    """Whether the service does not know the model; another 404 is about the address."""
    return (getattr(error, "code", 0), getattr(error, "status", "")) == (404, "NOT_FOUND")


def asked_delay(error: Exception) -> float:
    """The seconds that the server asks to wait, in RetryInfo or Retry-After; 0 if it does not."""
    from google.protobuf.duration_pb2 import Duration

    delay = Duration()
    for value in re.findall(r"'retryDelay': '([^']*)'", str(error)):
        with suppress(ValueError):
            delay.FromJsonString(value)
    header = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    return max(delay.ToNanoseconds() / 1e9, float(header) if header.isdecimal() else 0)


def reason_of(error: Exception) -> str:
    """An error in words: the server's own message, if there is one."""
    if message := getattr(error, "message", None):
        return f"{getattr(error, 'code', '')} {getattr(error, 'status', '')}: {message}"
    return f"{type(error).__name__}: {error}"


@contextmanager
def failures_as_exit_codes() -> Iterator[None]:
    """Turn whatever is raised into one line on stderr, and exit."""
    code, line = 1, ""
    prepare()
    try:
        yield
        code = 0
    except SystemExit as early:
        code = int(early.code or 0)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, lambda *_: None)  # once is enough
        code, line = 130, "Interrupted"
    except BrokenPipeError:
        pass  # whoever read the trace has gone
    except ModuleNotFoundError as error:
        line = f"ModuleNotFoundError: {error}; run: pip install -r requirements.txt"
    except Exception as error:
        line = f"{type(error).__name__}: {error}"
    warn(line)
    leave(code)


def prepare() -> None:
    """Print what the console can show, and nothing into a closed stream; clean up when told to
    end; and let a child's exit code count, whoever ignored it before."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace", line_buffering=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def leave(code: int) -> NoReturn:
    """Exit, with nothing left over that Python would try to do on its way out, and complain of."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def warn(message: str) -> None:
    """One line on stderr, however long and wide the message; never the key."""
    if not message:
        return
    show_status("")
    key = os.environ.get("GEMINI_API_KEY", "").strip()
    if key:
        message = message.replace(key, "[GEMINI_API_KEY]")
    with suppress(OSError):
        print(visible(" ".join(message.split())[:MAX_LINE]), file=sys.stderr)


def show_status(text: str, verbose: bool = False) -> None:
    """Rewrite the status line; an empty text takes it away. Only a terminal has one."""
    if not verbose and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with suppress(OSError):
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            line = one_line(valid(text))[: columns - 1]
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
