"""The query language of listings: what is read, and that each mistake is named with its position."""

from __future__ import annotations

import random
import string
from datetime import UTC, datetime

import pytest

from dw_core.limits import VISIBILITY_ALTERNATIVES_MAX, VISIBILITY_TERMS_MAX, VISIBILITY_VALUES_MAX
from dw_core.protocol.problems import Invalid
from dw_core.visibility.conditions import Attribute, read_conditions
from dw_core.visibility.query import Term, check_length, looks_like_predicates, parse
from dw_core.visibility.rows import search_rows

TYPES = {
    "Customer": "keyword",
    "Note": "string",
    "Count": "int",
    "Amount": "float",
    "IsVip": "bool",
    "Due": "datetime",
    "Tags": "keyword_list",
}


@pytest.mark.parametrize(
    ("text", "is_query"),
    [
        ("WorkflowType = x", True),
        ('Customer="a b"', True),
        ("Customer IN (a)", True),
        ("customer in ( a )", True),
        ("NOT IsVip", True),
        ("IsVip AND Count >= 3", True),
        ("order-17", False),
        ("order 17 in progress", False),
        ("IsVip", False),
        ("nothing", False),
    ],
)
def test_what_looks_like_predicates_is_a_query(text: str, is_query: bool) -> None:
    assert looks_like_predicates(text) is is_query


def test_and_binds_tighter_than_or_and_keywords_have_any_case() -> None:
    assert parse("A = 1 or B != 'x y' AnD not C > -2.5 OR D in (a, \"b\", true)") == [
        [Term("A", "=", (1,), 1)],
        [Term("B", "!=", ("x y",), 10), Term("C", "<=", (-2.5,), 29)],
        [Term("D", "=", ("a", "b", True), 41)],
    ]
    assert parse("NOT IsVip OR Amount > 100") == [[Term("IsVip", "!=", (True,), 5)], [Term("Amount", ">", (100,), 14)]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("A = 'x", "a text is not closed at position 5"),
        ("A = ", "expected a value at position 4"),
        ("A = x y", "expected AND or OR at position 7"),
        ("A = (x)", "expected a value at position 5"),
        ("A IN x", "expected ( at position 6"),
        ("A IN (x y)", "expected , or ) at position 9"),
        ("A IN (x", "expected , or ) at position 8"),
        ("(A = x)", "expected the name of a field at position 1"),
        ("A = x AND OR B = y", "expected the name of a field at position 11"),
        ("A = x OR", "expected the name of a field at position 9"),
        ("A = x; B", "unexpected character at position 6"),
        ("1A = x", "expected the name of a field at position 1"),
        (" AND ".join(["A = x"] * (VISIBILITY_TERMS_MAX + 1)), f"there are more than {VISIBILITY_TERMS_MAX} terms"),
        (" OR ".join(["A = x"] * (VISIBILITY_ALTERNATIVES_MAX + 1)), f"more than {VISIBILITY_ALTERNATIVES_MAX} alter"),
        (f"A IN ({', '.join(['x'] * (VISIBILITY_VALUES_MAX + 1))})", f"more than {VISIBILITY_VALUES_MAX} values"),
    ],
)
def test_a_mistake_is_named_with_its_position(text: str, complaint: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(text)
    assert complaint in refused.value.errors["query"][0]


def test_a_query_that_is_too_long_is_refused() -> None:
    check_length("x" * 2048)
    with pytest.raises(Invalid):
        check_length("x" * 2049)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Unknown = x", "Unknown is no field and no registered search attribute"),
        ("workflowtype = x", "workflowtype is no field"),
        ("WorkflowType > x", "takes =, != and IN, not >"),
        ("WorkflowType = true", "compared with text"),
        ("Status = gone", "gone is no status"),
        ("Status >= running", "takes =, != and IN"),
        ("StartTime > yesterday", "ISO 8601 time"),
        ("CloseTime = 5", "ISO 8601 time"),
        ("StartTime IN ('2026-01-01', '2026-01-02')", "does not take IN"),
        ("Count = x", "compared with a number"),
        ("Count = true", "compared with a number"),
        ("IsVip = 1", "true or false"),
        ("IsVip > true", "takes =, != and IN"),
        ("Due = soon", "ISO 8601 time"),
        ("Tags < a", "takes =, != and IN"),
        ("Customer = 1.5", "compared with text"),
    ],
)
def test_what_a_field_does_not_take_is_named(text: str, complaint: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_conditions(parse(text)[0], TYPES)
    assert complaint in refused.value.errors["query"][0]


def test_terms_of_one_field_are_taken_together() -> None:
    text = (
        "WorkflowType IN (a, b, c) AND WorkflowType != b AND WorkflowType IN (c, d) AND Status = failed AND"
        " Status != cancelled AND StartTime > '2026-01-01' AND StartTime >= '2026-02-01T00:00:00Z' AND"
        " StartTime < '2026-03-01T01:00:00+01:00' AND BuildId = 17"
    )
    asked = read_conditions(parse(text)[0], TYPES)
    assert (asked.fields["workflow_type"].allowed, asked.fields["workflow_type"].denied) == (["c"], ["b"])
    assert asked.fields["compatibility"].allowed == ["17"]
    assert (asked.statuses, asked.bucket) == (["failed", "terminated"], "failed")
    assert (asked.started.low, asked.started.has_low) == (datetime(2026, 2, 1, tzinfo=UTC), True)
    assert (asked.started.high, asked.started.has_high) == (datetime(2026, 3, 1, tzinfo=UTC), False)


def test_attributes_are_compared_as_what_they_are() -> None:
    numbers = "Count IN (1, 2) AND Amount >= 1.5"
    text = f"Customer = a AND {numbers} AND NOT IsVip AND Due < '1970-01-01T00:00:01Z' AND Tags != x"
    assert read_conditions(parse(text)[0], TYPES).attributes == [
        Attribute(name="Customer", texts=["a"]),
        Attribute(name="Count", numbers=[1, 2]),
        Attribute(name="Amount", low=1.5),
        Attribute(name="IsVip", texts=["true"], is_negative=True),
        Attribute(name="Due", high=1_000_000, has_high=False),
        Attribute(name="Tags", texts=["x"], is_negative=True),
    ]


def test_each_value_of_an_attribute_is_a_row() -> None:
    values = {"K": "v", "N": 2, "B": False, "L": ["a", "b", "a"], "D": "1970-01-01T00:00:00.000005Z", "E": []}
    rows = list(search_rows("r", values, {"D": "datetime"}))
    assert [(row.name, row.ordinal, row.text_value, row.number_value) for row in rows] == [
        ("K", 0, "v", None),
        ("N", 0, None, 2),
        ("B", 0, "false", None),
        ("L", 0, "a", None),
        ("L", 1, "b", None),
        ("D", 0, "1970-01-01T00:00:00.000005Z", 5),
    ]


def test_no_text_makes_the_reader_fail_in_another_way() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    pieces = [
        "A",
        "Status",
        "Due",
        "AND",
        "or",
        "NOT",
        "IN",
        "(",
        ")",
        ",",
        "=",
        "!=",
        "<=",
        "'x y'",
        '"',
        "'",
        "1e999",
    ]
    for _ in range(3000):
        words = chance.choices([*pieces, "17", "-1.5", "true", chance.choice(string.printable)], k=chance.randrange(12))
        try:
            for terms in parse(chance.choice(("", " ")).join(words)):
                read_conditions(terms, TYPES)
        except Invalid:
            continue
