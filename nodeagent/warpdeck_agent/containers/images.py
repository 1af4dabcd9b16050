"""Names of container images in the syntax of pyxis, converted to the syntax of each runtime.

Pure functions. The kind of a path follows from its name alone, because a root agent must not inspect paths on
a user's behalf.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List

DOCKER_HUB = "docker.io"


@dataclass(frozen=True)
class Image:
    """A container image.

    `kind` is "registry", "docker" (in the Docker daemon), "podman" (in Podman's storage), or for a path
    "squashfs", "sif", "archive" or "folder".
    """

    kind: str
    name: str
    """The path, or the name without user and registry."""
    registry: str = ""
    user: str = ""

    def reference(self) -> str:
        """Return registry/name of a registry's image.

        Docker Hub's conventions apply if no registry is given.
        """
        registry = self.registry or DOCKER_HUB
        is_official = registry == DOCKER_HUB and "/" not in self.name
        return f"{registry}/{'library/' if is_official else ''}{self.name}"


def parse_image(text: str, *, work_dir: str) -> Image:
    """Parse an image's name. Paths are relative to the job's working folder."""
    for scheme, kind in (("dockerd://", "docker"), ("podman://", "podman")):
        if text.startswith(scheme):
            return Image(kind, text[len(scheme) :])
    if text.startswith(("/", "./", "../")):
        return _file(os.path.normpath(os.path.join(work_dir, text)))
    rest = text[len("docker://") :] if text.startswith("docker://") else text
    user, at, after = rest.partition("@")
    if at and not after.startswith("sha256:"):
        rest = after
    else:
        user = ""
    registry, has_hash, name = rest.partition("#")
    return Image("registry", name, registry, user) if has_hash else Image("registry", rest, "", user)


def _file(path: str) -> Image:
    kinds = {".sqsh": "squashfs", ".squashfs": "squashfs", ".sif": "sif", ".tar": "archive"}
    return Image(kinds.get(os.path.splitext(path)[1], "folder"), path)


def for_podman(image: Image) -> List[str]:
    """Return the last arguments of Podman before the command."""
    if image.kind == "folder":
        return ["--rootfs", image.name]
    prefix = {"archive": "docker-archive:", "docker": "docker-daemon:"}.get(image.kind, "")
    return [prefix + (image.reference() if image.kind == "registry" else image.name)]


def for_apptainer(image: Image) -> str:
    """Return a URI or a path for Apptainer."""
    if image.kind == "registry":
        return "docker://" + (image.reference() if image.registry else image.name)
    prefix = {"docker": "docker-daemon:", "archive": "docker-archive:"}.get(image.kind, "")
    return prefix + image.name


def for_enroot(image: Image) -> str:
    """Return a URI for `enroot import`, or the path of an image that was imported before."""
    if image.kind == "registry":
        user = image.user + "@" if image.user else ""
        registry = image.registry + "#" if image.registry else ""
        return f"docker://{user}{registry}{image.name}"
    return {"docker": "dockerd://", "podman": "podman://"}.get(image.kind, "") + image.name
