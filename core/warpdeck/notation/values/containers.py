"""The --container-* options, as in pyxis, and their valid values.

Images are `[docker://][USER@][REGISTRY#]IMAGE[:TAG]`, `dockerd://IMAGE`, `podman://IMAGE` (images of a local
engine), or a path (/..., ./...) to a squashfs, SIF or tar file or to an unpacked root directory. See the
README of pyxis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from warpdeck.base.errors import UserError

MAX_MOUNTS = 64
SCHEMES = ("docker://", "dockerd://", "podman://")
FLAGS = ("ro", "rw", "private", "rprivate", "slave", "rslave", "shared", "rshared")
_REFERENCE = re.compile(r"(?:[\w.+-]+@)?(?:[\w.:-]+#)?[\w][\w./-]*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Fields = dict[str, Any]


def set_image(fields: Fields, value: str) -> None:
    """Set the image. Raises UserError for a value that is neither an image name nor a path."""
    scheme = next((each for each in SCHEMES if value.startswith(each)), "")
    if not scheme and value.startswith(("/", "./", "../")):
        fields["image"] = value
        return
    if not _REFERENCE.fullmatch(value.removeprefix(scheme)):
        raise UserError(
            f"--container-image={value} is not an image",
            "write [REGISTRY#]IMAGE[:TAG], such as nvcr.io#nvidia/pytorch:24.01, or a path with a /",
        )
    fields["image"] = value


def set_mounts(fields: Fields, value: str) -> None:
    """Add mounts SRC:DST[:FLAGS], separated by commas. A lone SRC is mounted at the same path. Raises
    UserError.
    """
    mounts = fields.setdefault("mounts", [])
    for item in value.split(","):
        source, _, rest = item.partition(":")
        target, _, flags = rest.partition(":")
        chosen = [flag for flag in flags.split("+") if flag]
        unknown = [flag for flag in chosen if flag not in FLAGS]
        if not source or not (target or source).startswith("/"):
            raise UserError(
                f"--container-mounts: {item!r} is not a mount", "write SRC:DST[:FLAGS] with an absolute DST"
            )
        if unknown:
            raise UserError(f"--container-mounts: unknown flag {unknown[0]!r}", "write " + ", ".join(FLAGS))
        mounts.append({"source": source, "target": target or source, "flags": chosen})
    if len(mounts) > MAX_MOUNTS:
        raise UserError(f"--container-mounts: more than {MAX_MOUNTS} mounts", "mount a common parent folder")


def set_name(fields: Fields, value: str) -> None:
    """Set the name from NAME[:auto]. Other values after the colon in pyxis depend on running containers and
    are rejected with UserError.
    """
    name, _, how = value.partition(":")
    if not _NAME.fullmatch(name):
        raise UserError(f"--container-name={value} is not a container name", "use letters, digits, _ . and -")
    if how not in ("", "auto"):
        raise UserError(f"--container-name={value}: {how!r} is not supported", "write only the name")
    fields["name"] = name


def set_workdir(fields: Fields, value: str) -> None:
    """Set the working directory, an absolute path inside the container. Raises UserError."""
    if not value.startswith("/"):
        raise UserError(
            f"--container-workdir={value} is not an absolute path", "write a path inside the container"
        )
    fields["workdir"] = value


def set_env(fields: Fields, value: str) -> None:
    """Set the names of the variables that keep the job's value even if the image sets another. Raises
    UserError.
    """
    names = [name for name in value.split(",") if name]
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise UserError(f"--container-env: {name!r} is not a variable name", "write NAME[,NAME...]")
    fields["env"] = names


def _flag(field: str, value: bool) -> Callable[[Fields, str], None]:
    def set_flag(fields: Fields, _: str) -> None:
        fields[field] = value

    return set_flag


OPTIONS: dict[str, Callable[[Fields, str], None]] = {
    "container-image": set_image,
    "container-mounts": set_mounts,
    "container-name": set_name,
    "container-workdir": set_workdir,
    "container-env": set_env,
    "container-mount-home": _flag("mount_home", True),
    "no-container-mount-home": _flag("mount_home", False),
    "container-remap-root": _flag("remap_root", True),
    "no-container-remap-root": _flag("remap_root", False),
    "container-entrypoint": _flag("entrypoint", True),
    "no-container-entrypoint": _flag("entrypoint", False),
    "container-writable": _flag("writable", True),
    "container-readonly": _flag("writable", False),
}
"""Option -> function that applies it to the fields of `model.Container`."""


def check_container(fields: Fields | None) -> None:
    """Raise UserError if the options do not specify a container."""
    if fields is not None and not fields.get("image") and not fields.get("name"):
        raise UserError(
            "the container has no image",
            "add --container-image, or --container-name of an existing container",
        )
