"""Checks what holds a script: python tests/test_confine.py.

Each test lets a script try something. Those of the kernel's rules are skipped, and say so, where
the kernel has none to offer.
"""

import errno
import fcntl
import json
import os
import platform
import re
import socket
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

from support import PROJECT, InTemporaryDirectory, run_tests

from functions import confine, run_python_file
from functions.get_files_info import get_files_info

HEADERS = (
    "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "/usr/include/asm-generic/unistd.h",
)
# By hand, so that a name missing from confine.py is missed here.
REFUSED = """
    execveat ptrace process_vm_readv process_vm_writev pidfd_getfd pidfd_send_signal tkill
    setpriority ioprio_set sched_setparam sched_setscheduler sched_setaffinity sched_setattr
    socket bind connect listen unshare setns statmount listmount bpf perf_event_open userfaultfd
    io_uring_setup io_setup
    add_key request_key keyctl memfd_create memfd_secret mq_open shmget shmat shmctl semget semop
    semctl semtimedop msgget msgsnd msgrcv msgctl inotify_init1 inotify_add_watch fanotify_init
    open_by_handle_at truncate linkat execve clone socketpair prlimit64 kill tgkill rt_sigqueueinfo
    rt_tgsigqueueinfo close_range prctl fcntl ioctl openat mknodat
"""
UNSUPPORTED = """
    fallocate getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr getxattrat listxattrat
"""
PRETENDED = """
    fchmod fchmodat fchmodat2 fchown fchownat utimensat setxattr lsetxattr fsetxattr removexattr
    lremovexattr fremovexattr setxattrat removexattrat file_setattr
"""
# Newer than many an installed header, and of the same number on every machine.
NEW = {
    "fchmodat2": "452",
    "statmount": "457",
    "listmount": "458",
    "setxattrat": "463",
    "getxattrat": "464",
    "listxattrat": "465",
    "removexattrat": "466",
    "file_setattr": "469",
}
IS_X86 = platform.machine() == "x86_64"
if IS_X86:
    REFUSED += "fork vfork link inotify_init open creat mknod"
    PRETENDED += "chmod chown lchown utime utimes futimesat"
PRELUDE = """
import asyncio, ctypes, errno, fcntl, json, os, resource, signal, socket
import struct, subprocess, sys, time
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
        self.put("script.py", PRELUDE + source)
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
    def numbers(self, names: str) -> dict[str, int]:
        """Those of these system calls that the kernel's headers know, on this machine."""
        header = Path(HEADERS[0] if IS_X86 else HEADERS[1])
        if not header.exists():
            self.skipTest(f"{header} is not installed")
        found = dict(re.findall(r"define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
        return {
            name: int(number) for name, number in (NEW | found).items() if name in names.split()
        }

    def assert_answered(self, names: str, result: int) -> None:
        """That each answers so, whatever it is given: here -1 for every argument."""
        numbers = self.numbers(names)
        self.assertGreater(len(numbers), len(names.split()) * 0.7)
        found = self.value(f"{{n: call(k, -1, -1, -1, -1, -1) for n, k in {numbers}.items()}}")
        self.assertEqual(found, dict.fromkeys(numbers, result))

    def test_the_numbers_are_those_of_the_kernels_headers(self) -> None:
        tables = ",".join(confine.ANSWERED.values()).split(",")
        tables += [*confine.ONLY_WITH, *confine.WITH_MODE, confine.EXECVE]
        for column, header in enumerate(HEADERS, 1):
            if not Path(header).exists():
                self.skipTest(f"{header} is not installed")
            found = re.findall(r"define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
            numbers = NEW | dict(found)
            for name, *own in map(str.split, tables):
                if own[column - 1] != "-" and name in numbers:
                    self.assertEqual(own[column - 1], numbers[name], name)

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

    def test_the_calls_of_another_machine_are_refused(self) -> None:
        if not IS_X86:
            self.skipTest("x32 is of x86_64 alone")
        self.assertEqual(self.value("call(0x40000000 | 41, 2, 2, 0)"), -errno.EPERM)


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
        self.assertIn(f"\nNOTE: {run_python_file.CONFINED}", answer)
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

    def test_limits_priority_and_affinity_of_others_cannot_be_changed(self) -> None:
        pid = self.canary.pid
        for attempt in (
            f"resource.prlimit({pid}, resource.RLIMIT_NOFILE, (1, 1))",
            f"os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
            f"os.sched_setaffinity({pid}, {{0}})",
            f"os.sched_setscheduler({pid}, os.SCHED_BATCH, os.sched_param(0))",
        ):
            self.assert_refused(attempt)

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
        command = [sys.executable, *confine.LAUNCHER, str(self.work), str(self.work / "script.py")]
        done = subprocess.run(
            command,
            env={"TMPDIR": str(self.work), "AGENT_PID": "1"},
            capture_output=True,
            check=False,
        )
        self.assertEqual(done.returncode, confine.NOT_CONFINED)
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
        self.assertIn("NOTE: a script may use 2 GiB of memory", answer)

    def test_threads_are_limited_in_number_and_the_answer_says_so(self) -> None:
        threads = "import threading\nthreading.stack_size(32768)\nfor _ in range(5000):\n"
        threads += "    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
        self.assertIn("as it had more than 500 threads", self.run_script(threads))

    def test_threads_are_limited_by_memory(self) -> None:
        threads = "import threading\nfor _ in range(3000):\n"
        threads += "    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
        self.assertIn(
            "NOTE: a script may use 2 GiB of memory, threads included", self.run_script(threads)
        )

    def test_the_size_of_a_file_is_limited_and_the_answer_says_so(self) -> None:
        answer = self.run_script("open('big', 'wb').truncate(1 << 40)")
        self.assertIn("NOTE: a script may write 64 MiB to a file", answer)

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

    def test_a_launcher_that_fails_is_an_error_and_nothing_is_run(self) -> None:
        if confine.landlock_version() == 0:
            self.skipTest("this kernel cannot confine")
        without = {"PATH": "/usr/bin"}  # no TMPDIR to confine it to
        with mock.patch.object(run_python_file, "environment", return_value=without):
            answer = self.run_script("open('ran', 'w')")
        self.assertIn("Error: The script was not run, as it could not be confined", answer)
        self.assertFalse((self.work / "ran").exists())


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
        get_files_info(str(self.work))

    def test_the_launcher_can_be_started_as_its_docstring_says(self) -> None:
        if confine.landlock_version() == 0:
            self.skipTest("this kernel cannot confine")
        self.put("script.py", "open('/etc/passwd')")
        paths = (confine.__file__, str(self.work), str(self.work / "script.py"))
        command = [sys.executable, "-I", "-S", *paths]
        done = subprocess.run(
            command, env={"TMPDIR": str(self.work)}, capture_output=True, text=True, check=False
        )
        self.assertIn("PermissionError", done.stderr)


if __name__ == "__main__":
    run_tests()
