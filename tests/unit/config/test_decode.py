"""Decoding of config.toml, and errors that name their line and key."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec.inspect as types
import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import Config, ConfigError, decode, load, read
from warpdeck.config.decode import MAX_TEXT_BYTES

EXAMPLE = Path(__file__).parents[3] / "core/warpdeck/config/example.toml"


def errors(text: str) -> list[str]:
    """Return the error messages of a configuration that must be rejected."""
    with pytest.raises(ConfigError) as raised:
        decode(text, "config.toml")
    return [problem.sentence("config.toml") for problem in raised.value.problems]


def test_an_empty_file_gives_the_defaults() -> None:
    assert decode("", "config.toml").config == Config()


def test_a_missing_file_gives_the_defaults_for_load_and_an_error_for_read(tmp_path: Path) -> None:
    assert load(str(tmp_path / "config.toml")).config == Config()
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path / "config.toml"))


def test_values_may_be_written_in_slurms_text_formats() -> None:
    text = """
        [scheduler]
        default_mem_per_cpu = "4G"
        billing_weights = "cpu=1,gres/gpu=8"
        [partitions.gpu]
        nodes = "gpu[01-02],login"
        max_time = "2-00:00:00"
        default_time = "90"
        [qos.high]
        max_tres_per_user = "gres/gpu=8,mem=1T"
        max_wall = "UNLIMITED"
        """
    config = decode(text, "config.toml").config
    assert config.scheduler.default_mem_per_cpu == 4 * 2**30
    assert config.scheduler.billing_weights == {"cpu": 1.0, "gres/gpu": 8.0}
    assert config.partitions["gpu"].nodes == ("gpu01", "gpu02", "login")
    assert config.partitions["gpu"].max_time == 2 * 86_400
    assert config.partitions["gpu"].default_time == 90 * 60
    assert config.qos["high"].max_tres_per_user == {"gres/gpu": 8, "mem": 2**20}
    assert config.qos["high"].max_wall is None


def test_the_shipped_example_is_accepted_without_a_warning() -> None:
    decoded = read(str(EXAMPLE))
    assert decoded.warnings == ()
    assert len(decoded.config.partitions) >= 2


def test_every_error_is_reported_with_its_line_and_key() -> None:
    text = (
        'grace_s = "x"\n'
        "[scheduler]\n"
        'backfil = "easy"\n'
        'preempt_by = "luck"\n'
        "\n"
        "[partitions.gpu]\n"
        'max_time = "2x"\n'
        "min_nodes = -1\n"
        "nodes = 3\n"
        '[nodes."gpu[01-02]"]\n'
        'features = "a100"\n'
    )
    assert errors(text) == [
        "config.toml:1: grace_s: 'x' has the wrong type: expected `float`, got `str`",
        "config.toml:3: scheduler.backfil: unknown key; did you mean backfill?",
        "config.toml:4: scheduler.preempt_by: unknown value 'luck'; write off, qos or partition",
        "config.toml:7: partitions.gpu.max_time: '2x' is not a time; write 2:00:00 or 2-00:00:00",
        "config.toml:8: partitions.gpu.min_nodes: -1 has the wrong type: expected `int` >= 0",
        'config.toml:9: partitions.gpu.nodes: 3 is not a string; write it in quotes, such as "gpu[01-08]"',
        'config.toml:11: nodes."gpu[01-02]".features: \'a100\' is not a list; write ["a100"]',
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = 1\n[b\n", "config.toml:2:3: invalid TOML: Expected ']' at the end of a table declaration"),
        ("a = 1\na = 2\n", "config.toml:2:6: invalid TOML: Cannot overwrite a value"),
        (
            "scheduler = 3\n",
            "config.toml:1: scheduler: is a table: write [scheduler] with its keys on the next lines",
        ),
        ("[partitions]\ngpu = 3\n", "config.toml:2: partitions.gpu: is a table: write [partitions.gpu]"),
        ("grace_s = nan\n", "config.toml:1: grace_s: nan is not a finite number"),
        ("grace_s = 1e99\n", "config.toml:1: grace_s: 1e+99 has the wrong type"),
        ("[licenses]\nmatlab = true\n", "config.toml:2: licenses.matlab: True has the wrong type"),
        ("wat = 1\n", "config.toml:1: wat: unknown key; known keys: grace_s, keep_finished_s, metrics_port"),
        ("qos = [1]\n", "config.toml:1: qos: [1] has the wrong type"),
    ],
)
def test_an_invalid_value_gives_one_error(text: str, sentence: str) -> None:
    (found,) = errors(text)
    assert found.startswith(sentence)


def test_the_exception_shows_the_first_error_and_counts_the_others() -> None:
    with pytest.raises(ConfigError) as raised:
        decode("a = 1\nb = 2\nc = 3\n", "config.toml")
    assert str(raised.value).startswith("config.toml:1: a: unknown key")
    assert str(raised.value).endswith("(and 2 more)")


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"grace_s = 1\n# \xff\n")
    with pytest.raises(UserError, match=r"config.toml:2: not UTF-8"):
        load(str(path))


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbfgrace_s = 1\r\n[qos.a]\r\npriority = 3\r\n")
    assert load(str(path)).config.qos["a"].priority == 3


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        load(str(tmp_path))


def test_a_file_above_the_size_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"#" * (MAX_TEXT_BYTES + 1))
    with pytest.raises(UserError, match="is larger than 16 MiB"):
        load(str(path))


def test_the_shipped_example_contains_every_key() -> None:
    text = EXAMPLE.read_text()
    tables: list[type] = [Config]
    for table in tables:
        info = types.type_info(table)
        assert isinstance(info, types.StructType)
        for field in info.fields:
            assert re.search(rf"\b{field.encode_name}\b", text), f"{table.__name__}: {field.encode_name}"
        tables += [each for each in tables_in(info) if each not in tables]


def tables_in(info: types.Type) -> list[type]:
    """Return the tables that a table or its values may contain."""
    match info:
        case types.StructType():
            fields = types.type_info(info.cls)
            assert isinstance(fields, types.StructType)
            return [info.cls, *(each for field in fields.fields for each in tables_in(field.type))]
        case types.DictType():
            return tables_in(info.value_type)
        case types.UnionType():
            return [each for one in info.types for each in tables_in(one)]
        case _:
            return []
