"""Values of sbatch's options: how each kind is parsed, and how `sbatch -vv` prints it among the "defined options".

`table` names one of these values for each option. Values about nodes are in `layouts`, about notifications in
`notices`, and those that differ in srun and salloc in `launch_values`.
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
from .option_fields import Fields, Getter, OptionText, SlurmValue

_TIME_HINT = "write MINUTES, H:MM:SS, D-H or D-HH:MM:SS"
NO_VALUE = 2**32 - 2
"""Slurm's NO_VAL, which means that an option was not given."""
MAX_NICE = 2**31 - 3
MAX_PRIORITY = NO_VALUE - 1
"""Slurm's maximum priority, which is also the value of --priority=TOP."""


def show_attribute(field: str) -> Getter:
    """Return a getter for an attribute of `Fields`. A number that was reset is shown as Slurm's NO_VAL."""

    def show(fields: Fields, option: str) -> str:
        value = getattr(fields, field)
        return str(int32(NO_VALUE) if value is None else value)

    return show


def number(field: str, *, given: str = "") -> SlurmValue:
    """Return the value of an option that is a count, kept in an attribute. `given` is the attribute that is set
    to True with it.
    """

    def read(fields: Fields, value: OptionText) -> None:
        setattr(fields, field, count(value.option, value.text))
        if given:
            setattr(fields, given, True)

    return SlurmValue(read, show_attribute(field), (field, given) if given else (field,))


def constant(field: str, value: str) -> SlurmValue:
    """Return the value of an option that sets an attribute to this word."""
    return SlurmValue(lambda fields, _: setattr(fields, field, value), show_attribute(field), (field,))


def stored(word: str) -> SlurmValue:
    """Return a reader that accepts any value of its option. If the option was given, it is shown as `word`."""
    return SlurmValue(lambda fields, value: fields.texts.update({value.option: word}))


def _choice(field: str, words: dict[str, str]) -> SlurmValue:
    def read(fields: Fields, value: OptionText) -> None:
        found = words.get(value.word.lower())
        if found is None:
            raise invalid(value.option, "write " + " or ".join(filter(None, words)))
        setattr(fields, field, found)

    return SlurmValue(read, show_attribute(field), (field,))


def _read_text(fields: Fields, value: OptionText) -> None:
    fields.texts[value.option] = "set" if value.text is None else value.text


def _read_count(fields: Fields, value: OptionText) -> None:
    fields.counts[value.option] = count(value.option, value.text)


def _read_size(fields: Fields, value: OptionText) -> None:
    size = megabytes(value.word)
    if size is None:
        raise invalid(value.option, "write a whole number with K, M, G or T, such as 64G")
    fields.counts[value.option] = size


def _read_file(fields: Fields, value: OptionText) -> None:
    fields.texts[value.option] = "/dev/null" if value.word.lower() == "none" else value.word


def _read_limit(fields: Fields, value: OptionText) -> None:
    found = minutes(value.word)
    if found == NO_TIME:
        raise invalid(value.option, _TIME_HINT)
    fields.counts[value.option] = found or UNLIMITED


def _show_limit(fields: Fields, option: str) -> str:
    found = fields.counts[option] % 2**32
    return "UNLIMITED" if found == 2**32 - 1 else time_text(found * 60)


def _read_moment(fields: Fields, value: OptionText) -> None:
    try:
        setattr(fields, value.option, parse_moment(value.word, value.source.now))
    except UserError as error:
        raise invalid(value.option, error.hint) from None


def _show_moment(fields: Fields, option: str) -> str:
    return moment_text(getattr(fields, option))


TEXT = SlurmValue(_read_text)
"""The text itself; "set" for an option without a value."""
COUNT = SlurmValue(_read_count)
SIZE = SlurmValue(_read_size, lambda fields, option: size_text(fields.counts[option]))
FILE = SlurmValue(_read_file)
LIMIT = SlurmValue(_read_limit, _show_limit)
"""A time limit in minutes."""
MOMENT = SlurmValue(_read_moment, _show_moment)


def _read_chdir(fields: Fields, value: OptionText) -> None:
    fields.chdir = value.word if value.word.startswith("/") else f"{value.source.cwd}/{value.word}"


def _read_delay(fields: Fields, value: OptionText) -> None:
    found = seconds(value.word)
    if found == NO_TIME:
        raise invalid("delay-boot", _TIME_HINT)
    fields.counts["delay-boot"] = found


def _show_delay(fields: Fields, option: str) -> str:
    return time_text(fields.counts["delay-boot"] % 2**32)


def _read_gres(fields: Fields, value: OptionText) -> None:
    word = value.word
    if word.lower() in ("help", "list"):
        known = ", ".join(f"{name}[[:type]:count]" for name in value.source.gres)
        raise Refusal(f"Valid gres options are: {known}", level="")
    if word.lower() != "none":
        word = f"gres:{word}".replace(",", ",gres:").replace("gres:gres:", "gres:")
    fields.texts["gres"] = word


def _read_gpu_bind(fields: Fields, value: OptionText) -> None:
    fields.texts["gpu-bind"] = value.word
    check_gpu_bind(value.word)


def _read_gpu_freq(fields: Fields, value: OptionText) -> None:
    fields.texts["gpu-freq"] = value.word
    if not is_gpu_freq(value.word):
        words = f"Invalid --gpu-freq argument: gpu:{value.text}"
        raise Refusal(words, "write such as high or medium,memory=high")


def _read_cpu_freq(fields: Fields, value: OptionText) -> None:
    fields.texts["cpu-freq"] = cpu_freq(value.word)


def _read_distribution(fields: Fields, value: OptionText) -> None:
    plane_size = value.source.environ.get("SLURM_DIST_PLANESIZE", "")
    fields.distribution, fields.plane_size = distribution(value.word, plane_size)


def _show_distribution(fields: Fields, option: str) -> str:
    return f"plane={fields.plane_size}" if fields.distribution == "plane" else fields.distribution or "(null)"


def _read_hint(fields: Fields, value: OptionText) -> None:
    fields.hint = value.word


def _read_mem_bind(fields: Fields, value: OptionText) -> None:
    fields.mem_bind, fields.mem_bind_types = mem_bind(value.word, fields.mem_bind_types)


def _show_mem_bind(fields: Fields, option: str) -> str:
    return mem_bind_text(fields.mem_bind, fields.mem_bind_types)


def _read_user_env(fields: Fields, value: OptionText) -> None:
    if value.text is None:
        fields.user_env_s = 0
        return
    timeout_s, rest = strtol(value.text)
    fields.user_env_s = int32(timeout_s)
    if rest:
        if rest[0].upper() not in "SL":
            raise invalid("get-user-env", "write --get-user-env alone")
        fields.user_env_mode = rest[0].upper()


def _show_user_env(fields: Fields, option: str) -> str:
    if not fields.user_env_mode and fields.user_env_s == -1:
        return "(null)"
    return f"{fields.user_env_s}{fields.user_env_mode}"


def _read_identity(fields: Fields, value: OptionText) -> None:
    """Read --uid or --gid."""
    option, source = value.option, value.source
    if not source.is_root:
        raise Refusal(f"--{option} only permitted by root user", "leave it out")
    found = source.user_id(value.word) if option == "uid" else source.group_id(value.word)
    if found is None:
        raise invalid(option, "name one that there is")
    fields.counts[option] = int32(found)


def _read_nice(fields: Fields, value: OptionText) -> None:
    niceness = 100 if value.text is None else strtol(value.text)[0]
    if abs(niceness) > MAX_NICE:
        raise Refusal(f"Invalid --nice value, out of range (+/- {MAX_NICE})", "write less")
    fields.counts["nice"] = niceness


def _read_priority(fields: Fields, value: OptionText) -> None:
    priority = priority_of(value.word)
    if priority < 0:
        raise Refusal("Priority must be >= 0", "write a whole number")
    if priority > MAX_PRIORITY:
        raise Refusal(f"Priority must be < {NO_VALUE}", "write less")
    fields.counts["priority"] = int32(priority)


def priority_of(word: str) -> int:
    """Return the number of a --priority value, which may be out of range."""
    return MAX_PRIORITY if word.upper() == "TOP" else strtol(word)[0]


_PROFILES = ("Energy", "Lustre", "Network", "Task")


def _read_profile(fields: Fields, value: OptionText) -> None:
    fields.texts["profile"] = profile_of(value.word)


def profile_of(text: str) -> str:
    """Return the canonical form of a --profile value. Raises Refusal."""
    word = text.lower()
    named = [name for name in _PROFILES if "all" in word or name.lower() in word]
    if "none" in word:
        named = ["None"]
    if not named:
        raise Refusal(f"invalid --profile={text} option", "write none, all, energy or task")
    return ",".join(named)


def _read_acctg_freq(fields: Fields, value: OptionText) -> None:
    """Read --acctg-freq. Every invalid word is reported."""
    wrong = []
    for word in filter(None, value.word.split(",")):
        starts = [strtol(word)] if strtol(word)[1] != word else []
        for name in ("energy=", "task=", "filesystem=", "network="):
            at = word.lower().find(name)
            rest = word[at + len(name) :] if at >= 0 else ""
            starts += [strtol(rest)] if strtol(rest)[1] != rest else []
        if not any(int32(interval_s) != -1 for interval_s, _ in starts):
            wrong.append(f"Invalid --acctg-freq specification: {word}")
    if wrong:
        more = tuple(f"error: {line}" for line in wrong[:-1])
        raise Refusal(wrong[-1], "write such as task=30", more=more)
    fields.texts["acctg-freq"] = value.word


def _read_propagate(fields: Fields, value: OptionText) -> None:
    fields.texts["propagate"] = "ALL" if value.text is None else value.text


def _read_kill_invalid(fields: Fields, value: OptionText) -> None:
    """Read --kill-on-invalid-dep. Once it is "yes" it stays so."""
    word = value.word.lower()
    if word not in ("yes", "no"):
        raise invalid("kill-on-invalid-dep", "write yes or no")
    fields.kill_invalid = "yes" if "yes" in (word, fields.kill_invalid) else "no"


def _read_open_mode(fields: Fields, value: OptionText) -> None:
    letter = value.word[:1].lower()
    if letter not in ("a", "t"):
        raise invalid("open-mode", "write append or truncate")
    fields.texts["open-mode"] = letter


def _read_hosts(fields: Fields, value: OptionText) -> None:
    """Read --nodelist or --nodefile, each of which replaces the other."""
    fields.texts.pop("nodelist", None)
    fields.texts.pop("nodefile", None)
    fields.texts[value.option] = value.word


def _read_wait_all(fields: Fields, value: OptionText) -> None:
    word = count("wait-all-nodes", value.text, positive=False) % 2**16
    if word > 1:
        raise invalid("wait-all-nodes", "write 0 or 1")
    fields.counts["wait-all-nodes"] = word


def _read_power(fields: Fields, value: OptionText) -> None:
    fields.texts["power"] = "LEVEL" if "level" in value.word.lower().split(",") else "unset"


def _read_overcommit(fields: Fields, value: OptionText) -> None:
    fields.overcommit = True


def _show_overcommit(fields: Fields, option: str) -> str:
    return "set" if fields.overcommit else "unset"


def _read_no_kill(fields: Fields, value: OptionText) -> None:
    words = {"": "set", "set": "set", "off": "unset", "no": "unset"}
    found = words.get(value.word.lower())
    if found is None:
        raise invalid("no-kill", "write --no-kill")
    fields.texts["no-kill"] = found


_SHARED = {word: word for word in ("exclusive", "oversubscribe", "user", "mcs")} | {"": "exclusive"}
_GRES_FLAGS = {word: word for word in ("disable-binding", "enforce-binding")}

ACCTG_FREQ = SlurmValue(_read_acctg_freq)
CHDIR = SlurmValue(_read_chdir, show_attribute("chdir"), ("chdir",))
CPU_FREQ = SlurmValue(_read_cpu_freq)
DELAY_BOOT = SlurmValue(_read_delay, _show_delay)
DISTRIBUTION = SlurmValue(_read_distribution, _show_distribution, ("distribution", "plane_size"))
EXCLUSIVE = _choice("shared", _SHARED)
GPU_BIND = SlurmValue(_read_gpu_bind)
GPU_FREQ = SlurmValue(_read_gpu_freq)
GRES = SlurmValue(_read_gres)
GRES_FLAGS = _choice("gres_flags", _GRES_FLAGS)
HINT = SlurmValue(_read_hint, show_attribute("hint"), ("hint",))
HOSTS = SlurmValue(_read_hosts)
IDENTITY = SlurmValue(_read_identity)
KILL_INVALID = SlurmValue(_read_kill_invalid, show_attribute("kill_invalid"), ("kill_invalid",))
MEM_BIND = SlurmValue(_read_mem_bind, _show_mem_bind, ("mem_bind", "mem_bind_types"))
NICE = SlurmValue(_read_nice)
NO_KILL = SlurmValue(_read_no_kill)
OPEN_MODE = SlurmValue(_read_open_mode)
OVERCOMMIT = SlurmValue(_read_overcommit, _show_overcommit, ("overcommit",))
POWER = SlurmValue(_read_power)
PRIORITY = SlurmValue(_read_priority)
PROFILE = SlurmValue(_read_profile)
PROPAGATE = SlurmValue(_read_propagate)
USER_ENV = SlurmValue(_read_user_env, _show_user_env, ("user_env_s", "user_env_mode"))
WAIT_ALL_NODES = SlurmValue(_read_wait_all)
