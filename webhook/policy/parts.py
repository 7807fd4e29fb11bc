"""What the models of our kinds are made of.

What pydantic checks here the API server checks too: a pattern or a bound is both at once, and what takes more than that
has a CEL rule beside its validator (tests/cluster/test_policy_api.py holds the one to the other). Patterns are in the
words that Rust's, Go's and JavaScript's regular expressions share: `[0-9]` for `\\d`, which Rust takes for more.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from webhook.catalog.codes import codes
from webhook.model.placement import Operator, Requirement
from webhook.model.policy import LabelSelector
from webhook.model.quantity import GRAMMAR, LONGEST, QuantityError, units


class Part(BaseModel):
    """Fields are documented below them; docs/reference/policy.md, the CRDs and schemas/ are made from that."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        use_attribute_docstrings=True,
    )


def rule(expression: str, message: str, field: str = "") -> dict[str, str]:
    """One CEL rule; `field` is the one below `self` that the API server is to name."""
    return {"rule": expression, "message": message} | ({"fieldPath": f".{field}"} if field else {})


def ruled(*rules: dict[str, str]) -> dict[str, Any]:
    """As pydantic's `json_schema_extra`."""
    return {"x-kubernetes-validations": list(rules)}


def _quantity(text: str) -> str:
    try:
        if units(text) < 0:
            raise QuantityError(f"expected 0 or more, got {text!r}")
    except QuantityError as error:
        raise ValueError(str(error)) from None
    return text


def _time(text: str) -> str:
    datetime.fromisoformat(text)  # says what is wrong with the day
    return text


Steps: TypeAlias = tuple[str | int, ...]
"""The way to a field: names of fields and positions in lists."""
_T = TypeVar("_T")


def _once_each(values: tuple[_T, ...]) -> tuple[_T, ...]:
    if twice := [one for one in values if values.count(one) > 1]:
        raise ValueError(f"{twice[0]!r} comes twice")
    return values


_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_KEY = rf"^({_SUBDOMAIN}/)?{_LABEL}$"
_LONGEST_KEY = 317
_HOUR = "([01][0-9]|2[0-3]):[0-5][0-9]"

Name = Annotated[str, Field(max_length=253, pattern=f"^{_SUBDOMAIN}$")]
"""The name of an object."""
Text = Annotated[str, Field(min_length=1, max_length=253)]
Pattern = Annotated[str, Field(max_length=512)]
LabelKey = Annotated[str, Field(max_length=_LONGEST_KEY, pattern=_KEY)]
LabelValue = Annotated[str, Field(max_length=63, pattern=f"^({_LABEL})?$")]
Quantity = Annotated[
    str,
    AfterValidator(_quantity),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": LONGEST,
            "pattern": f"^{GRAMMAR}$",
            **ruled(rule("isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0", "expected 0 or more")),
        }
    ),
]
Percent = Annotated[str, Field(max_length=4, pattern="^[0-9]{1,3}%$")]
Duration = Annotated[str, Field(min_length=2, max_length=21, pattern="^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$")]
Time = Annotated[
    str,
    Field(
        max_length=40,
        pattern=rf"^2[0-9]{{3}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T{_HOUR}:[0-5][0-9](\.[0-9]{{1,9}})?(Z|[+-]{_HOUR})$",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_time),
]
"""A moment as RFC 3339 has it: the API server's own form."""
KindName = Annotated[
    str, Field(max_length=317, pattern=rf"^[A-Za-z]([-A-Za-z0-9]{{0,61}}[A-Za-z0-9])?(\.{_SUBDOMAIN})?$")
]
"""`Kind.group`; `Pod` in the core group."""
Kinds = Annotated[tuple[KindName, ...], Field(max_length=64)]


def _code(text: str) -> str:
    if text not in codes():
        raise ValueError("expected a code of docs/reference/codes.md")
    return text


Code = Annotated[str, AfterValidator(_code), WithJsonSchema({"type": "string", "enum": list(codes())})]
Codes = Annotated[
    tuple[Code, ...],
    Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
    AfterValidator(_once_each),
]


def seconds(duration: str) -> float:
    """Of a Duration."""
    unit = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(number) * unit[letter] for number, letter in re.findall(r"([0-9]+)([hms])", duration)))


def percent(text: str) -> float:
    """Of a Percent."""
    return float(text.removesuffix("%"))


def epoch(time: str) -> float:
    """Of a Time: seconds since the epoch."""
    return datetime.fromisoformat(time).timestamp()


def keys_match(pattern: str, longest: int, what: str) -> tuple[AfterValidator, dict[str, Any]]:
    """Of a map each key: pydantic's check, and the API server's, which knows no patterns for keys."""
    found = re.compile(pattern)

    def checked(written: dict[str, str]) -> dict[str, str]:
        for key in written:
            if len(key) > longest or not found.search(key):
                raise ValueError(f"expected {what} of at most {longest} characters, got {key[:40]!r}")
        return written

    said = f"a key is not {what} of at most {longest} characters"
    return AfterValidator(checked), ruled(rule(f"self.all(k, size(k) <= {longest} && k.matches(r'{pattern}'))", said))


_LABEL_KEYS, _LABEL_KEYS_RULE = keys_match(_KEY, _LONGEST_KEY, "a label key")
Labels = Annotated[dict[str, LabelValue], Field(max_length=32, json_schema_extra=_LABEL_KEYS_RULE), _LABEL_KEYS]


class Expression(Part):
    """One requirement of a label selector."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            rule(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                "go with In and NotIn, and only with these",
                "values",
            )
        )
    )

    key: LabelKey
    """The label's key."""
    operator: Literal[Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]
    """In and NotIn: its value is, or is not, among `values`. Exists and DoesNotExist: whether it is there."""
    values: Annotated[tuple[LabelValue, ...], Field(max_length=64)] = ()
    """For In and NotIn."""

    @model_validator(mode="after")
    def _values(self) -> Self:
        if (self.operator in (Operator.IN, Operator.NOT_IN)) != bool(self.values):
            raise ValueError("values: go with In and NotIn, and only with these")
        return self


class Selector(Part):
    """A label selector of Kubernetes; an empty one selects everything."""

    match_labels: Labels = {}
    """Labels that must be there, with their values."""
    match_expressions: Annotated[tuple[Expression, ...], Field(max_length=32)] = ()
    """Requirements that must hold as well."""

    def resolved(self) -> LabelSelector:
        """All as requirements, labels by key: the API server keeps no order of them."""
        labels = (Requirement(key, Operator.IN, (value,)) for key, value in sorted(self.match_labels.items()))
        return (*labels, *(Requirement(one.key, Operator(one.operator), one.values) for one in self.match_expressions))


class Metadata(BaseModel):
    """Only the name matters here, and who was first; labels and annotations may be there."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel)

    name: Name
    creation_timestamp: Time | None = None

    @property
    def created(self) -> float:
        """Seconds since the epoch; 0 for what is not in a cluster."""
        return epoch(self.creation_timestamp) if self.creation_timestamp else 0.0


class StatusCondition(BaseModel):
    """One of Kubernetes' own form (metav1.Condition)."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, use_attribute_docstrings=True)

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Ready: whether the object counts as it stands."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Annotated[str, Field(max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """One word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """For people: what is wrong, with the field."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When `status` changed last."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that it speaks of."""


class Status(BaseModel):
    """Written by Samestep. What another release has written there is left alone."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, use_attribute_docstrings=True)

    conditions: Annotated[
        tuple[StatusCondition, ...],
        Field(
            max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        ),
    ] = ()
    """Ready, and why not."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The metadata.generation that was read last."""


_PLAIN = re.compile(r"<\w+\.\w+: |(?<=')>|^Value error, ")
"""pydantic shows the members of an enum as Python does; a person is told their values."""
_IN_YAML = {"unexpected_keyword_argument": "Extra inputs are not permitted", "tuple_type": "Input should be a list"}


def faults(error: ValidationError) -> list[str]:
    """What pydantic found, as "spec.pin.when: …" lines."""
    return [f"{dotted(steps)}: {message}" for steps, message in problems(error)]


def problems(error: ValidationError) -> Iterator[tuple[Steps, str]]:
    """What pydantic found, each with the steps to its field. Of a list with a bad item it also says that it is short of
    items: what a field is told besides what is in it is left out."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    within = {one["loc"][:depth] for one in found for depth in range(len(one["loc"]))}
    for one in found:
        if one["loc"] not in within:
            yield one["loc"], _IN_YAML.get(one["type"]) or _PLAIN.sub("", one["msg"])


def dotted(steps: Steps) -> str:
    """As people read it: "spec.pin.when"."""
    return ".".join(map(str, steps)) or "document"
