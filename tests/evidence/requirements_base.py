"""The requirements on the store, its tables and the words in them, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

BASE = "acceptance/test_requirements_base.py"
SCHEMA = "integration/test_schema.py"
STORE = "integration/test_store.py"
OPENING = "integration/test_store_opening.py"
STATES = "unit/test_transitions.py"
CALLS = "acceptance/test_requirements_calls.py"
CRASHES = "crash/test_requirements_crashes.py"

REQUIREMENTS = (
    Requirement("R005", "The command line first, the durability in a shared layer", "the same mail, killed after it was sent, by `perdure run` and by a Python program: one story in the ledger, one mail outside",
        (f"{BASE}::test_a_killed_mail_has_one_story_whether_it_was_sent_by_the_command_line_or_from_python",)),
    Requirement("R006", "No hardening, no horizontal scale, no perfect classifier", "the README says so, and that one worker is the mode it is made for",
        (f"{BASE}::test_what_it_is_not_for_stands_in_the_readme",)),
    Requirement("R012", "A database file of its own", "the file is made where it is asked for, and holds no table of anybody else",
        (f"{SCHEMA}::test_the_store_holds_its_own_tables_only", f"{BASE}::test_rows_of_a_run_made_by_a_test_are_rows_of_the_store"), ("perdure db path",)),
    Requirement("R013", "The columns of a run", "the schema has them, NOT NULL where it is said",
        (f"{SCHEMA}::test_a_table_has_the_columns_that_it_must_have_and_what_must_be_there_cannot_be_null[runs]",)),
    Requirement("R016", "The specification never changes", "the database refuses to change it, whoever asks; another one under the same id is refused with the difference",
        (f"{SCHEMA}::test_a_specification_cannot_be_changed_after_it_was_accepted", f"{STORE}::test_the_specification_of_a_run_cannot_be_changed", "integration/test_values_and_refusals.py::test_the_same_id_with_another_specification_is_refused_with_the_difference")),
    Requirement("R022", "One row per call, under its run and its step", "foreign keys are on: a row without its run or step is refused",
        (f"{SCHEMA}::test_foreign_keys_are_on_and_a_row_without_its_run_or_step_is_refused", f"{SCHEMA}::test_a_table_has_the_columns_that_it_must_have_and_what_must_be_there_cannot_be_null[tool_calls]", f"{CALLS}::test_no_handler_is_entered_without_a_committed_row")),
    Requirement("R023", "The namespace of a tool", "it is stored, and two calls that differ in it have two keys",
        (f"{SCHEMA}::test_the_namespace_is_stored_and_tells_two_equal_calls_apart",)),
    Requirement("R024", "Four classes and no other", "the database refuses any other word; the engine takes an unknown one for external, with a warning",
        (f"{SCHEMA}::test_a_class_that_is_none_of_the_four_is_refused_by_the_database", f"{CALLS}::test_no_row_has_a_class_or_a_policy_that_the_engine_does_not_know", f"{CALLS}::test_an_invalid_class_is_warned_about_once_a_run")),
    Requirement("R025", "A hash of the arguments and one key per row", "the database refuses a second row with the same key",
        (f"{CALLS}::test_no_call_can_stand_in_the_ledger_without_a_key_or_with_the_key_of_another",)),
    Requirement("R026", "The states of a call, each with its time", "every event in every state; prepared, started and finished are in order, seen from outside while the tool runs",
        (f"{STATES}::test_every_event_in_every_state_of_a_call", f"{CRASHES}::test_an_effect_is_recorded_then_started_then_done_then_finished", f"{STATES}::test_the_words_of_the_schema_are_those_of_the_model")),
    Requirement("R027", "Attempts are counted", "as many as the provider got requests, over crashes",
        (f"{CRASHES}::test_the_provider_gets_one_key_on_every_attempt", f"{CALLS}::test_a_call_that_did_nothing_is_tried_again_with_its_key_within_its_limit")),
    Requirement("R028", "Requests and receipts, inline or beside", "any size comes back unchanged; a payload that is missing or damaged is noticed",
        (f"{STORE}::test_requests_and_receipts_of_any_size_come_back", f"{STORE}::test_a_damaged_payload_is_noticed"),
        otherwise="0038: a large one stands in the table `payloads` of the ledger's own file, so that it is committed with its row"),
    Requirement("R029", "The provider's own id", "it stands in the receipt, and belongs to one call",
        (f"{STORE}::test_a_reference_belongs_to_one_succeeded_call", f"{STORE}::test_what_was_minted_is_what_is_read")),
    Requirement("R033", "Indexes by run and step, foreign keys on", "the plans of the questions that people ask, by the tables and by the views, and the pragma",
        (f"{SCHEMA}::test_what_people_ask_by_run_step_or_call_is_answered_by_an_index", f"{SCHEMA}::test_foreign_keys_are_on_and_a_row_without_its_run_or_step_is_refused")),
    Requirement("R067", "A package of its own; old tools stay as they are", "a function that knows nothing of runs is called as it was written, in a run and outside",
        (f"{BASE}::test_a_tool_that_was_written_before_is_called_as_it_is",)),
    Requirement("R068", "Another way in later", "a chat server on the public library drives the same runner, and its runs say that they came from there",
        (f"{BASE}::test_another_way_in_drives_the_same_runner_with_nothing_of_the_core_changed",)),
    Requirement("R128", "Migrations, state, ledger, gateway and database apart", "imports go down only, checked; a ledger of each older schema opens in this one with every row as it was",
        ("integration/test_upkeep.py::test_a_ledger_of_each_version_opens_in_this_one_with_all_its_data", f"{BASE}::test_a_ledger_of_the_first_schema_opens_in_this_one_and_loses_nothing", f"{OPENING}::test_a_copy_is_made_before_an_old_ledger_is_changed", f"{OPENING}::test_a_migration_that_was_killed_halfway_is_done_again", f"{OPENING}::test_a_process_killed_at_any_statement_of_opening_leaves_a_ledger_that_opens", "docs/test_claims.py::test_files_that_the_guide_names_exist"), ("python3 tasks.py check",)),
)  # fmt: skip
