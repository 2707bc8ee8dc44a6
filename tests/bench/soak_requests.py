# SPDX-License-Identifier: MIT
"""The requests of soak.py. Each has a kind and a number, from which all its keys follow, so that a replay can ask the same again."""
import hashlib
import io
import json
import random
import struct

from PIL import Image

WORDS = "river stone cloud garden winter letter music silver window forest bridge candle market ocean paper summer alpha beta gamma".split()
SYSTEMS = 24   # prompts' beginnings, which many requests share
TEXTS = 400    # that get vectors
IMAGES = 60
TURNS = 6      # of a conversation
# How many numbers each kind has.
NUMBERS = {"plain": 900, "raw": 300, "repeated": 150, "several": 120, "constrained": 120, "tools": 60, "image": 120, "adapter": 120, "infill": 120,
           "embed": 160, "rank": 60, "tokenize": 60, "detokenize": 30, "context": 60}
CONVERSATIONS = 80
# Distinct constraints. They may take 256 MiB, as each grows with the texts of answers, so that many would take hours to be steady.
CONSTRAINTS = 10
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "maximum": 9}}, "required": ["city"],
    "additionalProperties": False}}} for name in ("sky", "go")]


def words(r, least, most):
    return " ".join(r.choice(WORDS) for _ in range(r.randint(least, most)))


def system(i):
    return words(random.Random(f"system {i}"), 5, 20)


def picture(i):
    r, f = random.Random(f"image {i}"), io.BytesIO()
    w, h = r.choice([(12, 12), (24, 18), (40, 40)])
    Image.frombytes("RGB", (w, h), r.randbytes(3 * w * h)).save(f, "PNG")
    return f.getvalue()


PICTURES = [picture(i) for i in range(IMAGES)]


def sampling(r):
    """Keys of the answer: greedy, random, and each processor of logits now and then."""
    keys = {"max_tokens": r.randint(2, 40), "seed": r.randrange(1 << 40), "temperature": r.choice([0, 0.7, 1.3]), "logprobs": True}
    keys.update(r.choice([{}, {}, {"repeat_penalty": 1.2}, {"mirostat": 3}, {"min_p": 0.1, "top_k": 0}, {"typical_p": 0.9}, {"top_logprobs": 3},
                          {"frequency_penalty": 0.5, "presence_penalty": 0.5}, {"logit_bias": [[65, 4.0], [70, -100.0]]}, {"stop": ["e", "th"]}]))
    if r.random() < 0.6:
        keys["ignore_eos"] = True
    return keys


def asked(r, text):
    return [{"role": "system", "content": system(r.randrange(SYSTEMS))}, {"role": "user", "content": text}]


def plain(r):
    return {"messages": asked(r, words(r, 2, 30)), **sampling(r)}


def raw(r):
    return {"raw": True, "prompt": system(r.randrange(SYSTEMS)) + words(r, 1, 30), **sampling(r)}


def repeated(r):
    text = words(r, 4, 8)
    return {"raw": True, "prompt": " ".join([text] * 5), **sampling(r), "max_tokens": 60, "temperature": r.choice([0, 0.3]), "ignore_eos": True}


def several(r):
    return {**plain(r), "n": r.randint(2, 4)}


def schema(r):
    names = r.sample(WORDS, r.randint(1, 3))
    kinds = [{"type": "integer", "minimum": 0, "maximum": r.randint(1, 999)}, {"type": "string", "maxLength": r.randint(1, 9)},
             {"enum": r.sample(WORDS, 2)}, {"type": "boolean"}]
    return json.dumps({"type": "object", "properties": {n: r.choice(kinds) for n in names}, "required": names, "additionalProperties": False})


def constraint(r):
    how = r.choice(["schema", "schema", "grammar", "regex", "choice"])
    if how == "choice":
        return {"type": how, "choices": [words(r, 1, 3) for _ in range(r.randint(2, 20))]}
    one, other = r.sample(WORDS, 2)
    return {"type": how, "text": {"schema": schema(r), "grammar": f'root ::= ("{one} " | "{other} " | [a-z]+ ". ")+',
                                  "regex": f"({one}|{other})(, ({one}|[a-f]{{1,{r.randint(2, 9)}}})){{2,6}}"}[how]}


def constrained(r):
    keys = {k: v for k, v in plain(r).items() if k not in ("stop", "ignore_eos")}
    which = random.Random(f"constraint {r.randrange(CONSTRAINTS)}")
    return {**keys, "constraint": constraint(which), "max_tokens": r.randint(60, 90), "on_limit": "cut"}


def tools(r):
    keys = {k: v for k, v in plain(r).items() if k not in ("stop", "ignore_eos")}
    return {**keys, "tools": json.dumps(TOOLS), "tool_choice": r.choice(["auto", "required", "none"]), "max_tokens": 80}


def image(r):
    parts = [{"type": "image", "data": PICTURES[r.randrange(IMAGES)]} for _ in range(r.choice([1, 1, 2]))]
    return {"messages": [{"role": "user", "content": [*parts, {"type": "text", "text": words(r, 1, 8)}]}], **sampling(r)}


def adapter(r):
    return {**plain(r), "adapter": r.choice(["one", "two", "one=0.5", "two=2", "none"])}


def infill(r):
    return {"prefix": words(r, 1, 30), "suffix": words(r, 0, 20), "max_tokens": r.randint(2, 20), "logprobs": True, "seed": 1}


def text(i):
    return words(random.Random(f"text {i}"), 1, 30)


def embed(r):
    return {"texts": [text(r.randrange(TEXTS)) for _ in range(r.randint(1, 16))], "pooling": r.choice(["mean", "last", "cls"]),
            **r.choice([{}, {"dims": 16}, {"normalize": False}])}


def rank(r):
    return {"question": words(r, 1, 4), "texts": [text(r.randrange(TEXTS)) for _ in range(r.randint(1, 8))]}


def tokenize(r):
    return {"text": words(r, 1, 100)}


def detokenize(r):
    return {"ids": [r.randrange(256) for _ in range(r.randint(1, 50))]}


def context(r):
    """A prompt that is longer than the context."""
    return {"raw": True, "prompt": words(r, 100, 140), **sampling(r), "context": r.choice(["shift", "rotate"]), "max_tokens": 30}


TYPES = {"embed": "embed", "rank": "rank", "tokenize": "tokenize", "detokenize": "detokenize", "infill": "infill"}


def subject(kind, number):
    """The type and the keys of a request. Kind "turn": number is (conversation, turn), and the session is the caller's to name."""
    if kind == "turn":
        r = random.Random(f"turn {number[0]} {number[1]}")
        first = [] if number[1] else [{"role": "system", "content": system(number[0] % SYSTEMS)}]
        keys = {k: v for k, v in sampling(r).items() if k != "stop"}
        part = [{"type": "image", "data": PICTURES[number[0] % IMAGES]}] if number[0] % 8 == 0 and number[1] == 1 else []
        content = [*part, {"type": "text", "text": words(r, 1, 12)}]
        adapted = {"adapter": "one"} if number[0] % 10 == 3 else {}
        return "generate", {"messages": [*first, {"role": "user", "content": content}], **keys, **adapted, "context": "shift",
                            "max_tokens": r.randint(2, 24)}
    return TYPES.get(kind, "generate"), globals()[kind](random.Random(f"{kind} {number}"))


def said(runs, channel, text):
    """The pieces in which a text comes do not matter."""
    if runs and runs[-1][0] == channel:
        runs[-1][1] += text
    elif text:
        runs.append([channel, text])


def digest(events):
    """A digest of what the answers are, without what may differ: times, cached tokens, proposals. None: an error."""
    answers = {}
    for e in events:
        a = answers.setdefault(e.get("index", 0), [[], [], [], None])
        if e["event"] == "error":
            return None
        if e["event"] == "text":
            a[0] += e.get("ids", [])
            a[1] += [struct.pack("<f", x) for x in e.get("logprobs", [])]
            said(a[2], e["channel"], e["text"])
        elif e["event"] == "tool_call":
            said(a[2], f"call {e['call']}", e.get("name", "") + e["arguments"])
        elif e["event"] in ("embeddings", "scores"):
            a[0] += e["tokens"]
            a[1].append(e.get("vectors", e.get("scores")))
        elif e["event"] in ("tokens", "detokenized"):
            a[3] = e.get("ids", e.get("text"))
        elif e["event"] == "done":
            a[3] = (e["reason"], e["usage"].get("completion"), e["usage"]["prompt"])
    plain = repr([(i, a[0], b"".join(a[1]), a[2], a[3]) for i, a in sorted(answers.items())])
    return hashlib.blake2b(plain.encode(), digest_size=12).digest()
