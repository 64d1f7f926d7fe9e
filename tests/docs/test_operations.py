"""Everything that docs/operations.md tells of was tried: each trouble made, each cure applied, by a test."""

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT, page

PAGE = page("docs/operations.md")
# Its commands are run by test_snippets.py: that is the trouble, and its cure.
ITSELF = "docs/operations.md"
COMMANDS = "tests/unit/cli/test_operations.py"

TRIED = {
    "What happens when": ["the rows below"],
    "a limit of GitHub is reached": [
        "tests/unit/drain/test_worker.py::test_limit_is_waited_for_within_the_timeout_five_minutes_at_a_time_and_without_a_call",
        "tests/unit/ratelimit/test_shared_file.py::test_wait_survives_a_restart_and_goes_on_where_it_was",
        "tests/unit/drain/test_worker.py::test_critical_goes_first",
    ],
    "GitHub is down, answers are lost or torn": [
        "tests/unit/drain/test_worker.py::test_outage_is_met_with_growing_pauses_and_then_drained",
        "tests/unit/drain/test_worker.py::test_long_outage_is_looked_at_once_in_half_a_minute",
        "tests/acceptance/test_sidecar.py::test_an_outage_is_told_as_delayed_persistence",
    ],
    "GitHub takes requests and answers none": [
        "tests/unit/cli/test_hanging_github.py::test_what_reads_gives_up_after_half_a_minute",
        "tests/unit/cli/test_hanging_github.py::test_a_drain_ends_in_its_time_and_keeps_everything",
        "tests/scenarios/drain/test_deadline.py::test_a_github_that_begins_to_hang_is_given_a_grace",
        "tests/unit/cli/test_execution.py::test_an_outage_that_goes_on_delays_no_command_for_longer_than_a_look",
    ],
    "someone else wrote first": [
        "tests/acceptance/test_storm.py::test_eight_writers_of_one_run_lose_nothing_and_agree_on_every_number",
    ],
    "GitHub refuses": ["the kinds below"],
    "`index.json` is lost, damaged, or an older one is put back": [
        ITSELF,
        "tests/scenarios/drain/test_lost_index.py::test_files_without_an_index_stay_in_the_run",
        "tests/scenarios/drain/test_lost_index.py::test_index_that_was_put_back_gives_no_number_twice",
    ],
    "the disk is full": [
        "tests/scenarios/queue/test_durability.py::test_disk_without_room_refuses_keeps_what_it_has_and_recovers",
        "tests/acceptance/test_small_disk.py::test_spool_that_an_outage_has_filled_takes_as_much_again_once_it_is_drained",
    ],
    "the disk is read-only or failing": [
        "tests/unit/queue/test_sqlite_file.py::test_read_only_folder_is_said_and_nothing_is_acknowledged",
        "tests/unit/cli/test_submit.py::test_a_folder_that_cannot_be_written_is_a_failure",
        "tests/unit/sidecar/test_operating.py::test_a_spool_that_takes_nothing_is_not_ready_but_alive",
    ],
    "the spool's file is damaged": ["Damaged spool"],
    "the process is killed anywhere": [
        "tests/acceptance/test_kills.py::test_killed_drain_is_finished_by_the_next_with_everything_exactly_once",
    ],
    "the PostgreSQL of several machines is away, frozen, or takes no writes": [
        "tests/scenarios/shared/test_replicas.py::test_sidecar_accepts_while_the_database_is_away_and_says_so",
        "tests/unit/queue/postgres/test_opening.py::test_real_database_that_goes_away_and_comes_back_gets_everything_once",
        "tests/unit/queue/test_fallback.py::test_a_database_that_only_answers_questions_is_not_back",
        "tests/scenarios/shared/test_freeze.py::test_sidecar_goes_on_and_stores_everything_once_it_is_back",
    ],
    "the replica that drains is killed or frozen": [
        "tests/acceptance/test_replica_kills.py::test_nothing_acknowledged_is_lost_doubled_or_out_of_order_when_replicas_are_killed",
        "tests/unit/queue/postgres/test_lease.py::test_lease_that_ran_out_is_taken_over_and_its_old_holder_changes_nothing",
    ],
    "`HOLDFAST_DATABASE_URL` is wrong": [
        (
            "tests/unit/cli/test_submit.py::"
            "test_a_database_that_never_answered_is_told_once_with_the_setting_that_leads_there"
        ),
        "tests/unit/cli/test_doctor.py::test_a_database_that_refuses_us_is_found_beside_all_else",
        "tests/unit/queue/postgres/test_migrations.py::test_user_who_may_only_read_is_told_at_the_start",
        (
            "tests/unit/queue/postgres/test_database.py::"
            "test_address_that_is_none_is_refused_without_the_password"
        ),
    ],
    "the clock is wrong": [
        "tests/unit/ratelimit/test_budget.py::test_skewed_local_clock_does_not_change_the_wait",
        "tests/unit/drain/test_worker.py::test_drain_goes_on_after_the_clock_was_ahead_and_set_back",
        "tests/scenarios/drain/test_rivals.py::test_older_checkpoint_goes_first_where_two_have_one_number",
    ],
    "When GitHub refuses": ["the kinds below"],
    "`auth`": [
        ITSELF,
        f"{COMMANDS}::test_refusal_is_told_and_the_cure_of_the_page_helps",
        "tests/unit/drain/test_worker.py::test_new_token_is_tried_at_once",
    ],
    "`permission`": [f"{COMMANDS}::test_refusal_is_told_and_the_cure_of_the_page_helps"],
    "`not_found_or_no_access`": [f"{COMMANDS}::test_refusal_is_told_and_the_cure_of_the_page_helps"],
    "`protected_branch`": [ITSELF, f"{COMMANDS}::test_refusal_is_told_and_the_cure_of_the_page_helps"],
    "`obstructed`": [
        f"{COMMANDS}::test_what_lies_in_the_place_of_a_run_is_told_with_what_to_do",
        (
            "tests/scenarios/drain/test_one_bad_run.py::"
            "test_something_in_the_place_of_a_runs_folder_isolates_that_run_until_it_is_moved_away"
        ),
    ],
    "`rules`": [f"{COMMANDS}::test_refusal_is_told_and_the_cure_of_the_page_helps"],
    "`secret_detected`": [
        f"{COMMANDS}::test_secret_that_push_protection_found_is_taken_out_and_the_rest_is_stored"
    ],
    "`invalid`": [f"{COMMANDS}::test_refusal_is_told_and_the_cure_of_the_page_helps"],
    "GitHub's limits": ["the limits below"],
    "requests an hour (5,000, or 1,000 for the token of a job)": [
        "tests/unit/drain/test_worker.py::test_throttled_drain_ends_at_once_without_a_timeout_and_says_why",
        "tests/unit/ratelimit/test_shared_file.py::test_budget_survives_a_restart",
    ],
    "requests that create content": [
        "tests/contract/test_faults.py::test_too_much_content_is_a_secondary_limit"
    ],
    "points a minute (a write costs 5, a read 1)": [
        "tests/unit/ratelimit/test_budget.py::test_points_a_minute_hold_reads_back_by_resource",
        "tests/unit/ratelimit/test_budget.py::test_mutation_costs_five_points",
    ],
    "writes in a row": [
        "tests/scenarios/shared/test_one_budget.py::test_replicas_together_never_exceed_the_limits_of_a_token"
    ],
    '"you are too fast" (a secondary limit)': [
        "tests/unit/ratelimit/test_budget.py::test_secondary_limit_waits_as_long_as_github_asks",
        "tests/unit/ratelimit/test_budget.py::test_secondary_limit_without_a_wait_doubles_from_a_minute_to_half_an_hour",
        "tests/unit/ratelimit/test_budget.py::test_rate_is_halved_for_ten_minutes_after_a_secondary_limit",
    ],
    "Full disk, full spool": ["the three below"],
    "Full spool.": [ITSELF, f"{COMMANDS}::test_full_spool_takes_more_once_its_limit_is_raised"],
    "Full disk.": ["tests/unit/sidecar/test_operating.py::test_a_full_disk_is_told_and_the_sidecar_recovers"],
    "Failing disk.": [
        "tests/unit/sidecar/test_operating.py::test_a_failed_sync_ends_the_sidecar",
        "tests/scenarios/queue/test_unconfirmed.py::test_folder_that_the_disk_did_not_confirm_takes_nothing_from_this_process",
    ],
    "Damaged spool": [
        f"{COMMANDS}::test_damaged_spool_is_moved_away_and_what_can_be_read_is_saved_and_reported",
        "tests/scenarios/queue/test_flipped_bits.py::test_any_bit_may_flip_and_every_checkpoint_is_accounted_for",
        "tests/unit/queue/test_salvage.py::test_every_row_that_is_whole_is_saved_and_the_rest_is_named",
    ],
    "Moving a spool": [ITSELF, "tests/unit/cli/test_spool.py::test_importing_again_changes_nothing"],
    "Lost or damaged files in the repository": [
        ITSELF,
        "tests/acceptance/test_resume.py::test_every_sample_is_resumed_alike_from_the_spool_from_github_and_without_it",
        "tests/scenarios/repository/test_hostile.py::test_hostile_files_are_named_and_passed_over_within_256_megabytes",
    ],
    "A file that was deleted is in git's history": ["docs/retention.md"],
    "A history that must go (a secret, too much space)": ["docs/retention.md"],
    "A checkpoint that a newer Holdfast wrote is refused, not misread": [
        "tests/scenarios/drain/test_newer_format.py::test_readers_tell_that_the_run_is_of_a_newer_format",
        "tests/scenarios/drain/test_newer_format.py::test_run_goes_on_once_it_is_of_our_format_again",
    ],
    "Upgrading": [
        "tests/unit/queue/test_earlier_format.py::test_empty_spool_is_replaced_and_the_numbers_of_its_runs_go_on",
        "tests/unit/queue/test_earlier_format.py::test_receipts_and_notes_of_an_empty_spool_are_carried_over",
        "tests/unit/queue/test_earlier_format.py::test_spool_with_checkpoints_is_refused_and_left_as_it_is",
        "tests/unit/cli/test_spool.py::test_an_export_can_be_imported_elsewhere_and_drained",
    ],
    "Traces": [
        "tests/unit/test_tracing.py::test_two_processes_send_one_trace_to_a_collector",
        "tests/unit/test_tracing.py::test_a_collector_that_is_away_costs_a_command_little",
    ],
    "`holdfast.save`": ["Traces"],
    "`holdfast.queue`": ["Traces"],
    "`holdfast.drain`": [
        "tests/unit/test_tracing.py::test_a_step_for_many_traces_has_a_span_in_each_with_a_link"
    ],
    "`GitHub …`": ["Traces"],
    "`holdfast.verify`": ["Traces"],
    "GitHub Enterprise Server": [
        "tests/unit/drain/test_commits.py::test_server_without_graphql_is_written_in_contents_mode",
        "tests/unit/github/test_client_graphql.py::test_enterprise_server_keeps_graphql_beside_its_rest",
    ],
    "Backups": [
        ITSELF,
        "tests/unit/cli/test_spool.py::test_an_export_leaves_the_spool_as_it_is",
        f"{COMMANDS}::test_everything_beside_the_spool_is_made_anew_when_it_is_missing",
    ],
}


def troubles() -> Iterator[str]:
    """Every heading, row and item of the page, without its links."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", PAGE.prose)
    yield from re.findall(r"^## (.+)$", text, re.MULTILINE)
    yield from re.findall(r"^\| (?!what happens|kind|limit|span)([^|]+?) \| (?!-)", text, re.MULTILINE)
    yield from re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE)
    yield from re.findall(r"^- ([^*].+?):", text, re.MULTILINE)


def test_every_trouble_of_the_page_is_listed_here_and_no_other() -> None:
    assert sorted(troubles()) == sorted(TRIED)


@pytest.mark.parametrize("trouble", sorted(TRIED))
def test_what_tries_it_is_there(trouble: str) -> None:
    for place in TRIED[trouble]:
        path, _, name = place.partition("::")
        if name:
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), place
        elif path.endswith(".md"):
            assert any(block.language == "console" and not block.not_run for block in page(path).blocks)
        else:
            assert path in TRIED or path.endswith("below")
