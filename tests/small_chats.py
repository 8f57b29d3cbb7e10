"""Generated conversations, a small tokenizer with the markers of chat templates, and a reference."""

import json
import random
import re
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

MARKERS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
]
WORDS = ["stone", "wall", "rain", "石墙", "naïve", "🪨", "{", "}", '"', "'", "\\n", "assistant"]
WORDS += ["user", "<tool_call>", "if", "x", "==", "1:"]


def write_tokenizer(folder: Path) -> Path:
    """Train a byte-level BPE tokenizer on a few words; returns tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    text = " ".join(WORDS) + " function name arguments system assistant user tool parameters\n\n\n"
    tokenizer.train_from_iterator([text] * 20, trainer)
    tokenizer.add_special_tokens([AddedToken(m, special=True, normalized=False) for m in MARKERS])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def text_of(rng: random.Random, space=True) -> str:
    words = rng.choices(WORDS, k=rng.randint(0, 12))
    text = "".join(w + rng.choice([" ", " ", "\n", "  "] if space else [" "]) for w in words)
    return rng.choice(["", "", " ", "\n\n"]) + text if space else text.strip()


def call_of(rng: random.Random) -> dict:
    arguments = {w: rng.choice([1, "a\nb", None, [1, 2]]) for w in rng.sample(["q", "b", "a"], 2)}
    text = rng.random() < 0.5
    value = json.dumps(arguments, ensure_ascii=False) if text else arguments
    return {
        "type": "function",
        "function": {"name": rng.choice(["find", "add"]), "arguments": value},
    }


def conversation(rng: random.Random, calls=2) -> dict:
    """Return a conversation of several turns, with tools in half of the cases."""
    tools = []
    if rng.random() < 0.5:
        tools = [
            {"type": "function", "function": {"name": n, "parameters": {"type": "object"}}}
            for n in ("find", "add")
        ]
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": text_of(rng)})
    for _ in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": text_of(rng)})
        while tools and rng.random() < 0.5:
            several = [call_of(rng) for _ in range(rng.randint(1, calls))]
            content = rng.choice([None, "", text_of(rng, space=False)])
            messages.append({"role": "assistant", "content": content, "tool_calls": several})
            messages += [{"role": "tool", "content": text_of(rng)} for _ in several]
        messages.append({"role": "assistant", "content": text_of(rng)})
    return {"messages": messages, "tools": tools}


def reference(library: tokenizers.Tokenizer, render, value: dict, markers=MARKERS):
    """Return ids and mask the slow way: every prefix is rendered and what it adds is tokenized.

    ``library`` recognises special tokens in text, as it does in ``apply_chat_template``.
    """
    messages = [_with_objects(message) for message in value["messages"]]
    pattern = re.compile("|".join(map(re.escape, markers)))

    def rendered(count, prompt):
        return render(
            messages=messages[:count], tools=value["tools"] or None, add_generation_prompt=prompt
        )

    ids, mask, done = [], [], 0

    def add(text, trained):
        found = library.encode(text, add_special_tokens=False).ids
        ids.extend(found)
        mask.extend([trained] * len(found))

    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        head, after = rendered(number, True), rendered(number + 1, False)
        assert after.startswith(head)
        last = list(pattern.finditer(after))[-1]
        add(head[done:], False)
        add(after[len(head) : last.end()], True)
        done = last.end()
    add(rendered(len(messages), False)[done:], False)
    return ids, mask


def _with_objects(message: dict) -> dict:
    calls = []
    for call in message.get("tool_calls", []):
        arguments = call["function"]["arguments"]
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls} if calls else message
