# SPDX-License-Identifier: GPL-2.0
"""The architectures of guests, and what differs between them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Arch:
    name: str                   # ARCH= of the kernel's make
    image: str                  # the kernel in a build folder
    goals: tuple = ()           # what make builds; all if none
    flags: tuple = ()           # more arguments of make
    qemu: str = ""              # none for User Mode Linux, which needs no QEMU
    qemu_package: str = ""
    machine: str = ""           # -M
    emulated: str = ""          # -cpu of an emulated CPU
    counted: str = ""           # the same for -icount: without random numbers
    tty: str = ""               # the first serial port is the console, the second the output
    disk: str = ""              # the -device type of a disk
    cmdline: tuple = ()         # more kernel arguments
    debian: str = ""            # Debian's name; none for the host's own
    target: str = ""            # clang's target for the guest's programs; none for the host's
    libraries: tuple = ()       # packages that these programs are linked with


X86_64 = Arch("x86_64", "arch/x86/boot/bzImage", ("bzImage",),
              qemu="qemu-system-x86_64", qemu_package="qemu-system-x86", machine="q35",
              # No 5-level page tables: identify_cpu() forgets them for a moment, and KASAN takes
              # an interrupt then for a wild access.
              emulated="max,la57=off", tty="ttyS", disk="virtio-blk-pci",
              # Without erms and fsrm, copying a page takes 512 counted steps instead of 4096, which
              # is closer to its real cost.
              counted="max,-rdrand,-rdseed,-erms,-fsrm",
              # On a busy host the emulated timer comes too late for the check.
              cmdline=("no_timer_check",))
ARM64 = Arch("arm64", "arch/arm64/boot/Image", ("Image",),
             qemu="qemu-system-aarch64", qemu_package="qemu-system-arm", machine="virt,mte=on",
             emulated="max", counted="max", tty="ttyAMA", disk="virtio-blk-device",
             debian="arm64", target="aarch64-linux-gnu",
             libraries=("libc6-dev-arm64-cross", "libgcc-12-dev-arm64-cross"))
# A header of the kernel does arithmetic with a null pointer, because there are no ports.
UM = Arch("um", "linux", flags=("KCFLAGS=-Wno-error=null-pointer-arithmetic",))

ALL = {arch.name: arch for arch in (X86_64, ARM64, UM)}
