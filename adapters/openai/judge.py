"""A judge behind the OpenAI chat completions protocol.

``OpenAICompatible`` speaks to OpenAI, vLLM, llama.cpp, Ollama, OpenRouter and any other server of
``POST {base_url}/chat/completions``. A parameter is sent exactly as the study gives it, or refused;
it is never dropped, because a judge at another temperature is another judge.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchtrial.adapters.judge import Capabilities, ChoiceAnswer, Reply, Request, StructuredForm
from benchtrial.adapters.keys import Secret
from benchtrial.adapters.openai.dialects import DIALECTS, RESERVED_FIELDS, Provider
from benchtrial.adapters.openai.reply import read_reply
from benchtrial.adapters.structured import answer_grammar, answer_schema
from benchtrial.adapters.tokens import input_bytes
from benchtrial.adapters.transport.client import DEFAULT_CONNECTIONS, HttpClient
from benchtrial.errors import InputError


class OpenAICompatible:
    """A model behind ``POST {base_url}/chat/completions``.

    Parameters
    ----------
    name
        Id of the judge, for error messages.
    model
        Name of the model as the server knows it.
    provider
        Which dialect the server speaks.
    base_url
        Address up to and including ``/v1``; by default the provider's usual one.
    key
        The key, if the server wants one.
    timeout_s
        Time limit of an attempt in seconds; None is the default of 120 s, never "no limit".
    capabilities
        What the judge can do, where that differs from the dialect's default.
    connections
        Number of requests under way at once.
    clock
        Seconds since the epoch, for waits that a server names as a date.

    Raises
    ------
    InputError
        If the base URL is missing, malformed or carries a credential.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        provider: Provider = "openai-compatible",
        base_url: str | None = None,
        key: Secret | None = None,
        timeout_s: float | None = None,
        capabilities: Capabilities | None = None,
        connections: int = DEFAULT_CONNECTIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if provider not in DIALECTS:
            raise InputError(f"judge {name!r}: provider {provider!r} is not one of {[*DIALECTS]}")
        dialect = DIALECTS[provider]
        address = base_url or dialect.base_url
        if address is None:
            raise InputError(f"judge {name!r}: provider {provider!r} needs a base_url")
        self.name = name
        self.model = model
        self._dialect = dialect
        self._capabilities = capabilities or dialect.capabilities
        self._clock = clock
        self._http = HttpClient(
            address,
            who=f"judge {name!r} ({model})",
            secret_headers={} if key is None else {"Authorization": key.prefixed("Bearer ")},
            timeout_s=timeout_s,
            connections=connections,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this judge can do."""
        return self._capabilities

    def input_tokens_at_most(self, request: Request) -> int:
        """Bound the input tokens by bytes, the schema of the answer included."""
        structure = _structure(request, self._capabilities.structured)
        return input_bytes(request, structure=json.dumps(structure) if structure else "")

    async def ask(self, request: Request) -> Reply:
        """Make one attempt, which is one HTTP request.

        Raises
        ------
        InputError
            If the study sets a parameter that this judge does not take.
        RateLimited, TransientError, RequestRefused, JudgeUnavailable
            See ``benchtrial.adapters.faults``.
        """
        response = await self._http.post_json("/chat/completions", self.body(request))
        return read_reply(response, who=self._http.who, now=self._clock())

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self._http.close()

    def body(self, request: Request) -> dict[str, Any]:
        """Compose the body that ``ask`` sends.

        Raises
        ------
        InputError
            If the study sets a parameter that this judge does not take.
        """
        for parameter in request.parameters:
            if parameter in RESERVED_FIELDS or not self._capabilities.accepts(parameter):
                raise InputError(
                    f"judge {self.name!r}: {parameter!r} is not a sampling parameter that it "
                    f"takes; it takes {', '.join(sorted(self._capabilities.parameters)) or 'none'}"
                )
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": turn.role, "content": turn.text} for turn in request.messages],
            self._dialect.output_cap: request.max_output_tokens,
            **request.parameters,
            **_merged(self._dialect.extra or {}, request.parameters),
            **_structure(request, self._capabilities.structured),
        }
        if request.logprobs > 0:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        return body


def _merged(fields: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dialect's own fields, completed or overruled by the study's parameters."""
    merged = {}
    for name, value in fields.items():
        given = parameters.get(name, value)
        both = isinstance(value, Mapping) and isinstance(given, Mapping)
        merged[name] = {**value, **given} if both else given
    return merged


def _structure(request: Request, form: StructuredForm) -> dict[str, Any]:
    """Return the request fields that hold the judge to the answer's form."""
    answer = request.answer
    if form == "grammar":
        return {"grammar": answer_grammar(answer)}
    if form == "json_schema":
        schema = {"name": "verdict", "strict": True, "schema": answer_schema(answer)}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if form == "choice" and isinstance(answer, ChoiceAnswer):
        return {"structured_outputs": {"choice": list(answer.labels)}}
    if form == "choice":
        return {"structured_outputs": {"json": answer_schema(answer)}}
    return {}
