"""Kinds of values that only one option has, or a few similar ones."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from warpdeck.notation.options.directives import MAX_COMPONENTS
from warpdeck.notation.values.durations import UNLIMITED, read_seconds, time_text
from warpdeck.notation.values.mail_types import in_order, parse_mail_types
from warpdeck.notation.values.numbers import count, int32, is_blank, strtol
from warpdeck.notation.values.signals import (
    DEFAULT_LEAD_S,
    EndWarning,
    read_warning,
    signal_name,
    signal_number,
)
from warpdeck.notation.values.slurm_error import SlurmError, invalid

from .bindings import (
    Distribution,
    check_gpu_bind,
    mem_bind,
    mem_bind_text,
    merged_mem_bind,
    read_distribution,
)
from .frequencies import cpu_freq, is_gpu_freq
from .hosts import hosts_of
from .slurm_options import SlurmOptions
from .value_kinds import NO_VALUE, OptionText, ValueKind, attribute, choice, text_kind

MAX_NICE = 2**31 - 3
MAX_PRIORITY = NO_VALUE - 1
"""Slurm's maximum priority, which is also the value of --priority=TOP."""

# Nodes and their hardware.


class NodeRange(NamedTuple):
    """The value of --nodes. A missing minimum is 1."""

    least: int
    most: int


def _read_nodes(given: OptionText) -> NodeRange:
    """Read COUNT or MIN-MAX."""
    low, dash, high = given.word.partition("-")
    least = _node_count(low)
    if dash:
        least, most = (1 if least < 0 else least), _node_count(high)
    elif least < 0:
        raise _no_node_count(given.word)
    else:
        most = least
    if most and most < least:
        words = f"Maximum node count {most} is less than minimum node count {least}"
        raise SlurmError(words, "write MIN-MAX")
    return NodeRange(least, most)


def _node_count(text: str) -> int:
    number, rest = strtol(text)
    if rest == text:
        if is_blank(text):
            return -1
        raise _no_node_count(text)
    for unit, factor in (("k", 1024), ("m", 1024**2)):
        if rest[:1].lower() == unit:
            number, rest = number * factor, rest[1:]
    if not is_blank(rest):
        raise _no_node_count(text)
    return int32(number)


def _no_node_count(text: str) -> SlurmError:
    return SlurmError(f'"{text}" is not a valid node count', "write COUNT or MIN-MAX")


def _store_nodes(options: SlurmOptions, option: str, value: NodeRange) -> None:
    options.min_nodes, options.max_nodes, options.nodes_set = value.least, value.most, True


def _show_nodes(options: SlurmOptions, option: str) -> str:
    least, most = options.min_nodes, options.max_nodes
    return str(least) if least == most else f"{least}-{most}"


class Switches(NamedTuple):
    """The value of --switches: the number of leaf switches, and the seconds to wait for them (None: not given)."""

    number: int | None
    wait_s: int | None = None


def _read_switches(given: OptionText) -> Switches:
    number, at, wait = given.word.partition("@")
    return Switches(count("switches", number), read_seconds(wait) if at else None)


def _store_switches(options: SlurmOptions, option: str, value: Switches) -> None:
    if value.number is not None:
        options.switches = value.number
    if value.wait_s is not None:
        options.switches_wait_s = int32(value.wait_s)


def _show_switches(options: SlurmOptions, option: str) -> str:
    if options.switches_wait_s in (None, UNLIMITED):
        return str(options.switches)
    return f"{options.switches}@{time_text(options.switches_wait_s or 0)}"


PARTS = ("sockets", "cores", "threads")
"""The parts of a node that --extra-node-info counts."""
_PART_RANGE = re.compile(r"\s*([+-]?\d+)([kKmM]?)(?:-([+-]?\d*)([kKmM]?)(?:-.*)?)?")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2}


def _read_extra(given: OptionText) -> tuple[int | None, ...]:
    """Read SOCKETS[:CORES[:THREADS]]. Each is a count, a range (its lower end counts), or *."""
    pieces = [*given.word.split(":"), "", ""][:3]
    return tuple(
        _part_count(piece, each) for each, piece in zip(("first", "second", "third"), pieces, strict=True)
    )


def _part_count(text: str, ordinal: str) -> int | None:
    if not text or text.startswith("*"):
        return None
    match = _PART_RANGE.fullmatch(text)
    words = f'Invalid numeric value "{text}" for {ordinal} arg of -B.'
    wrong = SlurmError(words, "write SOCKETS:CORES:THREADS", exit_code=1)
    if match is None:
        raise wrong
    least = strtol(match[1])[0] * _FACTORS[match[2].lower()]
    most = strtol(match[3])[0] * _FACTORS[match[4].lower()] if match[3] is not None else 1
    if least < 0 or most <= 0:
        raise wrong
    for number in (least, most):
        if number > 2**31 - 1:
            words = f"Numeric argument ({number}) to big for {ordinal} arg of -B."
            raise SlurmError(words, "write a smaller number", exit_code=1)
    return least


def _store_extra(options: SlurmOptions, option: str, value: tuple[int | None, ...]) -> None:
    options.sockets, options.cores, options.threads = value
    options.extra_set = True


def _show_extra(options: SlurmOptions, option: str) -> str:
    first = "" if options.sockets is None else str(options.sockets)
    rest = "".join(f":{value}" for value in (options.cores, options.threads) if value is not None)
    return first + rest or "unset"


_THREADS = 0x8000
"""Slurm stores cores and threads in one number, and this bit marks threads."""


def _read_spec(given: OptionText) -> int:
    """Read --core-spec or --thread-spec."""
    of_threads = given.option == "thread-spec"
    number = count(given.option, given.text, positive=of_threads)
    return number | _THREADS if of_threads else number


def _show_spec(options: SlurmOptions, option: str) -> str:
    number = options.core_spec
    if number in (None, 0xFFFE) or bool(number & _THREADS) != (option == "thread-spec"):
        return "unset"
    return str(number & ~_THREADS)


def _store_hosts(options: SlurmOptions, option: str, value: str) -> None:
    """Keep --nodelist or --nodefile. The later one replaces the other."""
    options.values.pop("nodelist", None)
    options.values.pop("nodefile", None)
    options.values[option] = value


NODES = ValueKind(_read_nodes, _store_nodes, _show_nodes, ("min_nodes", "max_nodes", "nodes_set"))
SWITCHES = ValueKind(_read_switches, _store_switches, _show_switches, ("switches", "switches_wait_s"))
SWITCH_REQ = ValueKind(lambda given: Switches(count("switches", given.text)), _store_switches)
SWITCH_WAIT = ValueKind(lambda given: Switches(None, read_seconds(given.word)), _store_switches)
EXTRA_NODE_INFO = ValueKind(_read_extra, _store_extra, _show_extra, (*PARTS, "extra_set"))
SPEC = attribute("core_spec", _read_spec)._replace(show=_show_spec)
HOSTS = ValueKind(lambda given: given.word, _store_hosts)

# Order, notifications and identity.


def _read_nice(word: str) -> int:
    niceness = strtol(word)[0]
    if abs(niceness) > MAX_NICE:
        raise SlurmError(f"Invalid --nice value, out of range (+/- {MAX_NICE})", "write a smaller number")
    return niceness


def _read_priority(word: str) -> int:
    priority = MAX_PRIORITY if word.upper() == "TOP" else strtol(word)[0]
    if priority < 0:
        raise SlurmError("Priority must be >= 0", "write a whole number, or TOP")
    if priority > MAX_PRIORITY:
        raise SlurmError(f"Priority must be < {NO_VALUE}", "write a smaller number, or TOP")
    return priority


def _read_identity(given: OptionText) -> int:
    """Read --uid or --gid."""
    option, source = given.option, given.source
    if not source.is_root:
        raise SlurmError(f"--{option} only permitted by root user", "leave it out")
    found = source.user_id(given.word) if option == "uid" else source.group_id(given.word)
    if found is None:
        raise invalid(option, "write an existing name or number")
    return int32(found)


def _read_launch_warning(word: str) -> EndWarning:
    """Read --signal of srun or salloc. There is no batch shell that could be signaled alone."""
    found = read_warning(word)
    if found.to_batch_shell:
        raise invalid("signal", "write SIGNAL[@SECONDS]; B: is sbatch's")
    return found


def _store_warning(options: SlurmOptions, option: str, value: EndWarning) -> None:
    """Keep --signal. R and B stay set once they were given."""
    before = options.values.get(option, value)
    options.values[option] = value._replace(
        to_batch_shell=value.to_batch_shell or before.to_batch_shell,
        over_reservation=value.over_reservation or before.over_reservation,
    )


def _show_warning(options: SlurmOptions, option: str) -> str:
    value = options.values[option]
    where = ("R" if value.over_reservation else "") + ("B" if value.to_batch_shell else "")
    lead = f"@{value.before_s}" if value.before_s != DEFAULT_LEAD_S else ""
    return f"{where}{':' if where else ''}{signal_name(value.number)}{lead}"


def _store_mail_types(options: SlurmOptions, option: str, value: list[str]) -> None:
    """Add mail types. If the option is given several times, all of them count."""
    options.values[option] = in_order({*options.values.get(option, ()), *value})


def _read_kill_command(word: str) -> int:
    number = signal_number(word)
    if not number:
        raise invalid("kill-command", "write a signal, such as TERM")
    return number


def _store_kill_invalid(options: SlurmOptions, option: str, value: str) -> None:
    """Keep --kill-on-invalid-dep. Once it is "yes" it stays so."""
    options.values[option] = "yes" if "yes" in (value, options.values.get(option)) else "no"


IDENTITY = ValueKind(_read_identity)
KILL_COMMAND = text_kind(_read_kill_command, alone="TERM", show=signal_name)
KILL_INVALID = choice({"yes": "yes", "no": "no"}, "write yes or no")._replace(store=_store_kill_invalid)
MAIL_TYPE = ValueKind(
    lambda given: parse_mail_types(given.word),
    _store_mail_types,
    lambda options, option: ",".join(options.values[option]) or "NONE",
)
NICE = text_kind(_read_nice, alone="100")
PRIORITY = text_kind(_read_priority, show=lambda priority: str(int32(priority)))
SIGNAL = ValueKind(lambda given: read_warning(given.word), _store_warning, _show_warning)
LAUNCH_SIGNAL = text_kind(_read_launch_warning)._replace(store=_store_warning, show=_show_warning)

# Tasks, their CPUs and GPUs.


def _read_gres(given: OptionText) -> str:
    word = given.word
    if word.lower() in ("help", "list"):
        known = ", ".join(f"{name}[[:type]:count]" for name in given.source.gres)
        raise SlurmError(f"Valid gres options are: {known}", level="")
    return (
        word
        if word.lower() == "none"
        else f"gres:{word}".replace(",", ",gres:").replace("gres:gres:", "gres:")
    )


def _read_gpu_bind(word: str) -> str:
    check_gpu_bind(word)
    return word


def _read_gpu_freq(word: str) -> str:
    if not is_gpu_freq(word):
        raise SlurmError(
            f"Invalid --gpu-freq argument: gpu:{word}", "write such as high or medium,memory=high"
        )
    return word


def _read_layout(given: OptionText) -> Distribution:
    return read_distribution(given.word, given.source.environ.get("SLURM_DIST_PLANESIZE", ""))


def _store_layout(options: SlurmOptions, option: str, value: Distribution) -> None:
    options.distribution, options.plane_size = value.text, value.plane_size


def _show_layout(options: SlurmOptions, option: str) -> str:
    return (
        f"plane={options.plane_size}" if options.distribution == "plane" else options.distribution or "(null)"
    )


def _store_mem_bind(options: SlurmOptions, option: str, value: Any) -> None:
    options.mem_bind, options.mem_bind_types = merged_mem_bind(value, options.mem_bind_types)


def _show_mem_bind(options: SlurmOptions, option: str) -> str:
    return mem_bind_text(options.mem_bind, options.mem_bind_types)


def _read_het_group(word: str) -> tuple[int, ...]:
    """Read --het-group, a list of components such as 0,2-4. The option is not shown among the options."""
    try:
        names = hosts_of(f"[{word}]")
    except SlurmError as error:
        raise _bad_group(word, *error.more) from None
    if not names or not all(name.isdecimal() and int(name) < MAX_COMPONENTS for name in names):
        raise _bad_group(word)
    return tuple(sorted({int(name) for name in names}))


def _bad_group(word: str, *more: str) -> SlurmError:
    hint = f"write numbers below {MAX_COMPONENTS}, such as 0,1"
    return SlurmError(f"Invalid --het-group value: {word}", hint, more=more, exit_code=1)


_MPI = frozenset({"cray_shasta", "list", "none", "openmpi", "pmi", "pmi1", "pmi2", "pmix"})


def _read_mpi(word: str) -> str:
    if word not in _MPI and not word.startswith("pmix_"):
        words = f"Invalid MPI type '{word}', --mpi=list for acceptable types"
        raise SlurmError(words, "write pmi2 or none", exit_code=1)
    return word


_SHARED = {"": "exclusive"} | {word: word for word in ("exclusive", "oversubscribe", "user", "mcs")}
CPU_FREQ = text_kind(cpu_freq)
DISTRIBUTION = ValueKind(_read_layout, _store_layout, _show_layout, ("distribution", "plane_size"))
EXCLUSIVE = choice(
    _SHARED,
    "write --exclusive, --exclusive=user or --exclusive=mcs; there are no segments of a topology for =topo",
    field="shared",
)
GPU_BIND = text_kind(_read_gpu_bind)
GPU_FREQ = text_kind(_read_gpu_freq)
GRES = ValueKind(_read_gres)
GRES_FLAGS = choice(
    {word: word for word in ("disable-binding", "enforce-binding")},
    "write disable-binding or enforce-binding",
)
HET_GROUP = text_kind(_read_het_group)
HINT = attribute("hint", lambda given: given.word)
MEM_BIND = ValueKind(
    lambda given: mem_bind(given.word), _store_mem_bind, _show_mem_bind, ("mem_bind", "mem_bind_types")
)
MPI = text_kind(_read_mpi)

# Files, environment, and options without effect here.


def _read_chdir(given: OptionText) -> str:
    return given.word if given.word.startswith("/") else f"{given.source.cwd}/{given.word}"


def _read_user_env(given: OptionText) -> tuple[int, str]:
    """Read [TIMEOUT][MODE]. Of the mode, only the letter S or L matters."""
    if given.text is None:
        return 0, ""
    timeout_s, rest = strtol(given.text)
    if rest and rest[0].upper() not in "SL":
        raise invalid("get-user-env", "write --get-user-env alone")
    return int32(timeout_s), rest[:1].upper()


def _store_user_env(options: SlurmOptions, option: str, value: tuple[int, str]) -> None:
    options.user_env_s, mode = value
    options.user_env_mode = mode or options.user_env_mode


def _show_user_env(options: SlurmOptions, option: str) -> str:
    if not options.user_env_mode and options.user_env_s == -1:
        return "(null)"
    return f"{options.user_env_s}{options.user_env_mode}"


def _read_open_mode(word: str) -> str:
    letter = word[:1].lower()
    if letter not in ("a", "t"):
        raise invalid("open-mode", "write append or truncate")
    return letter


_PROFILES = ("Energy", "Lustre", "Network", "Task")


def _read_profile(text: str) -> str:
    word = text.lower()
    named = [name for name in _PROFILES if "all" in word or name.lower() in word]
    if "none" in word:
        named = ["None"]
    if not named:
        raise SlurmError(f"invalid --profile={text} option", "write none, all, energy or task")
    return ",".join(named)


def _read_acctg_freq(text: str) -> str:
    """Check --acctg-freq. Every invalid word is reported."""
    wrong = []
    for word in filter(None, text.split(",")):
        starts = [strtol(word)] if strtol(word)[1] != word else []
        for name in ("energy=", "task=", "filesystem=", "network="):
            at = word.lower().find(name)
            rest = word[at + len(name) :] if at >= 0 else ""
            starts += [strtol(rest)] if strtol(rest)[1] != rest else []
        if not any(int32(interval_s) != -1 for interval_s, _ in starts):
            wrong.append(f"Invalid --acctg-freq specification: {word}")
    if wrong:
        more = tuple(f"error: {line}" for line in wrong[:-1])
        raise SlurmError(wrong[-1], "write such as task=30", more=more)
    return text


def _read_wait_all(given: OptionText) -> int:
    number = count("wait-all-nodes", given.text, positive=False) % 2**16
    if number > 1:
        raise invalid("wait-all-nodes", "write 0 or 1")
    return number


_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")


def _read_slurmd_debug(word: str) -> str:
    """Read --slurmd-debug. A value other than the lower levels counts as verbose."""
    level = int(word) if word.isdecimal() and len(word) == 1 else None
    name = _LEVELS[level] if level is not None else word.lower()
    return name if name in ("quiet", "fatal", "error", "info") else "verbose"


def _read_accel_bind(word: str) -> str:
    found = "".join(letter for letter in "vgn" if letter in word)
    if not found:
        raise invalid("accel-bind", "write g, n or both; v says what is bound")
    return found


_LIBRARIES = {"yes": "set", "y": "set", "no": None, "n": None}
ACCEL_BIND = text_kind(_read_accel_bind)
ACCTG_FREQ = text_kind(_read_acctg_freq)
CHDIR = attribute("chdir", _read_chdir)
COMPRESS = text_kind(lambda word: "lz4" if word.lower() == "lz4" else "none", alone="lz4")
NO_KILL = choice({"": "set", "set": "set", "off": "unset", "no": "unset"}, "write --no-kill or --no-kill=off")
OPEN_MODE = text_kind(_read_open_mode)
POWER = text_kind(lambda word: "LEVEL" if "level" in word.lower().split(",") else "unset")
PROFILE = text_kind(_read_profile)
PROPAGATE = text_kind(str, alone="ALL")
SEND_LIBS = choice({"": "set", **_LIBRARIES}, "write yes or no")
SLURMD_DEBUG = text_kind(_read_slurmd_debug)
USER_ENV = ValueKind(_read_user_env, _store_user_env, _show_user_env, ("user_env_s", "user_env_mode"))
WAIT_ALL_NODES = ValueKind(_read_wait_all)
X11 = text_kind(lambda word: word if word in ("all", "batch", "first", "last") else "unset", alone="all")
