"""Checks what confines a script: python tests/test_confine.py.

Each test lets a script try something. Tests of the kernel's rules are skipped, and say so, if the
kernel has none to offer.
"""

import errno
import fcntl
import itertools
import json
import os
import platform
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import unittest
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from support import PROJECT, InTemporaryDirectory, run_tests

from functions import confine, run_python_file

HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}
# By hand, so that a name missing from confine.py, or one too many there, is found here.
ALLOWED_WITH = """
    clone socketpair prlimit64 kill tgkill renameat2 close_range prctl fcntl ioctl openat open creat
    execve
"""
REFUSED = """
    _sysctl accept accept4 acct add_key adjtimex afs_syscall bind bpf cachestat capset chroot
    clock_adjtime clock_settime connect create_module delete_module epoll_create epoll_ctl_old
    epoll_pwait2 epoll_wait_old eventfd execveat fanotify_init fanotify_mark finit_module fork
    fsconfig fsmount fsopen fspick futex_requeue futex_wait futex_waitv futex_wake get_kernel_syms
    get_mempolicy get_robust_list get_thread_area getcpu getdents getpmsg getrlimit init_module
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
    io_pgetevents io_setup io_submit io_uring_enter io_uring_register io_uring_setup ioperm iopl
    ioprio_get ioprio_set kcmp kexec_file_load kexec_load keyctl landlock_add_rule
    landlock_create_ruleset landlock_restrict_self link linkat listen listmount lookup_dcookie
    lsm_get_self_attr lsm_list_modules lsm_set_self_attr map_shadow_stack mbind memfd_create
    memfd_secret migrate_pages mincore mknod mknodat mlock2 mlockall modify_ldt mount mount_setattr
    move_mount move_pages mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink
    mseal msgctl msgget msgrcv msgsnd munlockall name_to_handle_at nfsservctl open_by_handle_at
    open_tree open_tree_attr perf_event_open personality pidfd_getfd pidfd_open pidfd_send_signal
    pivot_root pkey_alloc pkey_free pkey_mprotect process_madvise process_mrelease process_vm_readv
    process_vm_writev ptrace putpmsg query_module quotactl quotactl_fd readahead reboot recvmmsg
    recvmsg remap_file_pages request_key rt_sigqueueinfo rt_tgsigqueueinfo sched_getattr
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler seccomp security semctl
    semget semop semtimedop sendmmsg sendmsg set_mempolicy set_mempolicy_home_node set_thread_area
    setdomainname setfsgid setfsuid setgid setgroups sethostname setns setpgid setpriority setregid
    setresgid setresuid setreuid setrlimit setsid setsockopt settimeofday setuid shmat shmctl shmdt
    shmget signalfd socket splice statmount swapoff swapon symlink symlinkat sync sync_file_range
    sync_file_range2 syncfs sysfs syslog tee timer_create timer_delete timer_getoverrun
    timer_gettime timer_settime tkill truncate tuxcall umount2 unshare uprobe uretprobe uselib
    userfaultfd ustat vfork vhangup vmsplice vserver
"""
# Newer than Linux 6.18: they answer that they do not exist.
UNKNOWN = "listns rseq_slice_yield"
UNSUPPORTED = """
    fallocate getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr getxattrat listxattrat
    file_getattr
"""
PRETENDED = """
    fchmod fchmodat fchmodat2 fchown fchownat utimensat setxattr lsetxattr fsetxattr removexattr
    lremovexattr fremovexattr setxattrat removexattrat file_setattr
    chmod chown lchown utime utimes futimesat
"""
# Newer than many an installed header, and of the same number on every machine.
NEW_NAMES = """
    cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount
    lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat
    removexattrat open_tree_attr file_getattr file_setattr
"""
NEW = {name: number for number, name in enumerate(NEW_NAMES.split(), 451)}
# The kernel asks no filter about these two of x86_64; they kill a process that calls them by hand.
UNASKED = {"uretprobe": 335, "uprobe": 336}
IS_X86 = platform.machine() == "x86_64"


def system_calls(header: str) -> dict[str, int]:
    """The numbers of a machine's system calls, by its kernel header, if that is installed."""
    if not Path(header).exists():
        raise unittest.SkipTest(f"{header} is not installed")
    found = re.findall(r"define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
    calls = {name: int(number) for name, number in found}
    if "fstatat" in calls:  # asm-generic/unistd.h calls it so, and holds more than one machine's
        calls["newfstatat"] = calls.pop("fstatat")
        calls = {name: number for name, number in calls.items() if number not in range(403, 424)}
    return {
        n: k for n, k in (NEW | calls).items() if n not in ("syscalls", "arch_specific_syscall")
    }


SLOW = ["asyncio", "socket", "subprocess"]  # to import: a script imports those that it names
PRELUDE = """
import ctypes, errno, fcntl, json, os, resource, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(x) for x in arguments])
    return result if result >= 0 else -ctypes.get_errno()

def attempt(action):
    try:
        return ["done", action()]
    except OSError as error:
        return ["refused", error.errno]
"""


class Scripts(InTemporaryDirectory):
    def run_script(self, source: str, args: Iterable[str] = ()) -> str:
        imports = "".join(f"import {name}\n" for name in SLOW if name in source)
        self.put("script.py", PRELUDE + imports + source)
        return run_python_file.run_python_file(str(self.work), "script.py", list(args))

    def value(self, expression: str, before: str = "") -> Any:
        """The value of an expression in a script."""
        answer = self.run_script(f"{before}\nprint(json.dumps({expression}))")
        printed = answer.partition("STDOUT: ")[2].partition("\nSTDERR: ")[0]
        self.assertTrue(printed, answer)
        return json.loads(printed)

    def assert_refused(self, expression: str, before: str = "") -> None:
        outcome = self.value(f"attempt(lambda: {expression})", before)
        self.assertIn(outcome, (["refused", errno.EACCES], ["refused", errno.EPERM]), expression)


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class Files(Scripts):
    def test_no_file_outside_can_be_read(self) -> None:
        (self.outside / ".env").write_text("GEMINI_API_KEY=x")
        for path in (self.outside / ".env", self.secret, "/etc/passwd", "/proc/self/environ"):
            self.assert_refused(f"open({str(path)!r})")
        self.assert_refused("open('../.env')")

    def test_not_by_way_of_another_current_directory(self) -> None:
        self.assert_refused(f"(os.chdir({str(self.outside)!r}), open('secret.txt'))")

    def test_not_by_way_of_proc(self) -> None:
        self.assert_refused(f"open('/proc/self/root{self.secret}')")
        self.assert_refused(f"open('/proc/{os.getpid()}/environ')")

    def test_of_proc_only_its_own_map_of_memory_can_be_read(self) -> None:
        for own in ("self", "{os.getpid()}"):
            self.assertTrue(self.value(f"'r-xp' in open(f'/proc/{own}/maps').read()"), own)
        for name in ("environ", "mem", "status", "cmdline", "auxv"):
            self.assert_refused(f"open('/proc/self/{name}')")
        for name in ("maps", "environ", "mem", "cmdline"):
            self.assert_refused(f"open('/proc/{os.getpid()}/{name}')")
        self.assert_refused("open('/proc/self/maps', 'w')")
        self.assert_refused("os.listdir('/proc/self')")

    def test_fonts_can_be_read(self) -> None:
        if not os.path.isdir("/usr/share/fonts"):
            self.skipTest("there are none here")
        self.assertEqual(self.value("attempt(lambda: os.listdir('/usr/share/fonts'))[0]"), "done")

    def test_no_directory_outside_can_be_listed(self) -> None:
        self.assert_refused(f"os.listdir({str(self.outside)!r})")

    def test_nothing_outside_can_be_written_made_moved_or_removed(self) -> None:
        secret, new = str(self.secret), str(self.outside / "new")
        for attempt in (
            f"open({secret!r}, 'a')",
            f"open({new!r}, 'w')",
            f"os.mkdir({new!r})",
            f"os.remove({secret!r})",
            f"os.truncate({secret!r}, 0)",
            f"os.rmdir({str(self.outside / 'empty')!r})",
        ):
            (self.outside / "empty").mkdir(exist_ok=True)
            self.assert_refused(attempt)
        for attempt in (f"os.rename({secret!r}, 'in')", f"os.rename('main.py', {new!r})"):
            self.assertEqual(self.value(f"attempt(lambda: {attempt})")[0], "refused")
        self.assertEqual(self.secret.read_text(), "TOP SECRET")
        self.assertFalse((self.outside / "new").exists())

    def test_the_installation_can_be_read_but_not_written(self) -> None:
        self.assertEqual(self.value("open(json.__file__).read(1)"), "r")
        self.assert_refused("open(json.__file__, 'a')")

    def test_the_rest_of_the_environment_of_python_cannot_be_read(self) -> None:
        self.assertEqual(self.value("attempt(lambda: os.listdir(sys.prefix))[0]"), "refused")

    def test_no_link_fifo_socket_or_device_can_be_made(self) -> None:
        for attempt in (
            "os.symlink('main.py', 'made')",
            "os.link('main.py', 'made')",
            "os.mkfifo('made')",
            "os.mknod('made', 0o060600, os.makedev(1, 5))",
            "os.mknod('made', 0o020600, os.makedev(1, 5))",
            "os.mknod('made', 0o140600)",
        ):
            self.assert_refused(attempt)
        self.assertFalse((self.work / "made").exists())

    def test_no_program_of_the_working_directory_can_be_executed(self) -> None:
        self.put("program", "#!/bin/sh\n").chmod(0o755)
        self.assert_refused("os.execv('program', ['program'])")
        self.assert_refused("os.execv('/bin/sh', ['sh'])")

    def test_modes_times_and_attributes_are_answered_with_success_and_left(self) -> None:
        before = self.secret.stat()
        path = str(self.secret)
        for attempt in (
            f"os.chmod({path!r}, 0o777)",
            f"os.chown({path!r}, 12345, 12345)",
            f"os.lchown({path!r}, 12345, 12345)",
            f"os.utime({path!r}, (1, 1))",
            f"os.setxattr({path!r}, 'user.x', b'x')",
        ):
            self.assertEqual(self.value(f"attempt(lambda: {attempt})"), ["done", None])
        self.assertEqual(self.secret.stat(), before)
        self.assertEqual(os.listxattr(self.secret), [])

    def test_the_working_directory_is_the_scripts_own(self) -> None:
        self.run_script(
            "os.makedirs('a/b'); open('a/b/x', 'w').write('abc'); os.rename('a/b/x', 'a/y')\n"
            "os.remove('main.py'); os.rmdir('a/b'); open('a/y', 'r+').truncate(1)"
        )
        self.assertEqual((self.work / "a/y").read_text(), "a")
        self.assertFalse((self.work / "main.py").exists())


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class SystemCalls(Scripts):
    def decided(self, table: str) -> dict[str, int]:
        """The calls of one of confine's tables, with their numbers on this machine."""
        calls = [call.split() for call in table.split(",")]
        column = confine.MACHINES[platform.machine()][0]
        numbers = {name: own[min(column, len(own)) - 1] for name, *own in calls}
        return {name: int(number) for name, number in numbers.items() if number != "-"}

    def assert_answered(self, names: str, result: int) -> None:
        """That each answers so, whatever it is given: here -1 for every argument."""
        known = system_calls(HEADERS[platform.machine()])
        numbers = {n: known[n] for n in names.split() if n in known and n not in UNASKED}
        self.assertGreater(len(numbers), len(names.split()) * 0.7)
        found = self.value(f"{{n: call(k, -1, -1, -1, -1, -1) for n, k in {numbers}.items()}}")
        self.assertEqual(found, dict.fromkeys(numbers, result))

    def test_every_system_call_of_the_kernels_headers_is_decided_on_under_its_number(self) -> None:
        tables = [confine.ALLOWED, *confine.ANSWERED.values(), *confine.ONLY_WITH]
        never = itertools.chain.from_iterable(confine.NEVER_WITH.values())
        named = ",".join([*tables, *never, "execve 59 221"])
        by_hand = set(f"{REFUSED} {UNKNOWN}".split())
        for machine, header in HEADERS.items():
            with mock.patch.object(platform, "machine", return_value=machine):
                decided, known = self.decided(named), system_calls(header)
            self.assertEqual(set(known) - set(decided) - by_hand, set(), header)
            self.assertEqual(decided, {name: known[name] for name in decided})
            self.assertEqual(set(decided) & by_hand, set())

    def test_what_the_kernel_allows_with_some_arguments_only_is_refused_with_others(self) -> None:
        self.assert_answered(ALLOWED_WITH, -errno.EPERM)

    def test_every_number_that_no_table_names_is_refused(self) -> None:
        tables = [confine.ALLOWED, *confine.ANSWERED.values()]  # openat is allowed, but not with -1
        others = set(range(470)) - set(self.decided(",".join(tables)).values())
        others -= set(UNASKED.values())
        found = self.value(f"[k for k in {sorted(others)} if call(k, *[-1] * 6) != -1]")
        self.assertEqual(found, [])

    def test_every_number_above_the_newest_is_said_not_to_exist(self) -> None:
        for number in (*range(470, 600), 0x3FFFFFFF, 0x40000000, 0x40000000 | 41, 0xFFFFFFFF):
            self.assertEqual(self.run_filter(platform.machine(), number), -errno.ENOSYS, number)
        found = self.value("[call(k, -1, -1) for k in (470, 471, 1000, 0x40000000 | 41)]")
        self.assertEqual(found, [-errno.ENOSYS] * 4)

    def run_filter(self, machine: str, number: int, *arguments: int) -> int:
        """What the filter answers to a system call: 1 if it is allowed, or the negative error."""
        column, architecture = confine.MACHINES[machine]
        data = struct.pack(
            "<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments))
        )
        program = b"".join(confine.rules(column, architecture, 0x123456789000))
        loaded, place = 0, 0
        while True:
            code, if_true, if_false, value = struct.unpack_from("HBBI", program, 8 * place)
            place += 1
            if code == 0x20:
                loaded = int.from_bytes(data[value : value + 4], "little")
            elif code == 0x54:
                loaded &= value
            elif code == 0x06:
                return 1 if value == 0x7FFF0000 else -(value & 0xFFFF)
            else:
                is_true = {0x15: loaded == value, 0x35: loaded >= value}[code]
                place += if_true if is_true else if_false

    def test_the_filter_of_each_machine_decides_by_the_names_of_its_own_headers(self) -> None:
        names = dict.fromkeys(f"{REFUSED} {ALLOWED_WITH}".split(), -errno.EPERM)
        names |= dict.fromkeys(PRETENDED.split(), 0) | dict.fromkeys(UNKNOWN.split(), -errno.ENOSYS)
        names |= dict.fromkeys(UNSUPPORTED.split(), -errno.ENOTSUP)
        names |= dict.fromkeys(("clone3", "openat2"), -errno.ENOSYS)
        for machine, header in HEADERS.items():
            for name, number in system_calls(header).items():
                found = self.run_filter(machine, number, *[(1 << 64) - 2] * 6)
                self.assertEqual(found, names.get(name, 1), f"{machine} {name}")

    def test_the_filter_allows_one_address_only_to_execve(self) -> None:
        for machine, number in (("x86_64", 59), ("aarch64", 221)):
            self.assertEqual(self.run_filter(machine, number, 0x123456789000), 1)
            for other in (0x123456789001, 0x123356789000, 0x56789000, 0x1123456789000, 0):
                self.assertEqual(self.run_filter(machine, number, other), -errno.EPERM)

    def test_the_filter_allows_clone_for_a_thread_of_glibc_or_musl_and_nothing_else(self) -> None:
        threads = (0x3D0F00, 0x7D0F00)
        for machine, number in (("x86_64", 56), ("aarch64", 220)):
            for flags in {thread ^ 1 << bit for thread in threads for bit in range(32)}:
                wanted = 1 if flags in threads else -errno.EPERM
                self.assertEqual(self.run_filter(machine, number, flags), wanted, hex(flags))

    def test_the_filter_refuses_the_calls_of_another_machine(self) -> None:
        for machine, other in (("x86_64", 0x40000003), ("aarch64", 0x40000028)):
            real = confine.rules(*confine.MACHINES[machine], 0)
            with (
                mock.patch.dict(confine.MACHINES, {machine: (1, other)}),
                mock.patch.object(confine, "rules", return_value=real),
            ):
                self.assertEqual(self.run_filter(machine, 39), -errno.EPERM)

    def test_no_device_can_be_made_by_renaming(self) -> None:
        self.put("a", "1")
        number = 316 if IS_X86 else 276
        rename = f"ctypes.get_errno() if libc.syscall({number}, -100, b'a', -100, b'b', %d) else 0"
        self.assertEqual(self.value(rename % 4), errno.EPERM)
        self.assertEqual(self.value(rename % 1), 0)
        self.assertEqual((self.work / "b").read_text(), "1")

    def test_what_no_script_needs_is_refused(self) -> None:
        self.assert_answered(REFUSED, -errno.EPERM)

    def test_attributes_and_allocation_are_said_not_to_be_supported(self) -> None:
        self.assert_answered(UNSUPPORTED, -errno.ENOTSUP)

    def test_changes_to_modes_owners_times_and_attributes_are_pretended(self) -> None:
        self.assert_answered(PRETENDED, 0)

    def test_calls_with_flags_in_memory_are_said_not_to_exist(self) -> None:
        self.assert_answered("clone3 openat2", -errno.ENOSYS)

    def test_no_file_can_be_made_setuid(self) -> None:
        self.assert_refused("os.open('made', os.O_CREAT, 0o4755)")
        self.assert_refused("os.open('made', os.O_CREAT, 0o2755)")
        self.assert_refused("os.mknod('made', 0o104755)")
        self.assertFalse((self.work / "made").exists())

    def test_descriptors_cannot_be_multiplied_by_threads(self) -> None:
        self.assertEqual(self.value("call(436, 3000, 3001, 2)"), -errno.EPERM)

    def test_files_outside_cannot_be_leased_watched_or_marked(self) -> None:
        for attempt in (
            "fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)",
            "fcntl.fcntl(file, fcntl.F_NOTIFY, 1)",
            "fcntl.fcntl(file, 1031, 1 << 20)",  # F_SETPIPE_SZ
            "fcntl.ioctl(file, 0x40086602, bytes(8))",  # FS_IOC_SETFLAGS
        ):
            self.assert_refused(attempt, "file = open(json.__file__)")


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class Network(Scripts):
    def test_no_socket_of_any_family_can_be_made(self) -> None:
        for family, kind in (("AF_INET", 1), ("AF_INET", 2), ("AF_INET6", 1), ("AF_UNIX", 1)):
            self.assert_refused(f"socket.socket(socket.{family}, {kind})")
        for number in (16, 17, 38, 40):  # netlink, packet, alg, vsock
            self.assert_refused(f"socket.socket({number}, 3)")

    def test_a_server_on_loopback_is_not_reached(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            self.assert_refused(f"socket.create_connection({address!r}, 1)")

    def test_socket_pairs_other_than_asyncios_are_refused(self) -> None:
        self.assert_refused("socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)")
        self.assert_refused("socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)")
        for family in (2, 10, 16, 30, 38):  # IPv4, IPv6, netlink, TIPC, alg
            self.assert_refused(f"socket.socketpair({family}, socket.SOCK_STREAM)")
        self.assertEqual(self.value("len(socket.socketpair())"), 2)


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class Processes(Scripts):
    def setUp(self) -> None:
        super().setUp()
        self.canary = subprocess.Popen(["sleep", "60"])
        self.addCleanup(self.canary.wait)
        self.addCleanup(self.canary.kill)

    def test_no_process_can_be_started(self) -> None:
        self.assert_refused("subprocess.run([sys.executable, '-c', ''])")
        self.assert_refused("os.fork()")
        self.assert_refused("os.posix_spawn('/bin/true', ['true'], {})")
        self.assert_refused("os.popen('true').close()")

    def test_the_refusal_is_explained_to_the_model(self) -> None:
        answer = self.run_script("subprocess.run(['true'])")
        self.assertIn("PermissionError", answer)
        self.assertIn("\nNOTE: a script is one process, without network", answer)
        schema = run_python_file.get_schema_run_python_file()
        self.assertIn("one process", schema.description or "")
        self.assertIn("no network", schema.description or "")

    def test_no_other_process_can_be_signalled(self) -> None:
        pid = self.canary.pid
        for attempt in (
            f"os.kill({pid}, 9)",
            f"os.kill({os.getpid()}, 0)",
            "os.kill(0, 9)",
            "os.kill(-1, 0)",
            f"signal.pidfd_send_signal(os.pidfd_open({pid}), 9)",
        ):
            self.assert_refused(attempt)
        self.assertIsNone(self.canary.poll())

    def test_not_by_owning_a_descriptor_either(self) -> None:
        pid = self.canary.pid
        for attempt in (
            f"fcntl.fcntl(0, fcntl.F_SETOWN, {pid})",
            "fcntl.fcntl(0, fcntl.F_SETSIG, 9)",
            f"fcntl.fcntl(0, 15, struct.pack('ii', 1, {pid}))",
            f"fcntl.ioctl(socket.socketpair()[0], 0x8901, struct.pack('i', {pid}))",
            f"fcntl.ioctl(socket.socketpair()[0], 0x8902, struct.pack('i', {pid}))",
        ):
            self.assert_refused(attempt)

    def test_a_script_can_signal_itself(self) -> None:
        self.assertEqual(
            self.value(
                "got",
                "got = []\nsignal.signal(10, lambda *_: got.append(1))\n"
                "os.kill(os.getpid(), 10); signal.raise_signal(10)",
            ),
            [1, 1],
        )

    def test_a_script_cannot_undo_that_it_was_stopped(self) -> None:
        self.assert_refused("os.kill(os.getpid(), signal.SIGCONT)")
        self.assert_refused("signal.raise_signal(signal.SIGCONT)")
        self.assertEqual(self.value("os.kill(os.getpid(), 0)"), None)

    def test_limits_priority_and_affinity_of_others_cannot_be_changed(self) -> None:
        pid = self.canary.pid
        for attempt in (
            f"resource.prlimit({pid}, resource.RLIMIT_NOFILE, (1, 1))",
            f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
            f"os.sched_setaffinity({pid}, {{0}})",
            f"os.sched_setscheduler({pid}, os.SCHED_BATCH, os.sched_param(0))",
        ):
            self.assert_refused(attempt)

    def test_a_script_can_ask_for_its_own_limits(self) -> None:
        core = "resource.prlimit(%s, resource.RLIMIT_CORE)"
        self.assertEqual(self.value(f"[{core % 0}, {core % 'os.getpid()'}]"), [[0, 0], [0, 0]])

    def test_the_script_dies_with_the_agent(self) -> None:
        hold = "import fcntl, time\nlock = open('lock', 'w')\nfcntl.flock(lock, 2)\ntime.sleep(60)"
        self.put("hold.py", hold)
        code = f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        code += "from functions.run_python_file import run_python_file\n"
        code += f"run_python_file({str(self.work)!r}, 'hold.py')"
        with subprocess.Popen([sys.executable, "-c", code]) as agent:
            while not (self.work / "lock").exists():
                time.sleep(0.01)
            time.sleep(0.2)
            agent.kill()
        time.sleep(0.3)
        with (self.work / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_it_cannot_choose_to_outlive_the_agent(self) -> None:
        self.assertEqual(self.value("libc.prctl(1, 0)"), -1)

    def test_nor_by_executing_a_program_from_a_thread(self) -> None:
        self.assert_refused("os.execv(sys.executable, [sys.executable, '-c', ''])")
        self.assert_refused("os.execve(os.open(sys.executable, os.O_RDONLY), ['python'], {})")

    def test_it_is_not_run_at_all_where_the_agent_has_ended(self) -> None:
        self.put("script.py", "open('ran', 'w')")
        paths = (str(self.work), str(self.work / "script.py"))
        agent = str(self.canary.pid)  # which has not started the launcher
        with (self.outside / "report").open("w+") as report:
            command = [sys.executable, *confine.LAUNCHER, agent, str(report.fileno()), *paths]
            env = {"TMPDIR": str(self.work)}
            subprocess.run(command, env=env, pass_fds=[report.fileno()], check=False)
            self.assertIn("the agent has ended", report.read())
        self.assertFalse((self.work / "ran").exists())


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class Privileges(Scripts):
    def test_a_script_has_no_capability_and_can_gain_none(self) -> None:
        capget = "libc.capget(struct.pack('Ii', 0x20080522, 0), sets)"
        held = self.value("sets.raw.hex()", f"sets = ctypes.create_string_buffer(24)\n{capget}")
        self.assertEqual(held, "00" * 24)
        self.assertEqual(self.value("libc.prctl(39, 0, 0, 0, 0)"), 1)  # PR_GET_NO_NEW_PRIVS

    def test_namespaces_and_mounts_are_refused(self) -> None:
        self.assert_refused("os.unshare(os.CLONE_NEWUSER)")
        self.assertEqual(
            self.value("[libc.mount(b'.', b'.', None, 4096, None), ctypes.get_errno()]"),
            [-1, errno.EPERM],
        )

    def test_limits_cannot_be_raised(self) -> None:
        for name in ("RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_CORE"):
            more = f"resource.setrlimit(resource.{name}, (resource.RLIM_INFINITY,) * 2)"
            self.assertIn("ValueError", self.run_script(more), name)


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class Limits(Scripts):
    def test_memory_is_limited_and_the_answer_says_so(self) -> None:
        answer = self.run_script("x = bytearray(3 << 30)")
        self.assertIn("MemoryError", answer)
        self.assertIn("NOTE: a script may map 2 GiB of memory", answer)

    def test_threads_are_limited_in_number_and_the_answer_says_so(self) -> None:
        threads = "import threading\nthreading.stack_size(131072)\nfor _ in range(5000):\n"
        threads += "    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
        self.assertIn("as it had more than 500 threads", self.run_script(threads))

    def test_500_threads_are_allowed_and_one_more_is_not(self) -> None:
        threads = "import threading\nthreading.stack_size(131072)\nend = threading.Event()\n"
        threads += "for _ in range(%d): threading.Thread(target=end.wait).start()\n"
        threads += "time.sleep(.1); end.set()"
        self.assertIn("with code 0\n", self.run_script(threads % 499))  # and the main one
        self.assertIn("as it had more than 500 threads", self.run_script(threads % 500))

    def test_shared_memory_which_no_limit_counts_once_it_is_unmapped_is_refused(self) -> None:
        self.assert_refused("mmap.mmap(-1, 4096)", "import mmap")
        self.assert_refused("mmap.mmap(-1, 4096, 0x21 | 2)", "import mmap")
        self.assertEqual(
            self.value("len(mmap.mmap(-1, 4096, mmap.MAP_PRIVATE))", "import mmap"), 4096
        )

    def test_files_are_counted_even_if_the_file_system_does_not_say_how_many_are_free(self) -> None:
        silent = mock.Mock(f_bfree=1 << 40, f_frsize=4096, f_ffree=0)
        with mock.patch("os.statvfs", return_value=silent):
            self.assertIn("STDOUT: calm", self.run_script("time.sleep(1.5); print('calm')"))
            answer = self.run_script("for i in range(40000): open(f'f{i}', 'w').close()")
        self.assertIn("wrote more than 256 MiB or 10,000 files", answer)

    def test_what_is_freed_on_one_file_system_does_not_pay_for_another(self) -> None:
        shared = Path("/dev/shm")  # noqa: S108
        if not os.access(shared, os.W_OK) or shared.stat().st_dev == self.work.stat().st_dev:
            self.skipTest("there is no second file system to write on")
        self.put("old", bytes(600 << 20))
        fill = "os.remove('old'); time.sleep(.1)\nfor i in range(12):\n"
        fill += "    open(f'{os.environ[\"TMPDIR\"]}/{i}', 'wb').write(bytes(50 << 20))\n"
        with mock.patch("tempfile.tempdir", str(shared)):
            answer = self.run_script(f"{fill}time.sleep(1)")
        self.assertIn("wrote more than 256 MiB", answer)

    def test_threads_are_limited_by_memory(self) -> None:
        threads = "import threading\nfor _ in range(3000):\n"
        threads += "    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
        self.assertIn(
            "NOTE: a script may map 2 GiB of memory, threads included", self.run_script(threads)
        )

    def test_the_size_of_a_file_is_limited_and_the_answer_says_so(self) -> None:
        answer = self.run_script("open('big', 'wb').truncate(1 << 40)")
        self.assertIn("NOTE: a script may write 64 MiB to a file", answer)

    def test_a_file_of_64_mib_can_be_made_and_none_of_a_byte_more(self) -> None:
        self.assertEqual(
            self.value("attempt(lambda: open('a', 'wb').truncate(64 << 20))[0]"), "done"
        )
        self.assertEqual(
            self.value("attempt(lambda: open('b', 'wb').truncate((64 << 20) + 1))"),
            ["refused", errno.EFBIG],
        )

    def test_256_files_can_be_open_and_no_more(self) -> None:
        fill = "n = 3\ntry:\n    while True: os.dup(0); n += 1\nexcept OSError: pass"
        self.assertEqual(self.value("n", fill), 256)

    def test_2_gib_of_memory_can_be_mapped_and_no_more(self) -> None:
        self.assertEqual(self.value("resource.getrlimit(resource.RLIMIT_AS)"), [2 << 30] * 2)

    def test_open_files_are_limited_and_the_answer_says_so(self) -> None:
        answer = self.run_script("x = [open('/dev/null') for _ in range(300)]")
        self.assertIn("NOTE: a script may have 256 files open at once", answer)

    def test_cpu_time_is_limited_and_the_answer_says_so(self) -> None:
        self.assertEqual(self.value("resource.getrlimit(resource.RLIMIT_CPU)"), [30, 31])
        answer = self.run_script("os.kill(os.getpid(), signal.SIGXCPU)")
        self.assertIn("NOTE: a script may use 30 seconds of CPU time", answer)

    def test_queued_signals_and_timers_are_limited(self) -> None:
        self.assertEqual(self.value("resource.getrlimit(resource.RLIMIT_SIGPENDING)"), [256, 256])

    def test_no_core_is_dumped(self) -> None:
        self.assertEqual(self.value("resource.getrlimit(resource.RLIMIT_CORE)"), [0, 0])

    def test_disk_in_all_is_limited_and_the_answer_says_so(self) -> None:
        fill = (
            "for i in range(40):\n    open(f'b{i}', 'wb').write(bytes(30 << 20)); time.sleep(.02)"
        )
        answer = self.run_script(fill)
        self.assertIn("NOTE: the script was stopped, as it wrote more than 256 MiB", answer)

    def test_deleted_files_count_while_they_are_open(self) -> None:
        fill = "held = []\nfor i in range(40):\n    f = open('x', 'wb'); held.append(f)\n"
        fill += "    f.write(bytes(30 << 20)); os.remove('x'); time.sleep(.02)"
        self.assertIn("as it wrote more than 256 MiB", self.run_script(fill))

    def test_deleted_files_count_while_they_are_in_memory(self) -> None:
        fill = "import mmap\nheld = []\nfor i in range(40):\n    f = open('x', 'w+b')\n"
        fill += "    f.truncate(30 << 20); m = mmap.mmap(f.fileno(), 30 << 20); held.append(m)\n"
        fill += (
            "    f.close(); os.remove('x'); m.write(b'x' * (30 << 20)); m.flush(); time.sleep(.02)"
        )
        self.assertIn("as it wrote more than 256 MiB", self.run_script(fill))

    def test_files_too_deep_to_be_looked_at_count_against_the_script(self) -> None:
        fill = "for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        fill += "for i in range(40): open(f'b{i}', 'wb').write(bytes(30 << 20)); time.sleep(.02)"
        self.assertIn("as it wrote more than 256 MiB", self.run_script(fill))

    def count(self, *directories: Path, old: bool = False, seconds: float = 9) -> bool:
        """What wrote_too_much says of a process that has written nothing itself."""
        started, deadline = time.time() + (9 if old else -9), time.monotonic() + seconds
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                return run_python_file.wrote_too_much(
                    process.pid, list(map(str, directories)), started, deadline
                )
            finally:
                process.kill()

    def test_10000_files_are_allowed_and_one_more_is_not_if_they_are_new(self) -> None:
        full = self.outside / "full"
        full.mkdir()
        for number in range(10_000):
            os.link(self.secret, full / str(number))
        self.assertFalse(self.count(full))
        (full / "directory").mkdir()
        self.assertTrue(self.count(full))
        self.assertFalse(self.count(full, old=True))

    def test_256_mib_are_allowed_and_one_block_more_is_not_if_they_are_new(self) -> None:
        for blocks, is_too_much in ((512 << 10, False), ((512 << 10) + 1, True)):
            halves = [SimpleNamespace(st_ctime=time.time(), st_blocks=n) for n in (blocks - 9, 9)]
            with mock.patch.object(run_python_file, "files_below", return_value=halves):
                self.assertEqual(self.count(self.work), is_too_much)
                self.assertFalse(self.count(self.work, old=True))

    def test_a_script_stands_still_while_its_files_are_counted_and_goes_on_then(self) -> None:
        def state(pid: int) -> str:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]

        states = []
        with subprocess.Popen(["sleep", "60"]) as process:

            def files_below(_: str) -> Iterable[os.stat_result]:
                time.sleep(0.05)
                states.append(state(process.pid))
                return [self.secret.stat()]

            with mock.patch.object(run_python_file, "files_below", files_below):
                for deadline in (time.monotonic() + 9, 0):
                    run_python_file.wrote_too_much(process.pid, ["."], time.time() + 9, deadline)
                    time.sleep(0.05)
                    states.append(state(process.pid))
            process.kill()
        self.assertEqual(states, ["T", "S", "T", "S"])

    def test_counting_ends_with_the_time_of_the_script(self) -> None:
        started = time.monotonic()
        endless = itertools.repeat(self.secret.stat())
        with mock.patch.object(run_python_file, "files_below", return_value=endless):
            self.assertFalse(self.count(self.work, old=True, seconds=0.2))
        self.assertLess(time.monotonic() - started, 2)

    def test_counting_keeps_no_list(self) -> None:
        for number in range(5_000):
            os.link(self.secret, self.work / f"a file with a long name, {number}")
        tracemalloc.start()
        self.count(self.work, old=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(peak, 512 << 10)

    def test_of_a_link_only_itself_is_counted(self) -> None:
        (self.work / "up").symlink_to("..")
        counted = sorted(each.st_ino for each in run_python_file.files_below(str(self.work)))
        self.assertEqual(counted, sorted(path.lstat().st_ino for path in self.work.rglob("*")))

    def test_what_another_program_writes_does_not_stop_the_script(self) -> None:
        def fill() -> None:
            for number in range(12):
                (self.outside / f"b{number}").write_bytes(bytes(40 << 20))

        self.put("old.bin", bytes(300 << 20))
        time.sleep(1.5)  # what was changed within a second before the start counts
        writer = threading.Thread(target=fill)
        writer.start()
        answer = self.run_script("time.sleep(2); print('undisturbed')")
        writer.join()
        self.assertIn("STDOUT: undisturbed", answer)

    def test_the_number_of_files_is_limited_and_the_answer_says_so(self) -> None:
        answer = self.run_script("for i in range(60000): open(f'f{i}', 'w').close()")
        if os.statvfs(self.work).f_ffree == 0:
            self.skipTest("this file system does not count its files")
        self.assertIn("wrote more than 256 MiB or 10,000 files", answer)


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class OrdinaryWork(Scripts):
    def assert_works(self, source: str) -> None:
        answer = self.run_script(f"{source}\nprint('all went well')")
        self.assertIn("STDOUT: all went well", answer)

    def test_unittest_and_doctest_work(self) -> None:
        self.assertIn(
            "Ran 1 test",
            self.run_script(
                "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
                "unittest.main()"
            ),
        )
        self.assert_works("import doctest; assert doctest.testmod().failed == 0")

    def test_threads_and_asyncio_work(self) -> None:
        self.assert_works(
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(8) as pool: assert sum(pool.map(abs, range(-9, 0))) == 45\n"
            "async def work(): return await asyncio.to_thread(lambda: 7)\n"
            "assert asyncio.run(work()) == 7"
        )

    def test_temporary_files_copies_and_archives_work(self) -> None:
        self.assert_works(
            "import shutil, tempfile\n"
            "with tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').write('1')\n"
            "os.makedirs('s/t'); open('s/t/f', 'w').write('1')\n"
            "shutil.copytree('s', 'c'); shutil.copy2('s/t/f', 'g'); shutil.move('c', 'm')\n"
            "for kind in ('zip', 'gztar'):\n"
            "    shutil.unpack_archive(shutil.make_archive('a', kind, 's'), kind)\n"
            "    assert open(kind + '/t/f').read() == '1'\n"
            "shutil.rmtree('m')"
        )

    def test_sqlite_and_logging_to_a_file_work(self) -> None:
        self.assert_works(
            "import logging, sqlite3\n"
            "with sqlite3.connect('db') as db: db.execute('create table t(x)')\n"
            "logging.basicConfig(filename='log'); logging.error('x'); assert open('log').read()"
        )

    def test_usual_imports_and_devices_work(self) -> None:
        self.assert_works(
            "import ssl, hashlib, zoneinfo, lzma, multiprocessing, http.server, locale, uuid\n"
            "import mimetypes; mimetypes.guess_type('a.png')\n"
            "zoneinfo.ZoneInfo('Europe/Paris'); uuid.uuid4(); os.urandom(4); time.localtime()\n"
            "open('/dev/null', 'w').write('x'); locale.setlocale(locale.LC_ALL, '')\n"
            "import google.protobuf, dotenv"
        )


class WhereTheKernelCannot(Scripts):
    def test_elsewhere_a_script_still_runs_without_key_and_private(self) -> None:
        with (
            mock.patch.object(confine, "landlock_version", return_value=0),
            mock.patch.dict(os.environ, GEMINI_API_KEY="x"),
        ):
            self.assertEqual(self.value("os.environ.get('GEMINI_API_KEY')"), None)
            self.assertEqual(self.value("os.environ['HOME'] == os.environ['TMPDIR']"), True)
            self.assertIn("EOFError", self.run_script("input()"))
            self.assertIn("Process exited with code 7\n", self.run_script("sys.exit(7)"))
            self.assertNotIn("NOTE", self.run_script("raise PermissionError(13, 'of the system')"))

    def test_the_probe_says_none_only_for_a_kernel_without_landlock(self) -> None:
        for code in (errno.ENOSYS, errno.EOPNOTSUPP):
            with mock.patch.object(confine, "system_call", side_effect=OSError(code, "none")):
                self.assertEqual(confine.landlock_version(), 0)
        with mock.patch.object(sys, "platform", "darwin"):
            self.assertEqual(confine.landlock_version(), 0)

    def test_a_kernel_that_refuses_is_an_error_and_nothing_is_run(self) -> None:
        if confine.landlock_version() == 0:
            self.skipTest("this kernel cannot confine")
        refused = OSError(errno.EPERM, "Operation not permitted")
        with mock.patch.object(confine, "system_call", side_effect=refused):
            answer = self.run_script("open('ran', 'w')")
        self.assertEqual(answer, 'Error: Cannot execute "script.py": Operation not permitted')
        self.assertFalse((self.work / "ran").exists())

    def test_it_says_what_is_not_enforced_only_if_the_kernel_cannot_confine(self) -> None:
        for version, begins in (
            (0, "Warning: this system cannot confine scripts"),
            (1, ""),
            (7, ""),
        ):
            with mock.patch.object(confine, "landlock_version", return_value=version):
                self.assertEqual(confine.what_is_not_enforced()[: len(begins) or 1], begins)
        with mock.patch.object(confine, "landlock_version", side_effect=OSError(errno.EPERM, "")):
            self.assertEqual(confine.what_is_not_enforced(), "")

    def test_a_lower_limit_that_is_set_already_stays(self) -> None:
        code = "import resource as r; from functions import confine\n"
        code += "r.setrlimit(r.RLIMIT_NOFILE, (100, 100)); confine.limit_resources()\n"
        code += "print(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_FSIZE))"
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, f"(100, 100) {(64 << 20, 64 << 20)}\n")

    def test_it_can_be_imported_on_systems_that_have_fewer_limits(self) -> None:
        code = "import resource; del resource.RLIMIT_SIGPENDING; import functions.confine"
        subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=True)

    def test_a_launcher_that_fails_is_an_error_and_nothing_is_run(self) -> None:
        if confine.landlock_version() == 0:
            self.skipTest("this kernel cannot confine")
        without = {"PATH": "/usr/bin"}  # no TMPDIR to confine it to
        with mock.patch.object(run_python_file, "environment", return_value=without):
            answer = self.run_script("open('ran', 'w')")
        self.assertIn("Error: The script was not run, as it could not be confined", answer)
        self.assertFalse((self.work / "ran").exists())


# The launcher, with one function of the C library that fails, or fails if its first argument is so.
BROKEN = """
import ctypes, sys
sys.path.append(sys.argv.pop(1))
import confine
class Broken:
    def __getattr__(self, name):
        real = getattr(library, name)
        def call(*arguments):
            first = getattr(arguments[0], "value", arguments[0])
            if {first!r} in (None, first) and counted.pop():
                ctypes.set_errno(1)
                return -1
            return real(*arguments)
        return call if name == {name!r} else real
library, confine.libc, counted = confine.libc, Broken(), {counted!r}
{more}
confine.main()
"""


@unittest.skipIf(confine.landlock_version() == 0, "this kernel cannot confine")
class Launcher(Scripts):
    def assert_not_run(self, code: str, reason: str) -> None:
        words = [*confine.LAUNCHER[:-2], code, confine.LAUNCHER[-1]]
        with mock.patch.object(confine, "LAUNCHER", words):
            answer = self.run_script("open('ran', 'w')")
        self.assertIn("Error: The script was not run, as it could not be confined (", answer)
        self.assertIn(reason, answer)
        self.assertFalse((self.work / "ran").exists())

    def test_nothing_is_run_if_the_kernel_does_not_take_one_of_the_steps(self) -> None:
        for name, first in (
            ("prctl", 1),  # PR_SET_PDEATHSIG
            ("prctl", 38),  # PR_SET_NO_NEW_PRIVS
            ("syscall", 445),  # landlock_add_rule
            ("syscall", 446),  # landlock_restrict_self
            ("capset", None),
            ("mmap", None),
            ("prctl", 22),  # PR_SET_SECCOMP
            ("execv", None),
        ):
            with self.subTest(f"{name} {first}"):
                always = BROKEN.format(name=name, first=first, counted=[1] * 99, more="")
                reason = f"Operation not permitted: '{name} {first or ''}".strip()
                self.assert_not_run(always, reason.replace("syscall", "system call"))

    def test_nothing_is_run_if_landlock_is_refused_or_gone_after_it_was_found(self) -> None:
        for calls in ([1], [1, 0]):
            broken = BROKEN.format(name="syscall", first=444, counted=calls, more="")
            self.assert_not_run(broken, "Operation not permitted: 'system call 444'")
        gone = "confine.landlock_version = lambda: 0"
        self.assert_not_run(BROKEN.format(name="", first=0, counted=[], more=gone), "KeyError: 0")

    def test_nothing_is_run_if_a_step_raises(self) -> None:
        for step in (
            "limit_resources",
            "die_with",
            "restrict_files",
            "readable",
            "allow",
            "drop_capabilities",
            "at_secret_address",
            "filter_system_calls",
            "rules",
            "execute",
            "resource.setrlimit",
            "os.ftruncate",
        ):
            with self.subTest(step):
                more = f"confine.{step} = lambda *arguments: 1 / 0"
                code = BROKEN.format(name="", first=0, counted=[], more=more)
                self.assert_not_run(code, "ZeroDivisionError")

    def test_a_short_reason_is_told_alone(self) -> None:
        more = "def full(): raise MemoryError\nconfine.drop_capabilities = full"
        code = BROKEN.format(name="", first=0, counted=[], more=more)
        self.assert_not_run(code, "(MemoryError:)")

    def test_nothing_is_run_if_the_launcher_ends_without_a_word(self) -> None:
        unlinked = BROKEN.format(
            name="", first=0, counted=[], more="confine.os.set_inheritable = lambda *two: 1 / 0"
        )
        ends = ("import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", "1 / 0", "?")
        for code in (*ends, unlinked):
            self.assert_not_run(code, "the launcher ended too early")

    def test_the_script_has_no_descriptor_to_say_that_it_was_not_run(self) -> None:
        before = "def is_open(n):\n    try: os.fstat(n)\n    except OSError: return False\n"
        before += "    return True"
        for version in (confine.landlock_version(), 0):
            with mock.patch.object(confine, "landlock_version", return_value=version):
                found = self.value("[n for n in range(256) if is_open(n)]", before)
                self.assertEqual(found, [0, 1, 2], version)

    def test_a_script_that_claims_not_to_have_been_run_is_not_believed(self) -> None:
        forged = "print('confine.py: OSError: no', file=sys.stderr); sys.exit(97)"
        self.assertTrue(self.run_script(forged).startswith("Process exited with code 97\n"))

    def test_each_version_of_landlock_is_asked_for_the_rights_that_it_knows(self) -> None:
        # Files, network and scope, by the kernel's documentation of each version.
        bits = {1: (13, 0, 0), 2: (14, 0, 0), 3: (15, 0, 0), 4: (15, 2, 0), 5: (16, 2, 0)}
        bits |= {6: (16, 2, 2), 7: (16, 2, 2), 8: (16, 2, 2), 9: (17, 2, 2), 10: (17, 2, 2)}
        for version, wanted in bits.items():
            asked: list[tuple[int, Any]] = []

            def call(number: int, *arguments: Any, to: list[tuple[int, Any]] = asked) -> int:
                to.append((number, arguments))
                return os.open("/dev/null", os.O_RDONLY) if number == 444 else 0

            with (
                mock.patch.object(confine, "landlock_version", return_value=version),
                mock.patch.object(confine, "system_call", call),
            ):
                confine.restrict_files((str(self.work), str(self.work)))
            ruleset = struct.unpack("QQQ", asked[0][1][0])
            self.assertEqual(ruleset, tuple((1 << count) - 1 for count in wanted), version)
            for number, arguments in asked[1:-1]:
                rights, _ = struct.unpack("=Qi", arguments[2])
                self.assertEqual((number, rights & ~ruleset[0]), (445, 0))
            self.assertEqual(asked[-1][0], 446)

    def test_no_address_of_the_program_tells_the_next(self) -> None:
        found = sorted(confine.at_secret_address(b"/usr/bin/python3") for _ in range(20))
        distances = [after - before for before, after in itertools.pairwise(found)]
        self.assertGreater(min(distances), 1 << 18)
        self.assertGreater(max(found), 1 << 41)
        self.assertGreater(len({address % 4096 for address in found}), 10)

    def test_installed_packages_are_imported_where_site_does_not_name_them(self) -> None:
        # What Debian's and Ubuntu's Python answers before a virtual environment is set up.
        debian = (
            "confine.site.getsitepackages = lambda prefixes: ['/usr/lib/python3/dist-packages']"
        )
        code = BROKEN.format(name="", first=0, counted=[], more=debian)
        words = [*confine.LAUNCHER[:-2], code, confine.LAUNCHER[-1]]
        with mock.patch.object(confine, "LAUNCHER", words):
            self.assertEqual(self.value("len(dotenv.__name__)", "import dotenv"), 6)


class PlantedForLater(Scripts):
    def test_modules_in_the_working_directory_do_not_reach_the_launcher(self) -> None:
        for name in (
            "ctypes",
            "struct",
            "site",
            "os",
            "confine",
            "sitecustomize",
            "functions/confine",
        ):
            self.put(f"{name}.py", "import sys; sys.stderr.write('PLANTED')")
        self.put("harmless.py", "print('ran')")
        answer = run_python_file.run_python_file(str(self.work), "harmless.py")
        self.assertIn("STDOUT: ran", answer)
        self.assertNotIn("could not be confined", answer)

    def test_the_launcher_can_be_started_as_its_docstring_says(self) -> None:
        if confine.landlock_version() == 0:
            self.skipTest("this kernel cannot confine")
        self.put("script.py", "open('/etc/passwd')")
        with (self.outside / "report").open("w+") as report:
            words = (confine.__file__, str(os.getpid()), str(report.fileno()), str(self.work))
            done = subprocess.run(
                [sys.executable, "-I", "-S", *words, str(self.work / "script.py")],
                env={"TMPDIR": str(self.work)},
                pass_fds=[report.fileno()],
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertIn("PermissionError", done.stderr)


if __name__ == "__main__":
    run_tests()
