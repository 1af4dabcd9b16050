#!/bin/bash
# Hosts on one machine, started by root. Each has its own network, mount, process, host name and IPC namespaces and a real sshd.
#
#   hosts.sh up N            start N hosts on a bridge    hosts.sh down            stop all hosts
#   hosts.sh keep            wait for the end of the standard input, then stop everything
#   hosts.sh exec I ARGV     run a command on host I      hosts.sh sshd I stop|start
#   hosts.sh partition I     take the link down           hosts.sh heal I          bring the link up
#   hosts.sh drop I          silently drop all packets    hosts.sh undrop I        stop dropping packets
#   hosts.sh shun I          drop packets of this machine hosts.sh undrop I
#   hosts.sh crash I         kill the whole host          hosts.sh boot I          bring it back, with a new boot id
#
# The caller is in the lab's own network namespace (tests/lab/hosts.py enters it). Therefore all labs use the same names and
# addresses without conflict. No namespace has a name and no mount exists outside a host, so nothing is left when a host's first
# process dies.
set -eu
BASE=${HOSTS_BASE:?the folder of this lab}
BRIDGE=lab0
NET=198.18.60

address() { echo "$NET.$((10 + $1))"; }

# Print this machine's pid of the first process of host I. `unshare` is its parent; each of the two dies with the other.
first_process() {
    local parent
    parent=$(cat "$BASE/$1/unshare.pid")
    cut -d' ' -f1 "/proc/$parent/task/$parent/children"
}

inside() {
    local host=$1
    shift
    nsenter --target "$(first_process "$host")" --net --mount --pid --uts --ipc -- "$@"
}

configure() {
    local dir=$BASE/$1
    mkdir -p "$dir/etc" "$dir/home"
    chmod 755 "$dir" "$dir/home"
    [ -f "$dir/hostkey" ] || ssh-keygen -q -t ed25519 -N '' -C "host$1" -f "$dir/hostkey"
    local name
    for name in passwd group shadow; do
        [ -f "$dir/etc/$name" ] || cp "/etc/$name" "$dir/etc/$name"
    done
    { echo "127.0.0.1 localhost"; for name in 1 2 3 4 5 6 7 8 9; do echo "$(address $name) host$name"; done; } >"$dir/etc/hosts"
    cat >"$dir/sshd_config" <<END
ListenAddress $(address "$1"):22
ListenAddress $(address "$1"):2222
HostKey $dir/hostkey
PidFile $dir/sshd.pid
AuthorizedKeysFile $BASE/client.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 200:30:500
MaxSessions 100
SetEnv LAB_HOST=host$1 PYENV_REHASH_TIMEOUT=1 LD_LIBRARY_PATH=${HOSTS_NVML:-} FAKE_NVML_STATE=$dir/nvml.state
END
}

# bash is the first process, because it reaps the orphans of killed agents and jobs.
INIT='
mount --make-rprivate /
for name in passwd group shadow hosts; do mount --bind "$1/etc/$name" "/etc/$name"; done
cat /proc/sys/kernel/random/uuid >"$1/boot_id"
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
hostname "$2"
: >"$1/ready"
sleep infinity &
wait
'

boot() {
    local dir=$BASE/$1
    rm -f "$dir/ready"
    setsid unshare --net --uts --mount --ipc --pid --fork --mount-proc --kill-child \
        bash -c "$INIT" init "$dir" "host$1" </dev/null >/dev/null 2>&1 &
    echo $! >"$dir/unshare.pid"
    until [ -e "$dir/ready" ]; do sleep 0.01; done
    ip link add "lab0h$1" type veth peer name eth0 netns "$(first_process "$1")"
    ip link set "lab0h$1" master "$BRIDGE" up
    inside "$1" ip link set lo up
    inside "$1" ip address add "$(address "$1")/24" dev eth0
    inside "$1" ip link set eth0 up
    start_sshd "$1"
}

start_sshd() {
    inside "$1" /usr/sbin/sshd -f "$BASE/$1/sshd_config" -E "$BASE/$1/sshd.log"
    until inside "$1" ss -Hltn 'sport = 22' | grep -q .; do sleep 0.01; done
}

# Kill the listener and all its sessions, as a bad package upgrade would.
stop_sshd() {
    inside "$1" bash -c 'for dir in /proc/[0-9]*; do
        read -r name <"$dir/comm" 2>/dev/null || continue
        case $name in sshd*) kill -9 "${dir#/proc/}" 2>/dev/null || true ;; esac
    done'
}

up() {
    mkdir -p /run/sshd
    ssh-keygen -q -t ed25519 -N '' -C lab -f "$BASE/client"
    ip link add "$BRIDGE" type bridge
    ip address add "$NET.1/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    local host
    for host in $(seq 1 "$1"); do
        configure "$host"
        boot "$host"
    done
}

crash() {
    kill -9 "$(first_process "$1")" 2>/dev/null || true
    ip link delete "lab0h$1" 2>/dev/null || true
}

down() {
    local file
    for file in "$BASE"/*/unshare.pid; do
        [ -e "$file" ] || continue
        crash "$(basename "$(dirname "$file")")"
    done
    ip link delete "$BRIDGE" 2>/dev/null || true
}

rules() {
    inside "$1" nft -f - <<<"table inet lab { chain arriving { type filter hook input priority 0; $2; }; }"
}

# A test run that ends normally writes a line. A killed run does not, and then its controllers and agents are killed too.
keep() {
    if ! read -r _; then
        local own dir
        own=$(readlink /proc/self/ns/net)
        for dir in /proc/[0-9]*; do
            [ "${dir#/proc/}" != "$$" ] || continue
            [ "$(readlink "$dir/ns/net" 2>/dev/null)" = "$own" ] && kill -9 "${dir#/proc/}" 2>/dev/null || true
        done
    fi
    down
    rm -rf "$BASE"
}

case $1 in
up) up "$2" ;;
down) down ;;
keep) keep ;;
exec) shift && inside "$@" ;;
sshd) "$3_sshd" "$2" ;;
partition) ip link set "lab0h$2" down ;;
heal) ip link set "lab0h$2" up ;;
drop) rules "$2" 'policy drop; iif lo accept' ;;
shun) rules "$2" "ip saddr $NET.1 drop" ;;
undrop) inside "$2" nft delete table inet lab ;;
crash) crash "$2" ;;
boot) boot "$2" ;;
*) echo "hosts.sh: no command $1" >&2 && exit 2 ;;
esac
