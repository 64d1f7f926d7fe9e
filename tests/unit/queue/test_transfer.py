import json
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import InvalidCheckpoint, SpoolUnwritable
from holdfast.format.triggers import Priority, Trigger
from holdfast.queue.transfer import export_spool, import_spool
from tests.fakes.spooling import FakeEntry, open_spool


def entry_of(body: bytes) -> FakeEntry:
    """Read what `put_three` put: the number, then a JSON object."""
    number, _, content = body.partition(b":")
    fields = json.loads(content)
    return FakeEntry(
        run_id=fields["run"],
        checkpoint_id=fields["id"],
        sequence=int(number),
        trigger=Trigger.ERROR,
        priority=Priority.CRITICAL,
        content=content,
        fingerprint="given",
    )


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Export three checkpoints, one of them set aside."""
    spool = open_spool(tmp_path / "from")
    for number in range(3):
        entry = FakeEntry(trigger=Trigger.ERROR, priority=Priority.CRITICAL)
        entry.content = json.dumps({"run": entry.run_id, "id": entry.checkpoint_id, "n": number}).encode()
        spool.put(entry)
    spool.set_aside(spool.pending()[2], "a rule refuses it")
    before = spool.status(0.0)

    manifest = export_spool(spool, tmp_path / "export")

    assert manifest.count == 3
    assert spool.status(0.0) == before
    spool.close()
    return tmp_path / "export"


def test_export_writes_each_body_and_a_manifest(exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_bytes())

    assert manifest["format_version"] == 1
    assert manifest["count"] == 3
    assert [row["sequence"] for row in manifest["checkpoints"]] == [1, 2, 3]
    assert [row["set_aside"] for row in manifest["checkpoints"]] == [None, None, "a rule refuses it"]
    first = manifest["checkpoints"][0]
    assert (first["run_id"], first["trigger"], first["priority"]) == ("build-1", "error", "critical")
    assert (exported / f"{first['checkpoint_id']}.json").stat().st_size == first["bytes"]
    assert sorted(path.suffix for path in exported.iterdir()) == [".json"] * 4


def test_import_takes_everything_once(exported: Path, tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "to")

    first = import_spool(spool, exported, entry_of)
    again = import_spool(spool, exported, entry_of)

    assert (len(first.taken), first.known, first.damaged, first.refused) == (3, (), (), {})
    assert (again.taken, again.known) == ((), first.taken)
    assert [item.sequence for item in spool.pending()] == [1, 2, 3]
    assert {spool.read(item) for item in spool.pending()} == {
        (exported / f"{name}.json").read_bytes() for name in first.taken
    }
    spool.close()


def test_numbers_that_nobody_asked_for_are_given_anew_in_the_same_order(tmp_path: Path) -> None:
    with closing(open_spool(tmp_path / "from")) as source, closing(open_spool(tmp_path / "to")) as target:
        for name, priority, sequence in (
            ("older", Priority.MEDIUM, None),
            ("newer", Priority.CRITICAL, None),
            ("asked-for", Priority.MEDIUM, 7),
        ):
            content = json.dumps({"run": "build-1", "id": name}).encode()
            source.put(FakeEntry(checkpoint_id=name, priority=priority, sequence=sequence, content=content))
        target.learn_sequence("build-1", 30)
        export_spool(source, tmp_path / "export")

        import_spool(target, tmp_path / "export", entry_of)

        numbers = {each.checkpoint_id: (each.sequence, each.is_automatic) for each in target.pending()}
        assert numbers == {"older": (31, True), "newer": (32, True), "asked-for": (7, False)}


def test_export_into_a_folder_that_holds_another_is_added_to_it(exported: Path, tmp_path: Path) -> None:
    with closing(open_spool(tmp_path / "second")) as second, closing(open_spool(tmp_path / "to")) as target:
        content = json.dumps({"run": "build-2", "id": "another"}).encode()
        second.put(FakeEntry(run_id="build-2", checkpoint_id="another", content=content))

        manifest = export_spool(second, exported)

        assert manifest.count == 1
        assert len(import_spool(target, exported, entry_of).taken) == 4


def test_export_over_something_else_is_refused(exported: Path, tmp_path: Path) -> None:
    (exported / "manifest.json").write_text("mine")

    with closing(open_spool(tmp_path / "from")) as spool, pytest.raises(InvalidCheckpoint):
        export_spool(spool, exported)

    assert (exported / "manifest.json").read_text() == "mine"


def test_import_into_the_spool_it_came_from_changes_nothing(exported: Path, tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "from")
    before = spool.status(0.0)

    report = import_spool(spool, exported, entry_of)

    assert len(report.known) == 3
    assert spool.status(0.0) == before
    spool.close()


def test_damaged_and_missing_files_are_named_and_the_others_taken(exported: Path, tmp_path: Path) -> None:
    names = [
        row["checkpoint_id"] for row in json.loads((exported / "manifest.json").read_bytes())["checkpoints"]
    ]
    path = exported / f"{names[0]}.json"
    path.write_bytes(path.read_bytes().replace(b"run", b"ruN"))
    (exported / f"{names[1]}.json").unlink()
    spool = open_spool(tmp_path / "to")

    report = import_spool(spool, exported, entry_of)

    assert (report.taken, report.damaged) == ((names[2],), (names[0], names[1]))
    spool.close()


def test_checkpoint_that_is_known_with_other_content_is_named(exported: Path, tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "to")
    name = json.loads((exported / "manifest.json").read_bytes())["checkpoints"][0]["checkpoint_id"]
    spool.put(FakeEntry(checkpoint_id=name, fingerprint="another"))

    report = import_spool(spool, exported, entry_of)

    assert len(report.taken) == 2
    assert "accepted before with other content" in report.refused[name]
    spool.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "name a folder that holdfast spool export has written"),
        (b"{", "not the manifest of an export"),
        (b"[]", "not the manifest of an export"),
        (b'{"format_version": 2, "checkpoints": []}', "format 2"),
        (
            b'{"format_version": 1, "checkpoints": [{"checkpoint_id": "../x", "sha256": "", "sequence": 1}]}',
            "cannot name a file",
        ),
    ],
)
def test_folder_that_is_no_whole_export_is_refused(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    (tmp_path / "export").mkdir()
    if content is not None:
        (tmp_path / "export" / "manifest.json").write_bytes(content)
    spool = open_spool(tmp_path / "spool")

    with pytest.raises(InvalidCheckpoint, match=reason):
        import_spool(spool, tmp_path / "export", entry_of)
    spool.close()


def test_export_to_what_is_not_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = open_spool(tmp_path / "spool")
    spool.put(FakeEntry())

    with pytest.raises(SpoolUnwritable):
        export_spool(spool, tmp_path / "file")
    spool.close()
