"""What every design accepts: ids, counts and a seed, each refused in one readable sentence.

An id is a text or an integer, because it has to survive a trip through CSV, JSON and a database and
come back as itself. Two ids that are written alike (``1`` and ``"1"``) would merge on that trip, so
they are refused before anything is asked; ids that are merely similar (``"q1"`` and ``"q1 "``,
composed and decomposed accents) stay two ids everywhere. Sets are refused because their order
differs between processes, and a design must not.
"""

from collections.abc import Hashable, Iterable
from typing import TypeAlias

import numpy as np

from benchtrial.errors import DesignError

ItemId: TypeAlias = str | int
"""An id as designs return it: a text, or an integer."""

Seed: TypeAlias = int | np.random.Generator | np.random.SeedSequence
"""Where the randomness of a design comes from."""

ALLOWED_IDS = "an id is a text or an integer"


def generator(seed: object) -> np.random.Generator:
    """Return the random generator of a seed; a Generator is used as it is and moves on.

    Raises
    ------
    DesignError
        If the seed is missing, a boolean, negative or of another type: without one, the same call
        would give another design each time.
    """
    if isinstance(seed, np.random.Generator | np.random.SeedSequence):
        return np.random.default_rng(seed)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DesignError(
            f"seed: {seed!r} is not a seed; give an integer from 0, a numpy Generator or a "
            "SeedSequence, so that the design can be drawn again"
        )
    return np.random.default_rng(int(seed))


def as_count(value: object, what: str, *, least: int, most: int | None = None) -> int:
    """Return a whole number between two limits as a plain int.

    Raises
    ------
    DesignError
        If it is not a whole number or lies outside the limits; the message names the nearest
        valid choice.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DesignError(f"{what}: {value!r} is not a whole number; the smallest is {least}")
    if value < least:
        raise DesignError(f"{what}: {value} is too few; the nearest valid choice is {least}")
    if most is not None and value > most:
        raise DesignError(f"{what}: {value} is too many; the nearest valid choice is {most}")
    return int(value)


def as_ids(values: Iterable[Hashable], what: str, *, least: int) -> tuple[ItemId, ...]:
    """Return ids in the order given, as plain texts and integers.

    Parameters
    ----------
    values
        The ids: a list, tuple, range, mapping (its keys), array or pandas object.
    what
        What they are, in the plural, for the message: "items", "prompts".
    least
        The fewest that make sense.

    Raises
    ------
    DesignError
        For a single text, a set, an id of another type (None, booleans and floats among them), an
        empty id, two ids that are equal or written alike, or too few.
    """
    if isinstance(values, str | bytes | set | frozenset) or not isinstance(values, Iterable):
        raise DesignError(
            f"{what}: {type(values).__name__} is not a list of ids in a fixed order; "
            "give a list, such as sorted(…)"
        )
    ids = tuple(_as_id(value, f"{what}, number {place}") for place, value in enumerate(values, 1))
    seen: dict[str, int] = {}
    for place, identity in enumerate(ids):
        earlier = seen.setdefault(str(identity), place)
        if earlier != place:
            raise DesignError(
                f"{what}: number {earlier + 1} ({ids[earlier]!r}) and number {place + 1} "
                f"({identity!r}) are both written {str(identity)!r}; give each its own id"
            )
    if len(ids) < least:
        raise DesignError(f"{what}: {len(ids)} given; the nearest valid choice is {least}")
    return ids


def _as_id(value: Hashable, where: str) -> ItemId:
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | int | np.integer):
        raise DesignError(f"{where}: {value!r} is a {type(value).__name__}; {ALLOWED_IDS}")
    if isinstance(value, str) and not value.strip():
        raise DesignError(f"{where}: the id is empty; {ALLOWED_IDS}")
    return str(value) if isinstance(value, str) else int(value)
