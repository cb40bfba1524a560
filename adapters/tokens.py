"""An upper bound on input tokens for judges whose tokenizer is not at hand.

Byte-level tokenizers never make more tokens than there are bytes, and those that split characters
further fall back to bytes, so the bytes of the texts bound the tokens of the texts. What the
provider adds around them (role marks, a default system prompt, the schema of the answer) is bounded
by allowances.
"""

from benchtrial.adapters.judge import Request

# Role marks and separators of a chat template: at most 7 tokens per turn in the templates we know.
TURN_ALLOWANCE = 16

# Begin-of-text, the generation prompt, and default system prompts such as "Cutting Knowledge Date:
# …" or "You are a helpful AI assistant …", the longest of which we know has 43 tokens.
REQUEST_ALLOWANCE = 96


def input_bytes(request: Request, *, structure: str = "") -> int:
    """Bound the input tokens of ``request`` by bytes.

    ``structure`` is whatever else the provider counts as input, such as the JSON schema.
    """
    texts = sum(len(turn.text.encode("utf-8", "surrogatepass")) for turn in request.messages)
    return (
        texts
        + TURN_ALLOWANCE * len(request.messages)
        + REQUEST_ALLOWANCE
        + len(structure.encode("utf-8", "surrogatepass"))
    )
