"""Conditions in CEL: compiled once, evaluated within bounds.

What a condition may cost is bounded by what it may say. Nothing that makes a value grow is there (`+`, `map`, `filter`,
the strings extension): in the C++ runtime, filtering a list of 5,000 takes half a second and 400 MB. And a loop looks
at what it loops over, not at the whole object again, so that the time is linear in the object's size.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from cel_expr_python import cel

VARIABLES = ("object", "oldObject", "request", "namespaceObject", "job")
LONGEST = 2048
"""Characters of one expression."""

_CONFIG = """
stdlib:
  exclude_functions: [{name: _+_}]
  exclude_macros: [map, filter, exists_one]
"""
_LOOPS = frozenset({"all", "exists"})
_BINDINGS = frozenset({"optMap", "optFlatMap"})
# Beside its own variable, a loop may name what is small, and what is no variable.
_IN_LOOPS = frozenset({"request", "namespaceObject", "job", "true", "false", "null", "in", "type", "dyn"}) | frozenset(
    {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"}
)
_TOKEN = re.compile(
    r"""//[^\n]*
    |(?:[rR][bB]?|[bB][rR])(?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*")
    |[bB]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
    |`[^`]*`|\d[\w.]*|[A-Za-z_]\w*|\S""",
    re.DOTALL | re.VERBOSE,
)
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_OPERAND_END = re.compile(r"[\w)\]}'\"`]\Z")
_FAULT = re.compile(r"ERROR: [^:]*:(\d+):(\d+): ([^\n]*)")
_UNDECLARED = re.compile(r"undeclared reference to '(.+)'\Z")
_CONTAINER = " (in container '')"
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


class CelError(Exception):
    """A condition that cannot be compiled or has no answer for an object. `line` and `column` count from 1; 0: the
    fault has no place in the expression (it came up while evaluating)."""

    def __init__(self, expression: str, problem: str, line: int = 0, column: int = 0) -> None:
        self.expression, self.problem, self.line, self.column = expression, problem, line, column
        place = f"line {line}, column {column} of " if line else ""
        super().__init__(f"{problem} ({place}{_shown(expression)})")


class Conditions:
    """The variables of one request, and what conditions say of them. Nothing is converted before the first one."""

    def __init__(self, variables: Mapping[str, object]) -> None:
        self._variables = dict.fromkeys(VARIABLES) | dict(variables)
        self._activation: cel.Activation | None = None
        self._answers: dict[str, bool | CelError] = {}

    def hold(self, expression: str) -> bool:
        """Raises CelError."""
        answer = self._answers.get(expression)
        if answer is None:
            answer = self._answers[expression] = self._evaluated(expression)
        if isinstance(answer, CelError):
            raise answer.with_traceback(None)  # it is kept, and would gather a traceback with every use
        return answer

    def _evaluated(self, expression: str) -> bool | CelError:
        program = _compiled(expression)
        if isinstance(program, CelError):
            return program
        try:
            if self._activation is None:
                # The C++ side overflows its stack on very deep values, and takes neither surrogates nor large integers.
                orjson.dumps(self._variables)
                self._activation = _environment().Activation(self._variables)
            result = program.eval(self._activation)
            value = result.value()
        except orjson.JSONEncodeError as error:
            return CelError(expression, f"the object is not plain JSON: {error}")
        except RuntimeError as error:
            return CelError(expression, _told(error))
        kind = result.type().name()
        if kind == "BOOL":
            return bool(value)
        problem = value if kind == "ERROR" else f"is a {kind.lower()}, not a bool"
        return CelError(expression, _STATUS.sub("", str(problem)))


def check(expression: str) -> None:
    """Raises CelError where this is no condition."""
    if isinstance(program := _compiled(expression), CelError):
        raise program.with_traceback(None)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a variable, as `job.batch` names it. `line` and `column` are where its name begins, from 1."""

    variable: str
    name: str
    line: int
    column: int


def fields(expression: str) -> Iterator[Field]:
    """The fields of variables that a condition names, those of what a loop calls by the same name left out."""
    tokens = _tokens(expression)
    words = [word for word, _ in tokens]
    bound = {words[index] for index in range(1, len(words) - 1) if (words[index - 1], words[index + 1]) == ("(", ",")}
    for index, variable in enumerate(words):
        if variable not in VARIABLES or variable in bound or _selected(words, index):
            continue
        after = index + 1 + (words[index + 1 : index + 3] == [".", "?"])
        if words[index + 1 : index + 2] == ["."] and after + 1 < len(words) and _NAME.match(words[after + 1]):
            name, start = tokens[after + 1]
            yield Field(variable, name, *_position(expression, start))


@lru_cache(maxsize=1)
def _environment() -> "cel.Env":
    # The C++ runtime takes 14 MiB, which where no policy has conditions nobody has to have. Policies are compiled aside
    # before they come into force, so that no request waits for it.
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_CONFIG),
        variables=dict.fromkeys(VARIABLES, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional()],
    )


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> "cel.Expression | CelError":
    if len(expression) > LONGEST:
        return CelError(expression, f"longer than {LONGEST} characters")
    try:
        expression.encode()
        program = _environment().compile(expression)
    except (RuntimeError, UnicodeError) as error:
        found = _FAULT.search(str(error))
        if found is None:
            return CelError(expression, _told(error))
        line, column, problem = found.groups()
        return _fault(expression, problem.removesuffix(_CONTAINER), int(line), int(column))
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        return CelError(expression, f"is a {kind.lower()}, not a bool")
    return _unbounded(expression) or program


def _fault(expression: str, problem: str, line: int, column: int) -> CelError:
    if "'_+_'" in problem:
        problem += ": there is no +, map, filter and exists_one here, so that what a condition costs is bounded"
    elif unknown := _UNDECLARED.match(problem):  # told with the place of its last field
        begin = expression.split("\n")[line - 1].rfind(unknown[1], 0, column + len(unknown[1]))
        column = begin + 1 if begin >= 0 else column
    return CelError(expression, problem, line, column)


def _unbounded(expression: str) -> CelError | None:
    """The fault where a loop names something beside what it loops over.

    The object's size bounds what each part of such a loop sees over all its rounds. It knows the words of CEL and not
    its grammar: what it reads has been compiled.
    """
    tokens = _tokens(expression)
    words = [word for word, _ in tokens]
    # For each open bracket, which names may stand in it; None: any.
    allowed: list[frozenset[str] | None] = [None]
    for index, (word, start) in enumerate(tokens):
        here = allowed[-1]
        after_operand = index > 0 and bool(_OPERAND_END.search(words[index - 1])) and words[index - 1] != "in"
        if word in ("(", "[", "{"):
            called = words[index - 1] if word == "(" and after_operand else ""
            if called in _LOOPS and _selected(words, index - 1):
                allowed.append(_IN_LOOPS | {words[index + 1]})
            elif called in _BINDINGS and here is not None:
                allowed.append(here | {words[index + 1]})
            elif word == "(" or after_operand:
                allowed.append(here)
            else:  # a list or map of its own, which would hold what it is made of many times
                allowed.append(None if here is None else _IN_LOOPS)
        elif word in (")", "]", "}"):
            allowed.pop()
        elif _NAME.match(word) and here is not None and not _selected(words, index):
            is_called = index + 1 < len(words) and words[index + 1] == "("
            if word not in here and not is_called:
                fault = f"a loop may name only its own variable, job, request and namespaceObject, not {word}"
                return CelError(expression, fault, *_position(expression, start))
    return None


def _tokens(expression: str) -> list[tuple[str, int]]:
    """The words of it, each with where it begins; comments are left out."""
    return [(one.group(), one.start()) for one in _TOKEN.finditer(expression) if not one.group().startswith("//")]


def _position(expression: str, start: int) -> tuple[int, int]:
    """Line and column, from 1."""
    return expression.count("\n", 0, start) + 1, start - expression.rfind("\n", 0, start)


def _selected(words: list[str], index: int) -> bool:
    """Whether this name is a field or method of what stands before it."""
    before = words[max(0, index - 3) : index]
    if before[-2:] == [".", "?"]:
        before = before[:-1]
    return len(before) > 1 and before[-1] == "." and bool(_OPERAND_END.search(before[-2]))


def _told(error: Exception) -> str:
    return _STATUS.sub("", str(error).split("\n", 1)[0]).removesuffix(".")


def _shown(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= 80 else f"{text[:79]}…"
