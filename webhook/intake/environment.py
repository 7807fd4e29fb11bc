"""A container's environment and `$(VAR)` in its command, as the kubelet expands it."""

import re

from webhook.intake.fields import A_MAP, A_STRING, Unreadable, items, texts
from webhook.intake.places import IN_PLACE, Places
from webhook.intake.words import UNREAD, Budget, Origin, Piece, Place, Word
from webhook.model.placement import Pointer
from webhook.model.request import Object

# k8s.io/kubernetes, third_party/forked/golang/expansion: `$$` is a dollar sign, an unknown name stays as it is. The
# name is bounded here so that a row of "$(" without an end is read once and not once for each.
_REFERENCE = re.compile(r"\$(?:\$|\(([^()$\s]{1,256})\))")


class Environment:
    """The literal environment variables of one container; those with `valueFrom` are there but unread."""

    __slots__ = ("_at", "_budget", "_entries", "_known", "places")

    def __init__(self, container: Object, at: Pointer, budget: Budget, places: Places = IN_PLACE) -> None:
        self._at = at
        self._budget = budget
        self._entries = items(container, "env", at)
        self.places = places
        # An index until somebody asks: most variables are never looked at.
        self._known: dict[str, int | Word | None] = {}
        known = self._known
        for index, entry in enumerate(self._entries):
            if not isinstance(entry, dict):
                raise Unreadable((*at, "env", index), A_MAP, entry)
            name, value = entry.get("name"), entry.get("value") or ""
            if not isinstance(name, str):
                raise Unreadable((*at, "env", index, "name"), A_STRING, name)
            if not isinstance(value, str):
                raise Unreadable((*at, "env", index, "value"), A_STRING, value)
            if "valueFrom" in entry and entry["valueFrom"] is not None:
                known[name] = None
            elif "$" in value:
                known[name] = self.expand(value, self._origin(index, value, name))
            else:
                known[name] = index

    def __contains__(self, name: str) -> bool:
        return name in self._known

    @property
    def unset(self) -> tuple[str, ...]:
        """The variables whose value is not in the object."""
        return tuple(name for name, known in self._known.items() if known is None)

    def sets_any(self, names: frozenset[str]) -> bool:
        """Whether any of these variables is set here."""
        # By whichever are fewer; `names.isdisjoint` would go through all that is set.
        return not self._known.keys().isdisjoint(names)

    def get(self, name: str) -> Word | None:
        """The value of a variable; None where it is not set here, or not known."""
        known = self._known.get(name)
        if not isinstance(known, int):
            return known
        value = self._entries[known].get("value") or ""
        return Word(value, (Piece(value, self._origin(known, value, name)),), value)

    def expand(self, raw: str, origin: Origin) -> Word:
        """A string of the container with its references replaced."""
        pieces: list[Piece] = []
        done = 0
        for reference in _REFERENCE.finditer(raw):
            name = reference[1]
            if name is not None and name not in self._known:
                continue
            if done < reference.start():
                pieces.append(Piece(raw[done : reference.start()], origin, done))
            done = reference.end()
            if name is None:
                pieces.append(Piece("$", origin, done - 1))
                continue
            value = self.get(name)
            if value is None or not self._budget.take(len(value.text) + len(value.pieces)):
                pieces.append(Piece(UNREAD, None))
            else:
                pieces.extend(value.pieces)
        if done < len(raw) or not pieces:
            pieces.append(Piece(raw[done:], origin, done))
        return Word("".join(piece.text for piece in pieces), tuple(pieces), raw)

    def _origin(self, index: int, value: str, name: str) -> Origin:
        return Origin(self.places.of((*self._at, "env", index, "value")), value, name)


class Argv:
    """A container's command and args, in one line."""

    __slots__ = ("_at", "_command", "_places", "_raw", "_words", "texts")

    def __init__(self, container: Object, at: Pointer, environment: Environment) -> None:
        command, args = texts(container, "command", at), texts(container, "args", at)
        self._at = at
        self._places = environment.places
        self._command = len(command)
        self._raw = [*command, *args]
        self._words: dict[int, Word] = {}
        self.texts: list[str] = list(self._raw)
        for index, raw in enumerate(self._raw):
            if "$" in raw:
                origin = self._origin(index)
                word = environment.expand(raw, origin)._replace(after=Place(origin, None))
                self._words[index] = word
                self.texts[index] = word.text

    def word(self, index: int) -> Word:
        """The word at an index, with the places that its characters come from."""
        word = self._words.get(index)
        if word is None:
            origin, raw = self._origin(index), self._raw[index]
            word = self._words[index] = Word(raw, (Piece(raw, origin),), raw, Place(origin, None))
        return word

    def _origin(self, index: int) -> Origin:
        if index < self._command:
            return Origin(self._places.of((*self._at, "command", index)), self._raw[index])
        return Origin(self._places.of((*self._at, "args", index - self._command)), self._raw[index])
