"""An example of each answer, for the OpenAPI document."""

RECEIPT = {
    "checkpoint_id": "0b5c1f0e-8f6e-4f0a-9f5f-3c1d2e4b5a69",
    "run_id": "build-42",
    "sequence_number": 1,
    "status": "spooled",
    "persistence": "normal",
    "file_path": "checkpoints/build-42/cp_001_phase_complete.json",
}
VERIFIED = {
    **RECEIPT,
    "status": "verified",
    "commit_sha": "8f3c1a0d5e7b9c2d4f6a8b0c1d3e5f7a9b2c4d6e",
    "blob_sha": "1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d",
}
CHECKPOINT_IN = {
    "trigger": "phase_complete",
    "phase": "phase_1_plan",
    "state": {"phase_outputs": {"phase_1_plan": {"steps": 3}}, "cost_accumulated": 0.42},
}
RUN = {
    "run_id": "build-42",
    "status": "in_progress",
    "resumable": True,
    "checkpoint_count": 1,
    "last_updated": "2026-11-16T10:00:00.000Z",
    "workflow": "ci.yml",
}
LISTED = {
    "sequence": 1,
    "checkpoint_id": RECEIPT["checkpoint_id"],
    "trigger": "phase_complete",
    "timestamp": "2026-11-16T10:00:00.000Z",
    "file_path": RECEIPT["file_path"],
    "status": "in_progress",
}
CHECKPOINT = {
    "format_version": 1,
    "checkpoint_id": RECEIPT["checkpoint_id"],
    "run_id": "build-42",
    "timestamp": "2026-11-16T10:00:00.000Z",
    "trigger": "phase_complete",
    "phase": "phase_1_plan",
    "sequence_number": 1,
    "status": "in_progress",
    "priority": "high",
    "workflow": "ci.yml",
    "state_snapshot": CHECKPOINT_IN["state"],
    "context_fields": {},
    "integrity": {"sha256": "5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592"},
}
PLAN = {
    "run_id": "build-42",
    "checkpoint_id": RECEIPT["checkpoint_id"],
    "sequence_number": 1,
    "source": "spool",
    "status": "in_progress",
    "resumable": True,
    "resume_at": "phase_2",
    "completed": ["phase_1_plan"],
    "remaining": ["phase_2", "phase_3"],
    "retry_current": False,
    "state": CHECKPOINT_IN["state"],
    "cost_accumulated": 0.42,
    "warnings": [],
}
CLEANUP = {
    "dry_run": True,
    "deleted_files": 2,
    "deleted_bytes": 1830,
    "commits": [],
    "runs": [
        {
            "run_id": "build-17",
            "action": "trim",
            "reason": "among the 50 most recent runs",
            "last_written": "2026-11-14T21:40:06.310Z",
            "deleted_files": 2,
            "deleted_bytes": 1830,
        }
    ],
    "delete": ["checkpoints/build-17/index.json", "checkpoints/build-17/cp_001_manual.json"],
    "write": [],
    "left": [],
    "unknown": [],
    "reason": None,
}
STATUS = {
    "repository": "acme/checkpoints",
    "branch": "checkpoints",
    "is_embedded": False,
    "spool": {
        "depth": 0,
        "bytes": 0,
        "oldest_age_s": 0.0,
        "set_aside": 0,
        "set_aside_bytes": 0,
        "salvaged": 0,
        "lost": 0,
    },
    "budget": {"last_remaining": 4980, "last_reset": 1794805784, "calls_this_run": 12},
    "last_error": None,
    "next_try": None,
    "set_aside": [],
    "other_targets": [],
}
