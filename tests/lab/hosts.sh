#!/bin/bash
# hosts.sh up N | down | list | partition I | heal I | drop I (nft blackhole) | undrop I | slow I RATE | exec I cmd...
# N fake hosts on one machine: one network namespace + sshd + host key each, on a bridge in namespace-only address space.
# FABRIC=root (default): bridge gets an address in the calling namespace. Run the whole script under `unshare -n` to keep
# even that out of the machine's root namespace.
set -eu
BASE=${HOSTS_BASE:-/tmp/warpdeck-hosts}; PFX=${HOSTS_PFX:-wdh}; BR=${HOSTS_BR:-wdbr0}; NET=${HOSTS_NET:-198.18.60}
ip_of(){ echo "$NET.$((10+$1))"; }
ns(){ echo "$PFX$1"; }
# own UTS, mount (private $HOME; HOSTS_TMP=1 also /tmp) and pid namespace: killing its init kills the whole "machine".
boot(){ local i=$1 d="$BASE/$1" N; N=$(ns "$1")
  ip netns exec "$N" unshare --uts --mount --ipc --pid --fork --mount-proc --kill-child sh -c "mount --make-rprivate /; [ -z '${HOSTS_TMP:-}' ] || mount --bind $d/tmp /tmp; hostname host$i; exec /usr/sbin/sshd -D -f $d/sshd_config -E $d/sshd.log" </dev/null >/dev/null 2>&1 &
  echo $! > "$d/unshare.pid"
  for _ in $(seq 100); do ip netns exec "$N" ss -ltn 2>/dev/null | grep -q ':22 ' && break; sleep .02; done; }
crash(){ for p in $(ip netns pids "$(ns $1)"); do kill -9 "$p" 2>/dev/null || true; done; }
up(){ local n=$1; mkdir -p "$BASE" /run/sshd; chmod 700 "$BASE"
  [ -f "$BASE/client" ] || ssh-keygen -q -t ed25519 -N '' -C lab -f "$BASE/client"
  : > "$BASE/known_hosts"
  ip link show "$BR" >/dev/null 2>&1 || { ip link add "$BR" type bridge; ip link set "$BR" up; ip addr add "$NET.1/24" dev "$BR"; }
  ip route replace unreachable "$NET.0/24" metric 4096   # never leak lab packets to the default route
  for i in $(seq 1 "$n"); do local d="$BASE/$i" N; N=$(ns "$i"); mkdir -p "$d"
    [ -f "$d/hostkey" ] || ssh-keygen -q -t ed25519 -N '' -C "host$i" -f "$d/hostkey"
    ip netns add "$N"; ip link add "v$PFX$i" type veth peer name eth0 netns "$N"; ip link set "v$PFX$i" master "$BR" up
    ip -n "$N" link set lo up; ip -n "$N" addr add "$(ip_of "$i")/24" dev eth0; ip -n "$N" link set eth0 up
    cat > "$d/sshd_config" <<C
ListenAddress $(ip_of "$i"):22
HostKey $d/hostkey
PidFile $d/sshd.pid
AuthorizedKeysFile $BASE/client.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
MaxStartups 200:30:500
MaxSessions 100
ClientAliveInterval 15
Subsystem sftp internal-sftp
SetEnv LAB_HOST=host$i LD_LIBRARY_PATH=${HOSTS_NVML:-} FAKE_NVML_STATE=$d/nvml.state
C
    mkdir -p "$d/home" "$d/tmp"
    boot "$i"
    echo "$(ip_of "$i"),host$i $(cut -d' ' -f1,2 "$d/hostkey.pub")" >> "$BASE/known_hosts"
  done; }
down(){ for N in $(ip netns list | awk '{print $1}' | grep "^$PFX[0-9]" || true); do i=${N#$PFX}
    for p in $(ip netns pids "$N"); do kill "$p" 2>/dev/null || true; done; sleep 0.05
    for p in $(ip netns pids "$N"); do kill -9 "$p" 2>/dev/null || true; done
    ip netns del "$N"; ip link del "v$PFX$i" 2>/dev/null || true; done
  ip link del "$BR" 2>/dev/null || true; ip route del unreachable "$NET.0/24" 2>/dev/null || true; }
case "$1" in
 up) up "$2";; down) down;; list) ip netns list | grep "^$PFX" || true;;
 partition) ip link set "v$PFX$2" down;; heal) ip link set "v$PFX$2" up;;
 drop) ip netns exec "$(ns $2)" nft -f - <<'N'
table inet lab {
 chain i { type filter hook input priority 0; policy drop; iif "lo" accept; }
 chain o { type filter hook output priority 0; policy drop; oif "lo" accept; }
}
N
;;
 loss) ip netns exec "$(ns $2)" nft -f - <<N
table inet lab {
 chain i { type filter hook input priority 0; numgen random mod 100 < $3 drop; }
}
N
;;
 undrop) ip netns exec "$(ns $2)" nft delete table inet lab;;
 slow) ip netns exec "$(ns $2)" tc qdisc replace dev eth0 root tbf rate "$3" burst 32kbit latency 400ms;;
 fast) ip netns exec "$(ns $2)" tc qdisc del dev eth0 root;;
 crash) crash "$2";; boot) boot "$2";;
 exec) i=$2; shift 2; ip netns exec "$(ns $i)" "$@";;
esac
