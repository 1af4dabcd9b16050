#!/bin/bash
# A real Slurm in its own folder, for comparisons and measurements. Debian's packages are only unpacked, not installed, and
# /etc stays unchanged.
#   slurm.sh get FOLDER [SUITE]  download and unpack the packages (needs apt-get and its mirrors). With a suite, such as forky,
#                                they come from that release of Debian, with all libraries that they need. Such a Slurm only
#                                runs where FOLDER/root/usr lies over /usr, which real_slurm.py arranges in a mount namespace.
#   slurm.sh up FOLDER PORT [N]  start munged, slurmctld and slurmd on 127.0.0.1 (PORT and PORT + 1) with one node. With N, a
#                                partition "cloud" has N more nodes with 8 GPUs each. They exist only in Slurm's tables, and
#                                Slurm plans once a second.
#                                If FOLDER/site.conf exists, it defines the nodes and partitions (see
#                                tests/slurm_parity/peer/real_slurm.py), and one slurmd starts for each name in FOLDER/nodes.
#                                If FOLDER/own_names exists, each slurmd and its jobs see the node's name as that of their machine.
#                                If FOLDER/accounting exists, mariadbd and slurmdbd start too (PORT + 90 and + 91) and keep
#                                the history; sacctmgr first runs the lines of that file. FOLDER/database.conf may hold more
#                                lines of slurmdbd.conf. FOLDER/mariadb is then the folder
#                                of the database's package, which those of a suite do not have.
#   slurm.sh run FOLDER CMD...   run a Slurm command with its environment
#   slurm.sh down FOLDER         stop the daemons
# FOLDER is absolute and short, because the path of a Unix socket must fit. Removing the folder leaves nothing behind.
#
# The node claims 64 CPUs, however many the machine has: with fewer, a benchmark would measure the intervals of Slurm's scheduler
# instead of its work. The intervals are off (batch_sched_delay, sched_min_interval), and ended jobs are recorded in a text file,
# not in MySQL.
set -eu
word=$1 folder=$2
shift 2
root=$folder/root
mariadb=$folder/mariadb
plugins=$(echo "$root"/usr/lib/*/slurm-wlm)
export SLURM_CONF=$folder/slurm.conf
if [ "$word" != get ]; then
    export LD_LIBRARY_PATH=$plugins:${plugins%/*}:$root/lib/$(uname -m)-linux-gnu
    export PATH=$root/usr/bin:$root/usr/sbin:$PATH
fi

PACKAGES="slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge slurmdbd slurmrestd"
TOKENS=slurm-wlm-jwt-plugin # auth/jwt, with which slurmctld gives users tokens for slurmrestd

get() {
    mkdir -p "$folder/debs/partial" "$root"
    if [ "${1:-}" ]; then
        get_suite "$1" >"$folder/apt.log" 2>&1
    else
        # shellcheck disable=SC2086 # several words
        apt-get install -y -qq --download-only --no-install-recommends --reinstall -o Debug::NoLocking=1 \
            -o Dir::Cache::archives="$folder/debs" $PACKAGES slurm-wlm libmunge2 libhwloc15 liblua5.1-0 \
            slurm-wlm-mysql-plugin libslurm-perl libslurm38 mariadb-server-core libmariadb3 libaio1 liburing2 libhttp-parser2.9 >"$folder/apt.log" 2>&1
    fi
    # A release that is older than this machine's runs with this machine's newer C library.
    [ "${1:-}" != bullseye ] || rm -f "$folder"/debs/libc6_*.deb "$folder"/debs/libc-bin_*.deb
    for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$root"; done
    # A daemon reads its own name: called "slurmctld-wlm", it would act as another program.
    for daemon in slurmctld slurmd slurmstepd; do ln -sfn "$daemon-wlm" "$root/usr/sbin/$daemon"; done
    rm -rf "$folder/debs" "$folder/lists"
}

# Resolves the dependencies in the suite alone, as if no package were installed.
get_suite() {
    mkdir -p "$folder/lists/lists/partial"
    : >"$folder/lists/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main" \
        >"$folder/lists/sources.list"
    local options="-o Dir::State=$folder/lists -o Dir::State::status=$folder/lists/status -o Dir::Cache::archives=$folder/debs
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::Etc::sourcelist=$folder/lists/sources.list
        -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root -o Debug::NoLocking=1"
    # shellcheck disable=SC2086 # several words
    apt-get -qq $options update &&
        apt-get -qq $options install -y --download-only --no-install-recommends $PACKAGES $([ "$1" = bullseye ] || echo $TOKENS)
}

configure() {
    local host
    host=$(hostname -s)
    cat >"$SLURM_CONF" <<CONF
ClusterName=warpdeck
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
PluginDir=$plugins
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.sock
StateSaveLocation=$folder/state$2
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0$([ "$2" = 0 ] || echo ,bf_interval=1,bf_max_time=60,bf_max_job_test=10000)
MaxArraySize=100001
MaxJobCount=1000000
CONF
    if [ -e "$folder/site.conf" ]; then
        cat "$folder/site.conf" >>"$SLURM_CONF"
    else
        one_node "$1" "$2" "$host" >>"$SLURM_CONF"
    fi
    : >"$folder/cgroup.conf" # otherwise /etc/slurm/cgroup.conf would be read
}

one_node() {
    cat <<CONF
SelectTypeParameters=CR_CPU
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/ended.txt
AccountingStorageType=accounting_storage/none
NodeName=peer NodeHostname=$3 NodeAddr=127.0.0.1 Port=$(($1 + 1)) CPUs=64 RealMemory=1000 State=UNKNOWN
PartitionName=peer Nodes=peer Default=YES MaxTime=INFINITE State=UP
CONF
    if [ "$2" -gt 0 ]; then
        # These nodes count as powered off with an hour to start, so Slurm allocates them without contacting a slurmd.
        cat <<CONF
GresTypes=gpu
ResumeProgram=/bin/true
SuspendProgram=/bin/true
ResumeTimeout=3600
NodeName=c[1-$2] CPUs=64 RealMemory=1000 Gres=gpu:8 State=CLOUD
PartitionName=cloud Nodes=c[1-$2] MaxTime=INFINITE State=UP
CONF
    fi
}

database() {
    LD_LIBRARY_PATH=$(echo "$mariadb"/usr/lib/*-linux-gnu) setsid "$mariadb/usr/sbin/mariadbd" --no-defaults --user="$(id -un)" --datadir="$folder/db" --skip-grant-tables --innodb-use-native-aio=0 \
        --innodb-flush-method=fsync --innodb-flush-log-at-trx-commit=0 --lc-messages-dir="$mariadb/usr/share/mysql" \
        --tmpdir="$folder/db.tmp" "$@" # file names in /tmp would collide: process numbers repeat in other namespaces
}

# The database has no users. It listens only in the test's own network or on this machine's loopback, and holds only test data.
keep_accounts() {
    mkdir -p "$folder/db" "$folder/db.tmp"
    if [ -s "$folder/accounting" ]; then # slurmdbd uses stored procedures, which need the system tables
        (printf 'create database mysql;\nuse mysql;\n' && cat "$mariadb/usr/share/mysql/mysql_system_tables.sql") |
            database --bootstrap >"$folder/mariadb.err" 2>&1
    fi
    database --bind-address=127.0.0.1 --port=$(($1 + 90)) --socket="$folder/db.sock" --pid-file="$folder/mariadb.pid" \
        >>"$folder/mariadb.err" 2>&1 </dev/null &
    wait_for test -S "$folder/db.sock"
    (
        umask 077 && cat >"$folder/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock
DbdHost=localhost
DbdPort=$(($1 + 91))
SlurmUser=$(id -un)
PidFile=$folder/slurmdbd.pid
LogFile=$folder/slurmdbd.log
PluginDir=$plugins
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$(($1 + 90))
StorageUser=root
StorageLoc=slurm
CONF
        [ ! -e "$folder/database.conf" ] || cat "$folder/database.conf" >>"$folder/slurmdbd.conf"
    )
    setsid slurmdbd -D >"$folder/slurmdbd.err" 2>&1 </dev/null &
    cat >>"$SLURM_CONF" <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$(($1 + 91))
AccountingStoragePass=$folder/munge.sock
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
CONF
    wait_for eval 'sacctmgr -i add cluster warpdeck >"$folder/cluster.err" 2>&1 || grep -q already "$folder/cluster.err"'
    while read -r line; do
        # shellcheck disable=SC2086 # the words of a line are separate arguments
        sacctmgr -i $line >>"$folder/accounting.out" 2>&1 </dev/null || [ $? = 1 ]
    done <"$folder/accounting"
}

up() {
    mkdir -p "$folder/munge" "$folder/state$2" "$folder/spool"
    chmod 700 "$folder/munge"
    chmod 755 "$folder"
    (umask 077 && head -c 1024 /dev/urandom >"$folder/munge/key")
    configure "$1" "$2"
    setsid munged --foreground --force --socket="$folder/munge.sock" --key-file="$folder/munge/key" \
        --pid-file="$folder/munged.pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" \
        >"$folder/munged.err" 2>&1 </dev/null &
    wait_for test -S "$folder/munge.sock"
    [ ! -e "$folder/accounting" ] || keep_accounts "$1"
    setsid slurmctld -D >"$folder/slurmctld.err" 2>&1 </dev/null &
    for node in $(cat "$folder/nodes" 2>/dev/null || echo peer); do
        mkdir -p "$folder/spool/$node"
        start_node "$node" >"$folder/slurmd.$node.err" 2>&1 </dev/null &
    done
    wait_for eval 'sinfo -h -o %T 2>/dev/null | grep -q idle && ! sinfo -h -o %T | grep -q unk'
}

start_node() {
    set -- slurmd -D -N "$1" -d "$root/usr/sbin/slurmstepd"
    # shellcheck disable=SC2016 # the inner shell expands it
    [ ! -e "$folder/own_names" ] || set -- unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$4" "$@"
    exec setsid "$@"
}

wait_for() {
    for _ in $(seq 600); do
        "$@" && return
        sleep 0.1
    done
    echo "Slurm did not come up: see $folder" >&2
    exit 1
}

down() {
    for file in "$folder"/slurmd.*.pid "$folder/slurmctld.pid" "$folder/slurmdbd.pid" "$folder/mariadb.pid" \
        "$folder/munged.pid"; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.05
        done
        kill -KILL "$pid" 2>/dev/null || true
    done
}

case $word in
get) get "${1:-}" ;;
up) up "$1" "${2:-0}" ;;
run) exec "$@" ;;
down) down ;;
*) echo "usage: slurm.sh get|up|run|down FOLDER ..." >&2 && exit 2 ;;
esac
