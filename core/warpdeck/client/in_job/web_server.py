"""Notebook and editor servers inside a job: scripts that start a server, and a script that finds it again.

A server listens on the loopback address of the node and requires a token. The token is created on the node
and stored in files with mode 0600 in the launch's own folder. It is passed to the server in its environment
or in a file, so it appears in no process list and in no log. One script starts a server, either as the job
itself or in addition to the job's program. Another one finds the server and prints its port and token.
"""

from __future__ import annotations

import json
from typing import NamedTuple
from urllib.parse import quote, urlencode

from .service_folder import PLACE

JUPYTER, CODE = "jupyter", "code"
NO_SERVER = "none"
"""The kind that is reported if the node has no editor server. The job then serves Remote-SSH."""
LOOKS = 20
"""Number of attempts of the finding script, a tenth of a second apart, before it reports that there is no
server yet.
"""

_START = (
    PLACE
    + r"""
[ "${SLURM_PROCID:-0}" = 0 ] || exec tail -f /dev/null # only the first task runs the server
secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
free_port() {
    while :; do
        port=$(($(od -An -N2 -tu2 /dev/urandom) % 20000 + 20000))
        cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qi ":$(printf %04X "$port") " || return 0
    done
}
first_of() {
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 && return 0
    done
    return 1
}
"""
)
START = {
    JUPYTER: _START
    + r"""
first_of jupyter-lab jupyter-notebook jupyter-server ||
    fail "there is no jupyter on the PATH of this job on $(uname -n)"
mkdir -p "$place/jupyter"
JUPYTER_RUNTIME_DIR=$place/jupyter JUPYTER_TOKEN=$(secret)
export JUPYTER_RUNTIME_DIR JUPYTER_TOKEN
free_port
[ "$(id -u)" != 0 ] || set -- --allow-root "$@"
exec "$program" --no-browser --ip=127.0.0.1 --port="$port" "$@"
""",
    CODE: _START
    + r"""
first_of openvscode-server code-server || program=none
token=$(secret)
free_port
printf '{"kind": "%s", "port": %s, "token": "%s"}\n' "$program" "$port" "$token" >"$place/code.json.new"
mv "$place/code.json.new" "$place/code.json"
case $program in
openvscode-server)
    printf '%s' "$token" >"$place/token"
    exec openvscode-server --host 127.0.0.1 --port "$port" --connection-token-file "$place/token" "$@"
    ;;
code-server)
    printf 'bind-addr: 127.0.0.1:%s\nauth: password\npassword: %s\ncert: false\n' "$port" "$token" >"$place/config.yaml"
    exec code-server --config "$place/config.yaml" --disable-telemetry "$@"
    ;;
none) [ -n "${WARPDECK_BESIDE:-}" ] || exec tail -f /dev/null ;;
esac
""",
}
BESIDE = (
    PLACE
    + r"""
kind=$1 script=$2
shift 2
rm -rf "$place/$kind.json" "$place/$kind"
WARPDECK_BESIDE=1 setsid /bin/sh -c "$script" "$kind" "$@" </dev/null >"$place/$kind.log" 2>&1 &
echo "$!" >"$place/$kind.pid"
"""
)
FIND = (
    PLACE
    + f"""
i=0
while [ $i -lt {LOOKS} ]; do
"""
    + r"""
    if [ -s "$place/$1.pid" ] && ! kill -0 "$(cat "$place/$1.pid")" 2>/dev/null; then
        grep -s '"kind": "none"' "$place/$1.json" && exit
        fail "$(tail -n 1 "$place/$1.log" 2>/dev/null)"
    fi
    for file in "$place/$1.json" "$place/$1"/*server-*.json; do
        [ -s "$file" ] && exec cat "$file"
    done
    sleep 0.1
    i=$((i + 1))
done
"""
)


class WebServer(NamedTuple):
    """A server that is listening, or will be in a moment."""

    kind: str
    port: int
    token: str
    base: str = "/"

    @property
    def page(self) -> str:
        """The part of the URL that follows the host.

        code-server takes its password on a page of its own. The URL contains the password only for the user,
        after a #, because browsers do not send that part to any server.
        """
        if self.kind == "code-server":
            return f"/#password={self.token}"
        words = {"tkn" if self.kind == "openvscode-server" else "token": self.token}
        return quote(self.base, safe="/%:@!$&'()*+,;=~") + f"?{urlencode(words)}"

    def url(self, local_port: int) -> str:
        """Return the URL for the user, once the server's port is forwarded to `local_port`."""
        return f"http://127.0.0.1:{local_port}{self.page}"


def start_beside(kind: str, words: list[str]) -> list[str]:
    """Return the command that starts a server of this kind inside a job that runs another program."""
    return ["/bin/sh", "-c", BESIDE, "beside", kind, START[kind], *words]


def find(kind: str) -> list[str]:
    """Return the command that prints the facts about the server of this kind.

    It prints nothing if there is none yet.
    """
    return ["/bin/sh", "-c", FIND, "find", kind]


def job_script(kind: str) -> str:
    """Return the batch script of a job that runs only the server."""
    return "#!/bin/sh\n" + START[kind]


def parse(said: bytes) -> WebServer | None:
    """Parse the output of the command from `find`. Return None if it is missing or incomplete."""
    try:
        facts = json.loads(said)
        return WebServer(
            kind=str(facts.get("kind", JUPYTER)),
            port=int(facts["port"]),
            token=str(facts["token"]),
            base=str(facts.get("base_url", "/")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
