"""One judge call: a request goes in, a reply comes out.

``judge`` says what passes; ``openai`` asks real models, ``recorded`` repeats what was once said,
``simulated`` draws from known parameters. ``transport`` is the only part that touches the network;
nothing of it is loaded until a judge is asked over the network.
"""

from benchtrial.adapters.judge import (
    Answer,
    BatchCell,
    Capabilities,
    Cell,
    ChoiceAnswer,
    Judge,
    Message,
    PairCell,
    RatingsAnswer,
    Reply,
    Request,
    Role,
    StopReason,
    StructuredForm,
    Token,
    Usage,
)
from benchtrial.adapters.keys import Secret, key_from_environment, redact, scrub
from benchtrial.adapters.openai import DIALECTS, OpenAICompatible, Provider
from benchtrial.adapters.pricing import Price
from benchtrial.adapters.recorded import RecordedJudge
from benchtrial.adapters.simulated import (
    PAPER_JUDGES,
    MarkovParameters,
    SimulatedBatchJudge,
    SimulatedPairJudge,
)
from benchtrial.adapters.structured import answer_grammar, answer_schema, rating_keys
from benchtrial.adapters.transport import RetryPolicy, retrying

__all__ = [
    "DIALECTS",
    "PAPER_JUDGES",
    "Answer",
    "BatchCell",
    "Capabilities",
    "Cell",
    "ChoiceAnswer",
    "Judge",
    "MarkovParameters",
    "Message",
    "OpenAICompatible",
    "PairCell",
    "Price",
    "Provider",
    "RatingsAnswer",
    "RecordedJudge",
    "Reply",
    "Request",
    "RetryPolicy",
    "Role",
    "Secret",
    "SimulatedBatchJudge",
    "SimulatedPairJudge",
    "StopReason",
    "StructuredForm",
    "Token",
    "Usage",
    "answer_grammar",
    "answer_schema",
    "key_from_environment",
    "rating_keys",
    "redact",
    "retrying",
    "scrub",
]
