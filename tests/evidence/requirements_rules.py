"""The requirements on policies and approvals, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

FILE = "unit/test_policy_file.py"
COMMANDS = "acceptance/test_policy_commands.py"
SCHEMAS = "unit/test_schemas.py"
POLICY = "unit/test_policy.py"
EXPLAIN = "unit/test_policy_explain.py"

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("R085", "A policy file is checked at the start", "a broken file: exit before anything is entered, naming the file and the entry; every error at once; the published schema refuses the same mistakes",
        (f"{COMMANDS}::test_an_overlay_that_is_missing_or_broken_stops_everything_before_a_tool_runs", f"{FILE}::test_each_error_has_its_place_and_code", f"{FILE}::test_all_errors_of_all_files_come_at_once_in_order", f"{SCHEMAS}::test_schema_and_loader_refuse_the_same_files"), ("perdure policy check FILE", "perdure schema policy")),
    Requirement("R086", "The fields of a rule", "pattern, namespace, class and replay policy: each is followed, and a table of what the others do",
        (f"{FILE}::test_a_whole_file_says_what_the_contract_shows", "unit/test_policy_replay.py::test_what_a_lost_outcome_leads_to", "integration/test_approvals_in_time.py::test_what_was_decided_too_long_ago_is_asked_about_again_before_it_is_sent", "docs/test_claims.py::test_every_field_of_a_rule_is_explained")),
    Requirement("R087", "Explain a tool's policy", "for a corpus of names the answer is the runtime's own; put into a table, it passes",
        (f"{EXPLAIN}::test_the_answer_is_the_runtimes_own", f"{COMMANDS}::test_a_table_is_answered_as_the_runtime_answers"), ("perdure policy explain NAME", "perdure policy test FILE")),
    Requirement("R088", "Overlays by the environment", "`PERDURE_POLICIES_PATH` changes the decision; a flag wins a tie",
        (f"{COMMANDS}::test_the_environment_names_overlays_and_a_flag_wins_a_tie", "unit/test_job_file_settings.py::test_policies_load_from_job_then_environment_then_flags")),
    Requirement("R089", "A base and overlays", "an overlay wins over the base; a missing one is an error, whoever names it",
        (f"{FILE}::test_files_load_in_order_after_the_base", f"{COMMANDS}::test_an_overlay_that_is_missing_or_broken_stops_everything_before_a_tool_runs")),
    Requirement("R090", "Matching and precedence, as a table", "exact, glob, regex, namespace, later file; what a diff of two policies tells",
        (f"{POLICY}::test_the_most_exact_rule_is_followed_and_the_later_file_wins_a_tie", f"{POLICY}::test_every_loser_is_named_with_its_reason", f"{COMMANDS}::test_a_diff_names_tools_and_past_calls_that_would_change"), ("perdure policy diff OLD NEW",)),
)  # fmt: skip
