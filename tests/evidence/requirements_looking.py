"""The requirements on looking at runs, and telemetry, with the tests that show them."""

from __future__ import annotations

from tests.evidence.requirement import Requirement

WATCH = "integration/test_watch.py"
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
        ("integration/test_trace_file.py::test_lives_steps_and_calls_are_spans_with_their_ids_and_without_what_was_said",),
        missing="there is no OpenTelemetry exporter yet: the spans stand in `trace.json`"),
    Requirement("R123", "Spans of lives, steps, tools, checkpoints and settling", "all lives of a run stand in one file, joined by the run's id",
        ("integration/test_trace_file.py::test_lives_steps_and_calls_are_spans_with_their_ids_and_without_what_was_said",),
        missing="one file instead of several trace ids; a replayed call has no span of its own"),
)  # fmt: skip
