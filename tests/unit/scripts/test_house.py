"""The checks of the house: each names what is wrong, says what to do, and keeps quiet otherwise."""

import subprocess
from pathlib import Path

import house
import pytest
from house import Module

IMPURE = {"os", "time"}


def module(name: str, text: str = "") -> Module:
    return Module(f"holdfast.{name}", Path(*name.split(".")).with_suffix(".py"), text)


def test_modules_are_read_with_their_names_and_the_tests_they_want(tmp_path: Path) -> None:
    package = tmp_path / "holdfast"
    (package / "drain").mkdir(parents=True)
    for path in ("errors.py", "drain/__init__.py", "drain/plan.py"):
        (package / path).write_text(f"# {path}")

    found = {each.name: (each.text, each.own_test) for each in house.read_modules(package)}

    assert found == {
        "holdfast.errors": ("# errors.py", "tests/unit/test_errors.py"),
        "holdfast.drain": ("# drain/__init__.py", "tests/unit/test_drain.py"),
        "holdfast.drain.plan": ("# drain/plan.py", "tests/unit/drain/test_plan.py"),
    }


def test_a_class_name_means_one_thing() -> None:
    both = [module("queue.tables", "class Entry: ..."), module("drain.plan", "class Entry: ...")]

    (complaint,) = house.check_class_names(both, known=())

    assert complaint == (
        "class Entry is in holdfast.queue.tables and Entry is in holdfast.drain.plan: rename all but one"
    )
    assert list(house.check_class_names(both, known=["Entry"])) == []


@pytest.mark.parametrize("other", ["_Intake", "InTake"])
def test_names_that_sound_the_same_are_the_same(other: str) -> None:
    both = [module("queue.tables", "class Intake: ..."), module("drain.plan", f"class {other}: ...")]

    (complaint,) = house.check_class_names(both, known=())

    assert f"{other} is in holdfast.drain.plan" in complaint
    assert list(house.check_class_names(both, known=["Intake"])) == []


def test_the_emulator_has_names_of_its_own() -> None:
    both = [module("queue.tables", "class Journal: ..."), module("emulator.journal", "class Journal: ...")]

    assert list(house.check_class_names(both, known=())) == []


def test_a_name_that_was_changed_is_no_exception_any_more() -> None:
    (complaint,) = house.check_class_names([module("drain.plan", "class Entry: ...")], known=["Entry"])

    assert "take it out of class_names_twice" in complaint


@pytest.mark.parametrize(("limit", "advice"), [(1, "mend the code"), (3, "lower noqa_limit from 3")])
def test_lint_is_silenced_as_often_as_the_limit_says(limit: int, advice: str) -> None:
    modules = [module("a", "x  # noqa: X1\ny  # noqa: X2")]

    (complaint,) = house.check_noqa(modules, limit)

    assert "src has 2 noqa" in complaint
    assert advice in complaint
    assert list(house.check_noqa(modules, 2)) == []


def test_a_pure_module_is_listed() -> None:
    modules = [
        module("format.ids", "import re"),
        module("drain.plan", "from holdfast.format import ids\nfrom holdfast.format.ids import RunId"),
        module("drain.worker", "from holdfast import disk"),
        module("drain.outage", "from holdfast.disk import sync"),
        module("disk", "import os"),
    ]

    found = list(house.check_purity(modules, ["holdfast.format"], IMPURE))

    assert [complaint.split()[0] for complaint in found] == ["holdfast.drain.plan"]
    assert "list it in pyproject.toml" in found[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from datetime import datetime\nsince = datetime.now()", "2 is to be pure and uses datetime.now"),
        ("import datetime\ntoday = datetime.date.today()", "2 is to be pure and uses date.today"),
        ("from uuid import uuid4\n\nnew_id = uuid4().hex", "3 is to be pure and uses uuid4"),
    ],
)
def test_a_pure_module_asks_neither_for_the_time_nor_for_chance(text: str, found: str) -> None:
    (complaint,) = house.check_steadiness([module("drain.plan", text)], ["holdfast.drain.plan"])

    assert found in complaint
    assert list(house.check_steadiness([module("drain.worker", text)], ["holdfast.drain.plan"])) == []


def test_a_pure_module_may_be_given_the_time() -> None:
    text = "from datetime import datetime\nfrom uuid import UUID\nage = terms.now - since"

    assert list(house.check_steadiness([module("drain.plan", text)], ["holdfast.drain"])) == []


@pytest.mark.parametrize("name", ["errors", "cli.arguments", "emulator.routes"])
def test_doors_and_single_modules_and_the_emulator_need_not_be_listed(name: str) -> None:
    assert list(house.check_purity([module(name, "import re")], [], IMPURE)) == []


def test_modules_that_import_each_other_are_looked_at_once() -> None:
    modules = [module("drain.a", "import holdfast.drain.b"), module("drain.b", "import holdfast.drain.a")]

    assert len(list(house.check_purity(modules, [], IMPURE))) == 2


DECIDING = "if a: pass\n" * house.DECIDING


def test_a_module_that_decides_has_a_test_of_its_own() -> None:
    modules = [module("drain.plan", DECIDING), module("drain.names", "if a: pass")]

    (complaint,) = house.check_tests(modules, {}, files=())

    assert "holdfast.drain.plan has no test of its own: write tests/unit/drain/test_plan.py" in complaint
    assert list(house.check_tests(modules, {}, files=["tests/unit/drain/test_plan.py"])) == []


def test_another_test_may_cover_it() -> None:
    named = {"holdfast.drain.plan": "tests/acceptance/test_storm.py"}

    assert list(house.check_tests([module("drain.plan", DECIDING)], named, [*named.values()])) == []


@pytest.mark.parametrize(
    ("text", "files", "complaint"),
    [
        ("", ["tests/acceptance/test_storm.py"], "is gone or decides little"),
        (DECIDING, ["tests/unit/drain/test_plan.py"], "has a test of its own"),
        (DECIDING, [], "tests/acceptance/test_storm.py is gone"),
    ],
)
def test_what_is_not_so_any_more_is_no_exception(text: str, files: list[str], complaint: str) -> None:
    named = {"holdfast.drain.plan": "tests/acceptance/test_storm.py"}

    (found,) = house.check_tests([module("drain.plan", text)], named, files)

    assert complaint in found


@pytest.mark.parametrize(
    "words",
    [
        ("/home", "/someone/project"),
        ("/Users", "/someone/project"),
        ("/root", "/project"),
        ("https://py", "pi.org/simple"),
        ("https://files.python", "hosted.org/packages"),
        ("https://registry.npm", "js.org/left-pad"),
        ("--extra-index", "-url mirror"),
    ],
)
def test_no_file_names_a_machine_or_a_package_index(words: tuple[str, str]) -> None:
    (complaint,) = house.check_words({"docs/a.md": f"first\nsee {''.join(words)}".encode()})

    assert complaint.startswith("docs/a.md:2 names ")


def test_the_folder_of_a_container_image_is_nobody_s() -> None:
    assert list(house.check_words({"compose.yaml": b"- n8n:/home/node/.n8n"})) == []


def test_the_whole_house_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = f"""
        [[tool.importlinter.contracts]]
        name = "{house.PURITY}"
        source_modules = []
        forbidden_modules = ["os"]
    """
    rules = "noqa_limit = 0\nclass_names_twice = []\n[tested_by]\n"
    package = tmp_path / "src" / "holdfast" / "drain"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "house.toml").write_text(rules)
    (package / "worker.py").write_text("import os")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    monkeypatch.setattr(house, "RULES", tmp_path / "house.toml")
    assert house.main() == 0

    (package / "worker.py").write_text("import re")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "notes.md").write_text("/".join(["", "root", "project"]))
    subprocess.run(["git", "-C", str(tmp_path), "add", "notes.md"], check=True)
    assert house.main() == 1

    purity, words = capsys.readouterr().err.splitlines()
    assert purity.startswith("holdfast.drain.worker is pure: ")
    assert words.startswith("notes.md:1 names ")
