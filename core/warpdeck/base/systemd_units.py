"""The systemd units of a site: its controller, the agent of this machine, and the watchdog of a standby. Pure.

The controller's system unit is hardened. Its jobs do not run in it, because `--no-local-node` or the unit of the agent keeps
them out: a job would inherit the restrictions. The controller keeps the capabilities with which it reads and writes files as
the users, and nothing that touches the kernel, devices or other processes' memory.
"""

from __future__ import annotations

CONTROLLER, AGENT, WATCHDOG = "warpdeck", "warpdeck-agent", "warpdeck-watchdog"
"""Names of the units without ".service"."""
UNITS = (CONTROLLER, AGENT, WATCHDOG)
AGENT_SERVICE = "WARPDECK_AGENT_SERVICE"
"""The variable that makes a controller connect to this machine's agent and never start it."""
MOVED_STATUS = 78
"""Exit status of a controller whose site is served by another machine. systemd does not start it again."""
HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL CAP_SETGID CAP_SETUID
AmbientCapabilities=
PrivateDevices=yes
ProtectSystem=full
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""
"""Restrictions of the controller. It still reads and writes the users' files, on every file system of the machine."""


def controller_unit(*, python: str, home: str, for_user: bool, has_agent_unit: bool) -> str:
    """Return the unit of the controller."""
    options = "" if has_agent_unit or for_user else " --no-local-node"
    environment = f"Environment={AGENT_SERVICE}=1\n" if has_agent_unit else ""
    hardening = "" if for_user else HARDENING
    return f"""\
[Unit]
Description=warpdeck controller
Documentation=man:sbatch(1)
{_network(for_user)}StartLimitIntervalSec=0

[Service]
Type=exec
{_home(home)}{environment}ExecStart={_word(python)} -I -m warpdeck.daemon.controller_process --home {_word(home)}{options}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
RestartPreventExitStatus={MOVED_STATUS}
KillMode=process
TimeoutStopSec=30
UMask=0077
LimitNOFILE=1048576
{hardening}
{_install(for_user)}"""


def agent_unit(*, python: str, home: str, for_user: bool) -> str:
    """Return the unit of this machine's agent.

    Jobs run below the agent, so it has no restrictions. They survive a restart of the agent.
    """
    return f"""\
[Unit]
Description=warpdeck agent of this machine
{_network(for_user)}StartLimitIntervalSec=0

[Service]
Type=exec
{_home(home)}Environment=WARPDECK_AGENT_STAYS=1
ExecStart={_word(python)} -I -m warpdeck.daemon.agent_process --home {_word(home)}
Restart=always
RestartSec=2
KillMode=process
Delegate=yes
TasksMax=infinity
LimitNOFILE=1048576

{_install(for_user)}"""


def watchdog_unit(*, python: str, home: str, for_user: bool, after_s: int) -> str:
    """Return the unit that takes over when the controller of this standby is silent."""
    return f"""\
[Unit]
Description=warpdeck watchdog of a standby
{_network(for_user)}
[Service]
Type=exec
{_home(home)}ExecStart={_word(python)} -I -m warpdeck.cli.main takeover --watchdog {after_s}
Restart=on-failure
RestartSec=10
KillMode=process
UMask=0077

{_install(for_user)}"""


def _network(for_user: bool) -> str:
    return "" if for_user else "Wants=network-online.target\nAfter=network-online.target remote-fs.target\n"


def _home(home: str) -> str:
    return f"Environment={_word(f'WARPDECK_HOME={home}')}\n"


def _install(for_user: bool) -> str:
    return f"[Install]\nWantedBy={'default' if for_user else 'multi-user'}.target\n"


def _word(text: str) -> str:
    """Return a word of a command line or an assignment as systemd reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if escaped and not set(escaped) & set(" \t\"'\\;") else f'"{escaped}"'
