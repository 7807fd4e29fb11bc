"""The scheduling fields of a pod spec, typed."""

from webhook.intake.fields import A_STRING, Unreadable, mapping, objects, text, texts
from webhook.model.finding import Phrase
from webhook.model.placement import Operator, Placement, Pointer, Requirement, Term, Toleration
from webhook.model.request import Object

_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
_FIELDS = frozenset({"nodeSelector", "affinity", "tolerations", "nodeName", "schedulerName"})
_ANYWHERE = Placement()
_DEFAULT_SCHEDULER = "default-scheduler"
_OPERATORS: dict[object, Operator] = {operator.value: operator for operator in Operator}


def read_placement(spec: Object, at: Pointer) -> Placement:
    """nodeSelector, required node affinity, tolerations and nodeName of a pod spec. Raises Unreadable."""
    if _FIELDS.isdisjoint(spec):
        return _ANYWHERE
    selector = mapping(spec, "nodeSelector", at)
    for key, value in selector.items():
        if not isinstance(key, str):
            raise Unreadable((*at, "nodeSelector"), Phrase("label_names"), key)
        if not isinstance(value, str):
            raise Unreadable((*at, "nodeSelector", key), A_STRING, value)
    terms, depth = _terms(spec, at)
    return Placement(
        node_selector=tuple(selector.items()),
        node_selector_is_a_map=isinstance(spec.get("nodeSelector"), dict),
        terms=terms,
        affinity_depth=depth,
        tolerations=tuple(
            _toleration(one, (*at, "tolerations", index)) for index, one in enumerate(objects(spec, "tolerations", at))
        ),
        node_name=text(spec, "nodeName", at),
        scheduler=_scheduler(spec),
    )


def _scheduler(spec: Object) -> str:
    """One that is no string the API server refuses: nothing is decided by it."""
    named = spec.get("schedulerName")
    return named if isinstance(named, str) and named != _DEFAULT_SCHEDULER else ""


def _terms(spec: Object, at: Pointer) -> tuple[tuple[Term, ...] | None, int]:
    inner = spec
    for depth, key in enumerate(_AFFINITY):
        if inner.get(key) is None:
            return None, depth
        inner, at = mapping(inner, key, at), (*at, key)
    # Required affinity without terms matches no node; the API server refuses it.
    found = objects(inner, "nodeSelectorTerms", at)
    at = (*at, "nodeSelectorTerms")
    terms = tuple(_term(one, (*at, index)) for index, one in enumerate(found))
    return terms, len(_AFFINITY) + isinstance(inner.get("nodeSelectorTerms"), list)


def _term(term: Object, at: Pointer) -> Term:
    return Term(
        expressions=_requirements(term, "matchExpressions", at),
        fields=_requirements(term, "matchFields", at),
        expressions_are_a_list=isinstance(term.get("matchExpressions"), list),
    )


def _requirements(term: Object, key: str, at: Pointer) -> tuple[Requirement, ...]:
    found = []
    for index, one in enumerate(objects(term, key, at)):
        here = (*at, key, index)
        operator = _OPERATORS.get(text(one, "operator", here))
        if operator is None:
            raise Unreadable(
                (*here, "operator"), Phrase("one_of", {"values": ", ".join(Operator)}), one.get("operator")
            )
        found.append(Requirement(text(one, "key", here), operator, tuple(texts(one, "values", here))))
    return tuple(found)


def _toleration(one: Object, at: Pointer) -> Toleration:
    seconds = one.get("tolerationSeconds")
    return Toleration(
        text(one, "key", at),
        text(one, "operator", at) or "Equal",
        text(one, "value", at),
        text(one, "effect", at),
        seconds if type(seconds) is int else None,
    )
