"""What the tests of dlctl share: a real daemon of their own, the tool, a terminal.

$DLPACKD and $DLCTL are the programs. Every test gets a daemon in a folder that goes with it.
Nothing sleeps to wait: readiness comes through $NOTIFY_SOCKET, other processes speak through
pipes, and what has no event is asked for again until a deadline.
"""

import collections
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import pty
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

SKIPPED = 77  # what ctest takes for "skipped"

try:
    import numpy as np  # noqa: F401  (the tests take it from here)
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(SKIPPED)

DLPACKD = os.environ["DLPACKD"]
DLCTL = os.environ["DLCTL"]

# How long anything may take, in seconds: generous, since sanitizers and busy machines are slow.
PATIENCE = 30

Result = collections.namedtuple("Result", "code out err")


def die_with_parent():
    """Whatever ends the test ends what it started."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def environment(**changes):
    """The tests' own, so that neither the user's locale nor their settings show."""
    ours = {key: value for key, value in os.environ.items()
            if not key.startswith("DLPACKD_") and key not in ("COLUMNS", "LISTEN_FDS")}
    ours.update({"LC_ALL": "C.UTF-8", "TZ": "UTC"}, **changes)
    return ours


def user_name():
    """Who runs this, as dlctl calls them."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


class Daemon:
    """A dlpackd that listens in `folder`."""

    def __init__(self, folder, *arguments):
        self.socket = str(folder / "socket")
        notify = str(folder / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(notify)
            receiver.settimeout(PATIENCE)
            self.process = subprocess.Popen(
                [DLPACKD, "--socket", self.socket, "--log-level", "warning", *arguments],
                env=environment(NOTIFY_SOCKET=notify), preexec_fn=die_with_parent)
            try:
                while b"READY=1" not in receiver.recv(4096):
                    pass
            except BaseException:
                self.process.kill()
                self.process.wait()
                raise

    def stop(self):
        """It ends cleanly and leaves no socket behind."""
        self.process.terminate()
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
        if code != 0 or os.path.exists(self.socket):
            raise AssertionError(f"dlpackd ended with {code}, socket left: "
                                 f"{os.path.exists(self.socket)}")


class DlctlTest(unittest.TestCase):
    """A daemon, a folder and the tool, for each test."""

    daemon_arguments = ()
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlpackd-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.daemon = Daemon(self.folder, *self.daemon_arguments)
        self.addCleanup(self.daemon.stop)

    # ---- running the tool

    def run_tool(self, *arguments, stdin=b"", stdout=subprocess.PIPE, env=None, **options):
        """Result of dlctl, whatever it is. `stdin`: bytes or an open file."""
        given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        done = subprocess.run(
            [DLCTL, *map(str, arguments)], stdout=stdout, stderr=subprocess.PIPE,
            env=environment(**{"DLPACKD_SOCKET": self.daemon.socket, **(env or {})}),
            timeout=PATIENCE, **given, **options)
        return Result(done.returncode, done.stdout, done.stderr.decode())

    def dlctl(self, *arguments, **options):
        """Standard output, as bytes, of a call that succeeds and complains of nothing."""
        result = self.run_tool(*arguments, **options)
        self.assertEqual((result.code, result.err), (0, ""), arguments)
        return result.out

    def text(self, *arguments, **options):
        return self.dlctl(*arguments, **options).decode()

    def json(self, *arguments, **options):
        return json.loads(self.dlctl(*arguments, "--json", **options).decode("ascii"))

    def refused(self, code, *arguments, **options):
        """The one line of standard error with which a call fails."""
        result = self.run_tool(*arguments, **options)
        self.assertEqual((result.code, result.out), (code, b""), (arguments, result.err))
        self.assertRegex(result.err, r"\Adlctl: [^\n]+\n\Z", arguments)
        self.assertTrue(result.err.isascii() and result.err[:-1].isprintable(), result.err)
        return result.err[:-1]

    def start(self, *arguments):
        """A dlctl that runs beside the test; its output comes through a pipe."""
        process = subprocess.Popen(
            [DLCTL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env=environment(DLPACKD_SOCKET=self.daemon.socket), preexec_fn=die_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def hold(self, name, *arguments):
        """A process that has got `name`, larger than a pipe, and cannot go on before it is read."""
        holder = self.start("get", name, "-", *arguments)
        self.first_bytes = os.read(holder.stdout.fileno(), 1)
        self.assertEqual(len(self.first_bytes), 1)
        return holder

    def let_go(self, holder):
        """All that the holder wrote."""
        rest = holder.stdout.read()
        self.assertEqual(holder.wait(PATIENCE), 0)
        return self.first_bytes + rest

    def on_terminal(self, *arguments, columns=0, env=None):
        """The lines that a terminal so wide would show; 0: one that does not tell."""
        master, slave = pty.openpty()
        with os.fdopen(master, "rb", buffering=0) as screen:
            with os.fdopen(slave, "wb", buffering=0) as terminal:
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                process = subprocess.Popen(
                    [DLCTL, *arguments], stdin=subprocess.DEVNULL, stdout=terminal,
                    env=environment(DLPACKD_SOCKET=self.daemon.socket, **(env or {})),
                    preexec_fn=die_with_parent)
            shown = b""
            # A terminal that nobody writes to any more says so with EIO.
            with contextlib.suppress(OSError):
                while block := screen.read(4096):
                    shown += block
        self.assertEqual(process.wait(PATIENCE), 0)
        return shown.decode().replace("\r\n", "\n")

    # ---- looking

    def path(self, name, content=None):
        """A place in the test's folder, with a file if there is something to write."""
        path = self.folder / name
        if content is not None:
            path.write_bytes(content)
        return path

    def names(self, *arguments):
        return [tensor["name"] for tensor in self.json("list", *arguments)]

    def files(self):
        """What dlctl left in the folder, by name."""
        return sorted({entry.name for entry in self.folder.iterdir()} - {"socket", "socket.lock",
                                                                         "notify"})

    def assert_same_file(self, expected, path):
        # Not assertEqual(): nobody wants to see the difference of two binary files.
        self.assertTrue(pathlib.Path(expected).read_bytes() == pathlib.Path(path).read_bytes(),
                        f"{path} differs from {expected}")

    def until(self, is_true, what):
        deadline = time.monotonic() + PATIENCE
        while not is_true():
            self.assertLess(time.monotonic(), deadline, f"never happened: {what}")
            time.sleep(0.002)


def main():
    unittest.main(module="__main__", verbosity=2)
