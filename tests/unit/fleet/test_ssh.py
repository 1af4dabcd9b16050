"""SSH targets, the message for each failure, the agent's greeting, and the pauses between attempts.

The greeting must be found in noisy output.
"""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path

import asyncssh
import pytest

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.fleet.backoff import BACKOFF_FIRST_S, BACKOFF_LAST_S, backoff_s
from warpdeck.fleet.ssh.connect import explain, parse_target
from warpdeck.fleet.ssh.deploy import PROBED
from warpdeck.fleet.ssh.hostkeys import HostKey, HostKeyVerifier, KnownHosts
from warpdeck.fleet.transport import agent_answer, start_result
from warpdeck_agent.wire.frames import SENTINEL


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("gpu01", "", "gpu01", None),
        ("alice@gpu01.lab.org:2222", "alice", "gpu01.lab.org", 2222),
        ("[2001:db8::1]:22", "", "2001:db8::1", 22),
        ("a.b-c@10.0.0.1", "a.b-c", "10.0.0.1", None),
    ],
)
def test_valid_targets_are_parsed(text: str, user: str, host: str, port: int | None) -> None:
    found = parse_target(text)
    assert (found.user, found.host, found.port) == (user, host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=x",
        "a b",
        "a@",
        "@b",
        "a:0",
        "a:65536",
        "a:b",
        "a;b",
        "a$(x)",
        "2001:db8::1",
        "a\nb",
    ],
)
def test_invalid_targets_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a host"):
        parse_target(text)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (asyncssh.PermissionDenied("x"), "box rejected all SSH keys"),
        (TimeoutError(), "box did not answer within 15 s"),
        (socket.gaierror(-2, "x"), "unknown host box"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "box refused the connection"),
        (OSError(errno.EHOSTUNREACH, "x"), "cannot reach box: No route to host"),
        (OSError("Multiple exceptions: one, two"), "cannot reach box: Multiple exceptions: one, two"),
        (asyncssh.ChannelOpenError(2, "Connect failed"), "the jump host cannot reach box: Connect failed"),
        (asyncssh.ConnectionLost("reset"), "no SSH connection to box: reset"),
        (ValueError("odd key"), "no SSH connection to box: odd key"),
    ],
)
def test_each_connection_failure_has_a_message_and_a_hint(error: Exception, words: str) -> None:
    found = explain("box", error)
    assert found.message == words
    assert found.hint


def test_the_agents_greeting_is_found_in_noisy_output() -> None:
    noise = f'hello\n\x1b[1mprompt$ {SENTINEL}{{"ok": true}}\nbye\n'
    assert agent_answer(noise) == {"ok": True}
    assert agent_answer("hello\n") is None
    assert agent_answer(f"{SENTINEL}not json\n") is None
    start_result("box", noise, "")


def test_an_agent_that_does_not_start_is_reported_with_its_last_line() -> None:
    with pytest.raises(RemoteError, match="did not start: Killed"):
        start_result("box", "", "warning\nKilled\n")
    with pytest.raises(RemoteError, match=r"did not start: x{200}$"):
        start_result("box", "x" * 1_000_000, "")
    with pytest.raises(RemoteError, match="no room"):
        start_result("box", f'{SENTINEL}{{"ok": false, "error": "no room"}}\n', "")


def test_the_answer_of_the_probe_is_found_after_a_prompt() -> None:
    match = PROBED.search("$ WARPDECK-PROBE|/usr/bin/python3|3.11|/home/a b/.warpdeck|gpu01|boot|10.0.0.7|\n")
    assert match is not None
    assert match.groups() == ("/usr/bin/python3", "3.11", "/home/a b/.warpdeck", "gpu01", "boot", "10.0.0.7")


def test_reconnect_pauses_grow_to_a_limit_with_jitter() -> None:
    rng = random.Random(1)
    pauses = [backoff_s(attempt, rng) for attempt in range(2000)]
    assert BACKOFF_FIRST_S <= pauses[0] <= BACKOFF_FIRST_S * 1.5
    assert all(pause <= BACKOFF_LAST_S * 1.5 for pause in pauses)
    assert all(pause >= BACKOFF_LAST_S for pause in pauses[10:])
    assert len({round(pause, 3) for pause in pauses[10:]}) > 100


@pytest.fixture(scope="module")
def keys() -> tuple[asyncssh.SSHKey, asyncssh.SSHKey]:
    old, new = (asyncssh.generate_private_key("ssh-ed25519").convert_to_public() for _ in range(2))
    return old, new


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key("openssh").decode().strip()


def test_only_the_confirmed_key_of_an_unknown_host_is_stored(
    tmp_path: Path, keys: tuple[asyncssh.SSHKey, asyncssh.SSHKey]
) -> None:
    own = tmp_path / "known_hosts"
    known = KnownHosts([str(tmp_path / "absent")], own=str(own))
    unseen = HostKeyVerifier(known, "")
    assert not unseen.validate_host_public_key("box", "10.0.0.1", 22, keys[0])
    refused = unseen.refusal("box")
    assert refused is not None and refused.code == "host_key"
    assert refused.details["fingerprint"] == keys[0].get_fingerprint()
    assert not own.exists()
    assert not HostKeyVerifier(known, keys[1].get_fingerprint()).validate_host_public_key(
        "box", "", 22, keys[0]
    )
    assert HostKeyVerifier(known, keys[0].get_fingerprint()).validate_host_public_key(
        "box", "", 2222, keys[0]
    )
    assert own.read_text() == f"[box]:2222 {public(keys[0])}\n"
    assert own.stat().st_mode & 0o777 == 0o600


def test_a_changed_key_is_refused_with_both_fingerprints_even_if_confirmed(
    tmp_path: Path, keys: tuple[asyncssh.SSHKey, asyncssh.SSHKey]
) -> None:
    file = tmp_path / "user_known_hosts"
    file.write_text(f"box {public(keys[0])}\n")
    witness = HostKeyVerifier(KnownHosts([str(file)], own=str(tmp_path / "own")), keys[1].get_fingerprint())
    assert not witness.validate_host_public_key("box", "", 22, keys[1])
    refused = witness.refusal("box")
    assert refused is not None and refused.code == "host_key_changed"
    assert all(key.get_fingerprint() in refused.message for key in keys)
    assert f"ssh-keygen -R 'box' -f {file}" in refused.hint
    assert not (tmp_path / "own").exists()


def test_known_keys_are_separate_for_each_port(
    tmp_path: Path, keys: tuple[asyncssh.SSHKey, asyncssh.SSHKey]
) -> None:
    file = tmp_path / "own"
    file.write_text(f"[box]:2222 {public(keys[0])}\n")
    known = KnownHosts([], own=str(file))
    assert known.other_keys(HostKey(host="box", address="", port=22, key=keys[1])) == ("", [])
    assert known.other_keys(HostKey(host="box", address="", port=2222, key=keys[1]))[0] == str(file)


def test_known_hosts_are_read_again_only_after_a_change(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("users", "own")]
    known = KnownHosts([str(files[0])], own=str(files[1]))
    line = f"{{}} {asyncssh.generate_private_key('ssh-ed25519').export_public_key().decode()}"
    assert not known.read().match("one", "", None)[0]
    files[0].write_text(line.format("one"))
    read = known.read()
    assert read.match("one", "", None)[0] and known.read() is read
    files[1].write_text(line.format("two"))
    assert known.read().match("two", "", None)[0] and known.read().match("one", "", None)[0]
    files[0].unlink()
    assert not known.read().match("one", "", None)[0]
