"""Give up every right that a script of the model does not need, then become the script.

    python -I -S confine.py ROOT SCRIPT ARGS...

The kernel holds what is given up (Landlock for files, seccomp for system calls, resource limits),
so it holds for native code too, and nothing brings it back. run_python_file starts it as LAUNCHER,
which imports it instead, so that it is not compiled anew each time (3 ms of 30).

Held, on Linux 5.13 or later, on x86_64 and aarch64:
- files: it reads the Python installation, site-packages and the system's libraries; it reads and
  writes ROOT and its own temporary directory (TMPDIR); it opens nothing else, .env included;
- it makes no link, FIFO, socket or device, and changes no mode, owner, time or attribute (those
  calls answer success and do nothing, as shutil and tarfile insist on them);
- no network and no socket, but for the pair that asyncio wakes itself with;
- one process with its threads: none is started, none signalled, traced, limited or slowed down;
- no privilege, no namespace, no kernel keyring, no shared memory, queue or semaphore;
- LIMITS for CPU time, memory, the size of a file and open files; no core dump;
- it dies with the agent. Its time, and its disk in all, run_python_file watches; what it deleted
  and has but mapped counts as memory.

Not held:
- whether a file outside exists, its size and its times can be seen: nothing mediates stat;
- hard links to outside that were in ROOT before are followed;
- what is in ROOT afterwards is untrusted: to run it, or git in it, is to run the model's code;
- on Landlock before version 6 (Linux 6.12) some things rest on seccomp alone; on version 1 a rename
  from one directory to another fails;
- faults of the kernel itself.
"""

from __future__ import annotations

import contextlib
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

GIB, MIB = 1 << 30, 1 << 20
LIMITS = {
    resource.RLIMIT_CPU: 30,
    resource.RLIMIT_AS: 2 * GIB,
    resource.RLIMIT_FSIZE: 64 * MIB,
    resource.RLIMIT_NOFILE: 256,
    resource.RLIMIT_CORE: 0,
}
IMPORT = "import sys; sys.path.append(sys.argv.pop(1)); import confine; confine.main()"
LAUNCHER = ["-I", "-S", "-c", IMPORT, os.path.dirname(os.path.abspath(__file__))]
# How the launcher says that the rights could not be given up, and that the script did not run.
NOT_CONFINED, FAILURE = 97, "confine.py: "

# System calls: name, number on x86_64 (the kernel's asm/unistd_64.h) and on aarch64 (its
# asm-generic/unistd.h).
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, AUDIT_ARCH
REFUSED = """
    fork 57 -, vfork 58 -, socket 41 198, io_uring_setup 425 425, ptrace 101 117,
    process_vm_readv 310 270, process_vm_writev 311 271, pidfd_getfd 438 438,
    pidfd_send_signal 424 424, tkill 200 130, setpriority 141 140, ioprio_set 251 30,
    sched_setparam 142 118, sched_setscheduler 144 119, sched_setaffinity 203 122,
    sched_setattr 314 274, unshare 272 97, setns 308 268, bpf 321 280, perf_event_open 298 241,
    userfaultfd 323 282, add_key 248 217, request_key 249 218, keyctl 250 219,
    memfd_create 319 279, memfd_secret 447 447, mq_open 240 180, shmget 29 194, shmat 30 196,
    shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192, msgget 68 186,
    msgsnd 69 189, msgrcv 70 188, msgctl 71 187, inotify_add_watch 254 27, fanotify_init 300 262,
    open_by_handle_at 304 265, truncate 76 45, link 86 -, linkat 265 37
"""
# Answered with success, and not done.
PRETENDED = """
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -,
    fchown 93 55, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16, setxattrat 463 463, removexattrat 466 466, file_setattr 469 469
"""
# Allowed only where the argument of that index has one of the values (`SELF`: its own process id).
SELF = -1
SOCK_STREAM_CLOEXEC = 0o2000001
ONLY_WITH = {
    "socketpair": ((53, 199), 1, (SOCK_STREAM_CLOEXEC,)),
    "prlimit64": ((302, 261), 0, (0, SELF)),
    "kill": ((62, 129), 0, (SELF,)),
    "tgkill": ((234, 131), 0, (SELF,)),
    "rt_sigqueueinfo": ((129, 138), 0, (SELF,)),
    "rt_tgsigqueueinfo": ((297, 240), 0, (SELF,)),
}
# Refused only where it has one of them.
NEVER_WITH = {
    "prctl": ((157, 167), 0, (1,)),  # PR_SET_PDEATHSIG
    "fcntl": ((72, 25), 1, (8, 10, 15)),  # F_SETOWN, F_SETSIG, F_SETOWN_EX
    "ioctl": ((16, 29), 1, (0x8901, 0x8902)),  # FIOSETOWN, SIOCSPGRP
}
CLONE, CLONE3, CLONE_THREAD = (56, 220), (435, 435), 0x10000

# Rights over files are consecutive bits; how many there are says the version of Landlock.
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16, 8: 16, 9: 17}
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_DIR, MAKE_REG, REFER, TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
READ = EXECUTE | READ_FILE | READ_DIR
CHANGE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
WORK = READ_FILE | READ_DIR | CHANGE
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, AT_LEAST, HAS_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Give up the rights, in the order in which each still allows the next; then run the script."""
    root, script, *arguments = sys.argv[1:]
    try:
        limit_resources()
        prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
        restrict_files((root, os.environ["TMPDIR"]))
        drop_capabilities()
        filter_system_calls()
        os.execv(sys.executable, [sys.executable, "-s", script, *arguments])  # noqa: S606
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
        return system_call(
            444, None, 0, 1
        )  # landlock_create_ruleset, LANDLOCK_CREATE_RULESET_VERSION
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def what_is_not_held() -> str:
    """A warning, where the kernel cannot confine; "" where it can, or refuses to."""
    with contextlib.suppress(OSError):
        if landlock_version() == 0:
            return (
                "Warning: this system cannot confine scripts: they can read and change your files, "
                "use the network and start programs. Only key, input and time are kept from them."
            )
    return ""


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


def limit_resources() -> None:
    for kind, ours in LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        limit = ours if hard == resource.RLIM_INFINITY else min(ours, hard)
        resource.setrlimit(kind, (limit, limit))


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


def filter_system_calls() -> None:
    """seccomp: a program that the kernel asks at each system call."""
    program = b"".join(rules(*MACHINES[os.uname().machine]))
    buffer = ctypes.create_string_buffer(program)
    address = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    if libc.prctl(22, ctypes.c_ulong(2), address, ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "seccomp")


def rules(column: int, architecture: int) -> Iterator[bytes]:
    """The program's instructions: the machine's own calls by their numbers, no other machine's
    (32-bit, x32), then each table in turn."""
    refuse = ERRNO | errno.EPERM
    yield instruction(LOAD, 4)  # seccomp_data.arch
    yield instruction(EQUAL, architecture, 1, 0) + instruction(RETURN, refuse)
    yield instruction(LOAD, 0)  # seccomp_data.nr
    yield instruction(AT_LEAST, 0x40000000, 0, 1) + instruction(RETURN, refuse)
    for answer, table in ((refuse, REFUSED), (ERRNO, PRETENDED)):
        for entry in table.split(","):
            if (number := entry.split()[1 + column]) != "-":
                yield rule(int(number), instruction(RETURN, answer))
    # clone3 keeps its flags in memory, where no filter looks; ENOSYS makes the C library use clone.
    yield rule(CLONE3[column], instruction(RETURN, ERRNO | errno.ENOSYS))
    yield rule(CLONE[column], argument(0, HAS_BITS, (CLONE_THREAD,), ALLOW, refuse))
    for numbers, index, values in ONLY_WITH.values():
        yield rule(numbers[column], argument(index, EQUAL, values, ALLOW, refuse))
    for numbers, index, values in NEVER_WITH.values():
        yield rule(numbers[column], argument(index, EQUAL, values, refuse, ALLOW))
    yield instruction(RETURN, ALLOW)


def rule(number: int, answer: bytes) -> bytes:
    """For the system call of this number the answer, for another the next rule."""
    return instruction(EQUAL, number, 0, len(answer) // 8) + answer


def argument(index: int, test: int, values: tuple[int, ...], match: int, otherwise: int) -> bytes:
    """The one answer where the lower half of an argument passes the test, the other where not."""
    program = instruction(LOAD, 16 + 8 * index)  # seccomp_data.args, little-endian
    for value in values:
        wanted = os.getpid() if value == SELF else value
        program += instruction(test, wanted, 0, 1) + instruction(RETURN, match)
    return program + instruction(RETURN, otherwise)


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


if __name__ == "__main__":
    main()
