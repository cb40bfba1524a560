"""From a table of comparisons to integer codes, once, with every fault named.

A comparison is a record *in displayed order*: judge, prompt, the candidate shown first, the
candidate shown second, and the slot-A score of the verdict (1 for the first, 0 for the second, 1/2
for a tie, anything between for a probability). Records never lose their order: a record that was
relabelled so that the winner comes first carries no trace of a position effect, and no model can
bring it back.

Everything that can be wrong with such a table is found here, before any model sees it. What makes
the numbers meaningless is a :class:`~benchtrial.errors.DataError`; what merely deserves attention
is a note, which ends up in the warnings of the fit.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.covariates import (
    ROWS_NAMED,
    lacking_terms,
    length_ratio,
    named_rows,
    read_families,
)

REQUIRED = ("judge", "prompt", "first", "second")
#: Scores of a three-way verdict; any other outcome is a probability.
VERDICT_SCORES = (0.0, 0.5, 1.0)
#: Integer ids that span no more than this (and a few times the rows) are looked up, not hashed.
SPAN = 1_000_000
SPAN_PER_ROW = 4


@dataclass(frozen=True, eq=False)
class Comparisons:
    """A checked table of comparisons as integer codes.

    Attributes
    ----------
    judges, candidates, prompts
        Labels in the user's own ids, sorted where they can be sorted.
    judge, prompt, first, second
        Codes into those labels, one per record.
    outcome
        Slot-A scores in [0, 1].
    length_ratio
        log((length of first + 1) / (length of second + 1)) per record, or None without lengths.
    same_family
        (judges x candidates) indicator that both are of one family, or None without families.
    judge_families, candidate_families
        Family of each judge and candidate, aligned with the labels; empty without families.
    human
        Which judges are people; they are fitted and never averaged into a panel.
    weight
        How often each record counts (its prompt's multiplicity), or None for once each.
    repetition
        Number of the repetition per record, or None if the table does not tell them apart.
    lacking
        Why a term cannot be fitted to this table, for each such term.
    notes
        What the reader should know about the table.
    """

    judges: pd.Index
    candidates: pd.Index
    prompts: pd.Index
    judge: Ints
    prompt: Ints
    first: Ints
    second: Ints
    outcome: Floats
    length_ratio: Floats | None = None
    same_family: npt.NDArray[np.bool_] | None = None
    judge_families: tuple[Hashable, ...] = ()
    candidate_families: tuple[Hashable, ...] = ()
    human: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    weight: Floats | None = None
    repetition: Ints | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.judge)

    @property
    def size(self) -> float:
        """Number of comparisons, each counted as often as it is weighted."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    @property
    def clusters(self) -> int:
        """Number of prompts with a verdict."""
        return int(np.count_nonzero(np.bincount(self.prompt, minlength=len(self.prompts))))

    @property
    def repeated(self) -> int:
        """Count records beyond the first with one judge, prompt, displayed order and repetition."""
        size = len(self.candidates)
        key = ((self.prompt * len(self.judges) + self.judge) * size + self.first) * size
        key += self.second
        if self.repetition is not None and len(self):
            key = key * (int(self.repetition.max()) + 1) + self.repetition
        key.sort()
        return int(np.count_nonzero(key[1:] == key[:-1]))

    @property
    def fractional(self) -> bool:
        """Whether some outcome is a probability rather than a verdict."""
        return not bool(np.isin(self.outcome, VERDICT_SCORES).all())

    def subset(self, rows: npt.NDArray[np.bool_] | Ints) -> "Comparisons":
        """Keep some records, with all labels."""
        return replace(
            self,
            judge=self.judge[rows],
            prompt=self.prompt[rows],
            first=self.first[rows],
            second=self.second[rows],
            outcome=self.outcome[rows],
            length_ratio=None if self.length_ratio is None else self.length_ratio[rows],
            weight=None if self.weight is None else self.weight[rows],
            repetition=None if self.repetition is None else self.repetition[rows],
        )

    def reweighted(self, multiplicity: Floats) -> "Comparisons":
        """Count each prompt ``multiplicity[prompt]`` times; one counted zero times is left out.

        A weighted table stands for the resampled one: bootstrap draws are weights, so that no
        record is ever copied.
        """
        weight = multiplicity[self.prompt]
        if self.weight is not None:
            weight = weight * self.weight
        return replace(self, weight=weight).subset(weight > 0)


def encode(frame: pd.DataFrame) -> Comparisons:
    """Check a comparisons table and turn it into codes.

    Parameters
    ----------
    frame
        Columns ``judge, prompt, first, second, outcome`` and optionally ``first_length``,
        ``second_length`` (Unicode characters), ``first_family``, ``second_family``,
        ``judge_family``, ``repetition``, ``kind`` (``model`` or ``human``) and ``criterion``.

    Raises
    ------
    DataError
        If a column is missing, a label is empty, a candidate meets itself, an outcome is outside
        [0, 1], a length is negative, or a candidate or judge has two families.
    """
    _require_columns(frame, (*REQUIRED, "outcome"))
    _require_one_criterion(frame)
    outcome, answered = _outcomes(frame)
    notes: list[str] = []
    judges_asked = set(frame["judge"].unique()) if not answered.all() else set()
    if not answered.all():
        notes.append(
            f"{int((~answered).sum())} of {len(frame)} rows have no verdict and are left out"
        )
        frame, outcome = frame[answered], outcome[answered]
    if frame.empty:
        raise DataError("the comparisons table holds no verdict; there is nothing to fit")
    judge, judges = _codes(frame["judge"])
    prompt, prompts = _codes(frame["prompt"], keep_order=True)
    first, second, candidates = _candidate_codes(frame)
    if silent := sorted(map(str, judges_asked - set(judges))):
        notes.append(f"no valid verdict from {', '.join(silent)}: left out of the fit")
    if len(prompts) == 1:
        notes.append(
            "one prompt only: no prompt-cluster covariance, intervals need covariance='model'"
        )
    if len(judges) == 1:
        notes.append(f"one judge only: win probabilities are those of {judges[0]}")
    families = read_families(frame, judge, first, second, judges, candidates)
    same, of_judge, of_candidate = families or (None, (), ())
    ratio = length_ratio(frame)
    return Comparisons(
        judges=judges,
        candidates=candidates,
        prompts=prompts,
        judge=judge,
        prompt=prompt,
        first=first,
        second=second,
        outcome=outcome,
        length_ratio=ratio,
        same_family=same,
        judge_families=of_judge,
        candidate_families=of_candidate,
        lacking=lacking_terms(frame, ratio),
        human=_human(frame, judge, len(judges)),
        repetition=_repetitions(frame),
        notes=tuple(notes),
    )


def encode_like(frame: pd.DataFrame, fitted: Comparisons) -> Comparisons:
    """Turn new records into the codes of a fitted table; outcomes are not needed.

    Raises
    ------
    DataError
        If a judge or candidate is new, or the columns of the table are faulty.
    """
    _require_columns(frame, REQUIRED)
    codes: dict[str, Ints] = {}
    known = {"judge": fitted.judges, "first": fitted.candidates, "second": fitted.candidates}
    for column, labels in known.items():
        code = labels.get_indexer(pd.Index(frame[column]))
        if (code < 0).any():
            new = sorted({str(label) for label in frame[column][code < 0]})
            raise DataError(
                f"column {column!r} names {', '.join(new[:ROWS_NAMED])}, which the fit has not "
                "seen; fit a table that holds it"
            )
        codes[column] = code
    return replace(
        fitted,
        judge=codes["judge"],
        first=codes["first"],
        second=codes["second"],
        prompt=np.zeros(len(frame), dtype=np.intp),
        outcome=np.full(len(frame), np.nan),
        length_ratio=length_ratio(frame),
        weight=None,
        repetition=None,
        notes=(),
    )


def resampled_prompts(part: npt.NDArray[np.intp], generator: np.random.Generator) -> Floats:
    """Draw prompts with replacement within each part; return each prompt's multiplicity."""
    multiplicity = np.zeros(len(part))
    for number in np.unique(part):
        members = np.flatnonzero(part == number)
        drawn = generator.choice(members, size=len(members))
        multiplicity += np.bincount(drawn, minlength=len(part))
    return multiplicity


# What a table must satisfy ---------------------------------------------------------------------


def _require_columns(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    if missing := [column for column in columns if column not in frame.columns]:
        raise DataError(
            f"the comparisons table lacks the column(s) {', '.join(missing)}; it needs "
            f"{', '.join(columns)} (one row per verdict, in displayed order)"
        )
    for column in REQUIRED:
        empty = frame[column].isna().to_numpy()
        if empty.any():
            raise DataError(f"column {column!r} is empty in {named_rows(frame, empty)}")


def _require_one_criterion(frame: pd.DataFrame) -> None:
    if "criterion" in frame.columns and len(frame["criterion"].unique()) > 1:
        names = ", ".join(sorted(map(str, frame["criterion"].unique())))
        raise DataError(
            f"the table holds several criteria ({names}); fit one: "
            "comparisons[comparisons.criterion == ...]"
        )


def _outcomes(frame: pd.DataFrame) -> tuple[Floats, npt.NDArray[np.bool_]]:
    try:
        outcome = frame["outcome"].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(
            "column 'outcome' must hold numbers: 1 if the first response won, 0 if the second "
            f"did, 0.5 for a tie ({error})"
        ) from None
    answered = ~np.isnan(outcome)
    outside = answered & ~((outcome >= 0) & (outcome <= 1))
    if outside.any():
        raise DataError(
            f"column 'outcome' is outside [0, 1] in {named_rows(frame, outside)}; it is the slot-A "
            "score: 1 if the first response won, 0 if the second did, 0.5 for a tie"
        )
    return outcome, answered


def _codes(column: pd.Series, *, keep_order: bool = False) -> tuple[Ints, pd.Index]:
    """Factorize, with sorted labels where labels can be compared."""
    if pd.api.types.is_integer_dtype(column.dtype):
        values = column.to_numpy(dtype=np.int64)
        low, high = int(values.min()), int(values.max())
        if high - low < SPAN_PER_ROW * len(values) + SPAN:
            return _small_integer_codes(values, low, high)
    code, found = pd.factorize(column)
    labels: pd.Index = pd.Index(found)
    if keep_order:
        return code, labels
    ordered = _sorted(labels)
    positions: Ints = ordered.get_indexer(labels)
    return positions[code], ordered


def _small_integer_codes(
    values: npt.NDArray[np.int64], low: int, high: int
) -> tuple[Ints, pd.Index]:
    """Factorize integers of a small span by looking them up, which is faster than hashing."""
    shifted = values.astype(np.intp) - low
    present = np.zeros(high - low + 1, dtype=bool)
    present[shifted] = True
    labels: pd.Index = pd.Index(np.flatnonzero(present) + low)
    return (np.cumsum(present) - 1)[shifted], labels


def _candidate_codes(frame: pd.DataFrame) -> tuple[Ints, Ints, pd.Index]:
    first, first_labels = _codes(frame["first"], keep_order=True)
    second, second_labels = _codes(frame["second"], keep_order=True)
    candidates = _sorted(pd.Index([*first_labels, *second_labels]).unique())
    first = candidates.get_indexer(first_labels)[first]
    second = candidates.get_indexer(second_labels)[second]
    itself: npt.NDArray[np.bool_] = np.equal(first, second)
    if itself.any():
        raise DataError(
            f"a candidate is compared with itself in {named_rows(frame, itself)}; remove these rows"
        )
    return first, second, candidates


def _sorted(labels: pd.Index) -> pd.Index:
    """Order labels if they can be compared, else keep the order of appearance."""
    try:
        ordered = sorted(labels)
    except TypeError:
        ordered = list(labels)
    labelled: pd.Index = pd.Index(ordered)
    return labelled


def _repetitions(frame: pd.DataFrame) -> Ints | None:
    if "repetition" not in frame.columns:
        return None
    codes, _ = pd.factorize(frame["repetition"], use_na_sentinel=False)
    return codes


def _human(frame: pd.DataFrame, judge: Ints, judges: int) -> npt.NDArray[np.bool_]:
    human = np.zeros(judges, dtype=bool)
    if "kind" in frame.columns:
        human[judge[(frame["kind"] == "human").to_numpy()]] = True
    return human
