"""From a design cell to the words that a judge reads, and to the request that carries them.

A template is filled in one pass: placeholders are found in the template alone, so that braces,
template syntax or forged placeholders inside the material reach the judge byte for byte and are
never filled again. Each text that somebody else wrote (prompt, answers, items) stands between an
opening and a closing tag that carry a code::

    <answer_a 4f1c09be77d2>
    …
    </answer_a 4f1c09be77d2>

The code is a hash of the seed, of every text that is shown, and of the cell. A text that wanted to
close its own fence would have to contain a hash of itself; and should one ever contain the code,
the next code is taken. The same study asks the same cell in the same words on every run.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchtrial.adapters.judge import (
    Answer,
    BatchCell,
    Cell,
    ChoiceAnswer,
    Message,
    PairCell,
    RatingsAnswer,
    Request,
    Role,
)
from benchtrial.orchestrator.study import JudgeSpec, Study, sha256_of
from benchtrial.orchestrator.study.template import PLACEHOLDER, reply_instruction

# 48 bits: beyond guessing for a text written before the study, and few tokens per fence.
CODE_DIGITS = 12


def render(study: Study, cell: Cell) -> tuple[Message, ...]:
    """Return the conversation that the judge of ``cell`` reads.

    Parameters
    ----------
    study
        The study that ``cell`` belongs to.
    cell
        Who is shown where, to which judge, under which criterion.

    Raises
    ------
    KeyError
        If the cell names something that the study does not hold.
    """
    values = _values(study, cell)
    reply = study.template.reply
    if reply == "auto":
        reply = reply_instruction(study.kind, study.judge(cell.judge).structured_form)
    turns = [(turn.role, turn.text) for turn in study.template.turns]
    if reply:
        role, last = turns[-1]
        turns[-1] = (role, f"{last}\n\n{reply}")
    messages = [Message(role, _fill(text, values)) for role, text in turns]
    if study.template.system:
        system: Role = "system"
        messages.insert(0, Message(system, _fill(study.template.system, values)))
    return tuple(messages)


def build_request(study: Study, judge: JudgeSpec, cell: Cell) -> Request:
    """Return the question about ``cell``, with its deterministic key.

    Raises
    ------
    KeyError
        If the cell names something that the study does not hold.
    """
    messages = render(study, cell)
    answer = answer_to(study, cell)
    return Request(
        key=query_key(judge, cell, messages, answer),
        cell=cell,
        messages=messages,
        answer=answer,
        max_output_tokens=judge.max_output_tokens,
        parameters=dict(judge.parameters),
        logprobs=judge.logprobs,
    )


def answer_to(study: Study, cell: Cell) -> Answer:
    """Return what a valid answer to ``cell`` looks like."""
    spec = study.answer
    if isinstance(cell, PairCell):
        return ChoiceAnswer(spec.labels)
    return RatingsAnswer(len(cell.items), spec.labels, spec.scale, spec.integer)


def query_key(judge: JudgeSpec, cell: Cell, messages: Sequence[Message], answer: Answer) -> str:
    """Return the SHA-256 of everything that the verdict can depend on, and of nothing else.

    That is the design cell, the rendered conversation, the model, the sampling parameters, the cap
    on the reply, and the form the reply is held to (with the labels it allows); never a key, an
    address, a timeout or the number of requests in flight.
    """
    form = judge.structured_form
    return sha256_of(
        {
            "cell": {"kind": type(cell).__name__, **asdict(cell)},
            "messages": [asdict(message) for message in messages],
            "model": judge.model,
            "parameters": judge.parameters,
            "max_output_tokens": judge.max_output_tokens,
            "structured": {"form": form, "answer": None if form == "none" else asdict(answer)},
        }
    )


def fence(name: str, text: str, code: str) -> str:
    """Return ``text``, byte for byte, between tags that carry ``code``."""
    return f"<{name} {code}>\n{text}\n</{name} {code}>"


def _values(study: Study, cell: Cell) -> dict[str, str]:
    """Map each placeholder of a template to what it stands for in this cell."""
    criterion = study.criterion(cell.criterion)
    common = {
        "criterion": criterion.id,
        "rubric": criterion.rubric,
        "labels": _labels(study, cell),
    }
    if isinstance(cell, BatchCell):
        texts = [study.item(item).text for item in cell.items]
        code = _code(study.seed, texts, cell)
        fenced = [fence(f"item_{n}", text, code) for n, text in enumerate(texts, start=1)]
        return common | {"items": "\n\n".join(fenced), "item_count": str(len(fenced))}
    texts = [
        study.prompt(cell.prompt).text,
        study.candidate(cell.first).responses[cell.prompt],
        study.candidate(cell.second).responses[cell.prompt],
    ]
    code = _code(study.seed, texts, cell)
    names = ("prompt", "answer_a", "answer_b")
    return common | {name: fence(name, text, code) for name, text in zip(names, texts, strict=True)}


def _fill(text: str, values: dict[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _code(seed: int, texts: Sequence[str], cell: Cell) -> str:
    """Return a code that no text contains: the first of the cell's hashes that is free."""
    content: dict[str, Any] = {"seed": seed, "texts": list(texts), "cell": asdict(cell), "try": 0}
    while True:
        code = sha256_of(content)[:CODE_DIGITS]
        if not any(code in text for text in texts):
            return code
        content["try"] += 1


def _labels(study: Study, cell: Cell) -> str:
    """Say which answers are legal, and for pairs what each of them means."""
    spec = study.answer
    if isinstance(cell, PairCell):
        meanings = ("if answer_a is better", "if answer_b is better", "if neither is better")
        return _either([f'"{label}" {meaning}' for label, meaning in zip(spec.labels, meanings)])  # noqa: B905  (the tie may be absent)
    if spec.scale is None:
        return _either([f'"{label}"' for label in spec.labels])
    low, high = (f"{bound:g}" for bound in spec.scale)
    return f"a {'whole ' if spec.integer else ''}number from {low} to {high}"


def _either(options: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))
