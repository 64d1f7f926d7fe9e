"""No key, a wrong one, an old one, an altered file: however a sealed checkpoint lies in the repository."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import IntegrityFailure, KeyMissing
from holdfast.format.git_ids import blob_sha
from holdfast.security import jose
from tests.fakes.traces import find_traces
from tests.scenarios.security.test_forged import Intruder, restamp
from tests.scenarios.security.test_sealed import BOTH_MODES, CANARY, forget_here, opened

KEY, NEWER, OTHER = jose.make_shared_key(), jose.make_shared_key(), jose.make_shared_key()
VARIABLES = {
    "alone": {},
    "batch": {"HOLDFAST_LOW_BUDGET": "1000000"},
    "part": {"HOLDFAST_MAX_CHECKPOINT_BYTES": "65536"},
    "member": {"HOLDFAST_INCREMENTAL": "on"},
}
NOISE = Random(1).randbytes(60_000).hex()
NATIVE = {
    "version": "1.0",
    "checkpoint_id": "550e8400-e29b-41d4-a716-446655440000",
    "workflow_id": "task_1",
    "timestamp": "2024-01-02T14:35:22Z",
    "phase": 2,
    "status": "in_progress",
    "agents": {"atlas": {"status": "active", "state": CANARY}},
    "decisions": [],
    "metrics": {},
}


def store(folder: Path, mode: str, form: str) -> Intruder:
    """Store two sealed checkpoints in one of the forms that there are, as a drain writes them."""
    if form == "batch":
        mode = "contents"  # the other mode reads batches and goes on from them, but writes none
    with opened(folder, KEY, mode=mode, **VARIABLES[form]) as holdfast:
        holdfast.save("first", {})
        holdfast.drain()  # its answers tell that the budget is low
        for number in (1, 2):
            holdfast.save("r", {"n": number, "text": CANARY if form in ("alone", "batch") else NOISE})
            if form != "batch":
                holdfast.drain()
        assert holdfast.drain().left == 0
    intruder = Intruder(folder)
    files = ["batch_1_2.json"] if form == "batch" else ["cp_001_manual.json", "cp_002_manual.json"]
    assert sorted(path.name for path in intruder.root.glob("r/*_*")) == files
    assert bool(list(intruder.root.glob("r/parts/*"))) == (form in ("part", "member"))
    return intruder


def write_batch(intruder: Intruder, documents: list[dict[str, Any]]) -> None:
    texts = [json.dumps(each, separators=(",", ":")) for each in documents]
    (intruder.root / "r" / "batch_1_2.json").write_text(f'{{"checkpoints":[{",".join(texts)}]}}')
    index = intruder.read("r/index.json")
    for entry, text in zip(index["checkpoints"], texts, strict=True):
        entry["blob_sha"] = blob_sha(text.encode())
    (intruder.root / "r" / "index.json").write_text(json.dumps(index))
    (intruder.root / "r" / "latest.json").write_text(texts[-1])
    intruder.push()


def flip(sealed: dict[str, str]) -> dict[str, str]:
    """Return what was sealed with one letter of its tag altered."""
    token = sealed["$sealed"]
    return {"$sealed": token[:-8] + ("A" if token[-8] != "A" else "B") + token[-7:]}


def alter_part(intruder: Intruder, reference: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to an altered copy of a part."""
    content = json.dumps(flip(json.loads((intruder.root.parent / reference["$part"]).read_text()))).encode()
    digest = sha256(content).hexdigest()
    path = f"checkpoints/r/parts/{digest}.json"
    (intruder.root.parent / path).write_bytes(content)
    return {"$part": path, "sha256": digest, "bytes": len(content)}


def alter_newest(intruder: Intruder, form: str) -> None:
    """Alter the newest state as one would who can make every digest anew, but has no key."""
    document = intruder.read("r/latest.json")
    state = document["state_snapshot"]
    if form == "part":
        state = alter_part(intruder, state)
    elif form == "member":
        state |= {"$members": [alter_part(intruder, each) for each in state["$members"]]}
    else:
        state = flip(state)
    altered = json.loads(restamp(document, state_snapshot=state))
    if form == "batch":
        write_batch(intruder, [intruder.read("r/batch_1_2.json")["checkpoints"][0], altered])
        return
    content = json.dumps(altered, separators=(",", ":")).encode()
    for name in ("cp_002_manual.json", "latest.json"):
        (intruder.root / "r" / name).write_bytes(content)
    index = intruder.read("r/index.json")
    index["checkpoints"][1]["blob_sha"] = blob_sha(content)
    (intruder.root / "r" / "index.json").write_text(json.dumps(index))
    intruder.push()


@BOTH_MODES
@pytest.mark.parametrize("form", VARIABLES)
def test_each_form_ends_alike_without_its_key_and_when_it_was_altered(
    tmp_path: Path, mode: str, form: str
) -> None:
    folder = tmp_path / "data"
    intruder = store(folder, mode, form)
    for keys in ((), (OTHER,)):
        forget_here(folder)
        with opened(folder, *keys, mode=mode, **VARIABLES[form]) as holdfast:
            with pytest.raises(KeyMissing, match=f"sealed with key {KEY['kid']}, which is not here"):
                holdfast.resume("r")
            assert holdfast.validate("r").findings == []
            assert len(holdfast.checkpoints("r").entries) == 2
    with opened(folder, NEWER, KEY, mode=mode, **VARIABLES[form]) as holdfast:
        assert [holdfast.resume("r", at=number).state["n"] for number in (1, 2)] == [1, 2]

    alter_newest(intruder, form)

    forget_here(folder)
    with opened(folder, NEWER, KEY, mode=mode, **VARIABLES[form]) as holdfast:
        plan = holdfast.resume("r")
        assert plan.state["n"] == 1
        assert any("not what was sealed" in warning for warning in plan.warnings)
        with pytest.raises(IntegrityFailure, match="not what was sealed"):
            holdfast.resume("r", at=2)
        assert any("not what was sealed" in each.reason for each in holdfast.validate("r").findings)
    assert find_traces(tmp_path, CANARY) == []


@BOTH_MODES
@pytest.mark.parametrize("form", VARIABLES)
def test_what_was_exported_ends_alike_without_its_key_and_when_it_was_altered(
    tmp_path: Path, mode: str, form: str
) -> None:
    """The machine that takes it in has no key, another one, the old one beside a newer, or just the one."""
    with opened(tmp_path / "from", KEY, mode=mode, **VARIABLES[form]) as holdfast:
        for number in (1, 2):
            holdfast.save("r", {"n": number, "text": CANARY if form in ("alone", "batch") else NOISE})
        holdfast.export_spool(tmp_path / "export")
        assert find_traces(tmp_path, CANARY, NOISE) == []

    for place, keys in enumerate([(), (OTHER,), (NEWER, KEY), (KEY,)]):
        folder = tmp_path / f"to-{place}" / "data"
        with opened(folder, *keys, mode=mode, **VARIABLES[form]) as holdfast:
            assert len(holdfast.import_spool(tmp_path / "export").taken) == 2
            check_opens(holdfast, has_key=KEY in keys)
            assert holdfast.drain().verified == 2
        forget_here(folder)
        with opened(folder, *keys, mode=mode, **VARIABLES[form]) as holdfast:
            check_opens(holdfast, has_key=KEY in keys)
            assert holdfast.validate("r").findings == []
    assert find_traces(tmp_path, CANARY, NOISE) == []


def check_opens(holdfast: Holdfast, *, has_key: bool) -> None:
    assert len(holdfast.checkpoints("r").entries) == 2
    if has_key:
        assert [holdfast.resume("r", at=number).state["n"] for number in (1, 2)] == [1, 2]
        return
    with pytest.raises(KeyMissing, match=f"sealed with key {KEY['kid']}, which is not here"):
        holdfast.resume("r")


@BOTH_MODES
@pytest.mark.parametrize("digest", ["old", "new"])
def test_what_was_altered_in_an_export_is_noticed(tmp_path: Path, mode: str, digest: str) -> None:
    with opened(tmp_path / "a", KEY, mode=mode) as holdfast:
        ids = [holdfast.save("r", {"n": number, "text": CANARY}).checkpoint_id for number in (1, 2)]
        holdfast.export_spool(tmp_path / "export")
    newest = tmp_path / "export" / f"{ids[1]}.json"
    document = json.loads(newest.read_text())
    content = json.dumps({**document, "state_snapshot": flip(document["state_snapshot"])})
    newest.write_text(content)
    if digest == "new":
        manifest = json.loads((tmp_path / "export" / "manifest.json").read_text())
        manifest["checkpoints"][1]["sha256"] = sha256(content.encode()).hexdigest()
        (tmp_path / "export" / "manifest.json").write_text(json.dumps(manifest))

    with opened(tmp_path / "b", KEY, mode=mode) as holdfast:
        report = holdfast.import_spool(tmp_path / "export")
        assert [*report.damaged] == (ids[1:] if digest == "old" else [])
        holdfast.drain()
        plan = holdfast.resume("r")
        assert plan.state["n"] == 1
        if digest == "new":
            assert any("not what was sealed" in warning for warning in plan.warnings)
            with pytest.raises(IntegrityFailure, match="not what was sealed"):
                holdfast.resume("r", at=2)
    assert find_traces(tmp_path, CANARY) == []


@BOTH_MODES
def test_what_is_imported_from_elsewhere_is_sealed(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        (imported,) = holdfast.import_checkpoints([("native.json", json.dumps(NATIVE).encode())])
        assert imported.run_id
        assert find_traces(tmp_path, CANARY) == []
        holdfast.drain()
        state = holdfast.resume(imported.run_id).state
        assert state["progress"]["agents"]["atlas"]["state"] == CANARY
    assert find_traces(tmp_path, CANARY) == []
    shutil.rmtree(tmp_path / "targets")
    with opened(tmp_path, OTHER, mode=mode) as holdfast, pytest.raises(KeyMissing, match=KEY["kid"]):
        holdfast.resume(imported.run_id)
