"""The durability matrix: each case with its kill point, what must come out, the tests that show it and the rows to look at.

`docs/durability_test_matrix.md` is made of this, `pytest -m matrix` runs all of it and `pytest --scenario 8` one row
(`tests/conftest.py`); `tests/docs/test_matrix.py` demands that every named test exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CALLS = "integration/test_scenarios_calls.py"
FUNCTION = "integration/test_function_agents.py"
ASYNC = "integration/test_async_agents.py"
TURNS = "integration/test_turns.py"
MODELS = "integration/test_scenarios_turns.py"
PROBES = "integration/test_probes.py"
OWNERS = "crash/test_owners.py"
LATE = "crash/test_scenarios_owners.py"
HARD = "crash/test_hard_programs.py"
MAILS = "crash/test_mails.py"
SUSPENSION = "crash/test_suspension.py"
RECEIPTS = "crash/test_storage_faults_receipts.py"
MODEL = "model/test_rules.py::test_every_broken_rule_is_noticed"
BROKEN = "crash/test_planted_bugs_calls.py::test_the_provider_counts_one_too_many_or_one_too_few"
TICKET = "acceptance/test_durability_matrix.py"
EVERY_POINT = "every numbered point"


@dataclass(frozen=True, slots=True)
class Row:
    """One case.

    Args:
        number: as in the list of scenarios; the five cases of the first table have letters.
        killed: the kill point: A, B, C or words.
        tests: below `tests/`, a whole test or one of its parameters; empty where the case is not built yet.
        look: names of `QUERIES`.
        missing: what of the case is not built yet, by a word of ``tests.evidence.requirement.NOT_THERE``.
    """

    number: str
    case: str
    killed: str
    outcome: str
    tests: tuple[str, ...] = ()
    look: tuple[str, ...] = ()
    missing: str = ""


QUERIES = {
    "effects": (
        "How often each effect has a receipt. Compare it with what the provider counted: the ledger alone proves nothing, "
        "for its keys are UNIQUE by construction",
        "SELECT tool_name, effect_scope, count(*) AS receipts, group_concat(external_correlation_id) AS refs\n"
        "FROM v_effects WHERE status = 'succeeded' GROUP BY tool_name, effect_scope",
    ),
    "states": (
        "The state of every call, with its attempts; a call that is `running` in no living process, or `in_doubt`, is one "
        "whose outcome was lost",
        "SELECT tool_call_id, tool_name, status, attempt, occurrence, guarantee FROM v_calls WHERE run_id = 'matrix' ORDER BY call_no",
    ),
    "order": (
        "Intent before effect: every started call was recorded before it was started",
        "SELECT tool_call_id, prepared_at, started_at, finished_at FROM tool_calls\n"
        "WHERE started_at IS NOT NULL AND prepared_at <= started_at AND coalesce(started_at <= finished_at, 1)",
    ),
    "evidence": (
        "Why a call is in its state, and who decided",
        "SELECT tool_call_id, at, actor, kind, says, ref FROM evidence ORDER BY evidence_no",
    ),
    "questions": (
        "What a person was asked, and what the answer was",
        "SELECT tool_call_id, kind, status, summary, actor, answer FROM approvals ORDER BY approval_no",
    ),
    "lives": (
        "The lives of a run, and what each of them did",
        "SELECT attempt, fence, how, replayed, settled, challenged, unmet FROM run_attempts ORDER BY run_id, attempt",
    ),
    "runs": (
        "What a run waits for, or how it ended",
        "SELECT run_id, status, reason, error_code FROM v_runs",
    ),
    "nesting": (
        "Calls inside a memo, and which are met with it",
        "SELECT inside.tool_call_id, inside.tool_name, inside.status, around.tool_name AS memo, around.status AS memo_status\n"
        "FROM tool_calls inside JOIN tool_calls around ON around.tool_call_id = inside.parent_call_id",
    ),
    "pairs": (
        "Which call stands for which other, or repeats it on purpose",
        "SELECT tool_call_id, status, same_as, repeat_of, dedupe_key FROM tool_calls\n"
        "WHERE coalesce(same_as, repeat_of, dedupe_key) IS NOT NULL",
    ),
    "keys": (
        "The key that every attempt of a call carried, and how long the provider remembers it",
        "SELECT tool_call_id, idempotency_key, key_expires_at, attempt FROM tool_calls WHERE key_expires_at IS NOT NULL",
    ),
    "steps": (
        "Steps and checkpoints",
        "SELECT s.step_index, s.name, s.status, s.attempt, count(c.checkpoint_id) AS checkpoints\n"
        "FROM run_steps s LEFT JOIN checkpoints c ON c.step_id = s.step_id GROUP BY s.step_id ORDER BY s.step_index",
    ),
}

CASES = (
    Row("a", "killed in a child: a memo with calls of its own, one uploaded, one notified", "B",
        "the child is started again, its finished calls are met, its lost ones settled: two uploads, one notice",
        (f"{TICKET}::test_kill_in_a_child",), ("nesting", "effects"),
        missing="subagents of a model: a memo is the child that this version has"),
    Row("b", "killed after the PDF was made, before the upload", "B and C",
        "the PDF is made again or met; what is stored is the file with the recorded hash, once",
        (f"{TICKET}::test_kill_after_pdf_before_upload",), ("states", "effects")),
    Row("c", "killed after the upload, before the e-mail", "B and C",
        "the create-only upload is sent again and refused as present, or met; one object, one mail",
        (f"{TICKET}::test_kill_after_upload_before_email",), ("states", "effects")),
    Row("d", "killed after the mail server took the e-mail, before the ledger knew", "B",
        "the mailbox is asked for the Message-ID; it is there; not sent again",
        (f"{TICKET}::test_kill_after_email_before_mark",), ("evidence", "effects")),
    Row("e", "killed in a read-only call", "B",
        "it is simply read again; nothing else is touched",
        (f"{TICKET}::test_kill_in_a_read_only_call",), ("states",)),
)  # fmt: skip

SCENARIOS = (
    Row("1", "a Python agent sends ten mails to ten people", EVERY_POINT, "ten mails, one each, nobody is asked but for the tool that cannot be asked itself",
        (f"{MAILS}::test_ten_mails_to_ten_people_are_ten", f"{MAILS}::test_ten_mails_with_a_person_who_looks_are_ten"), ("effects", "lives")),
    Row("1b", "the same with checkpoints on the way", "between two steps", "the agent begins at its start, not at a checkpoint; every finished call is met",
        (f"{CALLS}::test_a_function_agent_begins_at_its_start_and_meets_what_lies_before_the_last_checkpoint", f"{MODEL}[base = checkpoint]"), ("lives", "steps")),
    Row("2", "three identical reminders on purpose", EVERY_POINT, "three reminders; what this life has seen done may be done again by code",
        (f"{MAILS}::test_three_identical_reminders_on_purpose_are_three", f"{FUNCTION}::test_three_identical_reminders_in_one_life_are_three"), ("states", "effects")),
    Row("3", "the wording changes from life to life", EVERY_POINT, "no second mail: a person is asked whether it is the same",
        (f"{HARD}::test_changed_wording_is_asked_about_and_not_sent_twice",), ("questions", "pairs")),
    Row("3b", "the same, with a scope that contains the wording", "–", "such a scope is warned about when the policy is loaded",
        ("unit/test_policy_replay.py::test_a_scope_of_wording_is_warned_about",), ("effects",)),
    Row("4", "identical calls side by side", EVERY_POINT, "both happen; after a crash each branch meets its own row first",
        (f"{MAILS}::test_three_identical_reminders_on_purpose_are_three", f"{ASYNC}::test_twins_that_run_in_parallel_each_meet_their_own_receipt_again", f"{MODEL}[no held]"), ("states",)),
    Row("5", "branches come back in another order after a crash", "in a branch", "a branch waits for the others to meet their rows; nobody is asked needlessly",
        (f"{CALLS}::test_branches_that_come_back_in_another_order_are_asked_nothing", f"{MODEL}[challenge at once]"), ("questions", "effects")),
    Row("6", "a memo whose body makes calls", EVERY_POINT, "its calls are met with it; each happens once",
        (f"{HARD}::test_the_calls_inside_a_memo_happen_once", f"{FUNCTION}::test_a_memo_is_computed_once_and_what_it_did_counts_as_met"), ("nesting", "effects")),
    Row("7", "card A is declined, the code falls back to card B", EVERY_POINT, "A is not tried again: one charge; only `resume` of a failed run reopens the call that ended it",
        (f"{HARD}::test_a_declined_card_is_not_tried_again", f"{FUNCTION}::test_resume_of_a_failed_run_tries_again_the_call_that_ended_it_and_its_first_cause"), ("states",)),
    Row("8", "a probe that searches by arguments finds an older twin", EVERY_POINT, "an effect that another receipt owns is no evidence: a person is asked, none is lost",
        (f"{MAILS}::test_a_probe_that_finds_another_reminder_settles_nothing", f"{PROBES}::test_a_probe_that_finds_the_effect_of_an_equal_call_is_no_evidence"), ("evidence", "effects")),
    Row("9", "two different mails to one person about one thing, in one run", "–", "a Python agent sends both without a question; a model is challenged inside a declared scope only",
        (f"{CALLS}::test_two_mails_to_one_person_about_one_thing_are_two", f"{MODELS}::test_two_different_mails_to_one_person_are_challenged_only_inside_a_declared_scope"), ("effects",)),
    Row("10", "one amount paid twice to one payee on purpose", "–", "both are paid; the invoice stands in the scope",
        (f"{CALLS}::test_one_amount_paid_twice_on_purpose_is_paid_twice", f"{MODELS}::test_one_amount_may_be_paid_to_one_payee_for_two_invoices"), ("effects",)),
    Row("11", "`repeat_of` names the wrong receipt, or one that was cited before", "–", "an error that names the right one; nothing is sent",
        (f"{FUNCTION}::test_repeat_of_must_name_the_newest_receipt", f"{TURNS}::test_a_model_that_repeats_itself_is_told_what_was_done_and_may_ask_for_one_more", "unit/test_identity.py::test_a_citation_names_the_newest_kin_that_was_done_and_seen"), ("pairs",)),
    Row("12", "a citation of one receipt while another was not delivered", "after the second send", "a challenge lists all of them at once, and only the newest can be cited",
        (f"{MODELS}::test_a_challenge_lists_every_effect_and_only_the_newest_can_be_cited", f"{MODEL}[citation of a non-newest kin]"), ("pairs", "evidence")),
    Row("13", "where a foreign harness puts `repeat_of`", "–", "one extra tool, a permit for one use", missing="foreign harnesses"),
    Row("14", "a foreign harness resumes its own session", "–", "seen is what its transcript has a result for", missing="foreign harnesses"),
    Row("15", "an MCP client asks again under a new id", "–", "an undelivered outcome is delivered, a delivered one is challenged", missing="the MCP relay"),
    Row("16", "which run an MCP relay belongs to", "–", "one run per name of the relay", missing="the MCP relay"),
    Row("17", "killed between a model's answer and the rows of its calls", EVERY_POINT, "they are one transaction: each call keeps its row and is made once",
        ("crash/test_turns.py::test_what_a_random_model_asks_for_is_done_once_wherever_it_is_killed", f"{TURNS}::test_the_answer_and_all_its_calls_are_stored_together_and_each_is_made_once"), ("states", "effects")),
    Row("18", "a model's memory is shorter than the ledger: compaction, another prompt", "between two turns", "what it does not remember is unmet: an equal call gets the old receipt, a kin is challenged",
        (f"{TURNS}::test_what_a_compacted_conversation_has_lost_is_not_done_again", f"{TURNS}::test_another_prompt_after_a_deploy_meets_what_the_old_one_did"), ("states", "effects")),
    Row("19", "a row that was recorded but not started, and the code has changed", EVERY_POINT, "it is not sent unless it is asked for again; else cancelled at the end",
        (f"{HARD}::test_what_nobody_asks_for_any_more_is_not_sent", f"{FUNCTION}::test_an_unmet_prepared_row_is_not_sent_but_cancelled"), ("states",)),
    Row("20", "re-entry from the top and a restored session are two modes", "between two steps", "by re-entry nothing is restored; a restored session has seen what was delivered before it",
        (f"{CALLS}::test_a_function_agent_begins_at_its_start_and_meets_what_lies_before_the_last_checkpoint", f"{MODEL}[session sees nothing]"), ("lives",),
        missing="`resume: session` (refused; the model has its rule)"),
    Row("21", "a step that had ended is entered again", "after the step", "nothing moves, no crash knob fires: only physical work counts",
        (f"{LATE}::test_a_step_that_is_only_entered_again_moves_nothing_and_fires_no_knob",), ("steps", "states")),
    Row("22", "a subagent is started again under other words", "–", "the pool of unmet rows is that of the whole lineage", missing="subagents"),
    Row("23", "a call waits for a person inside gather, gather(return_exceptions), a TaskGroup, asyncio.wait", "a sibling is mid-send", "the life ends from outside; the sibling's receipt is kept; no line after the wait runs",
        (f"{SUSPENSION}::test_a_doubt_beside_a_send_ends_the_life_and_keeps_the_receipt", f"{SUSPENSION}::test_an_approval_beside_a_send_ends_the_life_and_keeps_the_receipt", f"{SUSPENSION}::test_an_agent_that_swallows_every_cancel_sends_nothing_more"), ("states", "runs")),
    Row("24", "`wait_for` around a send that takes longer", "the caller gives up mid-send", "the send is recorded and its receipt returned; a new effect waits while one is in doubt",
        (f"{SUSPENSION}::test_wait_for_around_a_send_in_flight_returns_the_receipt", f"{SUSPENSION}::test_a_timeout_is_raised_at_the_next_call_after_the_receipt", f"{PROBES}::test_while_one_effect_is_in_doubt_no_other_of_the_run_is_started"), ("states",)),
    Row("25", "a sync tool past its timeout still sends in its thread", "a child outlives its parent", "nothing is sent again and no \"no\" is believed while the sender lives; a late return is the outcome",
        (f"{SUSPENSION}::test_the_late_return_of_a_sync_tool_is_its_outcome", f"{OWNERS}::test_a_child_that_outlives_its_parent_may_still_send", f"{PROBES}::test_a_probe_waits_until_the_child_that_the_tool_started_is_gone", f"{PROBES}::test_a_child_that_outlives_the_wait_is_ended_with_the_life_and_only_then_is_a_no_believed"), ("states", "evidence")),
    Row("26", "one call is in doubt, other branches could go on", "a reply is lost", "reads go on, new effects wait",
        (f"{CALLS}::test_reads_and_finished_branches_go_on_while_a_call_is_in_doubt", f"{BROKEN}[a_doubt_holds_nobody_back]"), ("states",)),
    Row("27", "an approval is pending and the code changes", "–", "the new request is asked about anew; the old one is cancelled and never sent, even if it was approved",
        (f"{CALLS}::test_an_approval_of_what_nobody_asks_for_any_more_is_cancelled",), ("questions", "states")),
    Row("28", "an answer arrives while no process is alive", "–", "the same transaction makes the run claimable; the command to go on is printed",
        (f"{CALLS}::test_the_last_answer_makes_the_run_claimable_when_no_process_is_alive", "acceptance/test_cli_quickstart.py::test_printed_commands_work_when_they_are_pasted"), ("runs", "questions")),
    Row("29", "the provider's search is behind, or answers \"no\" too early", "a reply is lost", "a \"no\" counts only when it is complete, twice, the sender is gone and the lag has passed",
        (f"{BROKEN}[the_probe_lag_is_not_waited_for]", f"{PROBES}::test_a_no_that_is_believed_sends_again_and_an_incomplete_one_asks", "unit/test_decide.py::test_no_combination_of_facts_breaks_the_quarantine"), ("evidence",)),
    Row("30", "a second success arrives late", "SIGSTOP, a wrong answer, SIGCONT", "it is recorded and counted as a duplicate, stands in the inbox, and `perdure verify` names it; never hidden",
        (f"{LATE}::test_a_second_success_is_shown_and_never_hidden", "integration/test_verify.py::test_an_effect_that_happened_twice_is_listed_with_both_receipts"), ("evidence",)),
    Row("31", "a fork needs the result of a simulated call", "–", "the parent's receipt, the tool's simulation, or a stop",
        ("integration/test_simulated_forks.py::test_a_simulated_call_gets_the_parents_receipt_else_the_tools_own_stand_in", "integration/test_simulated_forks.py::test_a_simulation_that_nothing_stands_in_for_stops_the_run_and_names_three_ways_out"), ("effects", "states")),
    Row("32", "keys and rows of a live fork", "–", "its own keys; the parent's later rows are kin",
        ("integration/test_forks.py::test_a_fork_leaves_every_row_of_its_parent_as_it_was_and_has_keys_of_its_own", "integration/test_forks.py::test_what_the_parent_did_later_is_asked_about_in_a_live_fork_and_never_adopted"), ("effects", "states")),
    Row("33", "a budget is reserved and the process dies", "SIGKILL in the middle of a call", "no call is given away; what is met or settled costs nothing once more",
        ("acceptance/test_cli_budgets.py::test_a_killed_process_gives_no_call_away_and_a_grant_survives_one", "property/test_budget.py::test_what_is_admitted_never_exceeds_what_is_allowed"), ("runs", "states")),
    Row("34", "a late \"nothing happened\" of an owner that lost the run", "SIGSTOP, takeover, SIGCONT", "it decides nothing; a person is asked",
        (f"{LATE}::test_a_late_no_of_an_old_owner_decides_nothing", "crash/test_late_replies.py::test_a_reply_that_contradicts_a_verdict_is_believed_before_the_call_is_sent_again"), ("evidence", "states")),
    Row("35", "the owner is stopped, not dead", "SIGSTOP mid-send", "nobody resumes (exit 5), nobody's \"did not happen\" counts; `--kill-owner` kills it first",
        (f"{OWNERS}::test_a_stopped_owner_keeps_its_run_until_it_is_killed", "crash/test_planted_bugs.py::test_a_stale_owner_sends_nothing"), ("lives",)),
    Row("36", "one member of a group commit fails, or the disk is full in the middle", "SQLITE_FULL", "a member alone is undone alone; a gone transaction fails every member, and nothing goes on in autocommit",
        ("integration/test_ledger.py::test_a_member_that_breaks_a_constraint_is_undone_alone", "integration/test_ledger.py::test_a_full_disk_fails_every_member_of_the_group_and_ends_authority", "integration/test_ledger.py::test_a_transaction_that_is_gone_after_an_error_fails_the_whole_group"), ("states",)),
    Row("37", "power is lost", "every sync", "what had left the process has its record; nothing is repeated afterwards",
        ("crash/test_power_loss.py::test_power_is_lost_with_all_that_was_not_synced", "crash/test_power_loss.py::test_power_is_lost_with_some_sectors_written_and_some_not", "crash/test_power_loss.py::test_runs_go_on_after_the_loss_and_repeat_nothing"), ("order", "effects")),
    Row("38", "the clock steps back a day", "B", "an expired key stays expired",
        ("integration/test_doubts.py::test_a_clock_that_steps_back_does_not_bring_an_expired_key_back",), ("keys",)),
    Row("39", "the deadline passes while a person is asked", "–", "the next touch ends the run (exit 8); its open questions close, but what is in doubt stays in the inbox and can be settled there",
        (f"{CALLS}::test_a_deadline_that_passes_while_a_person_is_asked_ends_the_run_at_the_next_touch", f"{CALLS}::test_a_deadline_that_passes_while_a_person_is_asked_ends_the_run_and_keeps_the_doubt"), ("runs", "questions")),
    Row("40", "the store is down when the receipt arrives", "a full disk at the receipt", "it is kept and tried until the lease ends; nothing more is sent; then the exact line to type is printed",
        (f"{RECEIPTS}::test_a_disk_that_fails_for_a_while_costs_no_receipt_and_nobody_is_asked", f"{RECEIPTS}::test_a_disk_that_stays_full_is_tried_until_the_lease_ends_and_then_a_person_gets_the_line", f"{RECEIPTS}::test_nothing_more_is_sent_after_a_receipt_was_kept_as_evidence"), ("states",)),
    Row("41", "the policy changes while a call is in doubt", "–", "it is settled by today's policy; the same key again only if the first request carried it",
        ("unit/test_decide.py::test_a_doubt_is_settled_by_the_policy_of_today", "unit/test_decide.py::test_a_key_declared_today_does_not_help_a_request_that_went_without_it"), ("keys", "evidence")),
    Row("42", "a run crashes again and again", "–", "after three takeovers without a new receipt it is parked (`crash_loop`); an explicit resume always gets one life",
        ("integration/test_crash_loop.py::test_three_takeovers_without_progress_park_the_run_and_others_go_on", "integration/test_crash_loop.py::test_an_explicit_resume_always_gets_one_life"), ("lives", "runs")),
    Row("43", "one dedupe key, other words after a crash", EVERY_POINT, "the first receipt is returned; another scope is `DedupeConflict`",
        (f"{HARD}::test_a_dedupe_key_makes_changed_wording_one_effect", f"{FUNCTION}::test_a_dedupe_key_returns_the_first_receipt_across_runs_and_refuses_another_scope"), ("pairs",)),
    Row("44", "a trigger is claimed and the process dies", "–", "one run", missing="triggers"),
)  # fmt: skip


def rows() -> tuple[Row, ...]:
    """Return every case."""
    return (*CASES, *SCENARIOS)


def chosen(numbers: Sequence[str] = ()) -> frozenset[str]:
    """Return the ids of the tests of some cases, or of all.

    Raises:
        KeyError: there is no case of this number, or it has no test.
    """
    known = {row.number: row for row in rows() if row.tests}
    return frozenset(f"tests/{test}" for number in numbers or known for test in known[number].tests)
