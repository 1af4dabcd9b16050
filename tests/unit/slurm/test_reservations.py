"""scontrol and reservations: what create, update, delete and show print, and which arguments they refuse."""

from __future__ import annotations

import json

import pytest
from tests.support.command_site import CommandSite, Printed

from warpdeck.ports.caller import Principal

DAEMON = Principal(user="daemon", uid=1)
CONFIG = """
[licenses]
matlab = 4
[partitions.gpu]
nodes = "n[1-3]"
[partitions.debug]
nodes = "n4"
[scheduler]
default_partition = "gpu"
[accounts.lab.users.root]
"""
NODES = ("n1", "n2", "n3", "n4")
CREATE = "scontrol create reservation"
AT = "starttime=2030-01-01T12:00:00 duration=5"
NOTE = (
    "Note, unless nodes are directly requested a reservation must exist in a single partition.\n"
    "If no partition is requested the default partition is assumed.\n"
)
NONE = "  No reservation created.\n"
KEPT = "  No reservation update.\nslurm_update error: No error\n"


def create(site: CommandSite, given: str) -> str:
    """Create a reservation, and return its name."""
    printed = site.run(f"{CREATE} {given}")
    assert (printed.code, printed.err) == (0, ""), printed
    return printed.out.removeprefix("Reservation created: ").rstrip("\n")


def shown(site: CommandSite, name: str) -> dict[str, str]:
    """Return the pairs of `scontrol show reservation`."""
    printed = site.run(f"scontrol -o show reservation {name}")
    assert printed.code == 0, printed
    pairs = (word.partition("=") for word in printed.out.split())
    return {key: value for key, equals, value in pairs if equals}


# ---- The text of a reservation


def test_a_reservation_in_slurms_layout(own_site: CommandSite) -> None:
    assert create(own_site, f"{AT} users=root nodes=n1") == "root_1"
    assert own_site.run("scontrol show reservation root_1").out == (
        "ReservationName=root_1 StartTime=2030-01-01T12:00:00 EndTime=2030-01-01T12:05:00 Duration=00:05:00\n"
        "   Nodes=n1 NodeCnt=1 CoreCnt=16 Features=(null) PartitionName=(null) Flags=IGNORE_JOBS,SPEC_NODES\n"
        "   TRES=cpu=16\n"
        "   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a\n"
        "   MaxStartDelay=(null)\n\n"
    )


def test_one_line_holds_the_same_pairs(own_site: CommandSite) -> None:
    create(own_site, f"reservationname=r2 {AT} users=root nodes=n1")
    many, one = (own_site.run(f"scontrol {option}show reservation r2").out for option in ("", "-o "))
    assert one.count("\n") == 1
    assert one.split() == many.split()


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ("nodecnt=2", {"Nodes": "n[1-2]", "NodeCnt": "2", "PartitionName": "gpu", "Flags": ""}),
        ("nodes=n1 corecnt=4", {"Nodes": "n1", "CoreCnt": "4", "TRES": "cpu=4"}),
        ("tres=gres/gpu=2", {"Nodes": "n1", "CoreCnt": "8", "TRES": "cpu=8,gres/gpu=2"}),
        (
            "licenses=matlab:2 flags=license_only",
            {
                "Nodes": "(null)",
                "NodeCnt": "0",
                "TRES": "(null)",
                "Licenses": "matlab:2",
                "Flags": "ANY_NODES",
            },
        ),
        (
            "nodes=n2 flags=daily,maint,ignore_jobs,purge_comp=10",
            {"Flags": "MAINT,IGNORE_JOBS,DAILY,SPEC_NODES,PURGE_COMP=00:10:00"},
        ),
        (
            "partitionname=debug nodes=all flags=part_nodes",
            {"Nodes": "n4", "PartitionName": "debug", "Flags": "IGNORE_JOBS,SPEC_NODES"},
        ),
    ],
)
def test_the_resources_and_flags_of_a_reservation(
    own_site: CommandSite, given: str, pairs: dict[str, str]
) -> None:
    name = create(own_site, f"{AT} users=root {given}")
    assert {key: shown(own_site, name)[key] for key in pairs} == pairs


def test_the_json_of_a_reservation(own_site: CommandSite) -> None:
    create(own_site, f"reservationname=r2 {AT} users=daemon,root nodecnt=2")
    (entry,) = json.loads(own_site.run("scontrol --json show reservation r2").out)["reservations"]
    end = entry.pop("end_time")
    assert end - entry.pop("start_time") == 300
    assert entry == {
        "flags": [],
        "accounts": "",
        "burst_buffer": "",
        "core_count": 32,
        "core_spec_cnt": 0,
        "features": "",
        "groups": "",
        "licenses": "",
        "max_start_delay": 0,
        "name": "r2",
        "node_count": 2,
        "node_list": "n[1-2]",
        "partition": "gpu",
        "watts": 4294967294,
        "tres": "cpu=32",
        "users": "daemon,root",
    }


def test_sinfo_lists_reservations(own_site: CommandSite) -> None:
    assert own_site.run("sinfo -T").out == "No reservations in the system\n"
    create(own_site, f"{AT} users=root nodes=n1")
    assert own_site.run("sinfo -T").lines == [
        "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST",
        "root_1     INACTIVE  2030-01-01T12:00:00  2030-01-01T12:05:00     00:05:00  n1",
    ]


def test_a_name_is_that_of_the_first_account_or_user_and_a_number(own_site: CommandSite) -> None:
    assert create(own_site, f"{AT} users=root,daemon nodes=n1") == "root_1"
    assert create(own_site, f"{AT} users=root nodes=n2") == "root_2"
    assert create(own_site, f"{AT} users=-daemon nodes=n3") == "daemon_1"
    assert create(own_site, f"{AT} users=daemon accounts=lab nodes=n4") == "lab_1"


# ---- What cannot be created


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("starttime=now", "An end time or duration must be given."),
        ("duration=5", "A start time must be given."),
        (AT, "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified."),
        (f"{AT} nodes=n1", "Either Users/Groups and/or Accounts must be specified."),
        (f"{AT} nodes=n1 flags=maint", "Either Users/Groups and/or Accounts must be specified."),
        ("starttime=now+1day endtime=now users=root nodes=n1", "Start time cannot be after end time."),
        ("starttime=now duration=x users=root nodes=n1", "Invalid duration duration=x."),
        (
            f"{AT} users=root groups=root nodes=n1",
            "Users and Groups are mutually exclusive.  You can have one or the other, but not both.",
        ),
        (f"{AT} users=root nodecnt=x", "Invalid node count x."),
        (f"{AT} users=root nodes=n1 flags=foo", "Error parsing flags foo."),
        (f"{AT} users=root nodes=n1 foo=1", "Unknown parameter foo=1."),
        (
            f"{AT} users=root nodes=n1 foo",
            "Misformatted parameter 'foo', most options have a parameter after '='.",
        ),
        (
            f"{AT} users=root partitionname=gpu nodes=n1 flags=part_nodes",
            "PART_NODES flag requires specifying a Partition and ALL nodes.",
        ),
    ],
)
def test_wrong_arguments_get_slurms_message(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"{CREATE} {given}") == Printed(1, "", f"scontrol: error: {message}{NONE}")


def test_a_wrong_time_gets_two_messages(site: CommandSite) -> None:
    printed = site.run(f"{CREATE} starttime=foo duration=5 users=root nodes=n1")
    assert printed.err == (
        "Invalid time specification (pos=0): foo\n"
        "scontrol: error: Invalid start time starttime=foo.  No reservation created.\n"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (f"{AT} users=nosuch nodes=n1", "Invalid user id"),
        (
            f"{AT} accounts=nosuch nodes=n1",
            "Invalid account or account/partition combination specified\nthere is no account nosuch",
        ),
        (f"{AT} users=root nodes=n9", "Invalid node name specified\nthere is no node n9"),
        (
            f"{AT} users=root licenses=matlab:9 flags=license_only",
            "Invalid license specification\nthere are 4 licenses of matlab",
        ),
        (
            f"{AT} users=root licenses=foo flags=license_only",
            "Invalid license specification\nthere are 0 licenses of foo",
        ),
        (
            f"{AT} users=root watts=2k",
            "Invalid node name specified\na reservation without nodes needs the flag ANY_NODES",
        ),
        (f"{AT} users=root partitionname=nosuch nodecnt=1", "Invalid partition name specified"),
        (
            f"{AT} users=root nodes=n1 flags=replace",
            "Invalid node name specified\nREPLACE requires NodeCnt and cannot be used with named nodes",
        ),
    ],
)
def test_what_the_cluster_lacks_is_refused(site: CommandSite, given: str, message: str) -> None:
    assert site.run(f"{CREATE} {given}") == Printed(1, "", f"Error creating the reservation: {message}\n")


def test_two_reservations_cannot_have_a_node_at_the_same_time(own_site: CommandSite) -> None:
    create(own_site, f"{AT} users=root nodes=n1")
    assert own_site.run(f"{CREATE} {AT} users=root nodes=n1").err == (
        "Error creating the reservation: Requested reservation overlaps with another reservation\n"
        "n1 belongs to reservation root_1 at that time\n"
    )
    assert create(own_site, "starttime=2030-01-01T12:05:00 duration=5 users=root nodes=n1") == "root_2"


def test_a_number_of_nodes_that_the_partition_lacks_gets_slurms_note(site: CommandSite) -> None:
    assert site.run(f"{CREATE} {AT} users=root nodecnt=4") == Printed(
        1, NOTE, "Error creating the reservation: Requested node configuration is not available\n"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{CREATE} {AT} users=root tres=foo=2", "scontrol: error: couldn't identify configured TRES 'foo'"),
        (f"{CREATE} {AT} users=root watts=x flags=any_nodes", "scontrol: error: Invalid Watts value: x"),
        ("scontrol create", "too few arguments for create keyword"),
        ("scontrol create foo=1", "scontrol: error: Invalid creation entity: foo=1"),
        ("scontrol delete", "too few arguments for delete keyword"),
        ("scontrol delete foo=1", "Invalid deletion entity: foo=1"),
        (
            "scontrol delete reservation",
            "scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'",
        ),
        (
            "scontrol delete reservation r9",
            "delete_reservation reservation: Requested reservation is invalid",
        ),
    ],
)
def test_other_messages_of_create_and_delete(site: CommandSite, line: str, message: str) -> None:
    assert site.run(line) == Printed(1, "", f"{message}\n")


def test_only_operators_create_reservations(site: CommandSite) -> None:
    printed = site.run(f"{CREATE} {AT} users=daemon nodes=n1", user=DAEMON)
    assert (printed.code, printed.err) == (1, "Error creating the reservation: Invalid user id\n")


# ---- Changes


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ("duration=2:00:00", {"Duration": "02:00:00", "EndTime": "2030-01-01T14:00:00"}),
        ("duration+=5", {"Duration": "00:10:00", "EndTime": "2030-01-01T12:10:00"}),
        ("duration-=2", {"Duration": "00:03:00", "EndTime": "2030-01-01T12:03:00"}),
        ("endtime=2030-01-01T13:00", {"Duration": "01:00:00"}),
        ("starttime=2030-01-02T12:00", {"StartTime": "2030-01-02T12:00:00", "Duration": "00:05:00"}),
        ("nodecnt=3", {"Nodes": "n[1-3]", "CoreCnt": "48", "TRES": "cpu=48"}),
        ("nodes=n3", {"Nodes": "n3", "NodeCnt": "1"}),
        ("users+=daemon", {"Users": "daemon,root"}),
        ("users=daemon", {"Users": "daemon"}),
        ("accounts=lab", {"Users": "root", "Accounts": "lab"}),
        ("flags+=maint", {"Flags": "MAINT"}),
        ("licenses=matlab:1", {"Licenses": "matlab:1"}),
    ],
)
def test_a_change_is_shown(own_site: CommandSite, given: str, pairs: dict[str, str]) -> None:
    create(own_site, f"reservationname=r2 {AT} users=root nodecnt=2")
    assert own_site.run(f"scontrol update reservationname=r2 {given}") == Printed(
        0, "Reservation updated.\n", ""
    )
    assert {key: shown(own_site, "r2")[key] for key in pairs} == pairs


def test_flags_and_users_are_removed_again(own_site: CommandSite) -> None:
    create(own_site, f"reservationname=r2 {AT} users=daemon,root nodecnt=2 flags=maint,daily")
    own_site.run("scontrol update reservationname=r2 flags-=maint users-=root")
    assert (shown(own_site, "r2")["Flags"], shown(own_site, "r2")["Users"]) == ("DAILY", "daemon")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("duration=+30", f"scontrol: error: Invalid duration duration=+30.{KEPT}"),
        (
            "nodes+=n3",
            f"scontrol: error: The +=/-= notation is not supported when updating nodes.{KEPT}",
        ),
        (
            "groups=root",
            "Error updating the reservation: "
            "Reservations can't have users and groups specified, only one or the other\n"
            "slurm_update error: Reservations can't have users and groups specified, only one or the other\n",
        ),
        (
            "nodes=n9",
            "Error updating the reservation: Invalid node name specified\nthere is no node n9\n"
            "slurm_update error: Invalid node name specified\n",
        ),
        (
            "corecnt=3",
            "Error updating the reservation: Core-based reservation can not be updated\n"
            "create another reservation and delete this one\n"
            "slurm_update error: Core-based reservation can not be updated\n",
        ),
    ],
)
def test_a_wrong_change_gets_slurms_message(own_site: CommandSite, given: str, message: str) -> None:
    create(own_site, f"reservationname=r2 {AT} users=root nodecnt=2")
    assert own_site.run(f"scontrol update reservationname=r2 {given}") == Printed(1, "", message)


def test_only_an_existing_reservation_is_changed(site: CommandSite) -> None:
    assert site.run("scontrol update reservationname=nosuch duration=3").err == (
        "Error updating the reservation: Requested reservation is invalid\n"
        "slurm_update error: Requested reservation is invalid\n"
    )


def test_a_change_cannot_take_the_nodes_of_another_reservation(own_site: CommandSite) -> None:
    create(own_site, f"reservationname=r2 {AT} users=root nodes=n1")
    create(own_site, "reservationname=r3 starttime=2030-01-02 duration=5 users=root nodes=n1")
    assert own_site.run("scontrol update reservationname=r3 starttime=2030-01-01T12:01:00").err == (
        "Error updating the reservation: Requested reservation overlaps with another reservation\n"
        "n1 belongs to reservation r2 at that time\n"
        "slurm_update error: Requested reservation overlaps with another reservation\n"
    )


def test_a_deleted_reservation_is_gone(own_site: CommandSite) -> None:
    create(own_site, f"reservationname=r2 {AT} users=root nodecnt=2")
    assert own_site.run("scontrol delete reservationname=r2") == Printed(0, "", "")
    assert own_site.run("scontrol show reservation").out == "No reservations in the system\n"
    assert own_site.run("scontrol show reservation r2") == Printed(1, "Reservation r2 not found\n", "")


def test_a_reservation_of_a_waiting_job_is_not_deleted(own_site: CommandSite) -> None:
    create(own_site, f"reservationname=r2 {AT} users=root nodecnt=2")
    own_site.submit("--reservation=r2", "-t1")
    printed = own_site.run("scontrol delete reservationname=r2")
    assert printed == Printed(
        1, "", "delete_reservation reservationname=r2: Requested reservation is in use\n"
    )
