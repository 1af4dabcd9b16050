"""Device programs for cgroup v2, which has no devices controller, through bpf(2) and ctypes.

Needs root and Linux 4.15. The kernel calls the program at every open and mknod of a device node by a process
in the cgroup. Our program denies a list of character devices and allows everything else. It stays attached
until its cgroup is removed, even if the agent ends. All programs of the cgroup and its parents must allow an
access, so devices that systemd or a container runtime forbids stay forbidden.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
from typing import Iterable, Tuple

_SYSCALL = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE = 15, 6
_ALLOW_MULTI = 2
_CHARACTER_DEVICE = 2
_LOAD_WORD, _AND, _JUMP_EQUAL, _JUMP_UNEQUAL, _MOVE, _EXIT = 0x61, 0x57, 0x15, 0x55, 0xB7, 0x95

Device = Tuple[int, int]
"""(major, minor) of a character device"""


def deny(devices: Iterable[Device]) -> int:
    """Return the descriptor of a loaded program that denies these devices.

    Raises OSError if the kernel or our privileges do not permit it.
    """
    code = _program(list(devices))
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "=IIQQIIQII16s",
        _TYPE_CGROUP_DEVICE,
        len(code) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
        b"warpdeck_gpus",
    )
    try:
        return _bpf(_PROG_LOAD, attributes)
    except PermissionError:  # before 5.11 programs count as locked memory
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return _bpf(_PROG_LOAD, attributes)


def attach(program: int, group: str) -> None:
    """Attach the program to a cgroup. Raises OSError."""
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _bpf(_PROG_ATTACH, struct.pack("=IIII", folder, program, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
    finally:
        os.close(folder)


def _program(devices: list[Device]) -> bytes:
    """Return the instructions of the program.

    r2: type of device, r3: major, r4: minor (struct bpf_cgroup_dev_ctx); r0: 1 allows, 0 denies.
    """
    code = [
        _instruction(_LOAD_WORD, to=2, source=1, offset=0),
        _instruction(_AND, to=2, value=0xFFFF),
        _instruction(_LOAD_WORD, to=3, source=1, offset=4),
        _instruction(_LOAD_WORD, to=4, source=1, offset=8),
        _instruction(_JUMP_UNEQUAL, to=2, value=_CHARACTER_DEVICE, offset=2 * 2 * len(devices)),
    ]
    for major, minor in devices:
        code += [
            _instruction(_JUMP_UNEQUAL, to=3, value=major, offset=3),
            _instruction(_JUMP_UNEQUAL, to=4, value=minor, offset=2),
            _instruction(_MOVE, to=0, value=0),
            _instruction(_EXIT),
        ]
    return b"".join([*code, _instruction(_MOVE, to=0, value=1), _instruction(_EXIT)])


def _instruction(code: int, *, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, to | source << 4, offset, value)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(0, "the number of the system call bpf(2) is not known for this architecture")
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    answer = int(library.syscall(number, command, buffer, len(attributes)))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
