"""Command line and YAML configuration: one dataclass per trainer, read by `transformers.HfArgumentParser`.

Order of authority: dataclass defaults, then `--config file.yaml` (repeatable, later files win), then flags (the last of
a repeated flag wins). Nothing is guessed: an unknown key is an error that names the nearest known one.
"""

import argparse
import copy
import dataclasses
import difflib
import enum
import math
import os
import re
import sys
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from transformers import HfArgumentParser

from lib.errors import UserError
from lib.fields import Kind, option, show

CONFIG_HELP = "YAML file of `name: value` lines, read first; flags override it"
SECRET = "(not shown)"
ARGPARSE_KEYS = ("help", "choices", "metavar", "aliases")
# argparse takes "-1e-4" for an option because its own pattern knows no exponent.
NEGATIVE_NUMBER = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^-(inf|infinity|nan)$", re.IGNORECASE)


@dataclass
class RunArgs:
    """The fields every trainer shares. `explicit` holds the names the user set, by flag or by YAML."""

    output_dir: str | None = option(None, "run directory; default: the next free runs/<trainer>/run<N>")
    seed: int = option(0, "every random draw derives from it", minimum=0)
    resume: str | None = option(None, "auto = newest checkpoint that verifies, or the path of a checkpoint or run")
    max_steps: int | None = option(None, "stop after this many optimiser steps", minimum=0)
    max_minutes: float | None = option(None, "stop, save and report after this many minutes", above=0)
    eval_every: int | None = option(None, "optimiser steps between evaluations; default: the trainer's", minimum=0)
    save_every: int | None = option(
        None, "optimiser steps between checkpoints, 0 = none; default: the trainer's", minimum=0
    )
    keep_checkpoints: int = option(3, "newest checkpoints to keep; the best is kept besides", minimum=1)
    report_to: str = option("tensorboard", "comma list of tensorboard, wandb, trackio, mlflow; or none")
    dist_timeout: float = option(600.0, "seconds after which a waiting collective gives up", above=0)
    lr_scale: str = option(
        "none", "scale the learning rate with processes x accumulation", choices=("none", "sqrt", "linear")
    )
    gradient_accumulation_steps: int = option(1, "micro batches per optimiser step", minimum=1)
    max_grad_norm: float = option(1.0, "clip the gradient to this norm; 0 = no clipping", minimum=0)
    dry_run: bool = option(False, "print what would be run, then stop before the first step")
    explicit: frozenset = field(default=frozenset(), init=False, repr=False, compare=False)


def parse(config_class: type, argv: list[str] | None = None, aliases: dict[str, str] | None = None):
    """Read `config_class` from YAML files and flags; `sys.argv[1:]` when `argv` is None.

    `aliases` maps another name of a field to the field ({"save_dir": "output_dir"}). `--name value`, `--name=value`,
    `--na-me` and for booleans `--name`, `--no_name` are understood; `none` clears an optional field.
    Raises UserError with one line for anything it does not understand. `--help` prints and exits 0.
    """
    parser = ConfigParser(config_class, aliases or {})
    argv = list(sys.argv[1:] if argv is None else argv)
    if any(token in ("-h", "--help") for token in argv):
        if os.environ.get("RANK", "0") == "0":
            parser.print_help()
        raise SystemExit(0)
    flags, config_files = parser.read_flags(argv)
    values = {}
    for path in config_files:
        values.update(parser.read_yaml(path))
    values.update(flags)
    missing = [name for name in parser.required if name not in values]
    if missing:
        raise UserError(f"missing option --{missing[0]}: {parser.kinds[missing[0]].expected} is required; see --help")
    config = config_class(**values)
    object.__setattr__(config, "explicit", frozenset(values))
    return config


def config_dict(config) -> dict:
    """The configuration as plain JSON values (tuples become lists, paths and enums their text), `explicit` left out.

    A field that is `secret` is only said to have been given.
    """
    return {
        entry.name: SECRET if _is_secret(config, entry) else _plain(getattr(config, entry.name))
        for entry in dataclasses.fields(config)
        if entry.name != "explicit"
    }


def without_secrets(config, text: str) -> str:
    """`text`, a command line say, without the values of the fields of `config` that are `secret`."""
    for entry in dataclasses.fields(config):
        if _is_secret(config, entry):
            text = text.replace(getattr(config, entry.name), SECRET)
    return text


def _is_secret(config, entry: dataclasses.Field) -> bool:
    return bool(entry.metadata.get("secret") and getattr(config, entry.name))


def _plain(value):
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class ConfigParser(HfArgumentParser):
    """HfArgumentParser with groups, strict names, lists, tuples and errors as one-line UserError."""

    def __init__(self, config_class: type, aliases: dict[str, str]):
        self.kinds: dict[str, Kind] = {}
        self.required: list[str] = []
        self.aliases = aliases
        super().__init__(
            config_class,
            allow_abbrev=False,
            add_help=False,
            formatter_class=_OneSpelling,
            usage="%(prog)s [--config FILE.yaml] [--name value ...]",
        )
        self._negative_number_matcher = NEGATIVE_NUMBER
        self.add_argument("--config", action="append", default=argparse.SUPPRESS, metavar="FILE", help=CONFIG_HELP)
        unknown = [target for target in aliases.values() if target not in self.kinds]
        assert not unknown, f"aliases of fields that do not exist: {unknown}"

    def _add_dataclass_arguments(self, dtype: type):
        """One argparse group per field metadata "group", in order of first appearance, "run" last."""
        groups = {}
        hints = typing.get_type_hints(dtype)
        for entry in dataclasses.fields(dtype):
            if not entry.init:
                continue
            title = entry.metadata.get("group", "other")
            if title not in groups:
                groups[title] = self.add_argument_group(title)
            self._add_field(groups[title], entry, hints[entry.name])
        # A trainer's own options come before those it shares.
        self._action_groups.sort(key=lambda group: group.title == "run")

    def _add_field(self, group, entry: dataclasses.Field, hint):
        kind = Kind.of(entry.name, hint, entry.metadata)
        self.kinds[entry.name] = kind
        default = entry.default
        if entry.default_factory is not dataclasses.MISSING:
            default = entry.default_factory()
        shown = f" (default: {show(default)})"
        if default is dataclasses.MISSING:
            self.required.append(entry.name)
            shown = " (required)"
        metadata = {key: value for key, value in entry.metadata.items() if key in ARGPARSE_KEYS}
        text = metadata.get("help", "")
        metadata["help"] = (text if "default: " in text else text + shown).strip().replace("%", "%%")
        metadata["aliases"] = [
            spelling for alias, name in self.aliases.items() if name == entry.name for spelling in _spellings(alias)
        ]
        # HfArgumentParser narrows field.type in place: it gets a copy, so that the user's dataclass stays as written.
        entry = copy.copy(entry)
        entry.metadata = types.MappingProxyType(metadata)
        entry.type = list[kind.scalar] if kind.many else hint
        before = len(self._actions)
        self._parse_dataclass_field(group, entry)
        action = self._actions[before]
        for extra in self._actions[before:]:
            extra.default, extra.required = argparse.SUPPRESS, False
        action.type, action.choices = kind.convert, None
        action.metavar = action.metavar or kind.metavar
        if kind.scalar is bool:
            action.nargs, action.const = "?", True
            if len(self._actions) == before + 1:
                group.add_argument(
                    *_spellings(f"no_{entry.name}"), dest=entry.name, action="store_false", default=argparse.SUPPRESS
                )
            self._actions[-1].help = argparse.SUPPRESS
            for alias in (alias for alias, name in self.aliases.items() if name == entry.name):
                group.add_argument(*_spellings(f"no_{alias}"), dest=entry.name, action="store_false",
                                   default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # fmt: skip

    def read_flags(self, argv: list[str]) -> tuple[dict, list[str]]:
        """Values by field name, and the YAML files, in order."""
        self._check_names([token for token in argv if token.startswith("-") and not NEGATIVE_NUMBER.match(token)])
        found = self._parse(argv)
        self._check_aliases([token.split("=")[0] for token in argv if token.startswith("--")], argv)
        config_files = found.pop("config", [])
        return found, config_files

    def read_yaml(self, path: str) -> dict:
        """Values by field name from a flat YAML mapping. 1e-4, which YAML 1.1 reads as text, becomes a number."""
        values, written = {}, {}
        for key, value in _load_yaml(path).items():
            given = str(key).replace("-", "_")
            name = self._known(given, f"{path}: ", "")
            read = self.kinds[name].read(value, f"{path}: {given}")
            if name in values and values[name] != read:
                raise UserError(_contradiction(f"{path}: ", given, read, written[name], values[name]))
            values[name], written[name] = read, given
        return values

    def _parse(self, tokens: list[str]) -> dict:
        namespace, rest = self.parse_known_args(tokens)
        if rest:
            raise UserError(f"unexpected argument {rest[0]!r}: every option is `--name value`; see --help")
        return {
            name: self.kinds[name].finish(value, f"--{name}") if name in self.kinds else value
            for name, value in vars(namespace).items()
        }

    def _known(self, name: str, source: str, prefix: str) -> str:
        name = self.aliases.get(name, name)
        if name in self.kinds:
            return name
        names = [*self.kinds, *self.aliases]
        nearest = (difflib.get_close_matches(name, names, n=1, cutoff=0.0) or ["config"])[0]
        what = "option" if prefix else "key"
        raise UserError(
            f"{source}unknown {what} {prefix}{name}: the nearest known one is {prefix}{nearest}; see --help"
        )

    def _check_names(self, tokens: list[str]):
        for token in tokens:
            if token == "--" or not token.startswith("--"):
                raise UserError(f"unexpected argument {token!r}: every option is `--name value`; see --help")
            name = token[2:].split("=")[0].replace("-", "_")
            plain = name.removeprefix("no_")
            plain = self.aliases.get(plain, plain)
            if name in ("config", "help") or (plain in self.kinds and self.kinds[plain].scalar is bool):
                continue
            self._known(name, "", "--")

    def _check_aliases(self, spelled: list[str], argv: list[str]):
        used = {token[2:].replace("-", "_") for token in spelled}
        for alias, name in self.aliases.items():
            if alias not in used or name not in used:
                continue
            one = self._parse(_only(argv, alias))[name]
            other = self._parse(_only(argv, name))[name]
            if one != other:
                raise UserError(_contradiction("", f"--{alias}", one, f"--{name}", other))

    def error(self, message: str) -> typing.NoReturn:
        """argparse's own words, `argument --a/--b: ...`, as one line of ours."""
        match = re.fullmatch(r"argument (--[^/:, ]+)[^:]*: (.*)", message, re.DOTALL)
        if match and match[2].startswith("expected"):
            kind = self.kinds.get(match[1].removeprefix("--"))
            raise UserError(f"{match[1]} has no value: expected {kind.expected if kind else 'a file'}; see --help")
        raise UserError(f"{match[1]} {match[2]}" if match else message)


def _load_yaml(path: str) -> dict:
    file = Path(path)
    if not file.is_file():
        raise UserError(f"--config {path}: no such file; give the path of a YAML file")
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        line = " ".join(str(error).split())
        raise UserError(
            f"--config {path}: not readable as YAML ({line}); expected one `name: value` per line"
        ) from error
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise UserError(f"--config {path}: holds a {type(content).__name__}, expected one `name: value` per line")
    return content


class _OneSpelling(argparse.HelpFormatter):
    """Help that shows `--max_steps N` once, without its hyphen twin."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=36, width=112)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        twins = {name.replace("_", "-") for name in action.option_strings if "_" in name}
        names = ", ".join(name for name in action.option_strings if name not in twins)
        if action.nargs == 0:
            return names
        return f"{names} {self._format_args(action, action.metavar or '')}"


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, which YAML libraries resolve silently."""

    def construct_mapping(self, node, deep=False):
        keys = [str(key.value).replace("-", "_") for key, _ in node.value]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"key {twice[0]!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _spellings(name: str) -> list[str]:
    return [f"--{name}"] + ([f"--{name.replace('_', '-')}"] if "_" in name else [])


def _only(argv: list[str], name: str) -> list[str]:
    """The tokens of one spelling of one option."""
    kept, inside = [], False
    for token in argv:
        if token.startswith("--"):
            inside = token[2:].split("=")[0].replace("-", "_") == name
        if inside:
            kept.append(token)
    return kept


def _contradiction(source: str, alias: str, one, name: str, other) -> str:
    return f"{source}{alias} is {show(one)} but {name}, another name of the same option, is {show(other)}: give one"
