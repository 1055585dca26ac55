"""Inputs of the command line, and where things are."""

from pathlib import Path

import pytest

from perdure.config.inputs import parse_inputs
from perdure.config.settings import database_of, resolve
from perdure.model.errors import PerdureError, SpecError, StoreError, UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), ("-1.5", -1.5), ("1e3", 1000.0), ("true", True), ("null", None), ("[1, 2]", [1, 2]),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}), ('"10115"', "10115"), ("10115", 10115), ("007", "007"), ("", ""),
        ("True", "True"), ("NaN", "NaN"), ("-Infinity", "-Infinity"), ("two words", "two words"), ("a=b", "a=b"),
        ("[1", "[1"), ("boss@example.org", "boss@example.org"), ("[" * 50_000, "[" * 50_000),
        ("9" * 5000, "9" * 5000), ("日本", "日本"), (" 5", 5), ("12345678901234567890", 12345678901234567890),
    ],
)  # fmt: skip
def test_a_value_is_json_or_the_text_itself(text: str, value: object) -> None:
    found = parse_inputs([f"key={text}"])["key"]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (["topic"], "-i topic: has no '=': write key=value"),
        (["=5"], "-i =5: has no usable key before '='"),
        ([" a=5"], "has no usable key"),
        (["a\n=5"], "has no usable key"),
        (["a=1", "a=1"], "-i a=1: 'a' is given twice"),
        (["a=1e999"], "1e999 is too large for a number"),
        (['a={"x": 1, "x": 2}'], "an object has the same key twice"),
        (["a=\udcff"], "is not valid UTF-8"),
        (['a="\\ud800"'], "has a lone surrogate"),
    ],
)
def test_what_cannot_be_an_input_is_refused(pairs: list[str], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_inputs(pairs)
    assert said in str(caught.value)
    str(caught.value).encode("utf-8")


def test_all_bad_inputs_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        parse_inputs(["a", "b=1", "b=2", "=3"])
    assert len(caught.value.problems) == 3


DECLARED = {
    **{"urls": ["http://127.0.0.1:8001/a.html"], "count": 3, "rate": 0.5, "strict": True, "who": {"to": "a"}},
    **{"topic": "SQLite", "any": None, "long": ["x" * 80]},
}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ('urls=["http://127.0.0.1/b"]', ["http://127.0.0.1/b"]),
        ("urls=[http://127.0.0.1/b, c]", ["http://127.0.0.1/b", "c"]),
        ("urls=[]", []), ("count=4", 4), ("count=4.5", 4.5), ("rate=1", 1), ("count=0x1F", 31), ("strict=false", False),
        ("strict=False", False), ('who={"to": "b"}', {"to": "b"}), ("who={to: b}", {"to": "b"}),
        ("topic=10115", "10115"), ('topic="10115"', "10115"), ("topic=null", "null"), ("topic=[1, 2]", "[1, 2]"),
        ("topic=two words", "two words"), ("any=5", 5), ("any=five", "five"), ("any=[1]", [1]),
    ],
)  # fmt: skip
def test_a_value_is_of_the_kind_that_the_job_declares(pair: str, value: object) -> None:
    (found,) = parse_inputs([pair], DECLARED).values()
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("urls=http://127.0.0.1/b", "'urls' is declared as a list, such as: -i 'urls=[\"http://127.0.0.1:8001/a.html\"]'"),
        ("urls=5", "declared as a list"), ("urls=null", "declared as a list"), ("urls={a: 1}", "declared as a list"),
        ("urls=[1", "declared as a list"), ("long=x", "such as: -i 'long=[\"…\", \"…\"]'"),
        ("count=four", "'count' is declared as a number, such as: -i count=3"), ("count=true", "declared as a number"),
        ("count=", "declared as a number"), ("strict=yes", "declared as true or false"), ("strict=1", "true or false"),
        ("who=ann", "declared as an object"), ("who=[1]", "declared as an object"),
        ("topcs=x", "the job has no input 'topcs'; did you mean 'topic'? (it has: any, count, long, rate,"),
        ("zzz=x", "the job has no input 'zzz' (it has: any, count,"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_and_a_name_that_the_job_does_not_have_are_refused(pair: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_inputs([pair], DECLARED)
    assert str(caught.value).startswith(f"-i {pair}: ") and said in str(caught.value)


def test_every_wrong_input_of_a_job_is_told_at_once_and_a_job_without_inputs_takes_any() -> None:
    with pytest.raises(SpecError) as caught:
        parse_inputs(["urls=x", "zzz=1", "count=4", "who=x"], DECLARED)
    assert len(caught.value.problems) == 3
    assert parse_inputs(["zzz=1"], {}) == {"zzz": 1}


ENVIRONMENT = {
    "PERDURE_HOME": "/env/home",
    "PERDURE_STORE": "sqlite:////env/store.db",
    "PERDURE_POLICIES_PATH": "env1.yaml:env2.yaml",
}


def test_a_flag_wins_over_the_environment_and_that_over_the_default() -> None:
    plain = resolve(environ={})
    assert (plain.state_dir, plain.database, plain.policies) == (
        Path(".perdure"),
        Path(".perdure/runtime_state.db"),
        (),
    )
    env = resolve(environ=ENVIRONMENT)
    assert (env.state_dir, env.database) == (Path("/env/home"), Path("/env/store.db"))
    flags = resolve(state_dir="/flag", store="sqlite:///flag.db", policies=["flag.yaml"], environ=ENVIRONMENT)
    assert (flags.state_dir, flags.database) == (Path("/flag"), Path("flag.db"))
    assert flags.store_url == "sqlite:///flag.db"
    home = resolve(state_dir="/flag", environ={"PERDURE_HOME": "/env"})
    assert (home.store_url, home.database) == ("sqlite:////flag/runtime_state.db", Path("/flag/runtime_state.db"))


def test_policies_load_from_job_then_environment_then_flags() -> None:
    settings = resolve(policies=["flag.yaml"], environ=ENVIRONMENT)
    of_job = [Path("job.yaml")]
    assert [str(path) for path in settings.policy_paths(of_job)] == [
        "job.yaml",
        "env1.yaml",
        "env2.yaml",
        "flag.yaml",
    ]


def test_an_empty_variable_counts_as_unset() -> None:
    empty = dict.fromkeys(ENVIRONMENT, "")
    assert resolve(environ=empty) == resolve(environ={})
    assert resolve(environ={"PERDURE_POLICIES_PATH": ":a.yaml:"}).policies == (Path("a.yaml"),)


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_HOME", "/from/the/process")
    assert resolve().state_dir == Path("/from/the/process")


@pytest.mark.parametrize("url", ["postgresql://u:secret@db/x", "postgres://db/x", "postgresql+psycopg://db/x"])
@pytest.mark.parametrize("by_flag", [True, False])
def test_postgresql_is_refused_in_this_version(url: str, by_flag: bool) -> None:
    with pytest.raises(StoreError) as caught:
        resolve(store=url if by_flag else None, environ={} if by_flag else {"PERDURE_STORE": url})
    assert (caught.value.exit_code, caught.value.code) == (4, "PERDURE-401")
    assert "SQLite only" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "x.db",
        "sqlite://x.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///x?mode=ro",
        "sqlite:///x\0",
        "mysql://a",
        "",
    ],
)
def test_what_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        database_of(url)


@pytest.mark.parametrize("given", [{"state_dir": ""}, {"state_dir": "a\0"}, {"policies": [""]}, {"store": ""}])
def test_what_is_no_path_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(PerdureError) as caught:
        resolve(environ={}, **given)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        database_of("mysql://user:secret@db/x")
    assert "secret" not in str(caught.value)
