import hashlib
import json

import pytest

from benchtrial.errors import StudyError
from benchtrial.orchestrator.study import Study, starter


def refused(data):
    """Lines of the error, each without the name of the file."""
    with pytest.raises(StudyError) as caught:
        Study.from_dict(data)
    return [line.removeprefix("study: ") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("kind", ["batch", "pairs"])
def test_the_stored_form_reads_back_equal(kind, request):
    study = Study.from_dict(request.getfixturevalue(kind))
    again = Study.from_json(study.to_json())
    assert again == study
    assert again.to_json() == study.to_json()
    assert again.hash == study.hash
    assert study.differences(again) == []


def test_the_stored_form_is_canonical(batch):
    text = Study.from_dict(batch).to_json()
    assert text == json.dumps(
        json.loads(text), ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )


def test_the_hash_is_that_of_the_content_without_transport(batch):
    study = Study.from_dict(batch)
    content = json.loads(study.to_json())
    for key in ("base_url", "key_env", "concurrency", "timeout_s"):
        del content["judges"][0][key]
    canonical = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert study.hash == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("concurrency", 2),
        ("timeout_s", 5.0),
        ("key_env", "OTHER_KEY"),
        ("base_url", "https://host/v1"),
    ],
)
def test_transport_settings_do_not_make_another_study(batch, key, value):
    before = Study.from_dict(batch)
    batch["judges"][0][key] = value
    after = Study.from_dict(batch)
    assert (after.hash, before.differences(after)) == (before.hash, [])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda d: d.update(seed=8), "seed: 7 -> 8"),
        (
            lambda d: d["judges"][0].update(max_output_tokens=1024),
            "judges.j1.max_output_tokens: 512 -> 1024",
        ),
        (
            lambda d: d["judges"][0].update(parameters={"temperature": 0.5}),
            "judges.j1.parameters.temperature: None -> 0.5",
        ),
        (lambda d: d["items"][1].update(text="2"), "items.i2.text: 'two' -> '2'"),
        (lambda d: d["items"].append({"id": "i5", "text": "five"}), "items: 1 added ('i5')"),
        (lambda d: d["items"].reverse(), "items: the order changed"),
        (lambda d: d["budget"].update(tokens=2000), "budget.tokens: 1000 -> 2000"),
    ],
)
def test_a_changed_study_names_what_differs(batch, change, line):
    before = Study.from_dict(batch)
    change(batch)
    after = Study.from_dict(batch)
    assert after.hash != before.hash
    assert before.differences(after) == [line]


def test_one_price_has_one_hash_however_it_is_written(batch):
    hashes = set()
    for price in (2.5, "2.50", "2.5"):
        batch["judges"][0]["price"] = {"input": price, "output": "10"}
        hashes.add(Study.from_dict(batch).hash)
    assert len(hashes) == 1
    batch["judges"][0]["price"] = "free"
    assert Study.from_dict(batch).judges[0].price.input == 0


def test_what_depends_on_the_kind_is_written_out(batch, pairs):
    assert Study.from_dict(batch).answer.labels == ("reject", "accept")
    assert Study.from_dict(pairs).answer.labels == ("A", "B")
    assert "{items}" in Study.from_dict(batch).template.turns[0].text


def test_panel_and_reference_default_to_all_and_the_first(pairs):
    study = Study.from_dict(pairs)
    assert (study.panel, study.reference) == (("j1", "j2"), "j1")
    pairs["stopping"] |= {"panel": ["j2"]}
    study = Study.from_dict(pairs)
    assert (study.panel, study.reference) == (("j2",), "j2")


@pytest.mark.parametrize("kind", ["batch", "pairs"])
def test_the_starter_loads_as_it_is_written(kind, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(starter(kind), encoding="utf-8")
    assert Study.from_file(path).kind == kind


def test_several_problems_are_said_together_one_per_line(batch):
    batch["judgess"] = []
    batch["judges"][0]["modell"] = "m"
    batch["design"]["batches"] = 0
    batch["stopping"]["alpha"] = 1.5
    batch["budget"] = {"tokens": True}
    assert refused(batch) == [
        "[judges] #1 ('j1') modell: unknown key; did you mean 'model'?",
        "[design] batches: should be greater than or equal to 1",
        "[stopping] alpha: should be less than 1",
        "[budget] tokens: should be a valid integer",
        "judgess: unknown key; did you mean 'judges'?",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d.pop("name"), "name: this key is missing"),
        (lambda d: d.update(seed=-1), "seed: should be greater than or equal to 0"),
        (lambda d: d.update(kind="batches"), "kind: should be 'batch' or 'pairs'"),
        (lambda d: d.update(judges=[]), "[judges]: none given; give at least one"),
        (
            lambda d: d.update(items=d["items"][:1]),
            "[items]: 1 given; a batch study needs at least 2",
        ),
        (
            lambda d: d.update(prompts=[{"id": "p", "text": "?"}]),
            "[prompts]: belongs to a pair study",
        ),
        (lambda d: d["items"][0].update(text=" "), "[items] text: the text of 'i1' is empty"),
        (
            lambda d: d["items"][0].update(text="\ud800"),
            "[items] #1 ('i1') text: holds half of a surrogate pair",
        ),
        (lambda d: d["items"][0].update(id=" "), "[items] #1 (' ') id: an id must not be empty"),
        (lambda d: d["items"][0].update(id="a\x00"), "holds a control character"),
        (
            lambda d: d["stopping"]["target"].update(a="shrot"),
            "[stopping] target.a: there is no group of items 'shrot'; did you mean 'short'?",
        ),
        (
            lambda d: d["stopping"]["target"].update(b="short"),
            "target.b: 'short' is compared with itself",
        ),
        (lambda d: d["stopping"]["target"].pop("a"), "target.a: this key is missing"),
        (lambda d: d["stopping"].update(panel=["j9"]), "[stopping] panel: there is no judge 'j9'"),
        (lambda d: d["stopping"].update(panel=[]), "[stopping] panel: nobody decides"),
        (lambda d: d["stopping"].update(panel=["j1", "j1"]), "'j1' is named 2 times"),
        (
            lambda d: d["stopping"].update(reference="j9"),
            "[stopping] reference: there is no panel judge 'j9'",
        ),
        (lambda d: d["stopping"].update(rounds=41), "[stopping] rounds: 41 looks need"),
        (
            lambda d: d["stopping"].update(optimal_information=3.0),
            "[stopping] optimal_information: only for",
        ),
        (lambda d: d["stopping"].update(alpha=0), "[stopping] alpha: should be greater than 0"),
        (lambda d: d.update(budget={}), "[budget]: no limit is set"),
        (
            lambda d: d.update(budget={"money": "5"}),
            "[judges] 'j1' price: budget.money needs the price",
        ),
        (lambda d: d.update(budget={"money": "five"}), "[budget] money: must be a decimal"),
        (
            lambda d: d["judges"][0].update(base_url="ftp://host"),
            "base_url: must be an http or https address",
        ),
        (
            lambda d: d["judges"][0].update(provider="opnai"),
            "[judges] #1 ('j1') provider: should be",
        ),
        (
            lambda d: d["judges"][0].update(provider="openai-compatible"),
            "'j1' base_url: openai-compatible has no usual",
        ),
        (lambda d: d["judges"][0].pop("model"), "'j1' model: this key is missing"),
        (lambda d: d["judges"][0].pop("key_env"), "'j1' key_env: name the environment variable"),
        (
            lambda d: d["judges"][0].update(structured="choice"),
            "'j1' structured: \"choice\" gives one label",
        ),
        (lambda d: d["judges"][0].update(simulated={}), "'j1' simulated: only for provider"),
        (
            lambda d: d["judges"][0].update(parameters={"temprature": 1}),
            "did you mean 'temperature'?",
        ),
        (
            lambda d: d["judges"][0].update(parameters={"max_tokens": 1}),
            "is set by the judge's key 'max_output_tokens'",
        ),
        (
            lambda d: d["judges"][0].update(parameters={"temperature": float("nan")}),
            "parameters.temperature: must be finite",
        ),
        (
            lambda d: d["judges"][0].update(logprobs=21),
            "logprobs: should be less than or equal to 20",
        ),
        (lambda d: d["design"].update(kind="balanced-swaps"), "[design] kind: a batch study takes"),
        (lambda d: d["design"].pop("batches"), "[design] batches: this key is missing"),
        (lambda d: d["design"].update(size=5), "[design] size: 5 is more than the 4 items"),
        (
            lambda d: d["design"].update(kind="williams", batches=42),
            "squares of 4 batches for 4 items; take 40 or 44",
        ),
        (lambda d: d["design"].update(kind="incomplete-blocks"), "[design] size: set a size below"),
        (
            lambda d: d.update(answer={"labels": ["a", "b", "c"]}),
            "[answer] labels: the batch model reads two labels",
        ),
        (lambda d: d.update(answer={"labels": ["a", "a "]}), "cannot be told apart"),
        (
            lambda d: d.update(analysis={"outcomes": "probability"}),
            "[analysis] outcomes: probabilities would bias",
        ),
        (
            lambda d: d.update(analysis={"criterion": "tone"}),
            "[analysis] criterion: there is no criterion 'tone'",
        ),
        (
            lambda d: d.update(template={"turns": [{"text": "rate {itmes}"}]}),
            "[template] turns #1: {itmes} is not a placeholder; did you mean {items}?",
        ),
        (
            lambda d: d.update(template={"turns": [{"text": "rate {prompt} {items}"}]}),
            "{prompt} cannot be filled in a batch study",
        ),
        (
            lambda d: d.update(template={"turns": [{"text": "rate them"}]}),
            "the placeholder {items} is missing",
        ),
        (
            lambda d: d.update(template={"turns": [{"role": "assistant", "text": "{items}"}]}),
            "[template] turns: the last turn must be the user's",
        ),
        (
            lambda d: d.update(
                criteria=[{"id": "a"}, {"id": "b"}], template={"turns": [{"text": "{items}"}]}
            ),
            "there are 2 criteria, but the judge is not told",
        ),
    ],
)
def test_a_batch_study_that_cannot_run_is_refused(batch, change, expected):
    change(batch)
    lines = refused(batch)
    assert any(expected in line for line in lines), lines


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda d: d["candidates"][0]["responses"].pop("p2"),
            "[responses] 'x': 1 of 2 prompts have no response: 'p2'",
        ),
        (
            lambda d: d["candidates"][0]["responses"].update(p3="?"),
            "[responses] 'x': there is no prompt 'p3'",
        ),
        (lambda d: d["candidates"].pop(), "[candidates]: 1 given; a pair study needs at least 2"),
        (lambda d: d.update(prompts=[]), "[prompts]: none given"),
        (lambda d: d.update(items=[{"id": "i", "text": "t"}]), "[items]: belongs to a batch study"),
        (
            lambda d: d["design"].update(kind="shuffle"),
            '[design] kind: a pairs study takes "balanced-swaps"',
        ),
        (lambda d: d["design"].update(batches=3), "[design] batches: belongs to a batch study"),
        (lambda d: d["design"].update(pairs="star:z"), "[design] pairs: there is no candidate 'z'"),
        (lambda d: d["design"].update(pairs="some"), "[design] pairs: 'some' must be"),
        (lambda d: d["design"].update(pairs=[["x", "x"]]), "'x' is paired with itself"),
        (
            lambda d: d["design"].update(pairs=[["x", "y"], ["y", "x"]]),
            "the pair ['x', 'y'] is given 2 times",
        ),
        (
            lambda d: d["stopping"].update(target={"kind": "difference", "a": "x", "b": "z"}),
            "target.b: there is no candidate 'z'",
        ),
        (
            lambda d: d["stopping"]["target"].update(a="x"),
            'target.a: belongs to kind = "difference"',
        ),
        (lambda d: d["stopping"].update(target={"kind": "top-k"}), "target.k: this key is missing"),
        (
            lambda d: d["stopping"].update(target={"kind": "top-k", "k": 2}),
            "target.k: 2 of 2 candidates is no choice",
        ),
        (
            lambda d: d["stopping"].update(target={"kind": "best", "k": 1}),
            'target.k: belongs to kind = "top-k"',
        ),
        (
            lambda d: d["stopping"].update(target={"kind": "top-k", "k": 1, "keep": 0.8}),
            'target.keep: belongs to kind = "screening"',
        ),
        (
            lambda d: d["stopping"].update(
                target={"kind": "ranking", "multiplicity": "max-z"}, rule="confidence-sequence"
            ),
            'target.multiplicity: "max-z" spends alpha by the budget',
        ),
        (
            lambda d: d.update(
                stopping={"target": {"kind": "screening"}}, analysis={"terms": ["length"]}
            ),
            '[analysis] terms: a screening without "position" would drop judges for their slot',
        ),
        (
            lambda d: (d["stopping"].update(target={"kind": "screening"}), d["judges"].pop()),
            "target.kind: a screening needs a judge beside the reference",
        ),
        (
            lambda d: d["stopping"].update(target={"kind": "screening", "keep": 0.0}),
            "target.keep",
        ),
        (
            lambda d: d.update(analysis={"terms": ["family"]}),
            "[judges] family: analysis.terms holds \"family\", but 'j2' has none",
        ),
        (
            lambda d: d.update(analysis={"terms": ["lenght"]}),
            "[analysis] terms.#1: should be 'position', 'length' or 'family'",
        ),
        (
            lambda d: d.update(analysis={"outcomes": "probability"}),
            "'j1' logprobs: analysis.outcomes",
        ),
        (
            lambda d: d.update(answer={"scale": [1, 5]}),
            "[answer] scale: pairs are answered by labels",
        ),
        (lambda d: d.update(answer={"labels": ["A"]}), "[answer] labels: 1 given"),
        (
            lambda d: d["judges"][1].update(base_url="https://host/v1"),
            "'j2' base_url: a judge of provider 'ask' has no address",
        ),
        (
            lambda d: d.update(template={"turns": [{"text": "{answer_a} {anser_b}"}]}),
            "{anser_b} is not a placeholder; did you mean {answer_b}?",
        ),
        (
            lambda d: d.update(template={"turns": [{"text": "{{answer_a}} {answer_b}"}]}),
            "{{answer_a}} is not a placeholder; did you mean {answer_a}?",
        ),
    ],
)
def test_a_pair_study_that_cannot_run_is_refused(pairs, change, expected):
    change(pairs)
    lines = refused(pairs)
    assert any(expected in line for line in lines), lines


@pytest.mark.parametrize(
    "setting",
    [
        {"base_url": "https://user:pw@host.invalid/v1"},
        {"base_url": "https://host.invalid/v1?key=SECRET123"},
        {"key_env": "sk-test-SECRET123"},
        {"key_env": "AKIASECRET1234567890"},
        {"api_key": "sk-test-SECRET123"},
        {"headers": {"Authorization": "Bearer SECRET123"}},
        {"parameters": {"api_key": "SECRET123"}},
    ],
)
def test_a_secret_in_the_study_is_refused_and_not_shown(batch, setting):
    batch["judges"][0] |= setting
    text = "\n".join(refused(batch))
    assert "SECRET123" not in text
    assert "pw@" not in text
    assert "'j1'" in text


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("q1", "q1", "'q1' is the id of two rows: row 1 and row 2"),
        ("q1", "q1 ", "'q1' and 'q1 ' differ only by white space"),
        ("caf\u00e9", "cafe\u0301", r"'caf\xe9' and 'cafe\u0301' differ only by"),
    ],
)
def test_ids_that_are_alike_are_refused_everywhere(batch, pairs, first, second, expected):
    batch["items"][0]["id"], batch["items"][1]["id"] = first, second
    assert any(expected in line for line in refused(batch))
    pairs["judges"][0]["id"], pairs["judges"][1]["id"] = first, second
    assert any(expected in line for line in refused(pairs))


def test_damaged_stored_forms_are_refused():
    for text in ("", "{", "[]", "{}", '{"seed": NaN}', "[" * 100_000):
        with pytest.raises(StudyError):
            Study.from_json(text)
