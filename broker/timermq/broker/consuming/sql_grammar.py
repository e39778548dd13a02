"""The grammar of SQL92 filters, and the tree that it makes of an expression.

``NOT``, ``+`` and ``-`` bind closest, as in RocketMQ: ``NOT a = 1`` is ``(NOT a) = 1``. Words of
the language are reserved everywhere, in any case of letters. What follows a whole expression is
refused; RocketMQ passes it over.

Source: Java ``SelectorParser.jj``.
"""

from __future__ import annotations

import functools
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from ..steps import Steps, at_once

EXPRESSION_LENGTH_MAX = 4_096
"""Characters of an expression: reading one takes a tenth of a second at most."""
STEP_TOKENS = 256
"""Words and signs that are read at once: a millisecond or two."""
_SHOWN_LENGTH = 32
"""Characters of an expression that an explanation quotes."""

GRAMMAR = r"""
?start: or
?or: and (_OR and)*
?and: equality (_AND equality)*
?equality: comparison equality_tail*
?equality_tail: "=" comparison               -> equal
    | "<>" comparison                        -> not_equal
    | _IS _NULL                              -> is_null
    | _IS _NOT _NULL                         -> is_not_null
?comparison: unary comparison_tail*
?comparison_tail: ">" unary                  -> greater
    | ">=" unary                             -> greater_equal
    | "<" unary                              -> less
    | "<=" unary                             -> less_equal
    | _CONTAINS STRING                       -> contains
    | _NOT _CONTAINS STRING                  -> not_contains
    | _STARTSWITH STRING                     -> starts_with
    | _NOT _STARTSWITH STRING                -> not_starts_with
    | _ENDSWITH STRING                       -> ends_with
    | _NOT _ENDSWITH STRING                  -> not_ends_with
    | _BETWEEN unary _AND unary              -> between
    | _NOT _BETWEEN unary _AND unary         -> not_between
    | _IN "(" STRING ("," STRING)* ")"       -> in_list
    | _NOT _IN "(" STRING ("," STRING)* ")"  -> not_in_list
?unary: "+" unary
    | "-" unary                              -> negate
    | _NOT unary                             -> not
    | STRING                                 -> string
    | DECIMAL                                -> decimal
    | FLOAT                                  -> float
    | _TRUE                                  -> true
    | _FALSE                                 -> false
    | _NULL                                  -> null
    | NAME                                   -> property
    | "(" or ")"

_AND: "AND"i
_BETWEEN: "BETWEEN"i
_CONTAINS: "CONTAINS"i
_ENDSWITH: "ENDSWITH"i
_FALSE: "FALSE"i
_IN: "IN"i
_IS: "IS"i
_NOT: "NOT"i
_NULL: "NULL"i
_OR: "OR"i
_STARTSWITH: "STARTSWITH"i
_TRUE: "TRUE"i
NAME: /[a-z_$][a-z0-9_$]*/i
STRING: /'(?:''|[^'])*'/
FLOAT.2: /[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
DECIMAL: /0|[1-9][0-9]*l?/i
_BLANK: /[ \t\n\r\f]+/
_LINE_COMMENT.3: /--[^\n\r]*/
_BLOCK_COMMENT.3: /\/\*[\s\S]*?\*\//
%ignore _BLANK
%ignore _LINE_COMMENT
%ignore _BLOCK_COMMENT
"""


class SqlError(ValueError):
    """An expression with a syntax error, or too large: an error of the consumer's program."""


def parse_sql(expression: str) -> Tree[Token] | Token:
    """The tree of an expression; operators of one level stand side by side under one node.

    Raises:
        SqlError: It is too long, or does not follow the grammar; the text says where.
    """
    return at_once(parse_steps(expression))


def parse_steps(expression: str) -> Steps[Tree[Token] | Token]:
    """The same in steps of ``STEP_TOKENS``."""
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise SqlError(
            f"expected at most {EXPRESSION_LENGTH_MAX} characters, found {len(expression)}"
        )
    try:
        # Lark leaves open what else it could read.
        parser = _parser().parse_interactive(expression)  # pyright: ignore[reportUnknownMemberType]
        last = Token("$END", "", 0, 1, 1)
        for count, token in enumerate(parser.iter_parse(), 1):
            last = token
            if count % STEP_TOKENS == 0:
                yield
        end = Token.new_borrow_pos("$END", "", last)
        return cast("Tree[Token] | Token", parser.feed_token(end))
    except UnexpectedInput as error:
        raise SqlError(_explained(expression, error)) from None


def prepare_sql() -> None:
    """Make the parser before a broker serves: it takes as long as many requests."""
    _parser()


@functools.cache
def _parser() -> Lark:
    """The parser of filters, made at its first use."""
    # The basic lexer: a reserved word is one everywhere.
    return Lark(GRAMMAR, parser="lalr", lexer="basic")


def _explained(expression: str, error: UnexpectedInput) -> str:
    at = error.pos_in_stream
    token: object = getattr(error, "token", None)
    is_end = isinstance(token, Token) and token.type == "$END"
    if is_end or at is None or not 0 <= at < len(expression):
        return "expected more, found the end"
    found = ascii(expression[at : at + _SHOWN_LENGTH])
    return f"character {at}: expected another word or sign, found {found}"
