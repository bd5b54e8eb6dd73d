"""Give up every right that a script of the model does not need, then become the script.

    python -I -S confine.py AGENT REPORT ROOT SCRIPT ARGS...

The script dies with the process AGENT. The file of descriptor REPORT is emptied when it starts; a
text that is there afterwards says why it was not run. The kernel enforces, on native code too, on
Linux 5.13 or later, on x86_64 and aarch64:
- files (Landlock): it reads what `readable` lists, reads and writes ROOT and TMPDIR, and opens
  nothing else, .env included;
- system calls (seccomp): it makes only those of the tables. So it has no network, and no socket
  except the pair with which asyncio wakes itself; it makes no link, FIFO or device; it starts,
  signals, traces, limits and slows down no process; it has no namespace, keyring, shared memory,
  queue or semaphore. Changes to modes, owners, times and attributes only seem to succeed;
- LIMITS for CPU time, memory that it maps, size of a file, open files; no core dump; no privilege.

Not enforced:
- it sees that a file outside exists, its size, its times, where a link points; it can lock what it
  may read, and follow hard links to outside that were in ROOT before;
- what is in ROOT afterwards is untrusted: to run it, or git in it, is to run the model's code;
- before Landlock 6 (Linux 6.12) some things rest on seccomp alone; with Landlock 1 (before 5.19) a
  rename from one directory to another fails; faults of the kernel itself.
"""

# Each run pays for what is imported here: contextlib alone would cost 4 ms of 30.
import ctypes
import errno
import os
import resource
import site
import struct
import sys

RLIMIT_SIGPENDING = 11  # `resource` names it on Linux only; this module is imported elsewhere too
LIMITS = {
    resource.RLIMIT_CPU: (30, 31),  # SIGXCPU, which names the limit; a second later SIGKILL
    resource.RLIMIT_AS: (2 << 30, 2 << 30),  # memory that it maps, used or not
    resource.RLIMIT_FSIZE: (64 << 20, 64 << 20),
    resource.RLIMIT_NOFILE: (256, 256),
    resource.RLIMIT_CORE: (0, 0),
    RLIMIT_SIGPENDING: (256, 256),
}
# Imported, not run, this module is compiled once, and not anew in each run (3 ms of 30).
IMPORT = "import sys; sys.path.append(sys.argv.pop(1)); import confine; confine.main()"
LAUNCHER = ["-I", "-S", "-c", IMPORT, os.path.dirname(os.path.abspath(__file__))]

# System calls: name, number on x86_64 (the kernel's asm/unistd_64.h) and on aarch64 (its
# asm-generic/unistd.h); one number if it is the same on both. Linux 6.18 was read: what no table
# names up to NEWEST is refused with EPERM, and above it answers ENOSYS, like on an older kernel.
MACHINES = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}  # column, AUDIT_ARCH
NEWEST = 469
ALLOWED = """
    open 2 -, creat 85 -, openat 257 56, read 0 63, write 1 64, pread64 17 67, pwrite64 18 68,
    readv 19 65, writev 20 66, preadv 295 69, pwritev 296 70, preadv2 327 286, pwritev2 328 287,
    close 3 57, lseek 8 62, fstat 5 80, stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291,
    access 21 -, faccessat 269 48, faccessat2 439, readlink 89 -, readlinkat 267 78,
    getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, dup 32 23, dup2 33 -, dup3 292 24,
    pipe 22 -, pipe2 293 59, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35,
    rename 82 -, renameat 264 38, ftruncate 77 46, flock 73 32, fsync 74 82, fdatasync 75 83,
    fadvise64 221 223, sendfile 40 71, copy_file_range 326 285, statfs 137 43,
    fstatfs 138 44, umask 95 166,
    mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, brk 12 214, madvise 28 233,
    msync 26 227, mlock 149 228, munlock 150 229,
    futex 202 98, set_robust_list 273 99, set_tid_address 218 96, rseq 334 293, membarrier 324 283,
    sched_yield 24 124, gettid 186 178, exit 60 93, exit_group 231 94, restart_syscall 219 128,
    arch_prctl 158 -,
    poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create1 291 20, epoll_ctl 233 21,
    epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19, nanosleep 35 101,
    clock_nanosleep 230 115, pause 34 -, alarm 37 -, getitimer 36 102, setitimer 38 103,
    timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, wait4 61 260,
    waitid 247 95,
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
    rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, signalfd4 289 74,
    clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, time 201 -, times 100 153,
    getpid 39 172, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104 176,
    getegid 108 177, getresuid 118 148, getresgid 120 150, getgroups 115 158, getpgid 121 155,
    getpgrp 111 -, getsid 124 156, capget 125 90, getpriority 140 141, sched_getaffinity 204 123,
    sched_getparam 143 121, sched_getscheduler 145 120, sched_get_priority_max 146 125,
    sched_get_priority_min 147 126, sched_rr_get_interval 148 127, getrusage 98 165,
    sysinfo 99 179, uname 63 160, getrandom 318 278, sendto 44 206, recvfrom 45 207,
    shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209
"""
# The key is the error that they answer instead; 0 is success, with nothing done.
ANSWERED = {
    # These keep in memory, which no filter reads, what is asked of clone and openat below.
    errno.ENOSYS: "clone3 435, openat2 437",
    # Attributes could be read of any file; what is allocated unwritten, nobody counts.
    errno.ENOTSUP: """
        getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12,
        flistxattr 196 13, getxattrat 464, listxattrat 465, file_getattr 468, fallocate 285 47
    """,
    # shutil and tarfile insist on these.
    0: """
        chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452, chown 92 -, lchown 94 -,
        fchown 93 55, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -,
        utimensat 280 88, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14,
        lremovexattr 198 15, fremovexattr 199 16, setxattrat 463, removexattrat 466,
        file_setattr 469
    """,
}
# Allowed only if the argument of each index has one of the values (SELF: its own process id).
SELF = -1
# CLONE_VM, _FS, _FILES, _SIGHAND, _THREAD, _SYSVSEM, _SETTLS, _PARENT_SETTID, _CHILD_CLEARTID: how
# C libraries start a thread.
THREAD = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x80000 | 0x100000 | 0x200000
ONLY_WITH: dict[str, dict[int, tuple[int, ...]]] = {
    "clone 56 220": {0: (THREAD, THREAD | 0x400000)},  # musl adds CLONE_DETACHED
    "socketpair 53 199": {0: (1,), 1: (0o2000001,)},  # AF_UNIX; SOCK_STREAM | SOCK_CLOEXEC: asyncio
    "prlimit64 302 261": {0: (0, SELF)},
    "kill 62 129, tgkill 234 131": {0: (SELF,)},
    "renameat2 316 276": {4: (0, 1, 2)},  # not RENAME_WHITEOUT, which makes a device
    "close_range 436": {2: (0, 4)},  # not CLOSE_RANGE_UNSHARE
    "prctl 157 167": {0: (15, 16, 39)},  # thread names, PR_GET_NO_NEW_PRIVS
    # Descriptors, their flags, locks; no owner, signal, lease, notice or size of a pipe.
    "fcntl 72 25": {1: (*range(8), 36, 37, 38, 1030)},
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FICLONE; no owner, no attribute.
    "ioctl 16 29": {1: (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409)},
}
MODES = {"open 2 -": 2, "creat 85 -": 1, "openat 257 56": 3}
NEVER_WITH = {  # a mask and what it must not leave of an argument; the argument's index
    (0o4000, 0o4000): MODES,  # setuid
    (0o2000, 0o2000): MODES,  # setgid
    (0xFFFFFFFF, 18): {"kill 62 129": 1, "tgkill 234 131": 2},  # SIGCONT, against wrote_too_much
    # MAP_SHARED | MAP_ANONYMOUS: all its pages stay while one is mapped, which no limit counts.
    (0x21, 0x21): {"mmap 9 222": 3},
}

# Rights over files are consecutive bits; the version of Landlock says how many there are.
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16, 8: 16, 9: 17}
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_DIR, MAKE_REG, REFER, TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
READ = EXECUTE | READ_FILE | READ_DIR
CHANGE = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
WORK = READ_FILE | READ_DIR | CHANGE
ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
REFUSE = ERRNO | errno.EPERM
LOAD, MASK, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Give up the rights, in the order in which each still allows the next; then run the script."""
    agent, report, root, script, *arguments = sys.argv[1:]
    os.set_inheritable(int(report), False)
    try:
        limit_resources()
        die_with(int(agent))
        prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
        restrict_files((root, os.environ["TMPDIR"]))
        drop_capabilities()
        interpreter = at_secret_address(os.fsencode(sys.executable))
        filter_system_calls(interpreter)
        os.ftruncate(int(report), 0)
        execute(interpreter, [sys.executable, "-s", script, *arguments])
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".ljust(30)  # over all that stood there
        os.pwrite(int(report), reason.encode(), 0)


def landlock_version() -> int:
    """The version of Landlock that the kernel offers; 0 if there is none; OSError if refused."""
    if sys.platform != "linux" or os.uname().machine not in MACHINES or sys.maxsize < 1 << 32:
        return 0
    try:
        return system_call(444, None, 0, 1)  # landlock_create_ruleset, for its version
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise


def what_is_not_enforced() -> str:
    """A warning if the kernel cannot confine; "" if it can, or refuses to."""
    try:
        if landlock_version() > 0:
            return ""
    except OSError:
        return ""
    return (
        "Warning: this system cannot confine scripts: they can read and change your files, use the "
        "network and start programs. They only lack the API key, input and time."
    )


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """The result of a system call that the standard library does not offer; OSError if it fails."""
    passed = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    return check(libc.syscall(ctypes.c_long(number), *passed), f"system call {number}")


def check(result: int, what: str) -> int:
    """The result of a call of the C library; OSError if it says that it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
    return result


def prctl(option: int, value: int, address: bytes | None = None) -> None:
    """Change what the kernel does with this process; OSError if it does not take it."""
    unused = [ctypes.c_ulong(0)] * 2
    check(libc.prctl(option, ctypes.c_ulong(value), address, *unused), f"prctl {option}")


def die_with(agent: int) -> None:
    """Be killed when the agent ends, and not run at all if it has ended by now."""
    prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    if os.getppid() != agent:
        raise ProcessLookupError("the agent has ended")


def limit_resources() -> None:
    """Set each limit, or leave the one that is set already, if that is lower."""
    for kind, ours in LIMITS.items():
        most = resource.getrlimit(kind)[1]
        soft, hard = (each if most == resource.RLIM_INFINITY else min(each, most) for each in ours)
        resource.setrlimit(kind, (soft, hard))


def restrict_files(writable: tuple[str, str]) -> None:
    """Let Landlock refuse what no rule allows, TCP and abstract sockets too."""
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


def readable() -> list[str]:
    """The files and directories that Python and common packages need. Never sys.prefix: in a
    virtual environment made with `python -m venv .` that is the project, with its .env."""
    environment = os.path.dirname(os.path.dirname(sys.executable))
    packages = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    return [
        *(os.path.realpath(sys.executable), f"{environment}/pyvenv.cfg", "/nix/store"),
        # Debian's getsitepackages names that of a virtual environment only once it is set up.
        *(f"{environment}/{packages}", *site.getsitepackages([environment, sys.base_prefix])),
        *(f"{sys.base_prefix}/lib", f"{sys.base_prefix}/{sys.platlibdir}", "/lib", "/lib64"),
        *("/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
        *("/usr/share/zoneinfo", "/usr/share/locale", "/usr/share/fonts", "/proc/self/maps"),
        "/dev/urandom",
    ]


def allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule for what is below `path`, if it is there."""
    if os.path.exists(path):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights &= -1 if os.path.isdir(path) else ON_A_FILE
        system_call(445, ruleset, 1, struct.pack("=Qi", rights, place), 0)  # landlock_add_rule
        os.close(place)


def drop_capabilities() -> None:
    """Drop all of root's privileges; after PR_SET_NO_NEW_PRIVS no exec gives them back."""
    check(libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24)), "capset")  # version 3


def at_secret_address(path: bytes) -> int:
    """The address, which no script can guess, at which the path now stands.

    The launcher becomes the script by execve once the filter is set, so the filter must allow one.
    It cannot read a path, only compare addresses: this one is allowed. A successful execve replaces
    all memory, so nothing stands there afterwards. The price: a script that hits one of 2**39
    addresses (it has time for 2**25 tries) could execute a program that it may read, confined like
    itself; if a thread does that, the program outlives the agent.
    """
    hint = ctypes.c_void_p(int.from_bytes(os.urandom(4)) << 12)
    libc.mmap.restype = ctypes.c_long
    page = check(libc.mmap(hint, 4096, 3, 0x22, -1, 0), "mmap")  # read, write; private, anonymous
    address = page + 16 * (os.urandom(1)[0] % 128)
    ctypes.memmove(address, path, len(path) + 1)
    return address


def execute(interpreter: int, words: list[str]) -> None:
    """Do what os.execv does, with a program that is given by the address of its path."""
    argv = (ctypes.c_char_p * (len(words) + 1))(*map(os.fsencode, words), None)
    check(libc.execv(ctypes.c_void_p(interpreter), argv), "execv")


def filter_system_calls(interpreter: int) -> None:
    """Set seccomp's filter: a program that the kernel asks at each system call."""
    program = b"".join(rules(*MACHINES[os.uname().machine], interpreter))
    buffer = ctypes.create_string_buffer(program)
    prctl(22, 2, struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer)))


def rules(column: int, architecture: int, interpreter: int) -> list[bytes]:
    """The program's instructions: only this machine's calls, then each table, then a refusal."""
    allowed, refused = instruction(RETURN, ALLOW), instruction(RETURN, REFUSE)
    program = [instruction(LOAD, 4) + instruction(EQUAL, architecture, 1) + refused]  # its arch
    program += [instruction(LOAD, 0) + instruction(AT_LEAST, NEWEST + 1, 0, 1)]  # its number
    program += [instruction(RETURN, ERRNO | errno.ENOSYS)]
    for (mask, value), table in NEVER_WITH.items():
        test = instruction(MASK, mask) + instruction(EQUAL, value, 0, 1) + refused
        test += instruction(LOAD, 0)
        for call, index in table.items():
            program += for_calls(call, column, argument(index) + test)
    for calls, conditions in ONLY_WITH.items():
        tests = [argument(index) + one_of(*values) for index, values in conditions.items()]
        program += for_calls(calls, column, b"".join(tests) + allowed)
    address = argument(0) + one_of(interpreter) + argument(0, 4) + one_of(interpreter >> 32)
    program += for_calls("execve 59 221", column, address + allowed)
    program += for_calls(ALLOWED, column, allowed)
    for error, calls in ANSWERED.items():
        program += for_calls(calls, column, instruction(RETURN, ERRNO | error))
    return [*program, refused]


def for_calls(calls: str, column: int, what: bytes) -> list[bytes]:
    """Instructions that run `what` if the system call is one of `calls`, and else skip it."""
    numbers = [call.split()[1:] for call in calls.split(",")]
    own = [each[min(column, len(each)) - 1] for each in numbers]
    return [instruction(EQUAL, int(x), 0, len(what) // 8) + what for x in own if x != "-"]


def argument(index: int, half: int = 0) -> bytes:
    """Load the lower half of an argument, which holds all that is asked for, or the upper one."""
    return instruction(LOAD, 16 + 8 * index + half)  # seccomp_data.args, little-endian


def one_of(*values: int) -> bytes:
    """Refuse the call unless what was loaded is one of these values."""
    wanted = [os.getpid() if value == SELF else value & 0xFFFFFFFF for value in values]
    tests = [instruction(EQUAL, x, len(wanted) - place) for place, x in enumerate(wanted)]
    return b"".join(tests) + instruction(RETURN, REFUSE)


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; the last two say how many to skip after a comparison."""
    return struct.pack("HBBI", code, if_true, if_false, value)


if __name__ == "__main__":
    main()
