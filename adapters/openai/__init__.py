"""Judges behind the OpenAI chat completions protocol."""

from benchtrial.adapters.openai.dialects import DIALECTS, RESERVED_FIELDS, Dialect, Provider
from benchtrial.adapters.openai.judge import OpenAICompatible
from benchtrial.adapters.openai.reply import read_reply, read_usage

__all__ = [
    "DIALECTS",
    "RESERVED_FIELDS",
    "Dialect",
    "OpenAICompatible",
    "Provider",
    "read_reply",
    "read_usage",
]
