"""The text of a visibility query as alternatives of terms (control-plane §11).

``AND`` binds tighter than ``OR`` and there are no parentheses, so a query is read in one pass without recursion.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from dw_core.limits import (
    VISIBILITY_ALTERNATIVES_MAX,
    VISIBILITY_QUERY_CHARS_MAX,
    VISIBILITY_TERMS_MAX,
    VISIBILITY_VALUES_MAX,
)
from dw_core.protocol.problems import Invalid

Value = str | int | float | bool

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<op>!=|>=|<=|=|>|<)|(?P<mark>[(),])|(?P<word>[A-Za-z0-9_.:+-]+))"""
)
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FLOAT = re.compile(r"[+-]?\d{1,64}(?:\.\d{1,64})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*", re.ASCII)
_PREDICATE = re.compile(
    r"(?:^|\s)[A-Za-z][A-Za-z0-9_.:-]*\s*(?:!=|>=|<=|=|>|<)"
    r"|(?:^|\s)[A-Za-z][A-Za-z0-9_.:-]*\s+(?i:IN)\s*\("
    r"|^\s*(?i:NOT)\s+[A-Za-z]"
)
_KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "IN"})
_OPPOSITES: Final = {"=": "!=", "!=": "=", ">": "<=", "<=": ">", "<": ">=", ">=": "<"}


class Term(NamedTuple):
    """``field op values`` at a position of the text, counted from 1; ``=`` and ``!=`` may have several values.

    A field by itself has the one value True.
    """

    field: str
    op: str
    values: tuple[Value, ...]
    position: int


class Token(NamedTuple):
    """A piece of the text: ``kind`` is quoted, op, mark, word or end."""

    kind: str
    text: str
    position: int

    def is_keyword(self, word: str) -> bool:
        """Whether this is the keyword, in any case."""
        return self.kind == "word" and self.text.upper() == word


def looks_like_predicates(text: str) -> bool:
    """Whether a text is a query; any other one is looked for in workflow ids and business keys."""
    return _PREDICATE.search(text) is not None


def wrong(message: str, position: int) -> Invalid:
    """The refusal of a query, with the position of what is wrong."""
    return Invalid({"query": [f"{message} at position {position}"]})


def check_length(text: str) -> None:
    """Raises ``Invalid`` for a text that is too long."""
    if len(text) > VISIBILITY_QUERY_CHARS_MAX:
        raise Invalid({"query": [f"must have at most {VISIBILITY_QUERY_CHARS_MAX} characters"]})


def parse(text: str) -> list[list[Term]]:
    """The alternatives of a query, each with its terms. Raises ``Invalid`` that names the position of the mistake."""
    reader = _Reader(_tokens(text))
    alternatives = [[reader.term()]]
    count = 1
    while not reader.at_end:
        joint = reader.take()
        if joint.is_keyword("OR"):
            alternatives.append([])
        elif not joint.is_keyword("AND"):
            raise wrong("expected AND or OR", joint.position)
        count += 1
        if count > VISIBILITY_TERMS_MAX:
            raise wrong(f"there are more than {VISIBILITY_TERMS_MAX} terms", joint.position)
        if len(alternatives) > VISIBILITY_ALTERNATIVES_MAX:
            raise wrong(f"there are more than {VISIBILITY_ALTERNATIVES_MAX} alternatives", joint.position)
        alternatives[-1].append(reader.term())
    return alternatives


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise wrong("a text is not closed" if text[start] in "\"'" else "unexpected character", start + 1)
        tokens.append(Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup) + 1))
        at = found.end()
    return [*tokens, Token("end", "", end + 1)]


class _Reader:
    """Reads terms from tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._tokens[self._at].kind == "end"

    def take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def term(self) -> Term:
        """``[NOT] predicate``; a negated predicate has the opposite operator."""
        token = self.take()
        is_negated = token.is_keyword("NOT")
        if is_negated:
            token = self.take()
        is_name = token.kind == "word" and token.text.upper() not in _KEYWORDS and _NAME.fullmatch(token.text)
        if not is_name:
            raise wrong("expected the name of a field", token.position)
        op, values = self._predicate()
        return Term(token.text, _OPPOSITES[op] if is_negated else op, values, token.position)

    def _predicate(self) -> tuple[str, tuple[Value, ...]]:
        token = self._tokens[self._at]
        if token.kind == "op":
            self.take()
            return token.text, (self._literal(),)
        if token.is_keyword("IN"):
            self.take()
            return "=", self._list()
        return "=", (True,)

    def _list(self) -> tuple[Value, ...]:
        token = self.take()
        if token.text != "(" or token.kind != "mark":
            raise wrong("expected (", token.position)
        values = [self._literal()]
        while True:
            token = self.take()
            if token.kind == "mark" and token.text == ")":
                return tuple(values)
            if token.kind != "mark" or token.text != ",":
                raise wrong("expected , or )", token.position)
            if len(values) == VISIBILITY_VALUES_MAX:
                raise wrong(f"the list has more than {VISIBILITY_VALUES_MAX} values", token.position)
            values.append(self._literal())

    def _literal(self) -> Value:
        token = self.take()
        if token.kind == "quoted":
            return token.text[1:-1]
        if token.kind != "word" or token.text.upper() in _KEYWORDS:
            raise wrong("expected a value", token.position)
        word = token.text
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        if _INTEGER.fullmatch(word):
            return int(word)
        if _FLOAT.fullmatch(word):
            return float(word)
        return word
