"""Read verdicts that another tool recorded into the comparisons table.

Nothing is guessed where two readings are possible: a column is taken by its name, a verdict by a
word that names a slot or a candidate, and what could be meant otherwise is refused with the line
that shows it. Ids stay text exactly as written (``007`` is not ``7``) and the displayed order is
never changed. Rows without a usable verdict are counted by reason, columns that cannot be used are
named, and two verdicts on one cell of the design are never merged without a word.

* ``source``: the file as it lies there, column by column;
* ``columns``: which column of the file is which column of the table;
* ``scores``: from the words of a verdict to the score of the response shown first;
* ``comparisons``: all of it together.
"""

from benchtrial.orchestrator.importers.comparisons import Imported, read_comparisons

__all__ = ["Imported", "read_comparisons"]
