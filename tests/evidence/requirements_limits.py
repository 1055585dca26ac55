"""The requirements on budgets, deadlines, stop conditions and escalation, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

BUDGETS = "integration/test_budgets.py"
KILLED = "acceptance/test_cli_budgets.py::test_a_killed_process_gives_no_call_away_and_a_grant_survives_one"
RULES = "property/test_budget.py"
CONSTRAINTS = "integration/test_constraints.py"
EVIDENCE = "integration/test_ending_by_evidence.py"
ESCALATION = "integration/test_escalation.py"
LEADS = "unit/test_destinations.py"

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("R035", "A job's constraints", "a forbidden action, or an argument that leads to another domain, is refused before anything is sent; a report must cite what was read",
        (f"{CONSTRAINTS}::test_a_forbidden_call_is_refused_before_it_is_sent", f"{CONSTRAINTS}::test_arguments_that_lead_elsewhere_are_refused_with_exit_code_9",
         f"{LEADS}::test_what_leads_elsewhere_is_refused_and_shown", f"{CONSTRAINTS}::test_a_report_must_cite_what_was_read")),
    Requirement("R036", "Active minutes", "minutes add up over lives, the time between them is free; at the limit nothing new starts",
        (f"{BUDGETS}::test_minutes_add_up_over_lives_and_the_time_between_them_is_free",)),
    Requirement("R037", "A limit of steps", "step N+1 never starts, also after a resume; steps that are entered again cost nothing",
        (f"{BUDGETS}::test_the_step_after_the_last_one_allowed_never_starts",)),
    Requirement("R038", "A limit of tool calls", "call N+1 is not sent, over a SIGKILL; what is met or settled is not counted twice",
        (KILLED, f"{BUDGETS}::test_the_call_after_the_last_one_allowed_waits_and_a_grant_lets_it_go", f"{RULES}::test_what_is_admitted_never_exceeds_what_is_allowed"),
        ("perdure resume @last --grant calls=50",)),
    Requirement("R039", "A limit of requests for one call", "the provider sees at most so many requests for one call, the first one included",
        (f"{BUDGETS}::test_a_call_that_did_nothing_is_given_back_and_one_that_failed_is_not", f"{BUDGETS}::test_granted_retries_are_requests_more")),
    Requirement("R040", "A limit of equal errors", "after N equal errors of a tool in a row the run waits",
        (f"{BUDGETS}::test_equal_errors_in_a_row_make_the_run_wait",)),
    Requirement("R041", "Stop conditions by evidence", "a loop goes on while one is unmet by receipts, files and recorded evidence, and ends when all hold, whatever its model claims, over kills too; a run that ends with one unmet is no success",
        (f"{EVIDENCE}::test_a_model_that_claims_to_be_done_ends_nothing_and_one_that_would_go_on_is_ended", f"{EVIDENCE}::test_killed_anywhere_the_next_life_ends_the_loop_at_the_same_place", f"{EVIDENCE}::test_what_is_unmet_is_what_would_make_the_run_fail",
         f"{CONSTRAINTS}::test_a_condition_nobody_satisfied_is_no_success_and_one_of_an_earlier_life_stands", f"{CONSTRAINTS}::test_a_stop_condition_is_one_of_the_job_s_own_and_its_evidence_is_kept",
         f"{CONSTRAINTS}::test_a_call_that_failed_is_no_evidence")),
    Requirement("R042", "Escalation to a person", "the run waits with a question, no other effect starts, and the answer goes on",
        (f"{ESCALATION}::test_a_failure_of_that_kind_waits_for_a_person_and_retry_goes_on", f"{ESCALATION}::test_no_other_effect_starts_while_a_person_is_asked",
         f"{ESCALATION}::test_repeated_failures_ask_a_person", f"{ESCALATION}::test_giving_up_hands_the_failure_to_the_program")),
    Requirement("R043", "Workspace and expected outputs", "a run whose expected output is missing is no success; its files are where the job says",
        (f"{CONSTRAINTS}::test_an_expected_output_that_is_missing_is_no_success", f"{CONSTRAINTS}::test_the_workspace_is_where_the_job_says")),
)  # fmt: skip
