"""Random command lines of sreport and of sacctmgr's show and changes, with good and bad words of the man
pages.

    words = shown_line(random.Random(1))

Lines that show something refer to the site of busy_site; lines that change something refer to a site with one
account `first` (changing_line). Lines do not query values that necessarily differ: association numbers,
transactions, hosts, and resources without any usage yet.
"""

from __future__ import annotations

import random

from .random_command_lines import ACCOUNTS, USERS

_FIELDS = """
account acc acct user u cluster cl partition part share fairshare s priority pri grpjobs grpj grptres grpt grpsubmit grps grpwall
grpcpus grpmem grpnodes grpcpumins maxjobs maxj maxtres maxtrespernode maxsubmit maxs maxwall maxw maxcpus maxnodes maxcpumins
maxtrespu maxtresperuser maxjobspu maxsubmitpu mintres defaultqos defaultq parentname name na description desc organization o
defaultaccount admin adminlevel ad coord coordinators preempt preemptmode nosuch wckeys where info actor problem reason state type
maxt user%5 account%-8 name%3 share%4 descr%30
"""
FIELDS = tuple(_FIELDS.split())
_NAMES = {
    "account": ACCOUNTS,
    "association": ("",),
    "user": USERS[:5],
    "qos": ("normal", "high", "nosuch", "high,normal", "HIGH"),
}
_FLAGS = {
    "account": ("withassoc", "witha", "withcoord", "withdeleted", "where", "set", "wopl"),
    "association": ("tree", "onlydefaults", "withsub", "wol", "wolimits", "where", "withdeleted", "tre", "ml"),
    "user": ("withassoc", "withcoordinators", "where", "withd", "set", "wopl"),
    "qos": ("where", "withdeleted", "set"),
    "cluster": ("where", "withdeleted"),
    "event": ("node", "where", "all_time", "nosuch"),
    "tres": ("where", "gpu", "withd"),
    "wckey": ("where", "x"),
    "federation": ("tree", "x"),
    "problem": ("tree", "where"),
    "resource": ("withclusters", "x"),
}  # fmt: skip
_ASSOCIATION = ("account=ml", "ac=bio", "a=ml", "users=root", "u=nobody", "user=nosuch",
          "cluster=warpdeck", "c=nosuch", "parent=sci",
          "pare=sci", "par=gpu", "partition=gpu", "p=x", "foo=1", "qos=nosuch", "defaultqos=nosuch",
          "accounts=ml,bio", "acct=sci", "id=x")  # fmt: skip
_CONDITIONS = {
    "account": (*_ASSOCIATION, "name=ml", "n=bio", "desc=ml", "d=sci", "org=sci", "o=ml"),
    "association": _ASSOCIATION,
    "user": (*_ASSOCIATION, "name=root", "n=nobody", "adminlevel=admin", "ad=none", "adminlevel=x", "a=x", "defaultaccount=ml",
             "defaulta=bio", "default=ml"),
    "qos": ("name=high", "n=normal", "id=2", "id=x", "i=1", "desc=high", "preemptmode=cancel", "preemptmode=x", "preempt=x", "foo=1"),
    "cluster": ("name=warpdeck", "cluster=nosuch", "cl=x", "foo=1"),
    "event": ("nodes=n4", "n=n1", "nodes=n[1-4]", "reason=bad", "state=drain", "states=nosuch", "user=root", "user=nosuch",
              "event=node", "events=x", "start=2020-01-01", "cluster=warpdeck", "foo=1", "st=1", "end=now"),
    "tres": ("name=gpu", "type=gres", "type=cpu", "id=1001", "id=x", "t=1", "foo=1"),
    "wckey": ("name=x", "id=1", "id=x", "user=root", "cluster=warpdeck", "foo=1", "na=x"),
    "federation": ("name=x", "foo=1"),
    "problem": ("account=ml", "user=root", "foo=1"),
    "resource": ("name=x", "server=y", "foo=1"),
}  # fmt: skip
_SPELLINGS = {
    "account": ("account", "accounts", "acc", "ac"),
    "association": ("association", "assoc", "as", "associations"),
    "user": ("user", "users", "u", "us"),
    "qos": ("qos", "q"),
    "cluster": ("cluster", "cl", "clusters"),
    "event": ("event", "e", "events"),
}
_OPTIONS = ("-n", "-P", "-p", "--noheader", "--parsable2", "-nP", "-s")


def show_line(rng: random.Random) -> list[str]:
    """Return a line of sacctmgr show."""
    entity = rng.choice((*_CONDITIONS, "account", "association", "user", "qos"))
    words = ["sacctmgr", "-i", *rng.sample(_OPTIONS, rng.choice((0, 0, 1, 2)))]
    words += [rng.choice(("show", "list", "sho", "lis")), rng.choice(_SPELLINGS.get(entity, (entity,)))]
    if entity in _NAMES and rng.random() < 0.3:
        words += [word for word in [rng.choice(_NAMES[entity])] if word]
    words += rng.sample(_FLAGS[entity], rng.choice((0, 0, 1)))
    words += rng.sample(_CONDITIONS[entity], rng.choice((0, 0, 1, 1, 2)))
    if entity == "cluster":
        words.append("format=cluster,rpc,share,nodecount,clusternodes,grpjobs,maxjobs")
    elif entity == "event":
        words.append("format=nodename,event,eventraw,state,reason,user")
    elif rng.random() < 0.5 and entity not in ("tres", "wckey"):
        key_fields = ["account", "user"] if entity in ("account", "association", "user") else []
        fields = [*key_fields, *rng.sample(FIELDS, rng.randint(1, 4))]
        words.append(f"{rng.choice(('format', 'form', 'f', 'Format'))}={','.join(fields)}")
    return words


_REPORTS = (
    "cluster accountutilizationbyuser", "cluster acc", "cluster userutilizationbyaccount", "cluster userutilizationbywckey",
    "cluster wckeyutilizationbyuser", "job sizes", "job sizesbyaccount", "job sizesbywckey", "job sizesbyaccountandwckey",
    "user top", "user topusage", "user t", "res util", "reservation utilization", "job foo", "foo", "cluster userutil",
)  # fmt: skip
_REPORT_ARGUMENTS = (
    "users=root", "u=nobody", "accounts=ml", "a=x", "ac=ml", "acct=bio", "format=cluster", "f=login,used", "format=cl,foo",
    "tree", "group", "topcount=3", "t=2", "topcount=x", "flatview", "fl", "acctasparent", "printjobcount", "pr", "grouping=2,8",
    "partition=gpu", "part=x", "foo=1", "foo", "cluster=warpdeck", "cluster=nosuch", "all_clusters", "wckeys=x",
    "names=tune", "nodes=n1", "gid=0", "jobs=1", "withdeleted", "n=x", "w=1", "set", "where",
)  # fmt: skip
_REPORT_OPTIONS = (
    ("-n",), ("-P",), ("-p",), ("-t", "hours"), ("-t", "percent"), ("-t", "secper"), ("-t", "m"), ("-tHourPer",), ("-T", "cpu"),
    ("-T", "cpu,gres/gpu"), ("-T", "all"), ("-T", "nosuch"), ("--tres=mem",), ("-M", "warpdeck"), ("-a",), ("-Q",),
    ("--local",), ("-x",),
)  # fmt: skip


def report_line(rng: random.Random) -> list[str]:
    """Return a line of sreport about a month without jobs."""
    words = ["sreport"]
    for option in rng.sample(_REPORT_OPTIONS, rng.choice((0, 0, 1, 1, 2))):
        words += option
    words += rng.choice(_REPORTS).split()
    words += rng.sample(_REPORT_ARGUMENTS, rng.choice((0, 1, 1, 2, 3)))
    return [*words, "start=2020-01-01", rng.choice(("end=2020-02-01", "e=2020-02-01"))]


_SETTINGS = (
    "fairshare=3", "share=4", "f=2", "fairshare=-1", "fairshare=x", "grpjobs=3", "grpj=4", "grpjobs=-1", "grptres=cpu=10,node=2",
    "grptres=gres/gpu=4", "grptres=cpu=-1", "grptres=foo=1", "grptres+=cpu=5", "grptresmins=cpu=600", "grptresrunm=cpu=60",
    "grpsubmit=9", "grpwall=60", "grpw=1-0", "maxjobs=5", "maxj=6", "maxjobs=-1", "maxjobs=x", "maxsubmit=7", "maxs=-1",
    "maxtres=cpu=4", "maxtresperjob=node=2", "maxtrespernode=cpu=2", "maxtresmins=cpu=90", "maxwall=2:00:00", "maxw=30", "maxwall=-1",
    "maxwall=x", "maxnodes=3", "maxcpus=8", "grpcpus=16", "grpmem=1000", "foo=1", "m=1", "gr=1", "qos=high", "qos=normal,high",
    "qos+=high", "qos-=high", "qos=nosuch", "defaultqos=nosuch", "set", "where",
)  # fmt: skip
_OF_QOS = (
    "priority=100", "pri=5", "priority=x", "gracetime=60", "preempt=normal", "preempt=nosuch", "preemptmode=requeue", "preemptmode=x",
    "flags=denyonlimit", "flags+=overpartqos", "flags-=denyonlimit", "flags=-1", "grptres=cpu=10", "grpjobs=3", "grpj=-1",
    "maxjobsperuser=4", "maxj=5", "maxjobspa=6", "maxsubmitjobspa=7", "maxtresperuser=cpu=8", "maxtrespa=node=3", "maxtres=cpu=2",
    "mintres=cpu=1", "maxwall=1-0", "maxwall=x", "usagefactor=0.5", "usagef=2", "grpwall=100", "foo=1", "maxt=1", "maxcpuspu=9",
    "maxnodespu=2", "grptres=foo=1",
)  # fmt: skip
_CHANGED_NAMES = {
    "account": ("aa", "bb", "cc", "aa,bb", "first"),
    "user": ("ann", "bob", "cat", "ann,bob"),
    "qos": ("high", "q2", "q3"),
}


def changing_line(rng: random.Random) -> list[str]:
    """Return a line of sacctmgr add, modify or delete."""
    entity = rng.choice(("account", "user", "user", "qos"))
    verb = rng.choice(("add", "add", "create", "modify", "modify", "modify", "update", "delete", "remove"))
    name = rng.choice(_CHANGED_NAMES[entity])
    settings = rng.sample(_OF_QOS if entity == "qos" else _SETTINGS[:-2], rng.choice((0, 1, 1, 2)))
    if entity == "user":
        settings = [word for word in settings if not word.startswith("d")]
    association = [f"account={rng.choice(_CHANGED_NAMES['account'])}"] if entity == "user" else []
    if verb in ("add", "create"):
        settings = [word for word in settings if word[-2:] != "-1" and "+=" not in word and "-=" not in word]
        parent = (
            [f"parent={rng.choice(('first', 'aa', 'nosuch'))}"]
            if entity == "account" and rng.random() < 0.3
            else []
        )
        return ["sacctmgr", "-i", verb, entity, name, *association, *parent, *settings]
    if verb in ("delete", "remove"):
        where = rng.choice(([], ["where"])) if entity != "qos" else []
        return [
            "sacctmgr",
            "-i",
            verb,
            entity,
            *where,
            rng.choice((name, f"name={name}")),
            *association * rng.randint(0, 1),
        ]
    where = rng.choice(([], ["where"]))
    return [
        "sacctmgr",
        "-i",
        verb,
        entity,
        *where,
        f"name={name}",
        *association * rng.randint(0, 1),
        "set",
        *settings,
    ]
