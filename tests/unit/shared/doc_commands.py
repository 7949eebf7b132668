"""The commands that README, docs and scripts print, read from their fenced blocks and docstrings."""

import ast
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "accelerate_configs" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
LANGUAGES = {"bash", "text", "json", "yaml", "python", "make"}
PROGRAMS = {"accelerate", "python", "torchrun", "make", "sbatch", "pip"}
ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")


@dataclass(frozen=True)
class Command:
    """One printed command. runnable: it stands in a bash block and works on a fresh clone, capital words replaced."""

    where: str
    text: str
    runnable: bool

    @property
    def words(self) -> list[str]:
        """Without leading variables; `...` stands for further flags."""
        words = shlex.split(self.text, comments=True)
        while words and ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        return [word for word in words if word != "..."]

    @property
    def variables(self) -> dict[str, str]:
        words = shlex.split(self.text, comments=True)
        kept = []
        for word in words:
            if not ASSIGNMENT.fullmatch(word):
                break
            kept.append(word.split("=", 1))
        return dict(kept)

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    def __str__(self) -> str:
        return f"{self.where} {' '.join(self.words)[:60]}"


def blocks(text: str) -> list[tuple[str, int, list[str]]]:
    """(language, line number of the first line, lines) of every fenced block; an unclosed one is an AssertionError."""
    found, current = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.fullmatch(r"\s*```(\w*)\s*", line)
        if fence and current is None:
            current = (fence[1], number + 1, [])
        elif fence:
            found.append(current)
            current = None
        elif current is not None:
            current[2].append(line)
    assert current is None, f"a fenced block that begins before line {current[1]} is not closed"
    return found


def joined(lines: list[str], first: int) -> list[tuple[int, str]]:
    """(line number, command) with backslash continuations joined and `&&` taken apart."""
    found, pending, begun = [], "", first
    for number, line in enumerate(lines, first):
        begun = begun if pending else number
        pending += line.strip() if not pending else " " + line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1].rstrip()
            continue
        found += [(begun, part.strip()) for part in pending.split("&&") if part.strip()]
        pending = ""
    return found


def is_command(text: str) -> bool:
    words = text.split()
    while words and ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    return bool(words) and words[0] in PROGRAMS


def page_commands(page: Path) -> list[Command]:
    """Every line of a bash block, and the lines of other blocks that begin with a known program."""
    commands = []
    for language, first, lines in blocks(page.read_text(encoding="utf-8")):
        for number, text in joined(lines, first):
            if language == "bash" and not text.startswith("#"):
                commands.append(Command(f"{page.relative_to(ROOT)}:{number}", text, True))
            elif language != "bash" and is_command(text):
                # What follows `...` in a text block may be an explanation.
                text = text.split("...")[0] + ("..." if "..." in text else "")
                commands.append(Command(f"{page.relative_to(ROOT)}:{number}", text, False))
    return commands


def docstring_commands(path: Path) -> list[Command]:
    """Commands in a module docstring: behind a label, before a remark after three blanks, options in brackets."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    commands = []
    for line in text.splitlines():
        start = re.search(
            r"(?:^|:\s+)((?:[A-Z_]+=\S+ )*(?:accelerate launch|python|torchrun|make|sbatch) .*)$", line.strip()
        )
        if start:
            text = re.split(r"\s{3,}|, ", start[1])[0].replace("[", "").replace("]", "")
            commands.append(Command(str(path.relative_to(ROOT)), text, False))
    return commands


def all_commands() -> list[Command]:
    commands = [command for page in PAGES for command in page_commands(page)]
    for folder in ("scripts", "benchmarks", "docs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            commands += docstring_commands(path)
    return commands
