"""Policy files: what they may say, and every error of a file at once, at its place."""

import json
from pathlib import Path

import pytest

from perdure.config.policy_file import load_policy
from perdure.model.errors import PolicyError, SpecError
from perdure.model.policy import Approval, ApprovalKind, Policy
from perdure.model.toolcall import Repeat, ReplayPolicy, SideEffectClass

WHOLE = """\
version: 1
read_only_allowlist: [list_open_issues]        # document 000 §7.4
side_effect_denylist: [get_and_archive_mail]
rules:
  - tool: send_mail
    namespace: local
    side_effect_class: external
    replay_policy: RECONCILE
    scope: [to]
    volatile: [sent_at]
    probe: "report:find_mail"
    probe_lag: 0s
    key_ttl: forever
    repeat: challenge
    approval: {when: {cents: ">10000", to: ["*@example.org", "==x"]}}
    max_attempts: 3
    timeout: 30
    valid_for: 24h
    allow_args: {to: ["*@example.org"]}
  - {tool_name_regex: "^gmail_(send|reply)_.*$", approval: always}
"""


def write(folder: Path, text: str, name: str = "p.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def problems(folder: Path, text: str, name: str = "p.yaml") -> list[str]:
    """Return the problems of a file as ``line:col: code text``."""
    path = write(folder, text, name)
    with pytest.raises(PolicyError) as caught:
        load_policy([path], base=False)
    assert caught.value.exit_code == 2 and caught.value.code == "PERDURE-201"
    return [line.removeprefix(f"{path}:").strip() for line in caught.value.problems]


def test_a_whole_file_says_what_the_contract_shows(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE)
    policy = load_policy([path], base=False)
    mail, gmail = policy.rules
    assert (mail.file, mail.line, gmail.line) == (str(path), 5, 20)
    assert (mail.tool, mail.namespace, gmail.tool_name_regex) == ("send_mail", "local", "^gmail_(send|reply)_.*$")
    assert (mail.side_effect_class, mail.replay_policy) == (SideEffectClass.EXTERNAL, ReplayPolicy.RECONCILE)
    assert (mail.scope, mail.volatile, mail.probe) == (("to",), ("sent_at",), "report:find_mail")
    assert (mail.probe_lag_seconds, mail.key_ttl_seconds) == (0.0, float("inf"))
    assert (mail.timeout_seconds, mail.valid_for_seconds, mail.max_attempts) == (30.0, 86400.0, 3)
    assert mail.repeat is Repeat.CHALLENGE
    assert mail.approval == Approval(ApprovalKind.WHEN, {"cents": (">10000",), "to": ("*@example.org", "==x")})
    assert mail.allow_args == {"to": ("*@example.org",)}
    assert [(e.tool, e.line) for e in policy.read_only_allowlist] == [("list_open_issues", 2)]
    assert [(e.tool, e.line) for e in policy.side_effect_denylist] == [("get_and_archive_mail", 3)]
    assert policy.warnings == ()


def test_json_says_the_same_with_its_own_places(tmp_path: Path) -> None:
    text = '{\n\t"version": 1,\n\t"rules": [\n\t\t{"tool": "a\\ud83d\\ude00", "approval": "always"}\n\t]\n}'
    (rule,) = load_policy([write(tmp_path, text, "p.json")], base=False).rules
    assert (rule.tool, rule.line) == ("a😀", 4)


def test_files_load_in_order_after_the_base(tmp_path: Path) -> None:
    first = write(tmp_path, "version: 1\nrules: [{tool: a, approval: always}]\n", "1.yaml")
    second = write(tmp_path, "version: 1\nrules: [{tool: a, approval: never}]\n", "2.yaml")
    policy = load_policy([first, second])
    assert policy.files == ("base_policy.yaml", str(first), str(second))
    assert [rule.file_index for rule in policy.rules[-2:]] == [1, 2]
    assert load_policy([]).files == ("base_policy.yaml",)
    assert load_policy([], base=False) == Policy()


HEAD = "version: 1\nrules:\n  - "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # top level
        ("", "1:1: PERDURE-203 the file is empty"),
        ("[]", "1:1: PERDURE-205 must be a mapping that begins with version: 1"),
        ("rules: []", "1:1: PERDURE-210 version is missing: write version: 1"),
        ("version: 2", "1:10: PERDURE-205 version must be 1, not 2"),
        ("version: true", "1:10: PERDURE-205 version must be 1, not True"),
        ("version: '1'", "1:10: PERDURE-205 version must be 1, not '1'"),
        ("version: 1\nruls: []", "2:1: PERDURE-204 unknown key 'ruls'; did you mean 'rules'?"),
        ("version: 1\nzzz: 1", "2:1: PERDURE-204 unknown key 'zzz'; known are"),
        ("version: 1\nrules: {}", "2:8: PERDURE-205 rules must be a list"),
        ("version: 1\nrules: [7]", "2:9: PERDURE-205 a rule is a mapping"),
        ("version: 1\nread_only_allowlist: [1]", "2:23: PERDURE-205 read_only_allowlist.0 must be the name"),
        # form
        ("version: 1\nversion: 1", "2:1: PERDURE-203 'version' stands here twice; first at line 1"),
        ("version: &x 1", "1:10: PERDURE-203 anchors are not supported"),
        ("version: !!int 1", "1:10: PERDURE-203 the tag 'tag:yaml.org,2002:int' is not supported"),
        ("version: 1\n---\nversion: 1", "2:1: PERDURE-203 only one document is expected"),
        ("version: [1", "1:12: PERDURE-203 is not valid YAML: "),
        ("version: 1\n1: x", "2:1: PERDURE-203 the key 1 must be text"),
        ("version: 1\n? [a]\n: x", "2:3: PERDURE-203 a key must be text"),
        ("version: .inf", "1:10: PERDURE-203 .inf is no number that JSON can hold"),
        ('version: "\\ud800"', "1:10: PERDURE-203 has a lone surrogate"),
        ("version: " + "9" * 5000, "1:10: PERDURE-203 the number has too many digits"),
        ("version: " + "[" * 200, "1:74: PERDURE-203 is nested deeper than 64 levels"),
        # a rule's target
        (HEAD + "{approval: always}", "3:5: PERDURE-210 a rule has tool or tool_name_regex, and this rule has neith"),
        (HEAD + "{tool: a, tool_name_regex: b, repeat: ask}", "3:5: PERDURE-210 a rule has tool or tool_name_regex, n"),
        (HEAD + "{tool: a}", "3:5: PERDURE-210 the rule says nothing about the tool it names"),
        (HEAD + "{tool: '', repeat: ask}", "3:12: PERDURE-205 tool: "),
        (HEAD + "{tool: 5, repeat: ask}", "3:12: PERDURE-205 tool: must be a string, not 5"),
        (HEAD + "{tool: a, tol: b, repeat: ask}", "3:15: PERDURE-204 unknown key 'tol'; did you mean 'tool'?"),
        (HEAD + "{tool: a, approval: }", "3:15: PERDURE-205 approval has no value: write one, or leave the key out"),
        # words
        (HEAD + "{tool: a, side_effect_class: extern}", "3:34: PERDURE-205 side_effect_class: 'extern' is none of"),
        (HEAD + "{tool: a, replay_policy: reconcile}", "3:30: PERDURE-205 replay_policy: 'reconcile' is none of"),
        (HEAD + "{tool: a, repeat: maybe}", "3:23: PERDURE-205 repeat: 'maybe' is none of allow, challenge, ask"),
        (HEAD + "{tool: a, scope: to}", "3:22: PERDURE-205 scope: must be a list, not 'to'"),
        (HEAD + "{tool: a, scope: [to, 3]}", "3:27: PERDURE-205 scope.1: must be a string, not 3"),
        (HEAD + "{tool: a, max_attempts: 0}", "3:29: PERDURE-205 max_attempts: must be greater than or equal to 1"),
        (HEAD + "{tool: a, max_attempts: '3'}", "3:29: PERDURE-205 max_attempts: must be an integer, not '3'"),
        (HEAD + "{tool: a, max_attempts: true}", "3:29: PERDURE-205 max_attempts: must be an integer, not True"),
        (HEAD + "{tool: a, probe: find_mail}", "3:22: PERDURE-205 probe: 'find_mail' is not module:function"),
        (HEAD + "{tool: a, allow_args: {to: x}}", "3:32: PERDURE-205 allow_args.to: must be a list, not 'x'"),
        (HEAD + "{tool: a, allow_args: [to]}", "3:27: PERDURE-205 allow_args: must be a mapping, not a list"),
        # durations
        (HEAD + "{tool: a, timeout: 5 minutes}", "3:24: PERDURE-206 timeout: '5 minutes' is no duration"),
        (HEAD + "{tool: a, timeout: 0}", "3:24: PERDURE-206 timeout: must be longer than 0 and may not be forever"),
        (HEAD + "{tool: a, timeout: forever}", "3:24: PERDURE-206 timeout: must be longer than 0 and may not be fo"),
        (HEAD + "{tool: a, valid_for: -1}", "3:26: PERDURE-206 valid_for: -1 is not between 0 and 36500d"),
        (HEAD + "{tool: a, key_ttl: 0}", "3:24: PERDURE-206 key_ttl: must be longer than 0"),
        (HEAD + "{tool: a, probe_lag: forever}", "3:26: PERDURE-206 probe_lag: may not be forever"),
        (HEAD + "{tool: a, timeout: 99999999d}", "3:24: PERDURE-206 timeout: '99999999d' is not between 0 and"),
        # patterns
        (HEAD + "{tool_name_regex: '(', repeat: ask}", "3:23: PERDURE-207 tool_name_regex: missing ): ("),
        (HEAD + "{tool_name_regex: '(?=x)', repeat: ask}", "3:23: PERDURE-207 tool_name_regex: invalid perl operator"),
        (HEAD + "{tool_name_regex: '(a)\\1', repeat: ask}", "3:23: PERDURE-207 tool_name_regex: invalid escape"),
        # conditions
        (HEAD + "{tool: a, approval: sometimes}", "3:25: PERDURE-205 approval is never, always, or {when:"),
        (HEAD + "{tool: a, approval: {when: {}}}", "3:25: PERDURE-205 when is a mapping of at least one field"),
        (HEAD + "{tool: a, approval: {wen: {x: '>1'}}}", "3:25: PERDURE-205 approval is never, always, or {when:"),
        (HEAD + "{tool: a, approval: {when: {x: '>1'}, y: 1}}", "3:25: PERDURE-205 approval is never, always, or"),
        (HEAD + "{tool: a, approval: {when: {x: '>lots'}}}", "3:36: PERDURE-208 when.x: 'lots' is no number"),
        (HEAD + "{tool: a, approval: {when: {x: 10000}}}", "3:36: PERDURE-208 when.x: 10000 is no condition"),
        (HEAD + "{tool: a, approval: {when: {x: '=='}}}", "3:36: PERDURE-208 when.x: '==' compares with nothing"),
        (HEAD + "{tool: a, approval: {when: {x: ['<3', '']}}}", "3:43: PERDURE-208 when.x: '' compares with nothing"),
        (HEAD + "{tool: a, approval: {when: {x: []}}}", "3:36: PERDURE-208 when.x: an empty list asks about nothing"),
        # replay policies without their means (C11, R091)
        (HEAD + "{tool: a, replay_policy: RECONCILE}", "3:30: PERDURE-209 replay_policy: RECONCILE needs a probe"),
        (HEAD + "{tool: a, replay_policy: REPLAY_IDEMPOTENT}", "3:30: PERDURE-209 replay_policy: REPLAY_IDEMPOTENT n"),
        (
            HEAD + "{tool: a, side_effect_class: external, replay_policy: REPLAY_EXACT}",
            "3:59: PERDURE-209 replay_policy: REPLAY_EXACT would do an irreversible external effect again",
        ),
        (
            HEAD + "{tool: a, side_effect_class: memory, replay_policy: REPLAY_EXACT}",
            "3:57: PERDURE-209 replay_policy: REPLAY_EXACT would do an irreversible memory effect again",
        ),
        (
            HEAD + "{tool: a, side_effect_class: external, replay_policy: RELAUNCH}",
            "3:59: PERDURE-209 replay_policy: RELAUNCH would do an irreversible external effect again",
        ),
        (
            HEAD + "{tool: Task, namespace: claude_code, replay_policy: REPLAY_EXACT}",
            "3:57: PERDURE-209 replay_policy: a subagent is always RELAUNCH, never REPLAY_EXACT",
        ),
    ],
)
def test_each_error_has_its_place_and_code(tmp_path: Path, text: str, expected: str) -> None:
    found = problems(tmp_path, text)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_all_errors_of_all_files_come_at_once_in_order(tmp_path: Path) -> None:
    bad = write(
        tmp_path,
        "version: 3\nrules:\n  - tool: send_mail\n    sied_effect_class: external\n    timeout: soon\n"
        "    replay_policy: RECONCILE\n  - tool_name_regex: '('\n    approval: {when: {x: '>y'}}\n",
    )
    missing = tmp_path / "nope.yaml"
    with pytest.raises(PolicyError) as caught:
        load_policy([bad, missing])
    where = [line.removeprefix(f"{bad}:").split(" ")[:2] for line in caught.value.problems]
    assert where == [
        ["1:10:", "PERDURE-205"],
        ["4:5:", "PERDURE-204"],
        ["5:14:", "PERDURE-206"],
        ["6:20:", "PERDURE-209"],
        ["7:22:", "PERDURE-207"],
        ["8:26:", "PERDURE-208"],
        [f"{missing}:", "PERDURE-202"],
    ]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"version: 1\n# caf\xe9\n")
    (tmp_path / "huge.yaml").write_bytes(b"#" * 300_000)
    for name, said in (
        ("nope.yaml", "nope.yaml: PERDURE-202 no such file"),
        (".", ": PERDURE-202 is a folder; name the file in it"),
        ("latin.yaml", "latin.yaml:2:6: PERDURE-202 is not UTF-8 text"),
        ("huge.yaml", "huge.yaml: PERDURE-202 is larger than 262144 bytes"),
        ("a\0b", ": PERDURE-202 cannot be read"),
    ):
        with pytest.raises(SpecError) as caught:
            load_policy([tmp_path / name])
        assert said in caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "1:2: PERDURE-203 is not valid JSON"),
        ('{"version": NaN}', "1:1: PERDURE-203 is not valid JSON: NaN is no JSON number"),
        ('{"version": 1e999}', "1:13: PERDURE-203 is no number that JSON can hold"),
        ('{"version": "\\ud800"}', "1:13: PERDURE-203 has a lone surrogate"),
        ('{\n "version": 1,\n "version": 1}', "3:2: PERDURE-203 'version' stands here twice; first at line 2"),
        ("[" * 5000 + "]" * 5000, "1:"),
        ('{"version": 1} {}', "1:16: PERDURE-203 is not valid JSON: Extra data"),
        ('{"version": 1, "rules": [{"tool": "a", "timeout": "x"}]}', "1:51: PERDURE-206 timeout: 'x' is no dura"),
        ('{"version": 1, "ruls\\"": 2}', "1:16: PERDURE-204 unknown key 'ruls\"'; did you mean 'rules'?"),
    ],
)
def test_json_errors_have_their_place_too(tmp_path: Path, text: str, expected: str) -> None:
    (found,) = problems(tmp_path, text, "p.json")
    assert found.startswith(expected)


def test_what_is_legal_but_unwise_is_a_warning_with_a_place(tmp_path: Path) -> None:
    text = HEAD + "{tool: a, scope: [to, Subject]}\n  - {tool: b, side_effect_class: local, replay_policy: ASK}\n"
    path = write(tmp_path, text)
    assert load_policy([path]).warnings == (
        f"{path}:3:27: warning: scope names Subject: wording may change per life, and is no scope",
        f"{path}:4:56: warning: ASK changes nothing: a lost local call is run again",
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [("on", "on"), ("yes", "yes"), ("2026-12-01", "2026-12-01"), ("1_0", "1_0"), ("~x", "~x"), ("'5'", "5")],
)
def test_scalars_follow_yaml_1_2(tmp_path: Path, written: str, read: str) -> None:
    path = write(tmp_path, HEAD + f"{{tool: {written}, repeat: ask}}")
    assert load_policy([path], base=False).rules[0].tool == read


def test_yaml_and_json_agree_on_the_same_values(tmp_path: Path) -> None:
    values = {"version": 1, "rules": [{"tool": "a", "timeout": 0o17, "max_attempts": 0x1F}]}
    as_json = load_policy([write(tmp_path, json.dumps(values), "p.json")], base=False).rules[0]
    as_yaml = load_policy([write(tmp_path, HEAD + "{tool: a, timeout: 0o17, max_attempts: 0x1F}")], base=False).rules[0]
    assert (as_json.timeout_seconds, as_json.max_attempts) == (as_yaml.timeout_seconds, as_yaml.max_attempts)
