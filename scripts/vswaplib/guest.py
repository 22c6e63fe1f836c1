# SPDX-License-Identifier: GPL-2.0
"""Boots a variant of the kernel, runs a shell script in it, and returns the script's output.

The kernel's console goes to a log, which is searched for splats. The script's output goes to a
second serial port (under User Mode Linux, to a host folder), so that the two do not mix.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import arch as archs
from . import build, common, counters, initramfs
from .common import CACHE, LOGS, Failure, die

EXIT = re.compile(r"^VSWAP-EXIT (\d+)$", re.M)

# Messages of the kernel that report an error in it.
SPLATS = re.compile(r"""
    Kernel\ panic | \bBUG: | ^\S*\s*WARNING: | \bOops: | KASAN: | UBSAN: | KCSAN:
  | general\ protection\ fault | possible\ circular\ locking | possible\ recursive\ locking
  | inconsistent\ lock\ state | suspicious\ RCU\ usage | invalid\ wait\ context
  | sleeping\ function\ called | scheduling\ while\ atomic | held\ lock\ freed
  | self-detected\ stall | detected\ (expedited\ )?stalls
  | blocked(\ in\ I/O\ wait)?\ for\ more\ than | register\ non-static\ key
  | list_(add|del)\ corruption | refcount_t: | bad\ unlock\ balance
  | kmemleak:\ \d+\ new | double\ free | use-after-free | Bad\ page\ (state|map)
  | rust_kernel:\ panicked
  | Bad\ swap\ file\ entry | Bad\ swap\ offset\ entry | Unused\ swap
""", re.X | re.M)
# Lines that match SPLATS but report no error, or one that Linux 7.3.4 has without this change:
# see debugging.rst.
HARMLESS = re.compile(r"WARNING: .*(?:mitigations|Spectre)|WARNING: at hrtimer_forward\+")
# Errors that a test may cause on purpose, and one ("reparent") that Linux 7.3.4 has without this
# change: see debugging.rst. They are no splats if the test has announced them with may_log or
# must_log of kunit/guest/tests/lib.sh, or if the caller of boot() allows their kind.
KINDS = {
    "oom": re.compile(r"invoked oom-killer|Out of memory: Killed"
                      r"|Memory cgroup out of memory: Killed"),
    "alloc": re.compile(r"page allocation failure|SLUB: Unable to allocate"),
    "io": re.compile(r"Read-error on swap|Write-error on swap|I/O error, dev"),
    "segfault": re.compile(r"segfault at|\btraps:|: unhandled exception: "),
    "reparent": re.compile(r"WARNING: at lru_gen_exit_memcg\+"),
}
# An oops by int3 (cc), although memory has another instruction there. Linux writes int3 over code
# while it patches it, and QEMU may still execute int3 afterwards: see debugging.rst.
STALE_INT3 = re.compile(r"Oops: int3:.*\n(?:(?!Code: ).*\n)+"
                        r"Code: (?:[0-9a-f]{2} )*(?!cc)[0-9a-f]{2} <")
# A failed assertion of QEMU, which ends QEMU.
ABORTED = re.compile(r"^qemu-system-\S+: .*: Assertion `.*' failed\.$", re.M)
KUNIT_RESULT = re.compile(r"^ *(?:not )?ok \d", re.M)
# How often a guest boots in which this happens before the script begins.
BOOTS = 3
# Marks that scripts write to the kernel's log: which test begins, and which KINDS it expects. The
# mark of a selftest also has the number of the round.
TEST_MARK = re.compile(r"(?:VSWAP-TEST|^selftest) (\S+)(?: \d+)?$")
EXPECT_MARK = re.compile(r"VSWAP-EXPECT (may|must|no) (\S+)$")


@dataclasses.dataclass(frozen=True)
class Splat:
    """A line of the kernel's log that reports an error, and the test that was running: "" during
    the boot."""
    during: str
    line: str

    def __str__(self):
        return f"during {self.during}: {self.line}" if self.during else self.line


class GuestFailure(Failure):
    """The kernel in the guest failed, not the script."""

    def __init__(self, what, hint="", splats=()):
        super().__init__(what, hint)
        self.splats = list(splats)


class GuestStopped(GuestFailure):
    """The guest was ended, or not booted, because pool() ends its threads."""


@dataclasses.dataclass
class Result:
    output: str
    code: int
    log: pathlib.Path
    seconds: float
    splats: list


# The level, time and task that printk puts in front of a message.
STAMP = re.compile(r"^(<\d+>)?\[[ .\d]+\](\[ *[TC]\d+\])? ", re.M)


def plain(console):
    """Returns a kernel's log without the stamps of its messages."""
    return STAMP.sub("", console)


class _Judge:
    """Finds splats in a kernel's log, line by line, and keeps track of what the running test
    expects."""

    def __init__(self, allowed):
        self.allowed = allowed
        self.test = ""
        self.splats = []
        # {kind that the test expects: true if it has to come and has not come yet}
        self.expected = {}

    def _add(self, line):
        self.splats.append(Splat(self.test, line))

    def _forget(self, kinds):
        for kind in kinds:
            if self.expected.pop(kind, False):
                self._add(f"expected {kind}, which never came")

    def begin(self, test):
        self._forget(sorted(self.expected))
        self.test = test

    def _mark(self, word, kind):
        if kind not in KINDS:
            self._add(f"expects {kind}, but the kinds are {', '.join(KINDS)}")
        elif word == "no":
            self._forget([kind])
        else:
            self.expected[kind] = word == "must" or self.expected.get(kind, False)

    def line(self, line):
        begun = TEST_MARK.search(line)
        mark = EXPECT_MARK.search(line)
        provoked = next((kind for kind, pattern in KINDS.items() if pattern.search(line)), None)
        if begun:
            self.begin(begun.group(1))
        elif mark:
            self._mark(*mark.groups())
        elif provoked in self.expected:
            self.expected[provoked] = False
        elif provoked not in self.allowed and (
                provoked or SPLATS.search(line) and not HARMLESS.search(line)):
            self._add(line.strip())


def splats_in(text, allowed=()):
    """Returns the errors in a kernel's log, as a list of Splat. Leaves out the KINDS in `allowed`,
    and the KINDS that a test expects."""
    judge = _Judge(allowed)
    for line in plain(text).splitlines():
        judge.line(line)
    judge.begin("")
    return judge.splats


def _bytes(size):
    found = re.fullmatch(r"(\d+)([KMG]?)", size)
    if not found:
        die(f"not a size: {size}", "use a number with K, M or G; for a disk also an image's path")
    return int(found.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[found.group(2)]


def _disk(folder, index, spec):
    """Returns the image of a disk, followed by options. `spec` is the path of an existing image or
    the size of a new sparse file, followed by options, each after a comma."""
    size, *options = spec.split(",")
    path = pathlib.Path(size)
    if not path.exists():
        path, length = folder / f"disk{index}", _bytes(size)
        with path.open("wb") as disk:
            disk.truncate(length)
    return ",".join([str(path), *options])


def _accelerator(arch, image):
    """Returns QEMU's options for KVM if it runs our kernels on this machine, otherwise for TCG.

    On some machines QEMU starts with /dev/kvm, but an ordinary kernel does not run. So a trial
    boot decides, once for each boot of the host.
    """
    emulated = ["-accel", "tcg,thread=multi", "-cpu", arch.emulated]
    if arch is not archs.X86_64 or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return emulated
    host_boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    memo = CACHE / "kvm"
    if not memo.exists() or memo.read_text().split()[0] != host_boot:
        trial = [arch.qemu, "-M", arch.machine, "-accel", "kvm", "-cpu", "host", "-m", "256M",
                 "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
                 "-kernel", str(image), "-append", "console=ttyS0 panic=-1"]
        try:
            seen = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace", timeout=10).stdout
        except subprocess.TimeoutExpired:
            seen = ""
        # A kernel that runs ends in exactly this panic, because it gets no root file system.
        works = "Unable to mount root fs" in seen
        common.write_if_changed(memo, f"{host_boot} {'works' if works else 'no'}\n")
    if memo.read_text().split()[1] == "works":
        return ["-accel", "kvm", "-cpu", "host"]
    return emulated


def _memory(mem, numa, file):
    """Returns QEMU's options for the guest's memory: two nodes if `numa`. `file` backs the memory,
    or the memory of the first node, if it is not None."""
    def backend(name, size, file):
        kind = f"memory-backend-file,mem-path={file},share=on" if file else "memory-backend-ram"
        return ["-object", f"{kind},id={name},size={size}"]

    if numa:
        half = _bytes(mem) // 2
        return [word for node in range(2) for word in (
            *backend(f"m{node}", half, None if node else file),
            "-numa", f"node,memdev=m{node},cpus={node}")]
    return [*backend("m0", _bytes(mem), file), "-machine", "memory-backend=m0"] if file else []


def _qemu(arch, image, initrd, *, smp, mem, disks, append, icount, host_root, numa, out, log, shell,
          memory=None):
    # With icount, norandmaps, a CPU without rdrand and a fixed clock make two runs execute the
    # same instructions.
    cmdline = [f"console={arch.tty}0", "loglevel=7", "panic=-1", "nokaslr", "mitigations=off",
               "rdinit=/init", f"vswap_out=/dev/{arch.tty}1",
               "rcupdate.rcu_cpu_stall_timeout=120", *arch.cmdline]
    cmd = [arch.qemu, "-M", arch.machine, "-nodefaults", "-display", "none", "-no-reboot",
           "-m", mem, "-kernel", image, "-initrd", initrd]
    if icount:
        smp = 1
        cmdline += ["norandmaps"]
        cmd += ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu", arch.counted,
                "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
    else:
        cmd += _accelerator(arch, image)
    # Linux warns about CPUs that share a socket but not a node.
    cmd += ["-smp", f"{smp},sockets={smp}" if numa else str(smp)]
    cmd += _memory(mem, numa, memory)
    if host_root and arch.target:
        die(f"the host's root file system has no programs for {arch.name}", "leave out --host-root")
    if host_root:
        cmdline.append("vswap_root=host")
        cmd += ["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,"
                "multidevs=remap"]
    for index, disk in enumerate(disks):
        cmd += ["-drive", f"file={disk},format=raw,if=none,id=d{index},cache=unsafe,"
                "discard=unmap", "-device", f"{arch.disk},drive=d{index}"]
    cmd += ["-serial", f"file:{log}"]
    if shell:
        cmdline.append("vswap_shell=1")
        cmd += ["-chardev", "stdio,id=out,signal=off", "-serial", "chardev:out"]
    else:
        cmd += ["-serial", f"file:{out}"]
    return [*cmd, "-append", " ".join([*cmdline, append])]


def _uml(image, initrd, *, mem, disks, append, out):
    cmd = [image, f"mem={mem}", f"initrd={initrd}", "rdinit=/init", "con=null", "con0=null,fd:1",
           "loglevel=7", "panic=-1", f"vswap_out=hostfs:{out.parent}"]
    cmd += [f"ubd{index}={disk}" for index, disk in enumerate(disks)]
    return [*cmd, *append.split()]


def _written(path):
    # The thread of another guest may have removed the file just now.
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime
    return 0


def _unused_log(variant):
    LOGS.mkdir(parents=True, exist_ok=True)
    for path in sorted(LOGS.glob("boot-*.log"), key=_written)[:-200]:
        path.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"boot-{variant}-", suffix=".log", dir=LOGS)
    pathlib.Path(name).chmod(0o644)
    open(handle).close()
    return pathlib.Path(name)


def _error_of_qemu(cmd, console, ended):
    """Returns what QEMU did wrong, or "" if that is not sure. QEMU executed int3 where memory has
    none, or ended by an assertion of its own. Both only happen with a thread for each CPU. The
    kernel must have reported nothing before: no error, no result of KUnit."""
    text = plain(console)
    found = STALE_INT3.search(text)
    if ended == "aborted":
        what, before = "ended by an assertion of its own", text
    elif found:
        what, before = "executed int3 where memory has none", text[:found.start()]
    else:
        return ""
    reported = splats_in(before) or KUNIT_RESULT.search(before)
    return what if "tcg,thread=multi" in cmd and not reported else ""


def boot(variant, script="", *, smp=2, mem="1G", disks=(), append="", icount=False, timeout=600,
         files=None, quiet=True, host_root=False, numa=False, shell=False, splats_ok=False,
         follow=None, allowed=()):
    """Boots `variant`, which was built, runs `script` in it, and returns a Result. Calls `follow`
    with each new piece of the script's output as it comes.

    Raises GuestFailure on a panic, a splat or a time-out, and if the guest ends without the
    script's exit code. With `splats_ok`, splats do not raise but are in the Result. `allowed` names
    KINDS that the script may provoke. Boots again after an error of QEMU before the script has
    begun: see _error_of_qemu().
    """
    _refuse_if_stopped()
    image = build.image(variant)
    arch = build.arch_of(variant)
    uml = not arch.qemu
    log = _unused_log(variant)
    work = pathlib.Path(tempfile.mkdtemp(prefix="vswap-"))
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        memory = stack.enter_context(counters.memory_file(variant, _bytes(mem)))
        initrd, out = work / "initrd", work / "out" / "output"
        out.parent.mkdir()
        initramfs.build(initrd, script, files, arch, build.page_size(variant))
        disks = [_disk(work, index, spec) for index, spec in enumerate(disks)]
        if uml:
            cmd = _uml(image, initrd, mem=mem, disks=disks, append=append, out=out)
        else:
            cmd = _qemu(arch, image, initrd, smp=smp, mem=mem, disks=disks, append=append,
                        icount=icount, host_root=host_root, numa=numa, out=out, log=log,
                        shell=shell, memory=memory)
        cmd = [str(part) for part in cmd]
        if shell:
            subprocess.run(cmd, env={**_env()}, check=False)
            return Result("", 0, log, time.monotonic() - start, [])
        for left in reversed(range(BOOTS)):
            output, console, ended = _watch(cmd, out, log, uml, timeout, quiet, follow)
            what = not output and _error_of_qemu(cmd, console, ended)
            if not left or not what:
                break
            kept = log.rename(log.with_name(f"{log.stem}-qemu-{left}.log"))
            common.say(f"QEMU {what}; booting again. Its log: {kept}")
        if memory:
            counters.save(build.folder(variant), memory, log.stem)
    _refuse_if_stopped()
    return _verdict(variant, output, console, ended, timeout, log,
                    time.monotonic() - start, splats_ok, allowed)


def _verdict(variant, output, console, ended, timeout, log, seconds, splats_ok, allowed):
    """Returns the Result of a guest that has ended, or raises GuestFailure."""
    splats = splats_in(console, allowed)
    read = f"read the whole log: {log}"
    # The script may print such a line, too. init prints its line last, so take the last match.
    found = [*EXIT.finditer(output)][-1:]
    if splats and not splats_ok:
        raise GuestFailure(f"the {variant} kernel reported: {splats[0]}", read, splats)
    if not found or ended == "timeout":
        why = f"did not end within {timeout} s" if not found and ended == "timeout" else \
            "ended without the script's exit code" if not found else "did not power off"
        raise GuestFailure(f"the {variant} guest {why}; its last lines:\n"
                           + "\n".join((output + console).splitlines()[-12:]), read, splats)
    return Result(output[:found[0].start()].rstrip("\n") + "\n", int(found[0].group(1)), log,
                  seconds, splats)


def _env():
    # User Mode Linux keeps a folder of its own under HOME.
    return {**common.ENV, "TMPDIR": "/tmp", "HOME": str(CACHE)}


def _watch(cmd, out, log, uml, timeout, quiet, follow=None):
    """Runs the guest to its end. Returns (script's output, console, "exit", "timeout" or
    "aborted"). Prints the script's output meanwhile unless `quiet`, and passes it to `follow`."""
    output = console = ""
    deadline = time.monotonic() + timeout
    panicked = False

    def read():
        nonlocal output, console
        fresh = output_stream.read()
        output += fresh
        console += console_stream.read()
        if not quiet:
            print(EXIT.sub("", fresh), end="", flush=True)
        if fresh and follow:
            follow(fresh)

    # In the guest's folder, which an interrupt removes, too.
    errors = out.with_name("errors")
    out.touch()
    with errors.open("wb") as error_stream, log.open("ab") as log_stream, \
            out.open(errors="replace") as output_stream, \
            log.open(errors="replace") as console_stream:
        # UML's console is its standard error; QEMU writes the log by itself.
        said = log_stream if uml else error_stream
        with common.started(cmd, stdin=subprocess.DEVNULL, env=_env(), stdout=said,
                            stderr=said) as guest:
            while guest.poll() is None and time.monotonic() <= deadline:
                read()
                # After the script has ended, the guest has a minute to power off.
                if EXIT.search(output) and not uml:
                    deadline = min(deadline, time.monotonic() + 60)
                if "Kernel panic" in console:
                    panicked = True
                    deadline = min(deadline, time.monotonic() + 3)
                time.sleep(0.05)
            ended = "exit" if guest.poll() is not None or panicked else "timeout"
        read()
    text = errors.read_text(errors="replace")
    if ABORTED.search(text):
        return output, console + text, "aborted"
    if guest.returncode and ended == "exit" and text.strip() and not output:
        raise GuestFailure(f"the guest did not start: {text.strip().splitlines()[-1]}",
                           "see the command's own message above")
    return output, console, ended


# Set when pool() ends its threads, so that none of them boots another guest.
_stopping = threading.Event()


def _refuse_if_stopped():
    """Raises GuestStopped in a thread of a pool() that is stopped. Does nothing in the main thread,
    which goes on with the next step of the run."""
    if _stopping.is_set() and threading.current_thread() is not threading.main_thread():
        raise GuestStopped("the run was stopped")


@contextlib.contextmanager
def pool(number):
    """Makes a pool of threads for `number` guests at the same time. An error or an interrupt ends
    all of the guests."""
    _stopping.clear()
    own = []
    with concurrent.futures.ThreadPoolExecutor(
            number, initializer=lambda: own.append(threading.get_ident())) as threads:
        try:
            yield threads
        except BaseException:
            _stopping.set()
            threads.shutdown(wait=False, cancel_futures=True)
            end_children(own)
            raise


def end_children(threads=None):
    """Ends the guests of these threads, or of all, which an interrupt does not reach. Otherwise the
    run would report the first error only after the last guest has ended."""
    for process, thread in list(common.running.items()):
        # Only a process that was not waited for yet still has its number.
        if (threads is None or thread in threads) and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
