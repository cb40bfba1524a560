"""What can be wrong with one judge, above all secrets where none belong."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchtrial.adapters.openai import RESERVED_FIELDS
from benchtrial.orchestrator.study import identity
from benchtrial.orchestrator.study.problems import SECRET_KEYS, listed, near_miss

if TYPE_CHECKING:
    from benchtrial.orchestrator.study.model import Study
    from benchtrial.orchestrator.study.specs import JudgeSpec

NEEDS_KEY = frozenset({"openai", "openrouter"})

# Names under which people look for settings that a judge has a key for.
ELSEWHERE = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "model": "model",
    "logprobs": "logprobs",
    "top_logprobs": "logprobs",
    "response_format": "structured",
    "structured_outputs": "structured",
    "grammar": "structured",
}

# By convention such names are upper case; keys of all known providers hold other characters.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")

# A name of a variable is short and made of words; a run of this many letters and digits is a key.
_KEY_LIKE = re.compile(r"(?=[A-Z0-9]*[0-9][A-Z0-9]*[0-9])[A-Z0-9]{16,}")


def problems_of_judge(study: "Study", judge: "JudgeSpec") -> Iterator[tuple[str, str]]:
    """Yield ``(key, what is wrong)``; what could be a secret is never shown."""
    yield from _address(judge)
    yield from _parameters(judge)
    yield from _form(study, judge)


def _address(judge: "JudgeSpec") -> Iterator[tuple[str, str]]:
    dialect = judge.dialect
    if dialect is None:
        if judge.base_url is not None or judge.key_env is not None:
            yield "base_url", f"a judge of provider {judge.provider!r} has no address and no key"
    else:
        if not judge.model:
            yield "model", "this key is missing; name the model as the provider spells it"
        if judge.base_url is None and dialect.base_url is None:
            yield (
                "base_url",
                f"{judge.provider} has no usual address; give the server's, "
                'such as "http://127.0.0.1:8080/v1"',
            )
        if judge.key_env is None and judge.provider in NEEDS_KEY:
            yield "key_env", "name the environment variable that holds the key"
    if judge.base_url is not None and (what := _unsafe_url(judge.base_url)):
        yield "base_url", what
    if judge.key_env is not None and (
        not _VARIABLE.fullmatch(judge.key_env) or _KEY_LIKE.fullmatch(judge.key_env)
    ):
        yield (
            "key_env",
            "must be the name of an environment variable, in capitals; this looks like the key "
            "itself (not shown): take it out of the file",
        )
    if (judge.provider == "simulated") != (judge.simulated is not None):
        yield (
            "simulated",
            "a simulated judge needs this table of its true parameters"
            if judge.simulated is None
            else f'only for provider = "simulated", not {judge.provider!r}',
        )


def _unsafe_url(url: str) -> str:
    """Say what is wrong with an address, without showing it: it may hold a secret."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not an address (not shown)"
    if "@" in parts.netloc:
        return (
            "holds a user name or password (not shown); take them out and name the environment "
            "variable of the key with key_env"
        )
    if parts.query or parts.fragment:
        return "holds a query or fragment (not shown), where secrets hide; end it after the path"
    if parts.scheme not in {"http", "https"} or not host or re.search(r"\s", url):
        return 'must be an http or https address, such as "https://host/v1"'
    return ""


def _parameters(judge: "JudgeSpec") -> Iterator[tuple[str, str]]:
    dialect = judge.dialect
    legal = dialect.capabilities.parameters if dialect else frozenset[str]()
    # A simulated judge takes them without effect, so that a study can be rehearsed as it stands.
    takes_any = judge.provider in {"recorded", "simulated"} or (
        dialect and dialect.capabilities.open_parameters
    )
    for name, value in judge.parameters.items():
        if name in RESERVED_FIELDS:
            key = ELSEWHERE.get(name)
            what = f"is set by the judge's key {key!r}" if key else "is not for a study to set"
            yield f"parameters.{name}", f"{what}; remove it here"
        elif name.casefold() in SECRET_KEYS:
            yield f"parameters.{name}", "looks like a secret (not shown); name it with key_env"
        elif name not in legal and not takes_any:
            yield (
                f"parameters.{name}",
                f"provider {judge.provider!r} has no such sampling parameter"
                + (near_miss(name, legal) or f"; it has: {listed(sorted(legal), 20)}"),
            )
        elif not _is_json(value):
            yield f"parameters.{name}", "must be finite"


def _is_json(value: object) -> bool:
    try:
        identity.canonical_json(value)
    except ValueError:
        return False
    return True


def _form(study: "Study", judge: "JudgeSpec") -> Iterator[tuple[str, str]]:
    if judge.structured == "choice" and study.kind == "batch":
        yield "structured", '"choice" gives one label; a batch needs "json_schema" or "grammar"'
    if study.analysis.outcomes == "probability" and study.kind == "pairs" and not judge.logprobs:
        yield "logprobs", 'analysis.outcomes = "probability" needs logprobs = true here'
