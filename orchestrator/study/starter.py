"""The commented study files that ``benchtrial init`` writes: complete, small, and ready to edit."""

from typing import Literal

_JUDGE = """\
[[judges]]                       # one table per judge
id = "judge-1"
provider = "openai"              # openai, openrouter, vllm, llama.cpp, ollama, openai-compatible,
                                 # simulated, recorded, or ask (you bring the verdicts)
model = "name-of-the-model"      # as the provider spells it
key_env = "OPENAI_API_KEY"       # NAME of the environment variable that holds the key
# base_url = "http://127.0.0.1:8080/v1"      # for a server of your own
# family = "maker-of-the-model"  # lets the analysis see whether judges favour their own kin
price = { input = "2.50", output = "10.00" } # per million tokens; "free" for a local model
concurrency = 8                  # requests in flight
timeout_s = 120
max_output_tokens = 512          # the cap on each reply, hidden reasoning included
structured = "auto"              # auto, json_schema, grammar, choice, none
parameters = { temperature = 1.0 }           # sampling parameters, sent exactly as written
"""

_STOPPING = """\
rule = "kim-demets"              # kim-demets, obrien-fleming, pocock, confidence-sequence
alpha = 0.05                     # chance of a wrong claim, however often we look
rounds = 10                      # the schedule is asked in this many parts, with a look after each
rope = 0.1                       # differences smaller than this (in logits) count as none
# panel = ["judge-1"]            # the judges who decide (default: all); others are only reported,
                                 # though in a pair study their verdicts still inform the scores
# reference = "judge-1"          # the judge whose scale is 1 (default: first of the panel)
"""

_BUDGET = """\
[budget]                         # never exceeded; at least one limit
tokens = 2_000_000
# money = "20.00"                # needs the price of every judge
# requests = 5_000
"""

_BATCH = f"""\
# A batch study: each judge rates many items in one shared context, again and again in new orders.
# Run it with:  benchtrial run study.toml

name = "my-batch-study"
kind = "batch"
seed = 20260101                  # every random choice of the study follows from it

# What is rated. Rows can stand in a file instead, with columns id, text, group; further columns
# are kept as covariates and never shown:
#
#   [items]
#   file = "items.csv"           # or .jsonl; UTF-8
#   columns = {{ id = "key", text = "headline" }}      # if your columns have other names

[[items]]
id = "h1"
group = "short"
text = "City opens new bridge"

[[items]]
id = "h2"
group = "short"
text = "Rain ends long drought"

[[items]]
id = "h3"
group = "long"
text = "After nine years of work the city opens its new bridge to walkers and cyclists"

[[items]]
id = "h4"
group = "long"
text = "Two days of steady rain end the longest drought that the valley has on record"

[[criteria]]
id = "clarity"
rubric = "A reader learns from the headline alone what happened."

# The words around the items, with the placeholders {{items}} {{item_count}} {{criterion}}
# {{rubric}} {{labels}}; other braces are text. Leave the table out for the project's own words.
#
#   [template]
#   system = "You are a strict editor."
#   reply = "auto"               # how to answer: fits the judge's structured form
#   [[template.turns]]
#   text = "Judge these headlines.\\n\\n{{items}}\\n\\nCriterion: {{rubric}}"

[answer]
labels = ["reject", "accept"]    # from worse to better

{_JUDGE}
[design]
kind = "shuffle"                 # shuffle, williams (balanced neighbours), incomplete-blocks
batches = 200                    # per judge, if nothing stops the study earlier
# size = 4                       # items per batch (default: all)

[analysis]
lags = 1                         # how many earlier ratings of the batch may sway the next

[stopping]
target = {{ kind = "difference", a = "short", b = "long" }}
# Other targets, of items: {{ kind = "best" }}, {{ kind = "top-k", k = 2 }}, {{ kind = "ranking" }}
{_STOPPING}
{_BUDGET}"""

_PAIRS = f"""\
# A pair study: judges compare two responses to one prompt, always in both orders.
# Run it with:  benchtrial run study.toml

name = "my-pair-study"
kind = "pairs"
seed = 20260101                  # every random choice of the study follows from it

# Prompts and responses can stand in files instead:
#
#   [prompts]
#   file = "prompts.csv"         # columns id, text; or .jsonl; UTF-8
#   [responses]
#   file = "responses.jsonl"     # candidate, prompt, text
#   columns = {{ text = "output" }}                    # if your columns have other names

[[prompts]]
id = "p1"
text = "Explain in one sentence why the sky is blue."

[[prompts]]
id = "p2"
text = "Give one reason to learn a second language."

[[candidates]]
id = "plain"
# family = "maker-of-the-model"
[candidates.responses]
p1 = "Air scatters blue light more than red light, so blue reaches us from all over the sky."
p2 = "You can talk with more people."

[[candidates]]
id = "wordy"
[candidates.responses]
p1 = "It is a very interesting question, and the answer has to do with light, air and our eyes."
p2 = "There are many reasons, and all of them are good ones, so it is hard to name just one."

[[criteria]]
id = "quality"
rubric = "The answer is correct and tells the reader what was asked."

# The words around the answers, with the placeholders {{prompt}} {{answer_a}} {{answer_b}}
# {{criterion}} {{rubric}} {{labels}}; other braces are text. Leave the table out for the
# project's own words.
#
#   [template]
#   system = "You are a strict teacher."
#   reply = "auto"               # how to answer: fits the judge's structured form
#   [[template.turns]]
#   text = "{{prompt}}\\n\\n{{answer_a}}\\n\\n{{answer_b}}\\n\\nCriterion: {{rubric}}"

[answer]
labels = ["A", "B", "tie"]       # slot A, slot B and, if ties are allowed, a tie

{_JUDGE}# logprobs = true                # verdict probabilities, where the judge offers them

[design]
kind = "balanced-swaps"          # every pair in both orders, equally often
pairs = "all"                    # or "star:plain", or [["plain", "wordy"]]
repetitions = 5

[analysis]
terms = ["position"]             # add "length" and "family" to adjust for them too; not where one
                                 # candidate is always the longer one: nothing tells them apart
outcomes = "verdict"             # or "probability" (needs logprobs)

[stopping]
target = {{ kind = "difference", a = "plain", b = "wordy" }}
# Other targets: {{ kind = "best" }}, {{ kind = "top-k", k = 2 }}, {{ kind = "ranking" }}, and
# {{ kind = "screening" }} of the judges
{_STOPPING}
{_BUDGET}"""


def starter(kind: Literal["batch", "pairs"]) -> str:
    """Return the text of a commented, loadable study file of the given kind."""
    return _BATCH if kind == "batch" else _PAIRS
