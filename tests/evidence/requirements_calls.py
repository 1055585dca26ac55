"""The requirements on calls and their durability, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

CALLS = "acceptance/test_requirements_calls.py"
CRASHES = "crash/test_requirements_crashes.py"
MATRIX = "acceptance/test_durability_matrix.py"
POINTS = "crash/test_crash_points.py"
FUNCTION = "integration/test_function_agents.py"
DOUBTS = "integration/test_doubts.py"
PROBES = "integration/test_probes.py"
VALUES = "integration/test_values_and_refusals.py"
NAMES = "unit/test_policy_names.py"
POLICY = "unit/test_policy.py"
REPLAY = "unit/test_policy_replay.py"
KNOBS = "unit/test_crashpoints.py"
STATES = "unit/test_transitions.py"
ATTACHED = "integration/test_attached_files.py"
IDENTITY = "property/test_identity.py"
EVERY_POINT = f"{POINTS}::test_every_effect_happens_once_wherever_the_run_is_killed"

REQUIREMENTS = (
    Requirement("R001", "Long jobs survive restarts", "killed at random points, up to three times, over random programs: each run ends and everything is done",
        ("crash/test_random_trees.py::test_random_programs_do_exactly_what_they_ask_for", "crash/test_soak_slice.py::test_random_schedules_of_kills_faults_rivals_and_verdicts_keep_every_count", "acceptance/test_demo.py::test_killed_at_its_three_worst_moments_everything_arrives_once"), ("python3 tasks.py demo",)),
    Requirement("R002", "No effect twice by retry or resume", "killed at every numbered point; an independent process counts exactly what was asked for",
        (EVERY_POINT, f"{POINTS}::test_the_life_that_settles_may_be_killed_at_every_point_too")),
    Requirement("R003", "Go on with little rework", "what has a receipt is entered 0 more times",
        (f"{FUNCTION}::test_finished_calls_return_their_receipts_in_the_next_life", f"{CRASHES}::test_a_finished_read_is_not_made_again_after_a_crash")),
    Requirement("R009", "All tools pass one gateway", "every tool looks, while it runs, for its own committed row from another process",
        (f"{CALLS}::test_no_handler_is_entered_without_a_committed_row",)),
    Requirement("R044", "Effectful unless surely a read", "a tool without a class is external, is met on resume and not done again",
        (f"{CALLS}::test_a_tool_that_nobody_classified_is_met_on_resume_and_not_done_again", f"{POLICY}::test_nothing_declared_is_external_and_asks")),
    Requirement("R045", "Four classes", "a table of what each class leads to when an outcome was lost",
        (f"{REPLAY}::test_what_a_lost_outcome_leads_to",)),
    Requirement("R046", "Shipped lists of local tools", "each named tool has the class of the list, by a rule of the shipped policy",
        (f"{NAMES}::test_each_named_tool_has_its_class", f"{NAMES}::test_composio_names")),
    Requirement("R047", "Costly reads are not redone", "a read with a receipt is asked for once at the provider, over two lives",
        (f"{CRASHES}::test_a_finished_read_is_not_made_again_after_a_crash",)),
    Requirement("R048", "Verbs of change raise the risk", "whole words only: a word inside a word is none",
        (f"{NAMES}::test_a_whole_word_of_change_is_found", f"{NAMES}::test_a_word_inside_a_word_is_none")),
    Requirement("R049", "Verbs of reading", "a name alone never makes a tool read-only; `SPREADSHEET_CLEAR` stays external",
        (f"{NAMES}::test_a_name_alone_never_makes_a_tool_read_only", f"{NAMES}::test_composio_names")),
    Requirement("R050", "Overrides in the policy file", "the lists flip the class, and the explanation shows which line did",
        (f"{POLICY}::test_the_allowlist_flips_an_unknown_or_declared_tool", f"{POLICY}::test_the_denylist_forces_external_against_everybody", "unit/test_policy_explain.py::test_a_person_reads_the_winner_with_its_line_and_every_loser")),
    Requirement("R051", "No effect without a key", "the database refuses a row without a key, and a second row with the same",
        (f"{CALLS}::test_no_call_can_stand_in_the_ledger_without_a_key_or_with_the_key_of_another",)),
    Requirement("R052", "What the key is made of", "equal parts, equal key in every process; one part changed, another key",
        (f"{CALLS}::test_a_key_is_the_same_in_every_process", "unit/test_identity.py::test_every_part_of_a_call_changes_its_key", f"{IDENTITY}::test_two_calls_share_a_key_only_if_they_are_one")),
    Requirement("R053", "Arguments have one hash", "order of keys, spelling and volatile fields do not matter; values do",
        (f"{IDENTITY}::test_arguments_have_one_hash_exactly_when_they_are_equal", f"{IDENTITY}::test_a_volatile_argument_never_changes_the_hash")),
    Requirement("R054", "A scope for each kind of effect", "mail: recipients; upload: the object's name; the wording is never in it; other bytes in an attached or uploaded file are another key, over lives and for models too",
        (f"{ATTACHED}::test_the_same_bytes_meet_their_receipt_and_others_are_asked_about", f"{ATTACHED}::test_a_shipped_tool_is_another_call_where_its_file_holds_other_bytes", f"{ATTACHED}::test_a_model_that_writes_and_sends_at_once_is_told_of_the_same_bytes_and_may_send_others",
         f"{CALLS}::test_the_shipped_tools_say_which_effect_it_is_and_not_in_which_words", "integration/test_toolbox_world.py::test_a_file_that_changed_since_its_own_lost_upload_stays_open")),
    Requirement("R055", "prepared, running, and an end", "every event in every state; a crash at each edge leaves the documented state",
        (f"{STATES}::test_every_event_in_every_state_of_a_call", EVERY_POINT)),
    Requirement("R056", "A finished call returns its receipt", "one request at the provider over all lives, equal results",
        (f"{FUNCTION}::test_finished_calls_return_their_receipts_in_the_next_life", f"{VALUES}::test_values_come_back_as_they_went_in")),
    Requirement("R057", "A lost outcome is settled", "the provider says yes; no; cannot tell",
        (f"{DOUBTS}::test_a_no_about_one_attempt_says_nothing_about_the_next", f"{PROBES}::test_a_no_that_is_believed_sends_again_and_an_incomplete_one_asks", f"{PROBES}::test_a_probe_that_raises_or_answers_nonsense_is_unknown")),
    Requirement("R058", "Retries are bounded, spaced, with one key", "three requests for `max_attempts=3`, one key, growing waits",
        (f"{CALLS}::test_a_call_that_did_nothing_is_tried_again_with_its_key_within_its_limit", f"{CALLS}::test_the_waits_between_attempts_grow_and_are_bounded")),
    Requirement("R059", "Step, snapshot and cursor together", "killed at each point, the ledger never holds one without the others",
        (f"{CRASHES}::test_a_step_its_checkpoint_and_its_cursor_are_stored_in_one_transaction",)),
    Requirement("R060", "Resume repeats no finished tool, no notice", "counted at the demo's servers after three kills",
        ("acceptance/test_demo.py::test_killed_at_its_three_worst_moments_everything_arrives_once",), ("python3 tasks.py demo",)),
    Requirement("R061", "Crawl again only what has no receipt", "with the receipt, no request; a file that a local tool made and that is gone is made again, one that is there is not",
        (f"{CALLS}::test_a_page_is_asked_for_again_only_if_its_receipt_is_missing", f"{CALLS}::test_a_file_that_is_gone_is_made_again_and_one_that_is_there_is_not")),
    Requirement("R070", "Crash knob by tool", "the process dies after that tool, exit code 137",
        (f"{KNOBS}::test_a_knob_ends_the_process_where_it_says", f"{CRASHES}::test_the_crash_after_a_tool_is_before_its_receipt_and_after_its_effect")),
    Requirement("R071", "Crash knob by call id", "only that call fires it",
        (f"{CRASHES}::test_a_call_a_tool_and_a_phase_choose_the_moment_together",)),
    Requirement("R072", "Crash knobs by phase and step, combined", "several must all match",
        (f"{CRASHES}::test_a_call_a_tool_and_a_phase_choose_the_moment_together", f"{CRASHES}::test_knobs_that_name_different_moments_never_fire")),
    Requirement("R073", "The moment between result and record", "the row says `running`, the provider says 1",
        (f"{CRASHES}::test_the_crash_after_a_tool_is_before_its_receipt_and_after_its_effect",)),
    Requirement("R074", "Knobs are inert when unset", "nothing is counted or said, and the hook is the empty one",
        (f"{KNOBS}::test_without_knobs_nothing_is_counted_or_said",)),
    Requirement("R075", "A loud line", "it names the tool and the call",
        (f"{CRASHES}::test_the_crash_after_a_tool_is_before_its_receipt_and_after_its_effect", f"{KNOBS}::test_a_knob_ends_the_process_where_it_says")),
    Requirement("R076", "Crash and resume: one mail, one row", "counted at a real mail server and in the ledger",
        (f"{MATRIX}::test_kill_after_email_before_mark",)),
    Requirement("R077", "Recorded before executed, on all paths", "sync, async, in a thread, inside a memo, of every class: a committed row at each entry",
        (f"{CALLS}::test_no_handler_is_entered_without_a_committed_row", "crash/test_power_loss.py::test_power_is_lost_with_all_that_was_not_synced"),
        missing="MCP tools and subagents"),
    Requirement("R078", "A bypass raises", "a thread without a run gets `NoActiveRun`; a gateway that acts first is caught",
        (f"{CALLS}::test_a_thread_of_the_program_without_a_run_cannot_pass_the_ledger_by", f"{VALUES}::test_outside_a_run_an_effectful_tool_refuses_and_a_read_just_runs", "crash/test_planted_bugs.py::test_the_provider_counts_what_a_broken_rule_lets_through[the_tool_acts_before_the_record]")),
    Requirement("R079", "The order, by timestamps", "recorded ≤ started ≤ done at the provider ≤ finished",
        (f"{CRASHES}::test_an_effect_is_recorded_then_started_then_done_then_finished",)),
    Requirement("R080", "No or an invalid class is external", "such a tool is external; the database refuses any other word",
        (f"{POLICY}::test_an_invalid_class_is_external_and_says_so", f"{CALLS}::test_no_row_has_a_class_or_a_policy_that_the_engine_does_not_know")),
    Requirement("R081", "A replay policy decides before the class", "and one that cannot hold asks instead",
        (f"{REPLAY}::test_what_a_lost_outcome_leads_to", f"{REPLAY}::test_a_replay_policy_that_cannot_hold_asks_instead")),
    Requirement("R082", "Read-only only if somebody said so", "by a rule, by the tool, or by the shipped policy",
        (f"{NAMES}::test_a_name_alone_never_makes_a_tool_read_only", "property/test_policy_rules.py::test_a_name_alone_never_makes_a_tool_harmless")),
    Requirement("R083", "One warning a run", "three calls, one warning",
        (f"{CALLS}::test_an_invalid_class_is_warned_about_once_a_run",)),
    Requirement("R084", "A lost line of the policy does no harm", "the line is removed between two lives; nothing is done twice",
        (f"{CALLS}::test_without_its_line_of_the_policy_a_tool_is_still_not_done_twice", f"{POLICY}::test_an_invalid_class_is_external_and_says_so")),
    Requirement("R102", "One command: start, kill, resume, verify", "exit 0 as it is, and not 0 with the guard off",
        ("acceptance/test_smoke.py::test_a_good_build_does_everything_once_wherever_it_is_killed", "acceptance/test_smoke.py::test_it_prints_run_id_and_a_resume_command_that_works", "acceptance/test_smoke.py::test_a_build_with_its_guard_off_does_not_pass"), ("perdure smoke",)),
    Requirement("R103", "The count outside is what counts", "a look for repeated keys finds nothing even where two were sent",
        (f"{CALLS}::test_looking_for_equal_keys_proves_nothing_and_counting_outside_does",)),
    Requirement("R104", "The matrix: at least five cases, automated", "killed in a child; before the upload; before the e-mail; before the mark; in a read",
        (f"{MATRIX}::test_kill_in_a_child", f"{MATRIX}::test_kill_after_pdf_before_upload", f"{MATRIX}::test_kill_after_upload_before_email", f"{MATRIX}::test_kill_after_email_before_mark", f"{MATRIX}::test_kill_in_a_read_only_call")),
    Requirement("R105", "The page of the matrix", "kill points, outcomes, commands, queries; the queries are run",
        ("docs/test_matrix.py", "docs/test_pages.py::test_page_does_what_it_says"), ("python3 tasks.py test -m matrix",)),
    Requirement("R106", "The page of the knobs", "it lists the knobs that the code has",
        ("docs/test_claims.py::test_the_crash_knobs_of_the_page_are_those_of_the_code",)),
    Requirement("R137", "A check closes the window, not a model's reading", "a model that always asks again, in other words, is told and sends nothing; an agent that words it anew after a crash is asked",
        ("crash/test_turns.py::test_what_a_random_model_asks_for_is_done_once_wherever_it_is_killed", "integration/test_turns.py::test_a_model_that_repeats_itself_is_told_what_was_done_and_may_ask_for_one_more", "crash/test_hard_programs.py::test_changed_wording_is_asked_about_and_not_sent_twice")),
    Requirement("R142", "The key goes to the provider", "it gets one key on every attempt",
        (f"{CRASHES}::test_the_provider_gets_one_key_on_every_attempt",)),
    Requirement("R161", "Reads are not guarded", "no doubt, no question, no challenge: a read runs again",
        (f"{MATRIX}::test_kill_in_a_read_only_call",),
        otherwise="0038: a read is recorded as well, so that it is not paid for again; that costs a row"),
    Requirement("R162", "A key that is stable", "by content, scope and how often, computed once",
        ("unit/test_identity.py::test_every_part_of_a_call_changes_its_key", "crash/test_planted_bugs.py::test_the_provider_counts_what_a_broken_rule_lets_through[each_attempt_has_a_new_key]")),
    Requirement("R163", "The intent is durable first", "power is lost at every sync, with all or some of what was not synced",
        ("crash/test_power_loss.py::test_power_is_lost_with_all_that_was_not_synced", "crash/test_power_loss.py::test_power_is_lost_with_some_sectors_written_and_some_not")),
    Requirement("R164", "What a provider can do is said per tool", "one phrase, the guarantee, shown by `policy explain` and in the ledger",
        ("unit/test_policy_explain.py::test_every_guarantee_can_be_shown",), ("perdure policy explain send_mail",)),
    Requirement("R165", "The result is durable after", "the receipt row; it survives the loss of power once it was promised",
        ("crash/test_power_loss.py::test_runs_go_on_after_the_loss_and_repeat_nothing", "crash/test_planted_bugs.py::test_a_run_that_stops_for_no_good_reason_is_seen[receipts_are_not_stored]")),
    Requirement("R166", "A hard check at resume", "started calls are settled before the agent is entered; no prompt is needed",
        (EVERY_POINT, "crash/test_planted_bugs.py::test_the_provider_counts_what_a_broken_rule_lets_through[doubts_are_sent_again]")),
    Requirement("R168", "The activity log", "a view with its columns and its three words",
        (f"{CALLS}::test_the_activity_log_is_a_view_of_external_calls", f"{STATES}::test_the_public_view_of_activities_knows_every_state")),
    Requirement("R065", "The demo of the whole", "research, report, PDF, upload, mail, killed three times and resumed: one of each, counted at the servers",
        ("acceptance/test_demo.py::test_killed_at_its_three_worst_moments_everything_arrives_once",), ("python3 tasks.py demo",)),
    Requirement("R069", "Every case has a command, a signal and a test that keeps it", "each row of the matrix names its command, what must come out, the tests and the query to look at",
        ("docs/test_matrix.py",), ("python3 tasks.py prove matrix",)),
    Requirement("R091", "A subagent is always launched again", "whatever a rule says; and a policy file that says otherwise is refused",
        ("unit/test_policy_replay.py::test_a_subagent_is_always_relaunched", "unit/test_policy_explain.py::test_every_guarantee_can_be_shown")),
    *(
        Requirement(number, says, "comes with the adapters for agents of other makers", missing="subagents")
        for number, says in (
            ("R092", "The output of a subagent is kept at its boundary"),
            ("R093", "A valid output means no second launch"),
            ("R094", "One task, one key"),
            ("R095", "An output is checked before it is believed"),
            ("R096", "A subagent killed in the middle, and after its end"),
        )
    ),
)  # fmt: skip
