import copy
import json
import pickle

import pytest

from benchtrial.adapters.keys import Secret, key_from_environment, redact, scrub
from benchtrial.errors import InputError

KEY = "sk-test-SECRET123"


def test_a_secret_shows_itself_in_no_printed_form() -> None:
    secret = Secret(KEY).prefixed("Bearer ")
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>60}",
        f"{[secret]}",
    ]
    assert not any("SECRET123" in text for text in shown)
    assert secret.header() == f"Bearer {KEY}"
    assert copy.deepcopy({"key": secret})["key"] is secret
    assert copy.copy(secret) is secret
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)


@pytest.mark.parametrize(
    "value", ["", "  \n", "sk-\n-SECRET123", "sk-SECRET123-é", "sk-\x00SECRET123"]
)
def test_a_key_that_no_header_can_carry_is_refused_without_being_quoted(value: str) -> None:
    with pytest.raises(InputError) as caught:
        Secret(value)
    assert "SECRET123" not in str(caught.value)


def test_a_key_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    assert key_from_environment("MY_KEY").header() == KEY
    monkeypatch.setenv("MY_KEY", f"{KEY}\nSECRET123")
    with pytest.raises(InputError, match="MY_KEY") as caught:
        key_from_environment("MY_KEY")
    assert "SECRET123" not in str(caught.value)
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(InputError, match="MY_KEY is not set"):
        key_from_environment("MY_KEY")


def test_every_form_of_a_key_is_redacted_and_nothing_else() -> None:
    secret = Secret("a/b+c==SECRET123")
    text = f"plain {secret.header()} url a%2Fb%2Bc%3D%3DSECRET123 json a\\/b+c==SECRET123 rest"
    assert redact(text, [secret]) == "plain [redacted] url [redacted] json [redacted] rest"
    assert json.loads(redact(json.dumps({"said": secret.header()}), [secret])) == {
        "said": "[redacted]"
    }


def test_the_stand_in_key_of_a_local_server_does_not_mangle_answers() -> None:
    assert redact("EMPTY answers are EMPTY", [Secret("EMPTY")]) == "EMPTY answers are EMPTY"


@pytest.mark.parametrize(
    "text",
    [
        "https://user:pw@host.invalid/v1",
        "see https://host/v1?key=SECRET123&x=1",
        "Authorization: Bearer SECRET123SECRET123",
        "bad key sk-test-SECRET123.",
    ],
)
def test_scrub_removes_what_is_shaped_like_a_credential(text: str) -> None:
    scrubbed = scrub(text)
    assert "SECRET123" not in scrubbed
    assert "pw@" not in scrubbed
    assert "[redacted]" in scrubbed


def test_scrub_leaves_ordinary_words_alone() -> None:
    text = "the bearer of news asked about e-mail a@b.org and risk-free keys: https://host/v1"
    assert scrub(text) == text
