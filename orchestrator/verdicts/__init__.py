"""What a reply says, and by which rule we read it so."""

from benchtrial.orchestrator.verdicts.parse import failure, parse
from benchtrial.orchestrator.verdicts.verdict import PARSER_VERSION, State, Verdict

__all__ = ["PARSER_VERSION", "State", "Verdict", "failure", "parse"]
