"""The house rules that imports and files can break: who imports whom, what a repository must not hold, sizes."""

import ast
import re
import subprocess
import sys
import tokenize
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOMAINS = ("protein", "snakes", "grpo", "omagd")
DOMAIN_WORDS = ("protein", "residue", "amino", "backbone", "snake", "grpo", "omagd", "reward", "rollout")
TRAINER_LINES, MODULE_LINES, FUNCTION_LINES = 250, 350, 50
# Written in pieces, so that this file does not hold what it looks for.
INDEX_HOSTS = tuple(".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("pytorch", "org/whl")))
INDEX_OPTIONS = tuple(
    f"--{first}-{last}" for first, last in (("index", "url"), ("extra-index", "url"), ("find", "links"))
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home|Users|opt|mnt|var/folders|tmp/[A-Za-z0-9_]+)/(?!\{)[\w.-]+")


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Full names of everything that `path` imports, anywhere in the file; `from a import b` gives a and a.b."""
    tree, names = ast.parse(path.read_text(encoding="utf-8"), str(path)), set()
    package = module_name(path).split(".") if path.name == "__init__.py" else module_name(path).split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            full = ".".join([*base, *([node.module] if node.module else [])])
            names |= {full} | {f"{full}.{alias.name}" for alias in node.names}
    return names


def imports_of_repository() -> dict[str, set[str]]:
    return {module_name(path): imported(path) for path in sources("lib", "scripts", "benchmarks")}


IMPORTS = imports_of_repository()


def reaches(start: str, package: str) -> list[str] | None:
    """The shortest chain of modules of this repository from `start` to one that imports `package`; None without."""
    chains, seen = [[start]], {start}
    while chains:
        chain = chains.pop(0)
        names = IMPORTS.get(chain[-1], set())
        if any(name == package or name.startswith(f"{package}.") for name in names):
            return [*chain, package]
        for name in sorted(names):
            if name in IMPORTS and name not in seen:
                seen.add(name)
                chains.append([*chain, name])
    return None


def domain_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "lib" and len(parts) > 1 and (ROOT / "lib" / parts[1]).is_dir() else None


def test_the_walk_sees_the_repository():
    assert "lib.protein.model" in IMPORTS and "scripts.train_protein" in IMPORTS
    assert "lib.errors.UserError" in IMPORTS["lib.args"]
    assert reaches("scripts.train_protein", "accelerate") == ["scripts.train_protein", "accelerate"]
    assert reaches("scripts.evaluate_protein", "gemmi") is not None


def test_rooms_know_no_domain_and_no_script():
    for module, names in IMPORTS.items():
        if not module.startswith("lib") or domain_of(module):
            continue
        wrong = {name for name in names if domain_of(name) or name.split(".")[0] in ("scripts", "tests", "benchmarks")}
        assert not wrong, f"{module} imports {sorted(wrong)}: lib/*.py is domain-free"


def test_domains_import_only_themselves_and_the_rooms():
    for module, names in IMPORTS.items():
        own = domain_of(module)
        if own is None:
            continue
        assert own in DOMAINS, f"lib/{own} is no domain of the design"
        others = {name for name in names if domain_of(name) not in (None, own)}
        assert not others, f"{module} imports another domain: {sorted(others)}"
        outside = {name for name in names if name.split(".")[0] in ("scripts", "tests", "benchmarks")}
        assert not outside, f"{module} imports {sorted(outside)}"


@pytest.mark.parametrize("domain", [name for name in DOMAINS if (ROOT / "lib" / name).is_dir()])
def test_domains_never_reach_accelerate(domain):
    found = [reaches(module, "accelerate") for module in IMPORTS if domain_of(module) == domain]
    chains = [" -> ".join(chain) for chain in found if chain]
    assert not chains, "a domain must be testable without processes:\n" + "\n".join(chains)


def test_scripts_do_not_import_each_other():
    for module, names in IMPORTS.items():
        if module.startswith("scripts."):
            assert not {name for name in names if name.split(".")[0] in ("scripts", "tests", "benchmarks")}, module


def test_rooms_name_no_domain_word():
    """Names and texts of the code; a docstring may mention a domain as an example."""
    words = re.compile("|".join(DOMAIN_WORDS), re.IGNORECASE)
    for path in sorted((ROOT / "lib").glob("*.py")):
        with tokenize.open(path) as stream:
            tokens = list(tokenize.generate_tokens(stream.readline))
        docstrings = docstring_lines(path)
        for token in tokens:
            if token.type in (tokenize.NAME, tokenize.STRING) and token.start[0] not in docstrings:
                assert not words.search(token.string), f"{path.name}:{token.start[0]} says {token.string!r}"
    for path in sorted((ROOT / "lib" / "assets").iterdir()):
        found = words.search(path.read_text(encoding="utf-8"))
        assert found is None, f"assets/{path.name} says {found[0]!r}"


def docstring_lines(path: Path) -> set[int]:
    lines = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            lines |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def test_nothing_that_is_loaded_can_run_code():
    """But for a competition submission of snakes: it is a program, and it is run because its user says so."""
    for path in sources("lib", "scripts"):
        names = imported(path)
        forbidden = names & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
        assert not forbidden, f"{path.relative_to(ROOT)} imports {sorted(forbidden)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called == "torch.load":
                safe = [word.value for word in node.keywords if word.arg == "weights_only"]
                assert safe and ast.unparse(safe[0]) == "True", f"{path.name}:{node.lineno} torch.load"
            assert called not in ("yaml.load",) or any(word.arg == "Loader" for word in node.keywords), path.name
            assert called not in ("eval", "exec", "yaml.unsafe_load"), f"{path.name}:{node.lineno} {called}"
            allows = any(word.arg == "allow_pickle" and ast.unparse(word.value) != "False" for word in node.keywords)
            assert not allows, f"{path.name}:{node.lineno} allow_pickle"


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: the list of tracked files is not known")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for path in (ROOT / name for name in listed.split("\0") if name) if path.is_file()]


def test_no_machine_path_and_no_package_index_in_tracked_files():
    wrong = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures
        for number, line in enumerate(text.splitlines(), 1):
            found = [host for host in (*INDEX_HOSTS, *INDEX_OPTIONS) if host in line]
            found += [match.group() for match in MACHINE_PATHS.finditer(line) if path != Path(__file__).resolve()]
            wrong += [f"{path.relative_to(ROOT)}:{number} {what}" for what in found]
    assert not wrong, "\n".join(wrong)


def test_no_run_data_is_tracked():
    for path in tracked_files():
        name = path.relative_to(ROOT)
        assert name.parts[0] not in ("runs", "data", ".venv"), name
        assert path.suffix not in (".safetensors", ".pt", ".pth", ".ckpt", ".arrow", ".pyc"), name
        assert path.stat().st_size < 1_000_000, f"{name} is larger than 1 MB"


def test_requirements_end_with_the_checkout_and_pin_torch():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n")
    assert lines[-2:] == ["-e .", ""]
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", lines[0])
    names = [re.split(r"[<>=!~ ]", line)[0] for line in lines[:-2]]
    assert len(set(names)) == len(names) and all(names)


def test_every_third_party_import_is_required_or_optional():
    """What lib, scripts and tests import at module level is in requirements.txt; the rest is imported where used."""
    required = (ROOT / "requirements.txt").read_text(encoding="utf-8").lower()
    packages = {"yaml": "pyyaml", "warp": "warp-lang", "PIL": "pillow"}
    own = {"lib", "scripts", "benchmarks", "tests", "record"}
    for path in sources("lib", "scripts"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.Import | ast.ImportFrom) or getattr(node, "level", 0):
                continue
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            for name in (full.split(".")[0] for full in found):
                if name in sys.stdlib_module_names or name in own:
                    continue
                line = rf"(?m)^{re.escape(packages.get(name, name))}\b"
                assert re.search(line, required), f"{path.relative_to(ROOT)} imports {name}, not in requirements.txt"


def test_every_launch_configuration_is_named_in_its_table():
    table = (ROOT / "accelerate_configs" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "accelerate_configs").glob("*.yaml"):
        assert f"`{path.name}`" in table, path.name


def test_ci_runs_the_command_of_the_readme():
    run, readme = (ROOT / ".ci" / "run"), (ROOT / "README.md").read_text(encoding="utf-8")
    assert run.stat().st_mode & 0o111, ".ci/run is not executable"
    assert "make test" in run.read_text(encoding="utf-8") and "make test" in readme


def test_sizes_are_reported():
    """Soft: a file or function above its size is a warning in pytest's summary, not a failure."""
    for path in sources("lib", "scripts"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        limit = TRAINER_LINES if path.name.startswith("train_") else MODULE_LINES
        count = text.count("\n")
        if count > limit:
            warnings.warn(f"{name}: {count} lines, limit {limit}", stacklevel=1)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = node.end_lineno - node.lineno + 1
                if count > FUNCTION_LINES:
                    where = f"{name}:{node.lineno} {node.name}"
                    warnings.warn(f"{where}: {count} lines, limit {FUNCTION_LINES}", stacklevel=1)
