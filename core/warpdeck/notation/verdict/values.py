"""Parses the value of each option of sbatch, and formats the stored value as in the "defined options" of
sbatch -vv.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.notation.values.numbers import (
    NO_TIME,
    UNLIMITED,
    count,
    int32,
    megabytes,
    minutes,
    seconds,
    size_text,
    strtol,
    time_text,
)
from warpdeck.notation.values.refusal import Refusal, invalid
from warpdeck.notation.values.time_points import moment_text, parse_moment

from .bindings import check_gpu_bind, distribution, mem_bind, mem_bind_text
from .frequencies import cpu_freq, is_gpu_freq
from .layouts import (
    set_extra,
    set_nodes,
    set_spec,
    set_switch_wait,
    set_switches,
    show_extra,
    show_nodes,
    show_spec,
    show_switches,
)
from .notices import mail_text, set_mail_type, set_signal, show_signal
from .option_fields import Fields, Getter, OptionSource, Setter

FLAGS = frozenset(
    [
        "contiguous",
        "hold",
        "ignore-pbs",
        "overcommit",
        "parsable",
        "reboot",
        "spread-job",
        "test-only",
        "use-min-nodes",
        "wait",
    ]
)
_COUNTS = frozenset(
    [
        "cpus-per-gpu",
        "ntasks-per-core",
        "ntasks-per-gpu",
        "ntasks-per-node",
        "ntasks-per-socket",
        "ntasks-per-tres",
    ]
)
_SIZES = frozenset(["mem", "mem-per-cpu", "mem-per-gpu", "tmp"])
_FILES = frozenset(["error", "input", "output"])
_TIME_HINT = "write MINUTES, H:MM:SS, D-H or D-HH:MM:SS"
NO_VALUE = 2**32 - 2
"""Slurm's NO_VAL, which means that an option was not given."""
NICE_LIMIT = 2**31 - 3


def set_value(fields: Fields, option: str, text: str | None, place: OptionSource) -> None:
    """Parse and store the value of an option. Raises Refusal."""
    setter = _SETTERS.get(option)
    if setter is not None:
        setter(fields, text, place)
    elif option in FLAGS:
        fields.texts[option] = "set"
    elif option in _COUNTS:
        fields.counts[option] = count(option, text)
    elif option in _SIZES:
        size = megabytes(text or "")
        if size is None:
            raise invalid(option, "write a whole number with K, M, G or T, such as 64G")
        fields.counts[option] = size
    elif option in _FILES:
        fields.texts[option] = "/dev/null" if (text or "").lower() == "none" else text or ""
    else:
        fields.texts[option] = "set" if text is None else text


def show_value(fields: Fields, option: str) -> str:
    """Return the stored value of an option as sbatch -vv prints it."""
    getter = _GETTERS.get(option)
    if getter is not None:
        return getter(fields)
    if option in _SIZES:
        return size_text(fields.counts[option])
    if option in fields.counts:
        return str(fields.counts[option])
    return fields.texts.get(option, "(null)")


def _set_count(option: str, field: str, *, also: str = "") -> Setter:
    def set_count(fields: Fields, text: str | None, place: OptionSource) -> None:
        setattr(fields, field, count(option, text))
        if also:
            setattr(fields, also, True)

    return set_count


def _show(field: str) -> Getter:
    return lambda fields: str(getattr(fields, field))


def _show_count(field: str) -> Getter:
    """Return a getter for a number. A number that was reset is shown as Slurm's NO_VAL."""

    def show(fields: Fields) -> str:
        value = getattr(fields, field)
        return str(int32(NO_VALUE) if value is None else value)

    return show


def _choice(option: str, field: str, words: dict[str, str]) -> Setter:
    def set_choice(fields: Fields, text: str | None, place: OptionSource) -> None:
        found = words.get((text or "").lower())
        if found is None:
            raise invalid(option, "write " + " or ".join(filter(None, words)))
        setattr(fields, field, found)

    return set_choice


def _constant(field: str, value: str) -> Setter:
    return lambda fields, text, place: setattr(fields, field, value)


_SHARED = {word: word for word in ("exclusive", "oversubscribe", "user", "mcs")} | {"": "exclusive"}


def _set_chdir(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = text or ""
    fields.chdir = word if word.startswith("/") else f"{place.cwd}/{word}"


def _set_limit(option: str) -> Setter:
    def set_limit(fields: Fields, text: str | None, place: OptionSource) -> None:
        found = minutes(text or "")
        if found == NO_TIME:
            raise invalid(option, _TIME_HINT)
        fields.counts[option] = found or UNLIMITED

    return set_limit


def _show_limit(option: str) -> Getter:
    def show(fields: Fields) -> str:
        found = fields.counts[option] % 2**32
        return "UNLIMITED" if found == 2**32 - 1 else time_text(found * 60)

    return show


def _set_delay(fields: Fields, text: str | None, place: OptionSource) -> None:
    found = seconds(text or "")
    if found == NO_TIME:
        raise invalid("delay-boot", _TIME_HINT)
    fields.counts["delay-boot"] = found


def _set_moment(option: str) -> Setter:
    def set_moment(fields: Fields, text: str | None, place: OptionSource) -> None:
        try:
            setattr(fields, option, parse_moment(text or "", place.now))
        except UserError as error:
            raise invalid(option, error.hint) from None

    return set_moment


def _show_moment(option: str) -> Getter:
    return lambda fields: moment_text(getattr(fields, option))


def _set_gres(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = text or ""
    if word.lower() in ("help", "list"):
        known = ", ".join(f"{name}[[:type]:count]" for name in place.gres)
        raise Refusal(f"Valid gres options are: {known}", level="")
    if word.lower() != "none":
        word = f"gres:{word}".replace(",", ",gres:").replace("gres:gres:", "gres:")
    fields.texts["gres"] = word


def _set_gpu_bind(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.texts["gpu-bind"] = text or ""
    check_gpu_bind(text or "")


def _set_gpu_freq(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.texts["gpu-freq"] = text or ""
    if not is_gpu_freq(text or ""):
        raise Refusal(f"Invalid --gpu-freq argument: gpu:{text}", "write such as high or medium,memory=high")


def _set_cpu_freq(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.texts["cpu-freq"] = cpu_freq(text or "")


def _set_distribution(fields: Fields, text: str | None, place: OptionSource) -> None:
    plane_size = place.environ.get("SLURM_DIST_PLANESIZE", "")
    fields.distribution, fields.plane_size = distribution(text or "", plane_size)


def _show_distribution(fields: Fields) -> str:
    return f"plane={fields.plane_size}" if fields.distribution == "plane" else fields.distribution or "(null)"


def _set_mem_bind(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.mem_bind, fields.mem_bind_types = mem_bind(text or "", fields.mem_bind_types)


def _set_user_env(fields: Fields, text: str | None, place: OptionSource) -> None:
    if text is None:
        fields.user_env_s = 0
        return
    number, rest = strtol(text)
    fields.user_env_s = int32(number)
    if rest:
        if rest[0].upper() not in "SL":
            raise invalid("get-user-env", "write --get-user-env alone")
        fields.user_env_mode = rest[0].upper()


def _show_user_env(fields: Fields) -> str:
    if not fields.user_env_mode and fields.user_env_s == -1:
        return "(null)"
    return f"{fields.user_env_s}{fields.user_env_mode}"


def _set_identity(option: str) -> Setter:
    def set_identity(fields: Fields, text: str | None, place: OptionSource) -> None:
        if not place.is_root:
            raise Refusal(f"--{option} only permitted by root user", "leave it out")
        found = place.user_id(text or "") if option == "uid" else place.group_id(text or "")
        if found is None:
            raise invalid(option, "name one that there is")
        fields.counts[option] = int32(found)

    return set_identity


def _set_nice(fields: Fields, text: str | None, place: OptionSource) -> None:
    number = 100 if text is None else strtol(text)[0]
    if abs(number) > NICE_LIMIT:
        raise Refusal(f"Invalid --nice value, out of range (+/- {NICE_LIMIT})", "write less")
    fields.counts["nice"] = number


def _set_priority(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = text or ""
    number = NO_VALUE - 1 if word.upper() == "TOP" else strtol(word)[0]
    if number < 0:
        raise Refusal("Priority must be >= 0", "write a whole number")
    if number >= NO_VALUE:
        raise Refusal(f"Priority must be < {NO_VALUE}", "write less")
    fields.counts["priority"] = int32(number)


_PROFILES = ("Energy", "Lustre", "Network", "Task")


def _set_profile(fields: Fields, text: str | None, place: OptionSource) -> None:
    word = (text or "").lower()
    named = [name for name in _PROFILES if "all" in word or name.lower() in word]
    if "none" in word:
        named = ["None"]
    if not named:
        raise Refusal(f"invalid --profile={text} option", "write none, all, energy or task")
    fields.texts["profile"] = ",".join(named)


def _set_acctg_freq(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Set --acctg-freq. Every invalid word is reported."""
    wrong = []
    for word in filter(None, (text or "").split(",")):
        starts = [strtol(word)] if strtol(word)[1] != word else []
        for name in ("energy=", "task=", "filesystem=", "network="):
            at = word.lower().find(name)
            rest = word[at + len(name) :] if at >= 0 else ""
            starts += [strtol(rest)] if strtol(rest)[1] != rest else []
        if not any(int32(number) != -1 for number, _ in starts):
            wrong.append(f"Invalid --acctg-freq specification: {word}")
    if wrong:
        more = tuple(f"error: {line}" for line in wrong[:-1])
        raise Refusal(wrong[-1], "write such as task=30", more=more)
    fields.texts["acctg-freq"] = text or ""


def _set_propagate(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.texts["propagate"] = "ALL" if text is None else text


def _set_kill_invalid(fields: Fields, text: str | None, place: OptionSource) -> None:
    """Set --kill-on-invalid-dep. Once it is "yes" it stays so."""
    word = (text or "").lower()
    if word not in ("yes", "no"):
        raise invalid("kill-on-invalid-dep", "write yes or no")
    fields.kill_invalid = "yes" if "yes" in (word, fields.kill_invalid) else "no"


def _set_open_mode(fields: Fields, text: str | None, place: OptionSource) -> None:
    letter = (text or "")[:1].lower()
    if letter not in ("a", "t"):
        raise invalid("open-mode", "write append or truncate")
    fields.texts["open-mode"] = letter


def _set_hosts(option: str) -> Setter:
    def set_hosts(fields: Fields, text: str | None, place: OptionSource) -> None:
        fields.texts.pop("nodelist", None)
        fields.texts.pop("nodefile", None)
        fields.texts[option] = text or ""

    return set_hosts


def _set_wait_all(fields: Fields, text: str | None, place: OptionSource) -> None:
    number = count("wait-all-nodes", text, positive=False) % 2**16
    if number > 1:
        raise invalid("wait-all-nodes", "write 0 or 1")
    fields.counts["wait-all-nodes"] = number


def _set_power(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.texts["power"] = "LEVEL" if "level" in (text or "").lower().split(",") else "unset"


def _set_overcommit(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.overcommit = True


def _set_no_kill(fields: Fields, text: str | None, place: OptionSource) -> None:
    words = {"": "set", "set": "set", "off": "unset", "no": "unset"}
    found = words.get((text or "").lower())
    if found is None:
        raise invalid("no-kill", "write --no-kill")
    fields.texts["no-kill"] = found


def _set_cpus(fields: Fields, text: str | None, place: OptionSource) -> None:
    fields.cpus_per_task = count("cpus-per-task", text)
    fields.cpus_set = True


_GRES_FLAGS = {word: word for word in ("disable-binding", "enforce-binding")}

_SETTERS: dict[str, Setter] = {
    "acctg-freq": _set_acctg_freq,
    "begin": _set_moment("begin"),
    "chdir": _set_chdir,
    "core-spec": set_spec("core-spec"),
    "cores-per-socket": _set_count("cores-per-socket", "cores"),
    "cpu-freq": _set_cpu_freq,
    "cpus-per-task": _set_cpus,
    "deadline": _set_moment("deadline"),
    "delay-boot": _set_delay,
    "distribution": _set_distribution,
    "exclusive": _choice("exclusive", "shared", _SHARED),
    "extra-node-info": set_extra,
    "get-user-env": _set_user_env,
    "gid": _set_identity("gid"),
    "gpu-bind": _set_gpu_bind,
    "gpu-freq": _set_gpu_freq,
    "gres": _set_gres,
    "gres-flags": _choice("gres-flags", "gres_flags", _GRES_FLAGS),
    "hint": lambda fields, text, place: setattr(fields, "hint", text or ""),
    "kill-on-invalid-dep": _set_kill_invalid,
    "mail-type": set_mail_type,
    "mem-bind": _set_mem_bind,
    "mincpus": _set_count("mincpus", "min_cpus"),
    "nice": _set_nice,
    "no-kill": _set_no_kill,
    "no-requeue": _constant("requeue", "no-requeue"),
    "nodefile": _set_hosts("nodefile"),
    "nodelist": _set_hosts("nodelist"),
    "nodes": set_nodes,
    "ntasks": _set_count("ntasks", "ntasks", also="ntasks_set"),
    "open-mode": _set_open_mode,
    "overcommit": _set_overcommit,
    "oversubscribe": _constant("shared", "oversubscribe"),
    "power": _set_power,
    "priority": _set_priority,
    "profile": _set_profile,
    "propagate": _set_propagate,
    "requeue": _constant("requeue", "requeue"),
    "signal": set_signal,
    "sockets-per-node": _set_count("sockets-per-node", "sockets"),
    "switch-req": _set_count("switches", "switches"),
    "switch-wait": set_switch_wait,
    "switches": set_switches,
    "thread-spec": set_spec("thread-spec"),
    "threads-per-core": _set_count("threads-per-core", "threads"),
    "time": _set_limit("time"),
    "time-min": _set_limit("time-min"),
    "uid": _set_identity("uid"),
    "wait-all-nodes": _set_wait_all,
}
_GETTERS: dict[str, Getter] = {
    "begin": _show_moment("begin"),
    "chdir": _show("chdir"),
    "core-spec": show_spec(threads=False),
    "cores-per-socket": _show_count("cores"),
    "cpus-per-task": _show("cpus_per_task"),
    "deadline": _show_moment("deadline"),
    "delay-boot": lambda fields: time_text(fields.counts["delay-boot"] % 2**32),
    "distribution": _show_distribution,
    "exclusive": _show("shared"),
    "extra-node-info": show_extra,
    "get-user-env": _show_user_env,
    "gres-flags": _show("gres_flags"),
    "hint": _show("hint"),
    "kill-on-invalid-dep": _show("kill_invalid"),
    "mail-type": lambda fields: mail_text(fields.mail_types),
    "mem-bind": lambda fields: mem_bind_text(fields.mem_bind, fields.mem_bind_types),
    "mincpus": _show("min_cpus"),
    "no-requeue": _show("requeue"),
    "nodes": show_nodes,
    "ntasks": _show("ntasks"),
    "overcommit": lambda fields: "set" if fields.overcommit else "unset",
    "oversubscribe": _show("shared"),
    "requeue": _show("requeue"),
    "signal": show_signal,
    "sockets-per-node": _show_count("sockets"),
    "switches": show_switches,
    "thread-spec": show_spec(threads=True),
    "threads-per-core": _show_count("threads"),
    "time": _show_limit("time"),
    "time-min": _show_limit("time-min"),
}
