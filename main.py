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

import sys

if sys.version_info < (3, 12):  # noqa: UP036  An older Python runs the file up to here.
    sys.exit("Python 3.12 or later is needed; this is " + sys.version.split()[0])

import io
import logging
import os
import re
import signal
import warnings
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from contextlib import suppress
from time import sleep
from typing import TYPE_CHECKING

import gemini
from functions.confine import what_is_not_enforced
from functions.text import one_line, visible

# Importing the SDK takes half a second. Only what needs it does so: --help answers at once.
if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import Content, Part
    from google.genai.types import GenerateContentResponse as Reply

PROJECT = os.path.dirname(os.path.realpath(__file__))
MAX_ITERATIONS = 20
MAX_UNUSABLE_REPLIES = 3
TIMEOUT_MILLISECONDS = 120_000  # of each read; a server that sends byte by byte never exceeds it
MAX_REQUEST_SECONDS = 240
DEFAULT_MODEL, REPLACEMENT_MODEL = "gemini-2.5-flash", "gemini-3.5-flash-lite"
ADDRESS = r"https?://([^\s/\[\]]+|\[[\da-fA-F:.]+\])(:\d+)?(/\S*)?(?<!/v1beta)(?<!/v1beta/)"
TOKENS = {"prompt": "prompt", "response": "candidates", "thinking": "thoughts"}
NUDGE = "Your last reply was empty or malformed. Call one of the functions, or answer in text."


def main() -> None:
    """Answer one prompt: arguments, client, the loop of at most 20 replies, the answer."""
    arguments = parse_arguments()
    client, model, spare = connect()
    messages = [gemini.turn("user", [{"text": arguments.prompt}])]
    if arguments.verbose:
        print(f"User prompt: {visible(arguments.prompt)}")
    unusable = 0  # replies in a row
    spent: Counter[str] = Counter()
    for iteration in range(1, MAX_ITERATIONS + 1):
        step = f"[{iteration}/{MAX_ITERATIONS}]"
        show_status(f"{step} {model}", arguments.verbose)
        reply, model = ask(client, messages, model, spare)
        if arguments.verbose:
            print_usage(f"{step} {model}", reply, spent)
        problem, may_pass = gemini.trouble(reply)
        unusable = unusable + 1 if problem else 0
        if problem:
            ask_again(messages, problem, may_pass, unusable)
        elif answer := generate_conversation(reply, messages, arguments.verbose, step):
            return print_conversation(answer, arguments.verbose)
    raise gemini.AgentError(f"no final answer after {MAX_ITERATIONS} iterations; try --verbose")


def parse_arguments() -> Namespace:
    """The prompt, as valid text, and --verbose. Exits with 2 on wrong usage."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what is to be done; - reads it from standard input")
    parser.add_argument("--verbose", action="store_true", help="show calls, results and tokens too")
    arguments, more = parser.parse_known_args()
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}; is the prompt in quotes?")
    # The bytes that were typed, whatever the locale made of them.
    prompt = arguments.prompt.encode("utf-8", "surrogateescape")
    if prompt == b"-":
        prompt = sys.stdin.buffer.read() if sys.stdin else b""
    arguments.prompt = prompt.decode("utf-8-sig", "replace")
    if not arguments.prompt.strip():
        parser.error("the prompt is empty")
    return arguments


def connect() -> tuple[Client, str, str]:
    """The client, its model, and the model to try if that is gone ("" if the user chose one)."""
    os.chdir(PROJECT)
    logging.disable()
    warnings.simplefilter("ignore")  # the SDK warns of each finish reason that is new to it
    key, chosen = read_settings()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # imports can lose a Ctrl-C
    from google.genai import Client, types

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    warn(what_is_not_enforced())
    options = types.HttpOptions(
        api_version="v1beta",
        timeout=TIMEOUT_MILLISECONDS,
        client_args={
            "follow_redirects": False,  # to another host they would carry the key
            "event_hooks": {"response": [gemini.raise_error_in_200]},
        },
    )
    try:
        client = Client(api_key=key, vertexai=False, http_options=options)
    except Exception as error:
        names = "SSL_CERT_FILE, HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
        raise gemini.AgentError(f"{names} cannot be used: {gemini.plain(error)}") from None
    return client, chosen or DEFAULT_MODEL, "" if chosen else REPLACEMENT_MODEL


def read_settings() -> tuple[str, str]:
    """The API key and GEMINI_MODEL. What the environment lacks, or has blank, comes from .env."""
    from dotenv import dotenv_values

    try:
        for name, value in dotenv_values(f"{PROJECT}/.env", encoding="utf-8-sig").items():
            if value and not os.environ.get(name, "").strip():
                os.environ[name] = value
    except ValueError:  # it cannot be decoded, or holds NULs, as UTF-16 does
        raise gemini.AgentError(".env is not UTF-8 text; save it as such") from None
    names = ("GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_GEMINI_BASE_URL")
    key, model, address = (os.environ.get(name, "").strip() for name in names)
    if not key:
        how = "put GEMINI_API_KEY=... into .env (see .env.example) or export it"
        raise RuntimeError(f"Gemini API key not set: {how}")  # the documented words
    if not re.fullmatch(r"[!#-&(-\[\]-~]+", key):  # printable ASCII without quotes or backslash
        raise gemini.AgentError("GEMINI_API_KEY holds characters that no key has; copy it again")
    if address and not re.fullmatch(ADDRESS, address):
        raise gemini.AgentError(f"GOOGLE_GEMINI_BASE_URL is wrong, or has /v1beta: {address}")
    return key, model


def ask(client: Client, messages: list[Content], model: str, spare: str) -> tuple[Reply, str]:
    """A reply and the model that gave it. Waits and tries again; raises AgentError to give up."""
    import call_function  # noqa: F401  Here no fault of ours looks like the service's.

    tries = 0
    while True:
        try:
            return generate_content(client, messages, model), model
        except Exception as error:  # the SDK lets the errors of its own libraries through
            failure = gemini.failure_of(error)
        if failure.is_unknown_model and spare not in ("", model):
            warn(f"{model} is not available; going on with {spare}")
            model = spare
            continue
        tries += 1
        if why := gemini.why_give_up(failure, tries):
            raise gemini.AgentError(f"{why}: {failure.words}")
        seconds = gemini.seconds_to_wait(failure, tries)
        warn(f"{failure.words}; try {tries + 1} of {gemini.MAX_TRIES} in {seconds:.1f} s")
        sleep(seconds)


def generate_content(client: Client, messages: list[Content], model: str = DEFAULT_MODEL) -> Reply:
    """The reply to one request: the whole conversation, the system prompt, the functions."""
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
    with gemini.time_limit(MAX_REQUEST_SECONDS):
        reply = client.models.generate_content(model=model, contents=messages, config=config)
    return gemini.checked(reply)


def ask_again(messages: list[Content], problem: str, may_pass: bool, unusable: int) -> None:
    """Prepare to ask again after an unusable reply, or raise AgentError if that will not help."""
    if not may_pass or unusable == MAX_UNUSABLE_REPLIES:
        raise gemini.AgentError(problem)
    if unusable == MAX_UNUSABLE_REPLIES - 1:
        messages.append(gemini.turn("user", [{"text": NUDGE}]))
    warn(f"{problem}; asking again")


def generate_conversation(reply: Reply, messages: list[Content], verbose: bool, step: str) -> str:
    """The answer in a reply, or "" if it called functions; then their responses are appended."""
    from call_function import call_function

    messages.append(gemini.model_turn(reply))
    responses: list[Part] = []
    for call in reply.function_calls or []:
        show_status(f"{step} {call.name}", verbose)
        responses += call_function(call, verbose).parts or []
    if responses:
        messages.append(gemini.turn("user", responses))
        return ""
    if (reason := gemini.finish_reason(reply)) not in ("STOP", ""):
        warn(f"the answer may not be whole: {reason}")
    return gemini.text_of(reply)


def print_conversation(answer: str, verbose: bool = False) -> None:
    """Print the answer. A reader that has closed the pipe wants no more of it."""
    show_status("")
    with suppress(BrokenPipeError):
        print("\nFinal response:" if verbose else "Final response:")
        print(visible(answer))


def print_usage(label: str, reply: Reply, spent: Counter[str]) -> None:
    """Add the tokens of one request to `spent`, and print both."""
    tokens = []
    for kind, field in TOKENS.items():
        spent[kind] += (now := getattr(reply.usage_metadata, f"{field}_token_count", 0) or 0)
        tokens.append(f"{kind} {now} ({spent[kind]} in total)")
    print(f"{label}. Tokens: {', '.join(tokens)}")


def warn(message: str) -> None:
    """Print one line on stderr, however long and wide the message; never the key."""
    if not message:
        return
    show_status("")
    key = os.environ.get("GEMINI_API_KEY", "").strip() or "\n"  # which no line holds
    with suppress(OSError):
        line = " ".join(message.split()).replace(key, "[GEMINI_API_KEY]")
        print(visible(line[:1000]), file=sys.stderr)


def show_status(text: str, verbose: bool = False) -> None:
    """Rewrite the status line, which only a terminal has; an empty text takes it away."""
    if not verbose and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with suppress(OSError):
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            line = one_line(text.encode("ascii", "backslashreplace").decode())  # for its width
            print(f"\r\x1b[K{line[: columns - 1]}", end="", file=sys.stderr, flush=True)


def run() -> int:
    """Call main() and turn what it raises into one line on stderr. Returns the exit code."""
    line, code = "", 1
    try:
        main()
        code = 0
    except SystemExit as early:  # of argparse, or of a signal
        code = int(early.code or 0)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        line, code = "Interrupted", 130
    except BrokenPipeError:
        pass  # the reader of the trace has gone
    except gemini.AgentError as error:
        line = f"Error: {error}"
    except ModuleNotFoundError as error:
        line = f"ModuleNotFoundError: {error}; run: pip install -r requirements.txt"
    except OSError as error:
        line = f"Error: {error.filename or 'standard input or output'}: {error.strerror}"
    except Exception as error:
        line = f"{type(error).__name__}: {error}"
    warn(line)
    return code


def prepare() -> None:
    """Make all text printable, and let SIGTERM and SIGHUP (unless under nohup) end the run."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace", line_buffering=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide the codes of scripts


if __name__ == "__main__":
    prepare()
    exit_code = run()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(exit_code)  # nothing is left to clean up, and to take the interpreter apart is slow
