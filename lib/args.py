"""Command line and YAML configuration: one dataclass per trainer, read by `transformers.HfArgumentParser`.

Order of authority: dataclass defaults, then `--config file.yaml` (repeatable, later files win), then flags (the last of a
repeated flag wins). Nothing is guessed: an unknown key is an error that names the nearest known one.
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

TRUE_WORDS = ("true", "yes", "on", "y", "t", "1")
FALSE_WORDS = ("false", "no", "off", "n", "f", "0")
NONE_WORDS = ("none", "null")
CONFIG_HELP = "YAML file of `name: value` lines, read first; flags override it"
ARGPARSE_KEYS = ("help", "choices", "metavar", "aliases")
# argparse takes "-1e-4" for an option because its own pattern knows no exponent.
NEGATIVE_NUMBER = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$|^-(inf|infinity|nan)$", re.IGNORECASE)


def option(default=dataclasses.MISSING, help: str = "", group: str = "run", **metadata):
    """A dataclass field with the metadata `parse` understands.

    `choices` (allowed values), `minimum`, `maximum` (inclusive), `above` (exclusive) are checked when the user sets the
    field. A list default is copied for every instance.
    """
    metadata = {"help": help, "group": group, **metadata}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


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
    """The configuration as plain JSON values (tuples become lists, paths and enums their text), `explicit` left out."""
    return {
        entry.name: _plain(getattr(config, entry.name))
        for entry in dataclasses.fields(config)
        if entry.name != "explicit"
    }


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
        self.source = ""
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
        """One argparse group per field metadata "group", in order of first appearance."""
        groups = {}
        hints = typing.get_type_hints(dtype)
        for entry in dataclasses.fields(dtype):
            if not entry.init:
                continue
            title = entry.metadata.get("group", "options")
            if title not in groups:
                groups[title] = self.add_argument_group(title)
            self._add_field(groups[title], entry, hints[entry.name])

    def _add_field(self, group, entry: dataclasses.Field, hint):
        kind = Kind.of(entry.name, hint, entry.metadata)
        self.kinds[entry.name] = kind
        default = entry.default
        if entry.default_factory is not dataclasses.MISSING:
            default = entry.default_factory()
        shown = f" (default: {_show(default)})"
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

    def read_flags(self, argv: list[str]) -> tuple[dict, list[str]]:
        """Values by field name, and the YAML files, in order."""
        self._check_names([token for token in argv if token.startswith("-") and not NEGATIVE_NUMBER.match(token)])
        found = self._parse(argv, "")
        self._check_aliases([token.split("=")[0] for token in argv if token.startswith("--")], argv)
        config_files = found.pop("config", [])
        return found, config_files

    def read_yaml(self, path: str) -> dict:
        """Values by field name from a flat YAML mapping. 1e-4, which YAML 1.1 reads as text, becomes a number."""
        content = _load_yaml(path)
        source = f"{path}: "
        tokens, nothing = [], {}
        for key, value in content.items():
            name = self._known(str(key).replace("-", "_"), source, "")
            if value is None and self.kinds[name].optional:
                nothing[name] = None
                continue
            tokens.extend(self._yaml_tokens(name, value, source))
        for alias, name in self.aliases.items():
            if alias in content and name in content and content[alias] != content[name]:
                raise UserError(_contradiction(source, alias, content[alias], name, content[name]))
        return {**self._parse(tokens, source), **nothing}

    def _yaml_tokens(self, name: str, value, source: str) -> list[str]:
        kind = self.kinds[name]
        if isinstance(value, dict) or (isinstance(value, list) and not kind.many):
            raise UserError(
                f"{source}{name} is {_show(value)}, expected {kind.expected}; the file is flat `name: value`"
            )
        if isinstance(value, list):
            # "--name=" cannot carry a list; a leading "-" that is no number would read as an option and is refused.
            return [f"--{name}", *[_text(item) for item in value]]
        return [f"--{name}={_text(value)}"]

    def _parse(self, tokens: list[str], source: str) -> dict:
        self.source = source
        try:
            namespace, rest = self.parse_known_args(tokens)
        finally:
            self.source = ""
        if rest:
            raise UserError(f"{source}unexpected argument {rest[0]!r}: every option is `--name value`; see --help")
        return {
            name: self.kinds[name].finish(value, source) if name in self.kinds else value
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
            if name in ("config", "help") or (plain in self.kinds and self.kinds[plain].scalar is bool):
                continue
            self._known(name, "", "--")

    def _check_aliases(self, spelled: list[str], argv: list[str]):
        used = {token[2:].replace("-", "_") for token in spelled}
        for alias, name in self.aliases.items():
            if alias not in used or name not in used:
                continue
            one = self._parse(_only(argv, alias), "")[name]
            other = self._parse(_only(argv, name), "")[name]
            if one != other:
                raise UserError(_contradiction("", f"--{alias}", one, f"--{name}", other))

    def error(self, message: str) -> typing.NoReturn:
        match = re.match(r"argument --([^/:]+)[^:]*: (.*)", message, re.DOTALL)
        if match and match[2].startswith("expected"):
            kind = self.kinds.get(match[1])
            expected = kind.expected if kind else "a value"
            raise UserError(f"{self.source}--{match[1]} has no value: expected {expected}; see --help")
        raise UserError(f"{self.source}{match[2] if match else message}")


@dataclass(frozen=True)
class Kind:
    """What one field accepts: the scalar type, whether a list or tuple, whether None, which values."""

    name: str
    scalar: type
    many: type | None
    length: int | None
    optional: bool
    choices: tuple
    metadata: typing.Mapping

    @staticmethod
    def of(name: str, hint, metadata: typing.Mapping) -> "Kind":
        """Read a type hint. Raises TypeError (our own bug) for one that no flag can carry."""
        optional, many, length = False, None, None
        choices = tuple(metadata.get("choices") or ())
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            inner = [item for item in typing.get_args(hint) if item is not type(None)]
            optional = len(inner) < len(typing.get_args(hint))
            hint = inner[0] if len(inner) == 1 else hint
        if typing.get_origin(hint) in (list, tuple):
            many, items = typing.get_origin(hint), typing.get_args(hint)
            if many is tuple and Ellipsis not in items:
                length = len(items)
            hint = items[0]
        if typing.get_origin(hint) is typing.Literal:
            choices = typing.get_args(hint)
            hint = type(choices[0])
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            choices = tuple(item.value for item in hint)
        elif hint not in (str, int, float, bool, Path):
            raise TypeError(
                f"field {name}: {hint} cannot be read from a flag; use str, int, float, bool, Path or lists"
            )
        return Kind(name, hint, many, length, optional, choices, metadata)

    @property
    def metavar(self) -> str:
        if self.choices:
            return "{" + ",".join(str(choice) for choice in self.choices) + "}"
        return {str: "TEXT", int: "N", float: "X", bool: "true|false", Path: "PATH"}[self.scalar]

    @property
    def expected(self) -> str:
        """What to write, for error messages."""
        if self.choices:
            text = "one of " + ", ".join(str(choice) for choice in self.choices)
        else:
            names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}
            text = names[self.scalar]
        bounds = [
            f"{word} {self.metadata[key]}"
            for key, word in (("minimum", ">="), ("above", ">"), ("maximum", "<="))
            if key in self.metadata
        ]
        text = " ".join([text, " and ".join(bounds)]).strip()
        if self.many:
            text = f"{'a list' if self.length is None else f'{self.length} values'}, each {text}"
        return text + (" (or none)" if self.optional else "")

    def convert(self, text: str):
        """One token to one value. Raises argparse.ArgumentTypeError with the whole message."""
        if self.many and self.scalar in (int, float) and "," in text:
            return [self.convert(part) for part in text.split(",") if part.strip()]
        if self.optional and text.lower() in NONE_WORDS:
            return None
        try:
            value = _scalar(self.scalar, text)
        except ValueError:
            self._refuse(text)
        plain = value.value if isinstance(value, enum.Enum) else value
        if self.choices and plain not in self.choices:
            self._refuse(text)
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, above, high = (self.metadata.get(key) for key in ("minimum", "above", "maximum"))
            outside = (low is not None and value < low) or (above is not None and value <= above)
            if outside or (high is not None and value > high) or math.isnan(value):
                self._refuse(text)
        return value

    def finish(self, value, source: str):
        """Lists are flattened (`1,2` is one token) and tuples get their length checked."""
        if not self.many or not isinstance(value, list):
            return value
        flat = [item for part in value for item in (part if isinstance(part, list) else [part])]
        if self.optional and flat == [None]:
            return None
        if self.length is not None and len(flat) != self.length:
            raise UserError(f"{source}--{self.name} has {len(flat)} values {_show(flat)}, expected {self.expected}")
        return self.many(flat)

    def _refuse(self, text: str) -> typing.NoReturn:
        raise argparse.ArgumentTypeError(f"--{self.name} is {text!r}, expected {self.expected}")


def _scalar(scalar: type, text: str):
    if scalar is bool:
        if text.lower() not in TRUE_WORDS + FALSE_WORDS:
            raise ValueError
        return text.lower() in TRUE_WORDS
    if scalar is int:
        # 1e6 and 1000.0 are whole numbers to a reader; 1.5 is not.
        try:
            return int(text)
        except ValueError:
            number = float(text)
            if not number.is_integer():
                raise ValueError from None
            return int(number)
    return scalar(text)


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
    return f"{source}{alias} is {_show(one)} but {name}, another name of the same option, is {_show(other)}: give one"


def _text(value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _show(value) -> str:
    if isinstance(value, list | tuple):
        return " ".join(_show(item) for item in value) or "empty"
    return _text(value.value if isinstance(value, enum.Enum) else value)
