"""The requirements on packets, reports, workspaces and artifacts, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

FILES = "integration/test_run_files.py"
EXPORTS = "integration/test_run_exports.py"

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("R010", "Telemetry is apart from the ledger", "every file of the workspace deleted, or filled with noise: the resumed run ends the same, and nothing is sent twice",
        (f"{EXPORTS}::test_a_run_goes_on_whatever_became_of_its_files_and_they_are_written_anew", "integration/test_trace_file.py::test_a_trace_that_is_gone_or_broken_changes_nothing")),
    Requirement("R113", "A resume packet", "written before the program is entered, with run, checkpoint, step, calls in flight and done, artifacts; bounded in size",
        (f"{FILES}::test_the_first_life_has_no_packet_and_the_second_has_one_before_its_program_is_entered", f"{FILES}::test_a_packet_tells_of_step_calls_and_files_and_the_note_of_what_not_to_repeat", f"{FILES}::test_a_packet_does_not_grow_with_the_run", "integration/test_together.py::test_the_next_life_is_told_what_is_left_of_the_budgets_and_what_has_changed")),
    Requirement("R114", "Calls in flight come first", "a started call is settled before the program is entered, and the packet says by what",
        (f"{FILES}::test_what_was_in_flight_is_settled_before_the_program_is_entered_and_the_packet_says_so",)),
    Requirement("R116", "A settled call keeps its row", "the row that was in flight succeeds, and its caller gets what the probe found",
        (f"{FILES}::test_what_was_in_flight_is_settled_before_the_program_is_entered_and_the_packet_says_so",)),
    Requirement("R118", "A replay note for the prompt", "it names settled calls and effects that happened, and no local work; empty in the first life",
        (f"{FILES}::test_the_first_life_has_no_packet_and_the_second_has_one_before_its_program_is_entered", f"{FILES}::test_a_packet_tells_of_step_calls_and_files_and_the_note_of_what_not_to_repeat")),
    Requirement("R119", "A completion report", "on success, on failure, on cancel and when a deadline passes without a process: status, artifacts, receipts",
        (f"{FILES}::test_a_report_of_success_lists_effects_replayed_calls_files_and_lives", f"{FILES}::test_a_report_of_failure_says_why_and_what_to_type", f"{EXPORTS}::test_a_run_that_is_cancelled_while_it_waits_has_its_report_at_once", f"{EXPORTS}::test_a_run_that_its_deadline_ends_while_it_waits_has_its_report", f"{FILES}::test_a_run_that_fails_again_is_reported_again_and_a_resumed_one_has_no_report_meanwhile")),
    Requirement("R120", "A restart file", "its last line, pasted into a shell in another folder, goes on with the run",
        ("acceptance/test_quick_resume.py::test_killed_twice_and_resumed_from_elsewhere_it_has_written_one_line", "integration/test_offered_lines.py::test_each_view_offers_the_line_that_works_and_no_other", "integration/test_offered_lines.py::test_the_offered_line_is_not_refused")),
    Requirement("R122", "The workspace of a run", "its layout; runs of one moment have folders of their own",
        (f"{FILES}::test_a_run_that_has_ended_has_every_file", f"{FILES}::test_two_runs_of_one_moment_have_folders_of_their_own", f"{EXPORTS}::test_the_log_has_a_line_for_each_life_step_call_and_question", f"{EXPORTS}::test_a_transcript_grows_by_what_is_new_and_says_later_what_became_of_a_call")),
    Requirement("R126", "The report says what was settled", "replayed, settled, challenged and unmet calls are lists in it",
        (f"{FILES}::test_what_was_in_flight_is_settled_before_the_program_is_entered_and_the_packet_says_so", f"{FILES}::test_what_an_earlier_life_did_and_nobody_asked_for_again_is_in_the_report_and_can_be_written_anew", f"{FILES}::test_a_report_of_success_lists_effects_replayed_calls_files_and_lives", "integration/test_completion_decisions.py::test_approvals_denials_and_answers_are_told_with_what_an_edit_has_changed")),
    Requirement("R127", "The quick job: sleep, write, list, DONE", "killed in its sleep and after it has written, resumed twice: one line with the time",
        ("acceptance/test_quick_resume.py::test_killed_twice_and_resumed_from_elsewhere_it_has_written_one_line",)),
    Requirement("R133", "Runs that are skipped are told", "`resume --all`: what waits, is held, is too old or cannot be loaded is listed with the reason, in one notice",
        ("integration/test_going_on.py::test_what_was_interrupted_goes_on_oldest_first_and_what_waits_or_has_ended_is_told", "integration/test_going_on.py::test_a_run_in_which_nothing_happened_for_long_is_left_and_told", "integration/test_going_on.py::test_the_command_prints_one_document_and_one_notice", "integration/test_offered_lines.py::test_a_run_that_stops_on_a_change_is_offered_by_resume_all_with_the_word_that_accepts_it"), ("perdure resume --all",)),
    Requirement("R034", "What a job is for is told again", "the objective stands in the packet that the next life gets",
        ("integration/test_packet_of_a_job.py::test_the_objective_of_a_job_stands_in_the_packet_of_the_next_life",)),
    Requirement("R115", "Exact tool and exact input in recovery, before anything else", "the engine settles what was started with the stored request, itself, before the program is entered; a model is never asked to make a call again (C12)",
        ("integration/test_run_files.py::test_what_was_in_flight_is_settled_before_the_program_is_entered_and_the_packet_says_so", "crash/test_requirements_crashes.py::test_the_provider_gets_one_key_on_every_attempt")),
)  # fmt: skip
