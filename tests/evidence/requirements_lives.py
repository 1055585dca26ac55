"""The requirements on steps, phases, signals, cancelling and waiting, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

LIVES = "integration/test_requirements_lives.py"
CANCEL = "integration/test_cancel.py"
LOOP = "integration/test_crash_loop.py"
PAUSES = "integration/test_sleep_and_ask.py"
PHASES = "integration/test_phases.py"
TYPED = "acceptance/test_cli_lives.py"
STATES = "unit/test_transitions.py"
CHILDREN = "crash/test_children.py"

REQUIREMENTS = (
    Requirement("R008", "Never depend on a living process", "killed at each numbered point; a process that has nothing but the ledger finishes the run",
        ("crash/test_crash_points.py::test_every_effect_happens_once_wherever_the_run_is_killed", f"{PAUSES}::test_a_long_sleep_ends_the_life_and_no_restart_begins_it_anew", f"{PAUSES}::test_an_answer_is_the_same_in_every_life")),
    Requirement("R011", "A critic at the end of a phase", "it sees each finished phase once, may annotate or hold back, and one that breaks blocks the run",
        (f"{PHASES}::test_a_critic_sees_each_finished_phase_once_and_its_words_are_shown", f"{PHASES}::test_a_veto_pauses_the_run_and_a_person_decides", f"{PHASES}::test_a_critic_that_breaks_blocks_the_run_until_it_is_resumed", f"{PHASES}::test_a_job_names_its_critic_and_one_that_is_not_there_is_refused_at_once")),
    Requirement("R014", "Six states of a run", "every event in every state: what the table does not have is refused; each state is reached, `cancelled` from queued, waiting and running",
        (f"{STATES}::test_every_event_in_every_state_of_a_run", f"{STATES}::test_an_ended_run_moves_only_by_an_explicit_resume_of_a_failed_one", f"{CANCEL}::test_a_queued_run_is_cancelled_at_once_and_never_entered", f"{CANCEL}::test_a_waiting_run_is_cancelled_with_its_open_questions", f"{CANCEL}::test_what_is_in_flight_is_recorded_and_nothing_is_started_after", "crash/test_planted_lives.py::test_an_owner_that_wakes_up_after_its_run_was_cancelled_elsewhere_sends_nothing"), ("perdure runs cancel RUN",)),
    Requirement("R015", "Who started a run", "kept for each run; a word that nobody has heard of is kept too",
        (f"{LIVES}::test_who_started_a_run_is_kept_whatever_it_is_called",), ("perdure runs ls",)),
    Requirement("R017", "A run points to its step, its checkpoint and its last file", "after each life the pointers name rows that stand there",
        (f"{PHASES}::test_a_change_of_phase_is_a_checkpoint_that_knows_what_is_to_come", f"{PHASES}::test_a_life_that_only_meets_receipts_writes_no_phase_again", "integration/test_run_files.py::test_a_file_that_the_program_records_points_the_run_and_the_cursor_at_it")),
    Requirement("R018", "Steps have an index that only grows", "over lives, with steps that are new, announced and met again",
        (f"{PHASES}::test_step_indices_only_grow_over_lives_and_rows_are_kept",)),
    Requirement("R019", "Six states of a step", "one run reaches all six, and each is shown",
        (f"{PHASES}::test_a_step_is_ready_running_blocked_succeeded_failed_or_skipped",), ("perdure runs show RUN",)),
    Requirement("R020", "Phases are an open vocabulary", "words of the program's own come back as they were given",
        (f"{PHASES}::test_a_step_is_ready_running_blocked_succeeded_failed_or_skipped", f"{PHASES}::test_step_indices_only_grow_over_lives_and_rows_are_kept")),
    Requirement("R021", "A failed step says why", "its code and its detail are shown",
        (f"{PHASES}::test_a_step_is_ready_running_blocked_succeeded_failed_or_skipped",), ("perdure runs show RUN",)),
    Requirement("R030", "A checkpoint for each boundary", "rows at the ends of steps and phases, each of a step that stands there",
        (f"{PHASES}::test_a_change_of_phase_is_a_checkpoint_that_knows_what_is_to_come",)),
    Requirement("R031", "step_boundary, phase_boundary, pre_side_effect", "the one before an effect is written before it; a phase has one where the next begins",
        (f"{PHASES}::test_a_change_of_phase_is_a_checkpoint_that_knows_what_is_to_come",)),
    Requirement("R032", "Snapshot and cursor", "the cursor names the last tool call and the newest file",
        (f"{PHASES}::test_a_change_of_phase_is_a_checkpoint_that_knows_what_is_to_come",)),
    Requirement("R062", "What a checkpoint holds at least", "phase, step_index, remaining_phases (of what `run.outline` has announced: nobody knows more of a program's future), artifact_refs, last_call_id are there",
        (f"{PHASES}::test_a_change_of_phase_is_a_checkpoint_that_knows_what_is_to_come",)),
    Requirement("R066", "`--run-id` and resume", "typed into processes that know nothing but the folder; of a run that is driven elsewhere they say where",
        (f"{TYPED}::test_a_failed_run_is_reopened_only_by_resume", f"{TYPED}::test_a_live_owner_is_not_pushed_aside", f"{LIVES}::test_who_attaches_to_a_run_that_is_driven_elsewhere_is_told_where_it_is"), ("perdure run JOB --run-id ID", "perdure resume RUN")),
    Requirement("R110", "Resume asks nobody", "each command of these tests has no standard input",
        (f"{TYPED}::test_a_stopped_run_prints_how_to_go_on",), ("perdure resume RUN",)),
    Requirement("R111", "A checkpoint on Ctrl-C", "SIGINT and SIGTERM, a sync and an async agent: one interrupt checkpoint, and the printed command goes on",
        (f"{TYPED}::test_a_stopped_run_prints_how_to_go_on", f"{TYPED}::test_five_fast_signals_leave_one_checkpoint_and_one_command")),
    Requirement("R112", "Signals are debounced", "five fast ones leave one checkpoint and one line; a late second one leaves at once",
        (f"{TYPED}::test_five_fast_signals_leave_one_checkpoint_and_one_command", f"{CHILDREN}::test_five_fast_signals_leave_one_record", f"{CHILDREN}::test_a_second_signal_leaves_at_once_and_a_child_that_lives_on_is_quarantined")),
    Requirement("R117", "Repeated failure waits for a person", "a run that crashes on and on is parked with its reason, and shown with the commands",
        (f"{LOOP}::test_three_takeovers_without_progress_park_the_run_and_others_go_on", f"{LOOP}::test_an_explicit_resume_always_gets_one_life"), ("perdure inbox",)),
    Requirement("R124", "The run stands before the first model call", "a model that looks, while it is asked, finds the run's row and its specification",
        (f"{LIVES}::test_a_run_stands_in_the_ledger_before_its_agent_or_its_model_is_entered",)),
    Requirement("R125", "A run that was stopped early can be resumed", "accepted and never claimed, or stopped before its first call",
        (f"{CANCEL}::test_a_queued_run_is_seen_and_can_be_resumed", f"{TYPED}::test_a_stopped_run_prints_how_to_go_on")),
)  # fmt: skip
