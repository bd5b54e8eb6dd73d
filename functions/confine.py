"""Give up every right that a script of the model does not need, then become the script.

    python -I -S confine.py ROOT SCRIPT ARGS...

The kernel holds what is given up (Landlock for files, seccomp for system calls, resource limits),
so it holds for native code too, and nothing brings it back. run_python_file starts it as LAUNCHER,
which imports it instead, so that it is not compiled anew each time (3 ms of 30).

Held, on Linux 5.13 or later, on x86_64 and aarch64:
- files: it reads the Python installation, site-packages and the system's libraries and tables
  (`readable`); it reads and writes ROOT and its own temporary directory (TMPDIR); it opens nothing
  else, .env included;
- it makes no link, FIFO, socket or device, and changes no mode, owner, time or attribute (those
  calls answer success and do nothing, as shutil and tarfile insist on them);
- no network and no socket, but for the pair that asyncio wakes itself with;
- one process with its threads: it executes nothing, starts none, and signals, traces, limits and
  slows down none;
- no privilege, no namespace, no kernel keyring, no shared memory, queue or semaphore;
- LIMITS for CPU time, memory, the size of a file and open files; no core dump;
- it dies with the agent. Its time, its threads and its disk in all, run_python_file watches.

Not held:
- whether a file outside exists, its size, its times and where a link points can be seen: nothing
  mediates stat and readlink;
- hard links to outside that were in ROOT before are followed;
- what is in ROOT afterwards is untrusted: to run it, or git in it, is to run the model's code;
- on Landlock before version 6 (Linux 6.12) some things rest on seccomp alone; on version 1 a rename
  from one directory to another fails;
- faults of the kernel itself.
"""

from __future__ import annotations

# What is imported here each run pays for: contextlib alone would cost 4 ms of 30.
import ctypes
import errno
import os
import resource
import site
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = {
    resource.RLIMIT_CPU: (30, 31),  # SIGXCPU, which names the limit; a second later SIGKILL
    resource.RLIMIT_AS: (2 << 30, 2 << 30),
    resource.RLIMIT_FSIZE: (64 << 20, 64 << 20),
    resource.RLIMIT_NOFILE: (256, 256),
    resource.RLIMIT_CORE: (0, 0),
    resource.RLIMIT_SIGPENDING: (256, 256),
}
IMPORT = "import sys; sys.path.append(sys.argv.pop(1)); import confine; confine.main()"
LAUNCHER = ["-I", "-S", "-c", IMPORT, os.path.dirname(os.path.abspath(__file__))]
# How the launcher says that the rights could not be given up, and that the script did not run.
NOT_CONFINED, FAILURE = 97, "confine.py: "

# System calls: name, number on x86_64 (the kernel's asm/unistd_64.h) and on aarch64 (its
# asm-generic/unistd.h). The key is the error that they answer; 0 is success, with nothing done.
MACHINES = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}  # column, AUDIT_ARCH
ANSWERED = {
    errno.EPERM: """
        fork 57 -, vfork 58 -, execveat 322 281, ptrace 101 117, process_vm_readv 310 270,
        process_vm_writev 311 271, pidfd_getfd 438 438, pidfd_send_signal 424 424, tkill 200 130,
        setpriority 141 140, ioprio_set 251 30, sched_setparam 142 118,
        sched_setscheduler 144 119, sched_setaffinity 203 122, sched_setattr 314 274,
        socket 41 198, bind 49 200, connect 42 203, listen 50 201, unshare 272 97, setns 308 268,
        statmount 457 457, listmount 458 458, bpf 321 280, perf_event_open 298 241,
        userfaultfd 323 282, io_uring_setup 425 425, io_setup 206 0, add_key 248 217,
        request_key 249 218, keyctl 250 219, memfd_create 319 279, memfd_secret 447 447,
        mq_open 240 180, shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193,
        semctl 66 191, semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188,
        msgctl 71 187, inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27,
        fanotify_init 300 262, open_by_handle_at 304 265, truncate 76 45, link 86 -, linkat 265 37
    """,
    # These keep in memory, where no filter looks, what is asked of clone and openat below.
    errno.ENOSYS: "clone3 435 435, openat2 437 437",
    # Attributes could be read of any file; what is allocated unwritten, nobody counts.
    errno.ENOTSUP: """
        getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12,
        flistxattr 196 13, getxattrat 464 464, listxattrat 465 465, fallocate 285 47
    """,
    # shutil and tarfile insist on these.
    0: """
        chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -,
        fchown 93 55, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -,
        utimensat 280 88, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14,
        lremovexattr 198 15, fremovexattr 199 16, setxattrat 463 463, removexattrat 466 466,
        file_setattr 469 469
    """,
}
# Allowed only where the argument of that index has one of the values (SELF: its own process id).
SELF = -1
ONLY_WITH = {
    "clone 56 220": (0, (0x3D0F00, 0x7D0F00)),  # the flags with which C libraries start a thread
    "socketpair 53 199": (1, (0o2000001,)),  # SOCK_STREAM | SOCK_CLOEXEC, for asyncio
    "prlimit64 302 261": (0, (0, SELF)),
    "kill 62 129": (0, (SELF,)),
    "tgkill 234 131": (0, (SELF,)),
    "rt_sigqueueinfo 129 138": (0, (SELF,)),
    "rt_tgsigqueueinfo 297 240": (0, (SELF,)),
    "close_range 436 436": (2, (0, 4)),  # not CLOSE_RANGE_UNSHARE
    "prctl 157 167": (0, (15, 16, 39)),  # thread names, PR_GET_NO_NEW_PRIVS
    # Descriptors, their flags, locks; no owner, signal, lease, notice or size of a pipe.
    "fcntl 72 25": (1, (*range(8), 36, 37, 38, 1030)),
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FICLONE; no owner, no attribute.
    "ioctl 16 29": (1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409)),
}
# The index of the mode with which these make a file: not setuid, not setgid.
WITH_MODE = {
    "open 2 -": 2,
    "creat 85 -": 1,
    "openat 257 56": 3,
    "mknod 133 -": 1,
    "mknodat 259 33": 2,
}
EXECVE, SETUID_BITS = "execve 59 221", 0o6000

# Rights over files are consecutive bits; how many there are says the version of Landlock.
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16, 8: 16, 9: 17}
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_DIR, MAKE_REG, REFER, TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
READ = EXECUTE | READ_FILE | READ_DIR
CHANGE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
WORK = READ_FILE | READ_DIR | CHANGE
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
REFUSE = ERRNO | errno.EPERM
LOAD, EQUAL, AT_LEAST, HAS_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Give up the rights, in the order in which each still allows the next; then run the script."""
    root, script, *arguments = sys.argv[1:]
    try:
        limit_resources()
        die_with(int(os.environ.pop("AGENT_PID", os.getppid())))
        prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
        restrict_files((root, os.environ["TMPDIR"]))
        drop_capabilities()
        interpreter = at_secret_address(os.fsencode(sys.executable))
        filter_system_calls(interpreter)
        execute(interpreter, [sys.executable, "-s", script, *arguments])
    except Exception as error:
        print(f"{FAILURE}{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(NOT_CONFINED)


def landlock_version() -> int:
    """The version of Landlock that the kernel offers; 0 where it or the machine has none.

    Raises OSError where the kernel has it and refuses it: then nothing is to run.
    """
    if sys.platform != "linux" or os.uname().machine not in MACHINES or sys.maxsize < 1 << 32:
        return 0
    try:
        return system_call(444, None, 0, 1)  # landlock_create_ruleset, for its version
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def what_is_not_held() -> str:
    """A warning, where the kernel cannot confine; "" where it can, or refuses to."""
    try:
        can_confine = landlock_version() > 0
    except OSError:
        can_confine = True
    warning = (
        "Warning: this system cannot confine scripts: they can read and change your files, use the "
        "network and start programs. Only key, input and time are kept from them."
    )
    return "" if can_confine else warning


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """The result of a system call that the standard library does not offer; OSError if it fails."""
    passed = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, value: int) -> None:
    if libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def die_with(agent: int) -> None:
    """Be killed when the agent ends, and not run at all if it has ended by now."""
    prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != agent:
        raise ProcessLookupError("the agent has ended")


def limit_resources() -> None:
    """Each limit, or the one that holds already, if that is lower."""
    for kind, ours in LIMITS.items():
        held = resource.getrlimit(kind)[1]
        soft, hard = (each if held == resource.RLIM_INFINITY else min(each, held) for each in ours)
        resource.setrlimit(kind, (soft, hard))


def restrict_files(writable: tuple[str, str]) -> None:
    """Landlock: what no rule allows is refused, TCP and abstract sockets too."""
    version = landlock_version()
    rights = (1 << FILE_RIGHTS[min(version, max(FILE_RIGHTS))]) - 1
    network, scope = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    ruleset = system_call(444, struct.pack("QQQ", rights, network, scope), 24, 0)
    for path in readable():
        allow(ruleset, path, READ & rights)
    for path in writable:
        allow(ruleset, path, WORK & rights)
    allow(ruleset, "/dev/null", (READ_FILE | WRITE_FILE | TRUNCATE) & rights)
    system_call(446, ruleset, 0)  # landlock_restrict_self
    os.close(ruleset)


def readable() -> list[str]:
    """The files and directories that Python itself needs. Never sys.prefix: in a virtual
    environment made with `python -m venv .` that is the project, with its .env."""
    environment = os.path.dirname(os.path.dirname(sys.executable))
    return [
        os.path.realpath(sys.executable),
        f"{environment}/pyvenv.cfg",
        f"{sys.base_prefix}/lib",
        f"{sys.base_prefix}/{sys.platlibdir}",
        *site.getsitepackages([environment, sys.base_prefix]),
        *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/etc/ld.so.cache"),
        *("/etc/localtime", "/usr/share/zoneinfo", "/usr/share/locale", "/dev/urandom"),
        "/etc/mime.types",
    ]


def allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule for what is below `path`, if it is there."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):
        rights &= ON_A_FILE
    system_call(445, ruleset, 1, struct.pack("=Qi", rights, place), 0)  # landlock_add_rule
    os.close(place)


def drop_capabilities() -> None:
    """All of root's privileges, for good: PR_SET_NO_NEW_PRIVS keeps exec from giving them back."""
    version_3 = struct.pack("Ii", 0x20080522, 0)
    if libc.capset(version_3, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def at_secret_address(text: bytes) -> int:
    """Put a text where a script cannot guess it.

    The filter compares addresses, not what is there. What may be executed is what stands at this
    one: the interpreter, now; nothing, once it has replaced this process. For a script that could
    execute a program from a thread would lose PR_SET_PDEATHSIG.
    """
    hint = ctypes.c_void_p(int.from_bytes(os.urandom(4)) << 12)
    libc.mmap.restype = ctypes.c_void_p
    page = libc.mmap(hint, 4096, 3, 0x22, -1, 0)  # readable, writable; private, anonymous
    address = int(page) + 16 * os.urandom(1)[0] % 2048
    ctypes.memmove(address, text, len(text) + 1)
    return address


def execute(interpreter: int, words: list[str]) -> None:
    """os.execv, for a program that is given by the address of its path."""
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    argv, environment = (
        (ctypes.c_char_p * (len(some) + 1))(*map(os.fsencode, some), None)
        for some in (words, variables)
    )
    libc.execve(ctypes.c_void_p(interpreter), argv, environment)
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def filter_system_calls(interpreter: int) -> None:
    """seccomp: a program that the kernel asks at each system call."""
    program = b"".join(rules(*MACHINES[os.uname().machine], interpreter))
    buffer = ctypes.create_string_buffer(program)
    address = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    if libc.prctl(22, ctypes.c_ulong(2), address, ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "seccomp")


def rules(column: int, architecture: int, interpreter: int) -> Iterator[bytes]:
    """The program's instructions: the machine's own calls by their numbers, no other machine's
    (32-bit, x32), then each table in turn."""
    yield instruction(LOAD, 4)  # seccomp_data.arch
    yield instruction(EQUAL, architecture, 1, 0) + instruction(RETURN, REFUSE)
    yield instruction(LOAD, 0)  # seccomp_data.nr
    yield instruction(AT_LEAST, 0x40000000, 0, 1) + instruction(RETURN, REFUSE)
    for call, (index, values) in ONLY_WITH.items():
        wanted = [os.getpid() if value == SELF else value for value in values]
        tests = b"".join(test(EQUAL, value, ALLOW) for value in wanted)
        yield rule(call.split()[column], argument(index) + tests + instruction(RETURN, REFUSE))
    for call, index in WITH_MODE.items():
        has_bits = test(HAS_BITS, SETUID_BITS, REFUSE)
        yield rule(call.split()[column], argument(index) + has_bits + instruction(RETURN, ALLOW))
    lower = argument(0) + instruction(EQUAL, interpreter & 0xFFFFFFFF, 1, 0)
    upper = argument(0, 4) + test(EQUAL, interpreter >> 32, ALLOW) + instruction(RETURN, REFUSE)
    yield rule(EXECVE.split()[column], lower + instruction(RETURN, REFUSE) + upper)
    for error, table in ANSWERED.items():
        for call in table.split(","):
            yield rule(call.split()[column], instruction(RETURN, ERRNO | error))
    yield instruction(RETURN, ALLOW)


def rule(number: str, answer: bytes) -> bytes:
    """For the system call of this number the answer, for another the next rule."""
    if number == "-":
        return b""
    return instruction(EQUAL, int(number), 0, len(answer) // 8) + answer


def argument(index: int, half: int = 0) -> bytes:
    """Load the lower half of an argument, where all that is asked for stands, or the upper one."""
    return instruction(LOAD, 16 + 8 * index + half)  # seccomp_data.args, little-endian


def test(code: int, value: int, answer: int) -> bytes:
    return instruction(code, value & 0xFFFFFFFF, 0, 1) + instruction(RETURN, answer)


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


if __name__ == "__main__":
    main()
