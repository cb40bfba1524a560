import copy

import pytest

BATCH = {
    "name": "headlines",
    "kind": "batch",
    "seed": 7,
    "items": [
        {"id": "i1", "text": "one", "group": "short"},
        {"id": "i2", "text": "two", "group": "short"},
        {"id": "i3", "text": "three", "group": "long"},
        {"id": "i4", "text": "four", "group": "long"},
    ],
    "judges": [{"id": "j1", "provider": "openai", "model": "m", "key_env": "KEY"}],
    "design": {"kind": "shuffle", "batches": 40},
    "stopping": {"target": {"kind": "difference", "a": "short", "b": "long"}},
    "budget": {"tokens": 1000},
}
PAIRS = {
    "name": "answers",
    "kind": "pairs",
    "seed": 7,
    "prompts": [{"id": "p1", "text": "why?"}, {"id": "p2", "text": "how?"}],
    "candidates": [
        {"id": "x", "family": "f", "responses": {"p1": "x1", "p2": "x2"}},
        {"id": "y", "family": "g", "responses": {"p1": "y1", "p2": "y2"}},
    ],
    "judges": [
        {"id": "j1", "provider": "openai", "model": "m", "key_env": "KEY", "family": "f"},
        {"id": "j2", "provider": "ask"},
    ],
    "design": {"kind": "balanced-swaps", "repetitions": 5},
    "stopping": {"target": {"kind": "best"}},
    "budget": {"requests": 100},
}


@pytest.fixture
def batch():
    return copy.deepcopy(BATCH)


@pytest.fixture
def pairs():
    return copy.deepcopy(PAIRS)
