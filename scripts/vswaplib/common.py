# SPDX-License-Identifier: GPL-2.0
"""Paths, messages and child processes, which all other modules use."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("VSWAP_CACHE")
                     or pathlib.Path.home() / ".cache" / "rust-vswap")
TOOLS = CACHE / "tools"
LLVM = "22"
# Commands run with our own tools before the machine's, and their messages are in English.
ENV = {"PATH": f"{TOOLS}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
       "LIBCLANG_PATH": f"/usr/lib/llvm-{LLVM}/lib", "RUSTC": "/usr/bin/rustc",
       "LC_ALL": "C.UTF-8"}
LOGS = CACHE / "logs"
JOBS = os.cpu_count() or 1


class Failure(Exception):
    """An error that the user reads: what went wrong and what to do next."""

    def __init__(self, what, hint=""):
        super().__init__(what)
        self.what = what
        self.hint = hint


def die(what, hint=""):
    raise Failure(what, hint)


def say(text):
    print(text, flush=True)


def tail(path, lines=25):
    try:
        with pathlib.Path(path).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - (1 << 16)))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def table(header, rows):
    """Formats a table as text: the first column is aligned left, the others right."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
                     .rstrip() for line in lines)


def entries(name, text):
    """Parses a list of entries, each a line followed by indented lines. Returns [(line number,
    line, [(number, indented line)])]. `name` is the file that an error names."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            found.append((number, line.strip(), []))
        elif found:
            found[-1][2].append((number, line.strip()))
        else:
            die(f"{name}:{number}: this belongs to no entry: {line.strip()}",
                "write the entry above it, without indentation")
    return found


class Progress:
    """A progress line with the elapsed time. A terminal shows it in place, elsewhere a new line is
    printed every `pause` seconds."""

    def __init__(self, pause=60):
        self.start = self.last = time.monotonic()
        self.pause = pause
        self.terminal = sys.stdout.isatty()

    def seconds(self):
        return time.monotonic() - self.start

    def show(self, text):
        now, seconds = time.monotonic(), int(self.seconds())
        text = f"    {seconds // 60}:{seconds % 60:02} {text}"
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]:{width}}", end="", flush=True)
        elif now - self.last >= self.pause:
            self.last = now
            say(text)

    def clear(self):
        """Clears the line, so that other lines can be printed."""
        if self.terminal:
            print("\r" + " " * (shutil.get_terminal_size().columns - 1), end="\r", flush=True)


@contextlib.contextmanager
def step(title):
    """Prints a long step when it starts and how long it took when it ends."""
    say(f"==> {title}")
    start = time.monotonic()
    yield
    say(f"    done in {time.monotonic() - start:.0f} s")


def end_group(process):
    """Ends the leader of a process group and the processes that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        # After the process was waited for, its number may belong to another one.
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)
    process.wait()


# Signals that arrived while the main thread starts a process; None at other times.
_late = None


def _release():
    """Handles signals that were held back while a process was started."""
    global _late
    late, _late = _late, None
    for number in late:
        signal.raise_signal(number)


# The processes that started() has to end: {process: thread that started it}.
running = {}


@contextlib.contextmanager
def started(cmd, **options):
    """Starts `cmd` as the leader of a process group, and ends the group when the block ends. Holds
    back signals until the process is sure to be ended, because their handlers may raise."""
    global _late
    holds = threading.current_thread() is threading.main_thread()
    with contextlib.ExitStack() as stack:
        if holds:
            _late = []
        try:
            process = stack.enter_context(
                subprocess.Popen(cmd, start_new_session=True, **options))
            running[process] = threading.get_ident()
            stack.callback(running.pop, process)
            stack.callback(end_group, process)
        finally:
            if holds:
                _release()
        yield process


def show_log(wait, log):
    """Shows the last line of a log until wait(), which waits half a second, returns true."""
    progress = Progress()
    try:
        while not wait():
            progress.show(" ".join(tail(log, 1).split()))
    finally:
        progress.clear()


def _ends_soon(process):
    """Waits half a second for a process. Returns true if it has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    return process.poll() is not None


def _run_group(cmd, shown=None, **options):
    """Like subprocess.run(), but an error or a signal ends the whole process group. The last line
    of the log `shown` is shown meanwhile."""
    with started(cmd, **options) as process:
        if shown:
            show_log(lambda: _ends_soon(process), shown)
        text, _ = process.communicate()
    return subprocess.CompletedProcess(cmd, process.returncode, text)


# Messages of apt, cargo and curl without a network.
NO_NETWORK = re.compile(r"Temporary failure resolving [^\n]*|Network is unreachable"
                        r"|Could(?:n't| not) (?:resolve|connect)[^()\n]*")


def run(cmd, *, log=None, cwd=None, env=None, check=True, hint="", stdin=subprocess.DEVNULL,
        show=False):
    """Runs a command; output goes to `log` (appended) or is returned. With `show`, its last line
    is shown meanwhile.

    With `check`, a failure ends the verb with the command, the last lines of
    its output and where the rest is.
    """
    cmd = [str(part) for part in cmd]
    options = {"cwd": cwd, "env": {**os.environ, **ENV, **(env or {})}, "stdin": stdin,
               "stderr": subprocess.STDOUT}
    try:
        if log:
            log = pathlib.Path(log)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a") as out:
                out.write(f"$ {shlex.join(cmd)}\n")
                out.flush()
                done = _run_group(cmd, log if show else None, stdout=out, **options)
        else:
            done = _run_group(cmd, stdout=subprocess.PIPE, text=True, errors="replace", **options)
    except FileNotFoundError:
        die(f"{cmd[0]} is not installed", hint or "run scripts/vswap setup")
    done.text = done.stdout or ""
    if check and done.returncode:
        shown = tail(log) if log else "\n".join(done.text.splitlines()[-25:])
        where = f"\nthe whole log: {log}" if log else ""
        offline = NO_NETWORK.findall(shown)
        if offline:
            die(f"{cmd[0]} has no network: {offline[-1]}" + (f"; log: {log}" if log else ""), hint)
        die(f"failed ({done.returncode}): {shlex.join(cmd)[:300]}\n{shown}{where}", hint)
    return done


def write_if_changed(path, data):
    """Writes bytes or text if the file has another content. A reader never sees half of the file,
    and make sees no new time stamp on old content. Returns true if it was written."""
    path = pathlib.Path(path)
    if isinstance(data, str):
        data = data.encode()
    try:
        if not path.is_symlink() and path.read_bytes() == data:
            return False
    except OSError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(path.name + ".vswap-new")
    try:
        temp.write_bytes(data)
        os.replace(temp, path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    return True


def remembered(path):
    """Returns the content of a JSON file that an earlier run wrote; {} if there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def digest(*parts):
    """Returns a hash of texts, bytes and files. That of a file includes its place."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, pathlib.Path):
            found.update(f"{os.path.relpath(part, ROOT)}\n".encode())
            part = part.read_bytes()
        found.update(part if isinstance(part, bytes) else part.encode())
    return found.hexdigest()


def _lock(handle, name):
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"    waiting for {name}, which another task of scripts/vswap holds")
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextlib.contextmanager
def locked(name):
    """Lets one process in at a time, because two builds in one folder would disturb each other."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as handle:
        _lock(handle, name)
        yield


# Open files with the locks of share().
_shared = []


def share(name, content):
    """Until this process ends, lets in only processes that want the same content. Waits for those
    that want another."""
    CACHE.mkdir(parents=True, exist_ok=True)
    handle = (CACHE / f"{name}.lock").open("a+")
    _shared.append(handle)
    while True:
        fcntl.flock(handle, fcntl.LOCK_SH)
        handle.seek(0)
        if handle.read() == content:
            return
        _lock(handle, name)
        handle.truncate(0)
        handle.write(content)
        handle.flush()


def on_signals(numbers, handler):
    """Installs a handler for signals, except where they are ignored: nohup ignores SIGHUP."""
    def unless_late(number, frame):
        if _late is None:
            handler(number, frame)
        else:
            _late.append(number)

    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, unless_late)


def _interrupt(number, _frame):
    raise KeyboardInterrupt(number)


def main(entry):
    """Runs `entry`. Turns a Failure into one clear message and exit code 1. SIGTERM and SIGHUP end
    it like Ctrl-C, after children and temporary folders are removed."""
    on_signals((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), _interrupt)
    try:
        code = entry()
    except Failure as failure:
        print(f"vswap: {failure.what}", file=sys.stderr)
        if failure.hint:
            print(f"vswap: next: {failure.hint}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt as stop:
        number = signal.Signals(stop.args[0] if stop.args else signal.SIGINT)
        print(f"\nvswap: stopped by {number.name}; what was built and fetched is kept",
              file=sys.stderr)
        code = 128 + number
    except BrokenPipeError:
        code = 141
    sys.exit(code)
