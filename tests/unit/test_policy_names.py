"""What a name says of a tool, and the classes that the shipped base policy gives by name."""

import pytest

from perdure.config.base_policy import BASE_NAME, BASE_PATH, base_policy
from perdure.config.policy_schema import read_shipped
from perdure.core.classify import tokens, writing_token
from perdure.core.policy import evaluate
from perdure.model.policy import Decision, Policy, Rule, RuleRef, ToolDeclaration
from perdure.model.toolcall import SideEffectClass

EXTERNAL, MEMORY = SideEffectClass.EXTERNAL, SideEffectClass.MEMORY
LOCAL, READ_ONLY = SideEffectClass.LOCAL, SideEffectClass.READ_ONLY


def rules(*given: Rule) -> Policy:
    return Policy(rules=given)


def decide(policy: Policy, name: str = "send_mail", **declared: object) -> Decision:
    return evaluate(policy, ToolDeclaration(name, **declared))  # type: ignore[arg-type]


# --- names (R048, R049; document 000 §7.4 and its traps) -------------------------------------------

CHANGES = [
    "SPREADSHEET_CLEAR", "BUDGET_TRANSFER", "TARGET_DEPLOY", "THREAD_REPLY", "PLAYLIST_ADD", "SLACK_THREAD_CLOSE",
    "DELETE_LIST", "get_and_archive_mail", "GMAIL_GET_AND_ARCHIVE_MAIL", "sendMail", "SendMail", "send-mail",
    "mail.send", "mcp__gmail__send", "HTTPPost", "HTTPPostJSON", "listAndDelete", "fetchThenUPDATE", "read2write",
    "getUserV2Delete", "GitHub:MergePullRequest", "se\u200bnd_mail", "search/replace/publish",
    "\uff33\uff25\uff2e\uff24_mail",
]  # fmt: skip
NO_CHANGE = [
    "BOOKMARK_LIST", "POSTGRES_SELECT", "describe_image", "archival_memory_search", "get_core_memory_blocks",
    "list_comments", "postage_lookup", "movement_sensor", "markdown_view", "resend", "sender_stats", "getaddress",
    "crawl_parallel", "", "1234", "___", "日本語",
]  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_whole_word_of_change_is_found(name: str) -> None:
    assert writing_token(name) is not None


@pytest.mark.parametrize("name", NO_CHANGE)
def test_a_word_inside_a_word_is_none(name: str) -> None:
    assert writing_token(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HTTPPostJSON", ("http", "post", "json")),
        ("getHTTPResponse2xx", ("get", "http", "response", "xx")),
        ("mcp__gmail-v1.send_Mail", ("mcp", "gmail", "v", "send", "mail")),
        ("PLAYLIST_ADD", ("playlist", "add")),
        ("aB", ("a", "b")),
        ("", ()),
    ],
)
def test_names_are_cut_into_words(name: str, words: tuple[str, ...]) -> None:
    assert tokens(name) == words


@pytest.mark.parametrize("name", CHANGES)
def test_a_broad_read_only_rule_does_not_reach_a_name_of_change(name: str) -> None:
    policy = rules(Rule("p.yaml", 1, tool_name_regex=".*", side_effect_class=READ_ONLY))
    decision = decide(policy, name)
    assert decision.side_effect_class is EXTERNAL
    assert decision.rule == RuleRef("p.yaml", 1)
    assert "by a broad pattern" in decision.why


@pytest.mark.parametrize("name", CHANGES)
def test_an_explicit_word_is_believed_against_the_name(name: str) -> None:
    assert decide(Policy(), name, side_effect_class="read_only").side_effect_class is READ_ONLY
    assert decide(rules(Rule("p", 1, tool=name, side_effect_class=READ_ONLY)), name).side_effect_class is READ_ONLY


@pytest.mark.parametrize("name", [*CHANGES, *NO_CHANGE, "list_things", "GET", "read", "search_web"])
def test_a_name_alone_never_makes_a_tool_read_only(name: str) -> None:
    assert decide(Policy(), name).side_effect_class is EXTERNAL


def test_a_reading_name_is_told_why_it_does_not_help() -> None:
    (lost,) = decide(Policy(), "list_things").losers
    assert (lost.ref, lost.reason) == ("name", "a name may raise a risk, never lower it")


# --- the shipped base policy (document 000 §7.3, §7.4, document 001) --------------------------------

SHIPPED = {
    EXTERNAL: ["workbench_upload", "upload_to_composio"],
    LOCAL: ["write_local_file", "compress_files", "finalize_research", "generate_image", "preview_image"],
    MEMORY: ["core_memory_replace", "core_memory_append", "archival_memory_insert"],
    READ_ONLY: [
        "read_local_file", "read_research_files", "list_directory", "archival_memory_search",
        "get_core_memory_blocks", "describe_image", "crawl_parallel",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls, names in SHIPPED.items() for name in names])
@pytest.mark.parametrize("namespace", ["local", "mcp"])
def test_each_named_tool_has_its_class(cls: SideEffectClass, name: str, namespace: str) -> None:
    decision = evaluate(base_policy(), ToolDeclaration(name, namespace))
    assert decision.side_effect_class is cls
    assert decision.rule is not None and decision.rule.file == "base_policy.yaml"


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("GMAIL_LIST_THREADS", READ_ONLY),
        ("BOOKMARK_LIST", READ_ONLY),
        ("GITHUB_GET_A_REPOSITORY", READ_ONLY),
        ("GMAIL_GET_AND_ARCHIVE_MAIL", EXTERNAL),
        ("GMAIL_SEND_EMAIL", EXTERNAL),
        ("SPREADSHEET_CLEAR", EXTERNAL),
        ("BUDGET_TRANSFER", EXTERNAL),
        ("TARGET_DEPLOY", EXTERNAL),
        ("THREAD_REPLY", EXTERNAL),
        ("PLAYLIST_ADD", EXTERNAL),
        ("gmail_list_threads", EXTERNAL),
    ],
)
def test_composio_names(name: str, cls: SideEffectClass) -> None:
    assert evaluate(base_policy(), ToolDeclaration(name, "composio")).side_effect_class is cls


def test_the_short_reader_of_the_base_agrees_with_the_full_one() -> None:
    full = read_shipped(BASE_PATH, BASE_NAME)
    assert full.warnings == ()
    assert base_policy() == full
    assert len(full.rules) == sum(line.startswith("  - ") for line in BASE_PATH.read_text("utf-8").splitlines())
