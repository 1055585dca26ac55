"""The requirements on looking at runs, and telemetry, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

WATCH = "integration/test_watch.py"
SPANS = "integration/test_telemetry.py"
LISTS = "integration/test_lists.py"
TERMINAL = "acceptance/test_watch_terminal.py"

REQUIREMENTS = (
    Requirement("R004", "Receipts of runs, steps and calls can be asked for", "a fresh process lists every call with its state and times, by the command line and by SQL; a run's whole story can be streamed",
        ("acceptance/test_cli_documents.py::test_calls_are_listed_with_the_keys_of_the_contract", f"{LISTS}::test_calls_are_filtered", "integration/test_schema.py::test_a_view_tells_what_its_tables_hold", f"{WATCH}::test_each_cursor_goes_on_behind_its_own_event_and_misses_nothing", f"{TERMINAL}::test_off_a_terminal_each_change_is_one_line_or_one_document_with_a_cursor"), ("perdure calls ls", "perdure runs watch")),
    Requirement("R007", "Run, step, ledger row, receipt and checkpoint have ids", "every id that is printed leads back to its row, also in its short form",
        (f"{LISTS}::test_ids_that_a_command_prints_can_be_looked_up_in_the_store", f"{LISTS}::test_a_call_is_named_by_its_id_or_by_whatever_names_its_run"), ("perdure runs show",)),
    Requirement("R064", "Ids reach local tools as arguments", "a tool that asks for `call` is told run, step, call and attempt; one that does not has the same key",
        ("acceptance/test_requirements_base.py::test_ids_reach_a_tool_as_an_argument_and_are_no_part_of_its_key",)),
    Requirement("R063", "Run, step and call ids in the trace", "every span has the ids of its run, its step and its call, under the names of the GenAI conventions too",
        (f"{SPANS}::test_a_life_its_steps_and_its_calls_are_spans_with_their_ids_and_without_what_was_said", f"{SPANS}::test_what_a_tool_traces_itself_belongs_to_its_call_and_what_main_traces_stands_between", "integration/test_trace_file.py::test_lives_steps_and_calls_are_spans_with_their_ids_and_without_what_was_said"), ("python3 tasks.py prove logfire",)),
    Requirement("R123", "Spans of lives, steps, tools, checkpoints and settling", "each life is a trace, joined by the run's id and a link to the life before; what was replayed, settled and asked has spans; one file has all lives",
        (f"{SPANS}::test_a_second_life_is_a_trace_of_its_own_linked_to_the_first_and_tells_what_it_replayed", f"{SPANS}::test_settling_what_a_life_left_in_doubt_and_asking_its_probe_are_spans", "integration/test_telemetry_processes.py::test_a_killed_life_and_its_resume_arrive_at_a_collector_as_two_traces_joined_by_the_run", "integration/test_trace_file.py::test_lives_steps_and_calls_are_spans_with_their_ids_and_without_what_was_said")),
)  # fmt: skip
