"""Reading a tau2-bench data directory: databases, policies, tasks and splits. Nothing of that package is imported.

    DIR/airline  policy.md  db.json|db.toml  tasks.json  [split_tasks.json]
    DIR/retail   the same
    DIR/telecom  main_policy.md  tech_support_manual.md  [main_policy_solo.md]  db.*  user_db.*  tasks.json
                 [tasks_*.json  split_tasks.json]

DIR may also be a folder above it that holds `domains`, `tau2/domains` or `data/tau2/domains`.
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lib.errors import UserError
from lib.grpo.domains import DOMAINS
from lib.grpo.task import BASIS, Setting, Task
from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.store import Base
from lib.grpo.worlds.world import ASSISTANT, USER

FOLDERS = (".", "domains", "tau2", "tau2/domains", "data/tau2/domains")
SIDES = (ASSISTANT, USER)


@dataclass(frozen=True)
class Tau2Data:
    """What a directory holds: domain -> setting, and all tasks in file order."""

    settings: dict[str, Setting]
    tasks: tuple[Task, ...]

    def training_tasks(self) -> list[Task]:
        """All but the tasks of a `test` split."""
        return [task for task in self.tasks if task.split != "test"]


def load_tau2(directory: str | Path, domains: tuple[str, ...] | None = None) -> Tau2Data:
    """Read the domains that are there, or exactly `domains`.

    Raises UserError, in one line, for a directory without a domain, and for a file that is missing, damaged or holds
    what it should not.
    """
    folder = _find(Path(directory), domains)
    names = domains or tuple(name for name in DOMAINS if (folder / name).is_dir())
    settings, tasks = {}, []
    for name in names:
        try:
            settings[name] = _read_setting(name, folder / name)
            tasks += _read_tasks(name, folder / name, settings[name])
        except DataError as error:
            raise UserError(f"{folder / name}: {error}") from None
    return Tau2Data(settings, tuple(tasks))


def _find(directory: Path, domains: tuple[str, ...] | None) -> Path:
    unknown = [name for name in domains or () if name not in DOMAINS]
    if unknown:
        raise UserError(f"no domain {unknown[0]!r}: there are {', '.join(DOMAINS)}")
    for folder in FOLDERS:
        if any((directory / folder / name).is_dir() for name in domains or DOMAINS):
            missing = [name for name in domains or () if not (directory / folder / name).is_dir()]
            if missing:
                raise UserError(f"{directory / folder} has no folder {missing[0]}")
            return directory / folder
    found = "is no folder" if not directory.is_dir() else f"holds none of the folders {', '.join(domains or DOMAINS)}"
    raise UserError(f"--tau2-data {directory} {found}: expected a tau2-bench data directory with a folder per domain")


def _read_setting(name: str, folder: Path) -> Setting:
    domain = DOMAINS[name]
    agent_base = _read_base(domain.read_agent_base, folder, "db")
    if domain.user_toolkit is None:
        policy = _read_text(folder / "policy.md")
        return Setting(domain, agent_base, None, policy)
    user_base = _read_base(domain.read_user_base, folder, "user_db")
    manual = _read_text(folder / "tech_support_manual.md")
    policy = _telecom_policy(_read_text(folder / "main_policy.md"), manual)
    solo = folder / "main_policy_solo.md"
    solo_policy = _telecom_policy(_read_text(solo), manual) if solo.exists() else None
    return Setting(domain, agent_base, user_base, policy, solo_policy)


def _telecom_policy(main: str, manual: str) -> str:
    return f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{manual}\n</tech_support_policy>"


def _read_base(reader, folder: Path, stem: str) -> Base:
    """The database of `stem`.json or `stem`.toml."""
    paths = [folder / f"{stem}.{ending}" for ending in ("json", "toml")]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise UserError(f"{folder} has neither {stem}.json nor {stem}.toml")
    try:
        return reader(_parse(path))
    except DataError as error:
        raise UserError(f"{path}: {error}") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder: expected a file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def _parse(path: Path):
    text = _read_text(path)
    try:
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from None


def _read_tasks(name: str, folder: Path, setting: Setting) -> list[Task]:
    """`tasks.json` and, where there are, `tasks_*.json`; a task of `tasks.json` stands for its copies elsewhere."""
    found: dict[str, dict] = {}
    for path in (folder / "tasks.json", *sorted(folder.glob("tasks_*.json"))):
        rows = _parse(path)
        rows = rows.get("tasks") if isinstance(rows, dict) else rows
        if not isinstance(rows, list):
            raise UserError(f'{path}: expected a list of tasks or {{"tasks": [...]}}')
        inside: set[str] = set()
        for place, row in enumerate(rows):
            _check_task(row, f"{path}: task {place}")
            id = str(row["id"])
            if id in inside:
                raise UserError(f"{path}: the id {id!r} is there twice")
            inside.add(id)
            found.setdefault(id, row)
    if not found:
        raise UserError(f"{folder / 'tasks.json'} holds no task")
    splits = _read_splits(folder / "split_tasks.json")
    return [Task(name, id, row, setting, split=splits.get(id)) for id, row in found.items()]


def _read_splits(path: Path) -> dict[str, str]:
    """id -> split; "test" wins over every other name, since its tasks must not be trained on."""
    if not path.exists():
        return {}
    rows = _parse(path)
    if not isinstance(rows, dict) or not all(isinstance(ids, list) for ids in rows.values()):
        raise UserError(f"{path}: expected split name -> list of ids")
    order = sorted(rows, key=lambda name: (name == "test", name == "train"))
    return {str(id): name for name in order for id in rows[name]}


def _check_task(row, where: str) -> None:
    """Refuse what would fail later, with its place; everything that may be absent or null may be."""
    if not isinstance(row, dict) or type(row.get("id")) not in (str, int) or row["id"] == "":
        raise UserError(f"{where}: expected an object with an id")
    where = f"{where} ({row['id']})"
    criteria = _optional(row, "evaluation_criteria", dict, where) or {}
    _check_scenario(_optional(row, "user_scenario", dict, where) or {}, where)
    _optional(row, "ticket", str, where)
    initial = _optional(row, "initial_state", dict, where) or {}
    for name, holder in (("actions", criteria), ("env_assertions", criteria), ("initialization_actions", initial)):
        for place, call in enumerate(_optional(holder, name, list, where) or []):
            field = "name" if name == "actions" else "func_name"
            inside = f"{where}: {name}[{place}]"
            if not isinstance(call, dict) or not isinstance(call.get(field), str):
                raise UserError(f"{inside} has no {field}")
            _optional(call, "arguments", dict, inside)
            _check_texts(_optional(call, "compare_args", list, inside), f"{inside}: compare_args")
            side = call.get("requestor") or ASSISTANT if name == "actions" else call.get("env_type")
            if side not in SIDES:
                raise UserError(f"{inside}: {side!r} is neither assistant nor user")
    for part in _optional(criteria, "reward_basis", list, where) or []:
        if part not in BASIS:
            raise UserError(f"{where}: reward_basis holds {part!r}: expected {', '.join(BASIS)}")
    for name in ("communicate_info", "forbidden", "nl_assertions"):
        _check_texts(_optional(criteria, name, list, where), f"{where}: {name}")
    _optional(initial, "initialization_data", dict, where)
    for place, message in enumerate(_optional(initial, "message_history", list, where) or []):
        inside = f"{where}: message_history[{place}]"
        if not isinstance(message, dict):
            raise UserError(f"{inside} is {type(message).__name__}: expected an object")
        if not all(isinstance(call, dict) for call in _optional(message, "tool_calls", list, inside) or []):
            raise UserError(f"{inside}: tool_calls holds something else than objects")


def _check_scenario(scenario: dict, where: str) -> None:
    where = f"{where}: user_scenario"
    _optional(scenario, "persona", str, where)
    instructions = scenario.get("instructions") or {}
    if not isinstance(instructions, dict | str):
        raise UserError(f"{where}.instructions must be an object or text")
    if isinstance(instructions, dict):
        for name in ("reason_for_call", "known_info", "unknown_info", "task_instructions"):
            _optional(instructions, name, str, f"{where}.instructions")


def _check_texts(values: list | None, where: str) -> None:
    for value in values or []:
        if not isinstance(value, str):
            raise UserError(f"{where} holds {value!r}: expected text")


def _optional(holder: dict, name: str, kind: type, where: str):
    value = holder.get(name)
    if value is not None and not isinstance(value, kind):
        raise UserError(f"{where}: {name} is {type(value).__name__}: expected {kind.__name__} or null")
    return value
