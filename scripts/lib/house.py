"""What the house asks of its modules and no other tool checks; `house.toml` has the exceptions.

Every check yields a sentence for each thing that is not in order, which says what to do.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = Path(__file__).with_name("house.toml")
PURITY = "Pure modules decide without I/O"
# What time it is, and what is random, comes into a pure module as an argument. Modules that give nothing
# else, such as `random`, are forbidden in pyproject.toml.
UNSTEADY = frozenset({"datetime.now", "datetime.today", "datetime.utcnow", "date.today", "uuid1", "uuid4"})
# What users touch acts by nature, and may happen to import nothing that does.
DOORS = frozenset({"action", "cli", "n8n", "presentation", "sidecar"})
# A module with fewer of these hands on what others have decided.
DECIDING = 5
DECISIONS = (ast.If, ast.IfExp, ast.Match, ast.While, ast.Try)
MACHINE_WORDS = {
    re.compile(rb"/(?:home|Users)/(?!node/)[\w.-]+/"): "the folder of one user",
    re.compile(rb"/roo[t]/[\w.-]"): "the folder of one user",
    re.compile(rb"\bpypi\.org|pythonhosted\.org|registry\.npmjs\.org"): "the host of a package index",
    re.compile(rb"--(?:extra-)?index-url|\bPIP_(?:EXTRA_)?INDEX_URL=\S"): "a package index",
}


@dataclass(frozen=True)
class Module:
    """One module of the package: its dotted name, its place under src/holdfast, and what it says."""

    name: str
    place: Path
    text: str

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(ast.parse(self.text)))

    @property
    def is_emulator(self) -> bool:
        return self.place.parts[0] == "emulator"

    @property
    def own_test(self) -> str:
        tested = self.place.parent if self.place.stem == "__init__" else self.place
        return (Path("tests/unit") / tested.with_name(f"test_{tested.stem}.py")).as_posix()


def read_modules(package: Path) -> list[Module]:
    """Return every module of the package in this folder."""
    found = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        dotted = ".".join([package.name, *place.with_suffix("").parts]).removesuffix(".__init__")
        found.append(Module(dotted, place, path.read_text(encoding="utf-8")))
    return found


def check_class_names(modules: Iterable[Module], known: Collection[str]) -> Iterator[str]:
    """No class name means two things; those `known` are still to be renamed.

    Names that differ by a leading underscore or by capitals alone are the same to who speaks them.
    """
    places = defaultdict(list)
    for module in modules:
        if not module.is_emulator:
            for node in module.nodes:
                if isinstance(node, ast.ClassDef):
                    places[_spoken(node.name)].append(f"{node.name} is in {module.name}")
    for name, found in places.items():
        if len(found) > 1 and name not in map(_spoken, known):
            yield f"class {' and '.join(found)}: rename all but one"
    for name in known:
        if len(places[_spoken(name)]) < 2:
            yield f"class {name} is there once: take it out of class_names_twice in {RULES.name}"


def check_noqa(modules: Iterable[Module], limit: int) -> Iterator[str]:
    """Lint is silenced no more often than the limit says, and the limit follows when that becomes rarer."""
    count = sum(module.text.count("# noqa") for module in modules)
    if count > limit:
        yield f"src has {count} noqa, the limit is {limit}: mend the code instead of silencing the lint"
    elif count < limit:
        yield f"src has {count} noqa: lower noqa_limit from {limit} in {RULES.name}"


def check_purity(
    modules: Sequence[Module], listed: Collection[str], impure: Collection[str]
) -> Iterator[str]:
    """Every module that is pure by what it imports is listed, so that it stays pure."""
    graph = {module.name: _imports(module, {each.name for each in modules}) for module in modules}
    for module in modules:
        package = module.place.parts[0]
        if module.place.name == "__init__.py" or len(module.place.parts) == 1 or package in DOORS:
            continue
        is_listed = _is_listed(module, listed)
        if not (is_listed or module.is_emulator or _reaches(module.name, graph, impure)):
            yield f'{module.name} is pure: list it in pyproject.toml under "{PURITY}", so that it stays so'


def check_steadiness(modules: Iterable[Module], listed: Collection[str]) -> Iterator[str]:
    """What a pure module decides depends on its arguments alone."""
    for module in modules:
        if _is_listed(module, listed):
            for line, name in _unsteady(module):
                yield f"{module.name}:{line} is to be pure and uses {name}: take that as an argument"


def check_tests(
    modules: Sequence[Module], elsewhere: Mapping[str, str], files: Collection[str]
) -> Iterator[str]:
    """A module that decides something has a test of its own, or the one that covers it is named."""
    deciding = {module.name: module for module in modules if not module.is_emulator and _decides(module)}
    for name, module in deciding.items():
        if module.own_test not in files and name not in elsewhere:
            wanted = f"write {module.own_test}, or name what covers it in {RULES.name}"
            yield f"{name} has no test of its own: {wanted}"
    for name, test in elsewhere.items():
        if name not in deciding:
            yield f"{name} is gone or decides little: take it out of tested_by in {RULES.name}"
        elif deciding[name].own_test in files:
            yield f"{name} has a test of its own: take it out of tested_by in {RULES.name}"
        elif test not in files:
            yield f"{test} is gone, which was to test {name}: name another one in {RULES.name}"


def check_words(contents: Mapping[str, bytes]) -> Iterator[str]:
    """No file tells on which machine it was written, or from where that one fetches packages."""
    for path, content in contents.items():
        for pattern, what in MACHINE_WORDS.items():
            if found := pattern.search(content):
                line = content.count(b"\n", 0, found.start()) + 1
                yield f"{path}:{line} names {what}, {found[0].decode()!r}: leave it out"


def _spoken(name: str) -> str:
    return name.lstrip("_").lower()


def _is_listed(module: Module, listed: Collection[str]) -> bool:
    return any(module.name == each or module.name.startswith(f"{each}.") for each in listed)


def _unsteady(module: Module) -> Iterator[tuple[int, str]]:
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute):
            ends = {".".join(ast.unparse(node).split(".")[-count:]) for count in (1, 2)}
            if found := ends & UNSTEADY:
                yield node.lineno, found.pop()


def _imports(module: Module, ours: Collection[str]) -> set[str]:
    found: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(members & set(ours) or {node.module})
    return found


def _reaches(name: str, graph: Mapping[str, Collection[str]], targets: Collection[str]) -> bool:
    """Whether a module imports one of the `targets`, directly or through others of ours."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current.split(".")[0] in targets:
            return True
        if current not in seen:
            seen.add(current)
            waiting.extend(graph.get(current, ()))
    return False


def _decides(module: Module) -> bool:
    return sum(isinstance(node, DECISIONS) for node in module.nodes) >= DECIDING


def _tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    return [path for path in listed.stdout.decode().split("\0") if path]


def main() -> int:
    """Look through the whole house, and name what is not in order."""
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (purity,) = [each for each in project["tool"]["importlinter"]["contracts"] if each["name"] == PURITY]
    modules = read_modules(ROOT / "src" / "holdfast")
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    contents = {path: (ROOT / path).read_bytes() for path in _tracked_files() if (ROOT / path).is_file()}
    found = [
        *check_class_names(modules, rules["class_names_twice"]),
        *check_noqa(modules, rules["noqa_limit"]),
        *check_purity(modules, purity["source_modules"], purity["forbidden_modules"]),
        *check_steadiness(modules, purity["source_modules"]),
        *check_tests(modules, rules["tested_by"], tests),
        *check_words(contents),
    ]
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
