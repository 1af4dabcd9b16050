"""An OpenSSH server inside a job, one per connection, which runs as the job's user.

`warpdeck proxy` connects an ssh client to it. It does not need root: sshd runs in inetd mode without PAM,
with a host key and authorized keys in the launch's private folder. Its sessions are started in the job's
containment. Because sshd gives its sessions nothing of its own environment, SetEnv passes the job's
environment, including the variable that marks the job's processes. Variables with more than one line are left
out, because sshd_config cannot contain them.
"""

from __future__ import annotations

from typing import NamedTuple

from warpdeck.base.errors import UserError

from .service_folder import PLACE

BANNER = b"WARPDECK-SSH "
MAX_BANNER_BYTES = 4096

SCRIPT = (
    PLACE
    + r"""
PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin
sshd=$(command -v sshd) || fail "there is no sshd on this node: install openssh-server"
command -v ssh-keygen >/dev/null || fail "there is no ssh-keygen on this node: install openssh-client"
me=$(id -un)
if [ ! -s "$place/hostkey" ]; then
    ssh-keygen -q -t ed25519 -N '' -C "$WARPDECK_JOB" -f "$place/hostkey.$$" || fail "no host key can be made"
    ln "$place/hostkey.$$" "$place/hostkey" 2>/dev/null # the first of several keys is kept
    rm -f "$place/hostkey.$$" "$place/hostkey.$$.pub"
fi
printf '%s\n' "$1" | while IFS= read -r key; do
    grep -qxF -- "$key" "$place/authorized" 2>/dev/null || printf '%s\n' "$key" >>"$place/authorized"
done
# The job's environment with its mark. Variables that a login sets, and values with line breaks, are left out.
set_env() {
    awk 'BEGIN {
        for (name in ENVIRON) {
            value = ENVIRON[name]
            if (name !~ /^[A-Za-z_][A-Za-z0-9_]*$/ || value ~ /[\r\n]/) continue
            if (name ~ /^(HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|_|MAIL|TERM|DISPLAY|SSH_.*|XDG_.*|DBUS_.*)$/) continue
            gsub(/\\/, "\\\\", value)
            gsub(/"/, "\\\"", value)
            printf " \"%s=%s\"", name, value
        }
    }' </dev/null
}
cat >"$place/sshd_config.$$" <<END
HostKey $place/hostkey
AuthorizedKeysFile $place/authorized
AllowUsers $me
UsePAM no
StrictModes no
PidFile none
LogLevel ERROR
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
AllowAgentForwarding yes
AcceptEnv *
MaxSessions 100
ClientAliveInterval 30
Subsystem sftp internal-sftp
SetEnv$(set_env)
END
mv "$place/sshd_config.$$" "$place/sshd_config" || fail "the disk of $place is full"
[ "$(id -u)" != 0 ] || mkdir -p -m 755 /run/sshd # as the service file of sshd does
printf 'WARPDECK-SSH %s %s\n' "$me" "$(ssh-keygen -y -f "$place/hostkey")"
exec "$sshd" -i -e -f "$place/sshd_config"
"""
)


class Server(NamedTuple):
    """The content of the script's first line: user name to log in with, and host key.

    The host key looks like "ssh-ed25519 AAAA...".
    """

    user: str
    host_key: str


def command(authorized: str) -> list[str]:
    """Return the command to run inside the job. `authorized` contains lines of an authorized_keys file."""
    return ["/bin/sh", "-c", SCRIPT, "sshd", authorized]


def parse_banner(line: bytes) -> Server:
    """Parse the first line of the script's output. Raises UserError if it is anything else."""
    words = line.decode("utf-8", "replace").split()
    if not line.startswith(BANNER) or len(words) < 4:
        raise UserError(
            "the SSH server in the job did not start", "check that openssh-server is installed on the node"
        )
    return Server(user=words[1], host_key=" ".join(words[2:4]))
