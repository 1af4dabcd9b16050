#!/bin/sh
# Installs what the tests need besides Python packages, where we may: root on Debian or Ubuntu. Elsewhere pytest leaves the
# tests out that this machine cannot run, and says which and why.
set -eu
missing=
for pair in sshd:openssh-server tmux:tmux ip:iproute2 nft:nftables gcc:gcc git:git unshare:util-linux podman:podman crun:crun newuidmap:uidmap \
    mpicc.mpich:libmpich-dev mpirun.mpich:mpich mpicc.openmpi:libopenmpi-dev mpirun.openmpi:openmpi-bin zsh:zsh fish:fish busybox:busybox \
    chromium:chromium node:nodejs npm:npm mksquashfs:squashfs-tools squashfuse:squashfuse systemd-analyze:systemd; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
[ -e /usr/lib/python3/dist-packages/torch ] || missing="$missing python3-torch" # gloo; PyPI's brings 5 GB of CUDA
[ -e "/usr/lib/$(uname -m)-linux-gnu/libpmi2.so.0" ] || missing="$missing libpmi2-0" # a client of PMI-2, beside MPICH's of PMI-1
peer=/var/cache/warpdeck-tests/slurm # Slurm's own commands and daemons, unpacked; tests/slurm_parity/peer/real_slurm.py starts them
[ -x $peer/root/usr/sbin/slurmctld ] && [ -x $peer/root/usr/sbin/slurmrestd ] \
    && [ -n "$(find $peer/root/usr/lib -name Slurm.pm)" ] || unpack=$peer
for suite in bullseye trixie forky; do # the versions 20.11, 24.11 and 26.05 of Slurm
    [ -x $peer-$suite/root/usr/sbin/slurmctld ] && { [ $suite = bullseye ] || [ -n "$(find $peer-$suite/root/usr/lib -name auth_jwt.so)" ]; } ||
        ! [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || suites="${suites-} $suite"
done
editor=/var/cache/warpdeck-tests/code-server # the editor of `warpdeck code`, of a version that runs on Debian's node
[ -e $editor/done ] || build=$editor
container=/var/cache/warpdeck-tests/apptainer # a runtime that this release of Debian does not have
[ -e $container/done ] || ! [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || fetch=$container
[ -n "$missing${unpack-}${suites-}${build-}${fetch-}" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed (root on Debian or Ubuntu could):$missing ${unpack-} ${suites-} ${build-} ${fetch-}"
    exit 0
fi
echo "installing:$missing ${unpack-} ${suites-} ${build-} ${fetch-}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
[ -z "$missing" ] || apt-get install -y -qq --no-install-recommends $missing >/dev/null
[ -z "${unpack-}" ] || bash "$(dirname "$0")/slurm_parity/peer/slurm.sh" get "$unpack"
for suite in ${suites-}; do bash "$(dirname "$0")/slurm_parity/peer/slurm.sh" get "$peer-$suite" "$suite"; done
[ -z "${build-}" ] || sh "$(dirname "$0")/lab/codeserver.sh" "$build"
[ -z "${fetch-}" ] || sh "$(dirname "$0")/lab/apptainer.sh" "$fetch"
