"""How the servers of the chat completions protocol differ, as data.

The name of the output cap, the form of structured output, whether log-probabilities exist, and
which sampling parameters are known. Several of these servers ignore a field that they do not know
without a word, so what is not listed here is refused before it is sent.

Sources: the OpenAI API reference (chat completions); the documentation of vLLM, llama.cpp's server,
Ollama and OpenRouter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchtrial.adapters.judge import Capabilities

Provider = Literal["openai", "vllm", "llama.cpp", "ollama", "openrouter", "openai-compatible"]

# The request fields that belong to this adapter: a sampling parameter cannot replace them.
RESERVED_FIELDS = frozenset(
    {
        "grammar",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "n",
        "response_format",
        "stream",
        "stream_options",
        "structured_outputs",
        "top_logprobs",
    }
)

_COMMON = frozenset(
    {"frequency_penalty", "presence_penalty", "seed", "stop", "temperature", "top_p"}
)
_OPENAI = _COMMON | {
    "logit_bias",
    "metadata",
    "prompt_cache_key",
    "reasoning_effort",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
    "verbosity",
}
_LOCAL = _COMMON | {"min_p", "repeat_penalty", "top_k"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one family of servers departs from the others.

    Parameters
    ----------
    capabilities
        What it offers by default; a study can say otherwise.
    base_url
        Its usual address, or None if it has none.
    output_cap
        Name of the field for the cap on output tokens.
    extra
        Fields that every request carries.
    """

    capabilities: Capabilities
    base_url: str | None = None
    output_cap: str = "max_tokens"
    extra: Mapping[str, Any] | None = None


DIALECTS: Mapping[Provider, Dialect] = {
    "openai": Dialect(
        Capabilities("json_schema", logprobs=True, parameters=_OPENAI),
        base_url="https://api.openai.com/v1",
        output_cap="max_completion_tokens",
    ),
    "vllm": Dialect(
        Capabilities(
            "json_schema",
            logprobs=True,
            parameters=_COMMON
            | {
                "chat_template_kwargs",
                "length_penalty",
                "logit_bias",
                "min_p",
                "min_tokens",
                "reasoning_effort",
                "repetition_penalty",
                "stop_token_ids",
                "top_k",
            },
        ),
        base_url="http://localhost:8000/v1",
    ),
    "llama.cpp": Dialect(
        Capabilities(
            "grammar",
            logprobs=True,
            parameters=_LOCAL
            | {
                "cache_prompt",
                "chat_template_kwargs",
                "dynatemp_exponent",
                "dynatemp_range",
                "id_slot",
                "logit_bias",
                "mirostat",
                "mirostat_eta",
                "mirostat_tau",
                "repeat_last_n",
                "samplers",
                "typical_p",
                "xtc_probability",
                "xtc_threshold",
            },
        ),
        base_url="http://127.0.0.1:8080/v1",
    ),
    "ollama": Dialect(
        # Its chat endpoint reads only the common parameters and silently ignores every other.
        Capabilities("json_schema", parameters=_COMMON | {"reasoning_effort"}),
        base_url="http://localhost:11434/v1",
    ),
    "openrouter": Dialect(
        Capabilities(
            "json_schema",
            logprobs=True,
            parameters=_OPENAI | _LOCAL | {"provider", "reasoning", "repetition_penalty", "top_a"},
        ),
        base_url="https://openrouter.ai/api/v1",
        # Otherwise it drops a parameter that the serving provider does not know, without a word.
        extra={"provider": {"require_parameters": True}},
    ),
    "openai-compatible": Dialect(Capabilities(open_parameters=True)),
}
