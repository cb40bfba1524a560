"""How a judge may spell the labels it was given.

Labels are matched as whole tokens and the longest first, so that CORRECT is never read out of
INCORRECT, SUCCESS out of NOT SUCCESS, or A out of "A great answer". In prose a label counts only
behind a noun ("Response 2", "Assistant B's answer", "the first draft"); slots may then go by the
usual letters, numbers and ordinals, as long as none of them is another label.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

# What judges call that which they compare.
# "Option" and "choice" are left out: questions have options of their own.
NOUNS = (
    "assistant|response|answer|output|model|candidate|system|draft|reply|text|version|"
    "solution|completion|summary|translation|submission|essay|story|chatbot"
)
ORDINALS = ("first", "second")
TIE_WORDS = ("tie", "tied", "draw", "equal", "a tie", "a draw")

# One character for one character, so that offsets into the reply stay true.
_PLAIN = str.maketrans(
    {
        "*": " ",
        "`": " ",
        "\u00a0": " ",
        "\u202f": " ",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\uff1a": ":",
        "\u3010": "[",
        "\u3011": "]",
        "\u2212": "-",
        "\r": " ",
    }
)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_EDGES = " \t\n\"'.,:;!()[]<>#"


def plain(text: str) -> str:
    """Return ``text`` without emphasis, typographic quotes and reasoning, every offset kept."""
    text = _THOUGHT.sub(lambda thought: " " * len(thought[0]), text)
    return text.translate(_PLAIN)


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where one label is meant; ``index`` counts the answer's labels from 0.

    ``index`` is -1 for a tie where no tie is allowed.
    """

    index: int
    start: int
    end: int


@dataclass(frozen=True)
class Labels:
    """The labels of one answer and their patterns.

    Parameters
    ----------
    names
        Labels as the study spells them.
    slots
        Whether they stand for slot A, slot B and a tie, which go by other names too.
    """

    names: tuple[str, ...]
    slots: bool = True

    @cached_property
    def folds(self) -> bool:
        """Whether case can be ignored: not for ``m`` and ``M``."""
        return len({name.casefold() for name in self.names}) == len(self.names)

    @cached_property
    def tie(self) -> int:
        """Index of the tie, -1 if none is allowed."""
        return 2 if self.slots and len(self.names) > 2 else -1

    @cached_property
    def _index(self) -> dict[str, int]:
        return {self._key(name): index for index, name in enumerate(self.names)}

    @cached_property
    def _spoken(self) -> dict[str, int]:
        """Further names of slots and tie that are legal behind a noun."""
        if not self.slots:
            return {}
        taken = {name.casefold() for name in self.names}
        names = dict.fromkeys(("a", "1", "one"), 0) | dict.fromkeys(("b", "2", "two"), 1)
        return {name: index for name, index in names.items() if name not in taken}

    def _key(self, name: str) -> str:
        name = " ".join(name.split())
        return name.casefold() if self.folds else name

    @cached_property
    def pattern(self) -> str:
        """Any label as a whole token, as a named group ``label``."""
        return f"(?P<label>{_tokens(self.names)})"

    @cached_property
    def flags(self) -> re.RegexFlag:
        """Flags for patterns that hold labels."""
        return re.IGNORECASE if self.folds else re.RegexFlag(0)

    def index(self, spelled: str) -> int | None:
        """Return the index of a label spelled so, or None."""
        return self._index.get(self._key(spelled))

    def exact(self, text: str) -> Mention | None:
        """Return the label that ``text`` consists of, save for edges such as quotes and stops."""
        for edges in ("", _EDGES):
            stripped = text.strip() if not edges else text.strip(edges)
            index = self.index(stripped)
            if index is not None:
                start = text.index(stripped)
                return Mention(index, start, start + len(stripped))
        mention = self._named.fullmatch(text.strip(_EDGES + " ")) or self._named.fullmatch(
            text.strip()
        )
        if mention is None:
            return None
        found = self._mention(mention)
        offset = text.index(mention[0])
        return Mention(found.index, offset + found.start, offset + found.end)

    @cached_property
    def _named(self) -> re.Pattern[str]:
        """A label behind a noun, or an ordinal before one."""
        spoken = _tokens((*self.names, *self._spoken))
        ordinals = "|".join(ORDINALS) if self.slots else "(?!)"
        behind = rf"\b(?i:{NOUNS})(?i:s)?(?:[\s_]*(?i:no\.?|number|\#))?[\s_\[(\"']*"
        return re.compile(
            rf"(?:{behind}(?P<spoken>{spoken})[\])]*"
            rf"|\b(?i:the\s+)?(?P<ordinal>(?i:{ordinals}))\s+(?i:{NOUNS}|one)\b)",
            self.flags,
        )

    @cached_property
    def _bracketed(self) -> re.Pattern[str]:
        return re.compile(rf"\[\s{{0,9}}{self.pattern}\s{{0,9}}\]", self.flags)

    @cached_property
    def _bare(self) -> re.Pattern[str]:
        # One or two letters are words of prose too ("a", "m"), so that their case must agree; bare
        # digits are counts, and never mentions.
        names = [name for name in self.names if not name.strip().isdigit()]
        short = _tokens([name for name in names if len(name) <= 2])
        long = _tokens([name for name in names if len(name) > 2])
        return re.compile(rf"(?P<short>{short})|(?P<label>{long})", re.RegexFlag(0))

    def bracketed(self, text: str, start: int, end: int) -> list[Mention]:
        """Return labels in brackets within a stretch of ``text``."""
        return [self._mention(found) for found in self._bracketed.finditer(text, start, end)]

    def named(self, text: str, start: int, end: int) -> Iterator[Mention]:
        """Yield labels behind a noun or in brackets within a stretch of ``text``."""
        seen: set[int] = set()
        for found in (
            *self._bracketed.finditer(text, start, end),
            *self._named.finditer(text, start, end),
        ):
            mention = self._mention(found)
            if mention.start not in seen:
                seen.add(mention.start)
                yield mention

    def mentions(self, text: str, start: int, end: int) -> list[Mention]:
        """Return all labels within a stretch of ``text``, in order, bare ones included."""
        found = {mention.start: mention for mention in self.named(text, start, end)}
        for bare in self._bare.finditer(text, start, end):
            index = self.index(bare[0])
            if index is not None:
                found.setdefault(bare.start(), Mention(index, bare.start(), bare.end()))
        return sorted(found.values(), key=lambda mention: mention.start)

    def at(self, text: str, start: int) -> Mention | None:
        """Return the label that begins at ``start``, with or without noun, brackets or quotes."""
        if (named := self._named.match(text, start)) is not None:
            return self._mention(named)
        found = self._opening.match(text, start)
        if found is None:
            return None
        if found["tie"] is not None:
            return Mention(self.tie, found.start("tie"), found.end("tie"))
        index = self.index(found["label"])
        return None if index is None else Mention(index, found.start("label"), found.end("label"))

    @cached_property
    def _opening(self) -> re.Pattern[str]:
        taken = {name.casefold() for name in self.names}
        ties = _tokens([word for word in TIE_WORDS if self.slots and word not in taken])
        return re.compile(rf"[\[(\"'\s]*(?:(?P<tie>(?i:{ties}))|{self.pattern})", self.flags)

    def _mention(self, found: re.Match[str]) -> Mention:
        groups = found.groupdict()
        if groups.get("ordinal"):
            index = ORDINALS.index(groups["ordinal"].lower())
            return Mention(index, found.start("ordinal"), found.end("ordinal"))
        name = "spoken" if groups.get("spoken") else "label"
        spelled = found[name]
        known = self.index(spelled)
        if known is None:
            known = self._spoken[spelled.casefold()]
        return Mention(known, found.start(name), found.end(name))


def _tokens(names: Sequence[str]) -> str:
    """Pattern of any of ``names`` as a whole token, the longest first; matches nothing for none."""
    if not names:
        return r"(?!)"
    return "|".join(_token(name) for name in sorted(names, key=len, reverse=True))


def _token(name: str) -> str:
    words = r"\s+".join(re.escape(word) for word in name.split())
    # An underscore joins noun and label ("answer_b") and does not make a word of them.
    before = r"(?<![^\W_])(?<!\d[.,/:-])" if re.match(r"\w", name) else ""
    # Not the beginning of a word, a decimal, a fraction, a grade or a language (C#, C++).
    after = r"(?![^\W_])(?![.,/:]\d)(?![-+#]\w)(?![%+#])" if re.search(r"\w\Z", name) else ""
    return f"{before}{words}{after}"
