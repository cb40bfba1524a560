"""Which column of a file is which column of the comparisons table."""

from collections.abc import Mapping, Sequence

from benchtrial.errors import DataError
from benchtrial.orchestrator.importers.source import PLUS, Source
from benchtrial.orchestrator.study.problems import listed, unknown

# Column of the comparisons table -> the names it goes by elsewhere. The project's own name, which
# comes first, wins over any other.
COLUMNS: Mapping[str, Sequence[str]] = {
    "judge": ("judge",),
    "prompt": ("prompt", "prompt_id", "question_id"),
    "first": ("first", "candidate_a", "model_a"),
    "second": ("second", "candidate_b", "model_b"),
    "outcome": ("outcome", "verdict", "winner"),
    "first_length": ("first_length", "len_a"),
    "second_length": ("second_length", "len_b"),
    "first_family": ("first_family",),
    "second_family": ("second_family",),
    "judge_family": ("judge_family",),
    "repetition": ("repetition",),
    "criterion": ("criterion",),
    "kind": ("kind",),
}
IDS = ("judge", "prompt", "first", "second")
REQUIRED = (*IDS, "outcome")
OPTIONAL = tuple(name for name in COLUMNS if name not in REQUIRED)
LENGTHS = ("first_length", "second_length")
# Columns that say something only together: an effect of length needs both lengths.
TOGETHER = (LENGTHS, ("first_family", "second_family", "judge_family"))


def taken_columns(source: Source, named: Mapping[str, str]) -> dict[str, str]:
    """Decide which column of the file is taken for each column of the table.

    Parameters
    ----------
    named
        What the user said; it wins over any name in the file.

    Raises
    ------
    DataError
        If a column is missing, could be either of two, or is named and not there.
    """
    for name, column in named.items():
        if name not in COLUMNS:
            raise DataError(unknown(name, COLUMNS, "column of the comparisons table called"))
        joined = name in IDS and column not in source.columns
        for part in column.split(PLUS) if joined else [column]:
            source.require(part)
    taken = {}
    for name, aliases in COLUMNS.items():
        present = [alias for alias in aliases if alias in source.columns]
        if name in named:
            taken[name] = named[name]
        elif len(present) > 1 and name not in present:
            raise DataError(
                f"{source.name}: the {name} could be any of the columns {listed(present)}; "
                f"say which (--column {name}={present[0]})"
            )
        elif present:
            taken[name] = present[0]
    missing = [name for name in REQUIRED if name not in taken]
    if missing:
        wanted = "; ".join(" or ".join(COLUMNS[name]) for name in missing)
        raise DataError(
            f"{source.name}: there is no column {wanted}; the columns are: "
            f"{listed(source.columns, at_most=20)}. Rename one, or say which it is "
            f"(--column {missing[0]}=COLUMN)"
        )
    return taken
