"""The requirements on forks, fingerprints and provider sessions, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

FORKS = "integration/test_forks.py"
SESSIONS = "integration/test_provider_sessions.py"
CHANGES = "integration/test_fingerprints.py"

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("R097", "The provider's session id is stored", "on the run before `set` returns, on each later checkpoint, and in `runs show`",
        (f"{SESSIONS}::test_a_session_that_was_stored_is_found_by_the_next_life_and_by_whoever_looks",), ("perdure runs show RUN",)),
    Requirement("R098", "Go on in the provider's session", "the next life of an agent of one's own gets the stored id",
        (f"{SESSIONS}::test_a_session_that_was_stored_is_found_by_the_next_life_and_by_whoever_looks",),
        missing="no adapter for agents of other makers: their options (`resume`, `continue_conversation`) come with the adapters"),
    Requirement("R099", "A refused session is forgotten, the run goes on", "an agent of one's own that is refused an id invalidates it and ends with a fresh one",
        (f"{SESSIONS}::test_an_invalidated_session_is_none_in_every_later_life_and_a_fresh_one_takes_its_place",),
        missing="no adapter for agents of other makers, which would recognise their providers' refusals"),
    Requirement("R100", "A run goes on without a session id", "a run that never had one is resumed, and its finished call is not made again",
        (f"{SESSIONS}::test_a_run_without_any_session_is_resumed_as_well",)),
    Requirement("R101", "The provider remembers", "a later life hands the stored id on; nothing of the conversation is put in again",
        (f"{SESSIONS}::test_a_session_that_was_stored_is_found_by_the_next_life_and_by_whoever_looks",),
        missing="the recall probe needs an agent of another maker and comes with its adapter"),
    Requirement("R107", "Run, resume, fork", "each is a command with a page of its own, whose examples are run",
        (f"{FORKS}::test_a_fork_inherits_the_receipts_up_to_its_checkpoint_and_sends_nothing", "docs/test_pages.py::test_page_does_what_it_says"), ("perdure run JOB", "perdure resume RUN", "perdure fork RUN")),
    Requirement("R108", "Columns that say where a run comes from", "filled for a job, a function, a script and a fork; an older ledger gets them by the migration",
        (f"{SESSIONS}::test_the_columns_that_say_how_a_run_was_started_are_filled", f"{SESSIONS}::test_a_run_of_an_older_ledger_gets_its_mode_by_the_migration", f"{SESSIONS}::test_an_async_agent_stores_its_session_and_its_prompt")),
    Requirement("R109", "The raw name of a tool", "a model's own spelling stands beside the tool's name; a later life under another spelling meets the receipt",
        ("integration/test_raw_names.py::test_a_model_may_spell_a_tool_as_its_protocol_does_and_both_names_are_stored", "integration/test_raw_names.py::test_a_call_under_another_spelling_meets_the_receipt_of_the_same_tool")),
    Requirement("R121", "A fork is a run linked to its parent", "every row of the parent is as before, no key is shared",
        (f"{FORKS}::test_a_fork_leaves_every_row_of_its_parent_as_it_was_and_has_keys_of_its_own", "crash/test_forks.py::test_a_fork_that_is_killed_anywhere_does_its_own_effects_once_and_simulates_none", "integration/test_fork_outputs.py::test_an_output_that_was_there_at_the_checkpoint_is_brought_though_it_was_recorded_later")),
    Requirement("C18", "A run's specification never changes", "resume takes no request; other inputs are refused with the difference, or make a fork",
        (f"{FORKS}::test_changed_inputs_make_another_specification_and_unknown_ones_are_refused", "integration/test_together.py::test_an_id_that_is_taken_names_both_ways_on")),
    Requirement("C20", "A fork repeats no effect unasked", "inherited receipts up to the checkpoint, keys of its own, a question about what the parent did later",
        (f"{FORKS}::test_what_the_parent_did_later_is_asked_about_in_a_live_fork_and_never_adopted", f"{FORKS}::test_an_effect_in_another_scope_than_any_of_the_parents_is_sent_by_a_live_fork")),
)  # fmt: skip
