"""Reading a byte-level BPE from the parts of a Hugging Face ``tokenizer.json``."""

from collections.abc import Iterable, Mapping
from typing import Any

from transforms.tokenize.patterns import GPT2_ORIGINAL
from transforms.tokenize.split_encoder import ByteLevelModel, named_merges


def byte_alphabet() -> dict[str, int]:
    """Return the character that stands for each byte in byte-level vocabularies (GPT-2)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    characters = {chr(byte): byte for byte in plain}
    return characters | {chr(256 + k): byte for k, byte in enumerate(others)}


def read_byte_level(config: Mapping[str, Any]) -> ByteLevelModel | str:
    """Read a tokenizer that is byte-level BPE.

    Args:
        config: the parsed ``tokenizer.json``.

    Returns:
        The tokenizer; or the reason why it is not one that the split kernels know.
    """
    model = config["model"]
    reason = _unsuitable(model) or _unknown_normalizer(config.get("normalizer"))
    pattern = _pattern(config.get("pre_tokenizer"))
    if reason is not None:
        return reason
    if pattern is None:
        return "its pre-tokenizer is not a split pattern and ByteLevel"
    alphabet = byte_alphabet()
    tokens = {
        bytes(alphabet[character] for character in text): number
        for text, number in model["vocab"].items()
        if text and all(character in alphabet for character in text)
    }
    try:
        merges = named_merges(tokens, _pairs(model["merges"], alphabet))
    except KeyError as error:
        return f"a merge names {error}, which is no token"
    return ByteLevelModel(
        tokens=tokens,
        merges=merges,
        pattern=pattern,
        whole_tokens=bool(model.get("ignore_merges")),
        composes=config.get("normalizer") is not None,
        literals=tuple(
            token["content"] for token in config.get("added_tokens") or () if not token["special"]
        ),
    )


def _unsuitable(model: Mapping[str, Any]) -> str | None:
    if model.get("type", "BPE") != "BPE" or "merges" not in model:
        return "the model is not BPE"
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(option):
            return f"the model has {option}"
    return None


def _unknown_normalizer(normalizer: Any) -> str | None:
    if normalizer is None or normalizer.get("type") == "NFC":
        return None
    return f"its normalizer is {normalizer.get('type')}"


def _pattern(pre_tokenizer: Any) -> str | None:
    """Return the split pattern of a pre-tokenizer that ends with ByteLevel, else None."""
    if pre_tokenizer is None:
        return None
    steps = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
    *splits, last = steps
    if last.get("type") != "ByteLevel" or last.get("add_prefix_space", True):
        return None
    if last.get("use_regex", True):
        return None if splits else GPT2_ORIGINAL
    if len(splits) != 1 or splits[0].get("type") != "Split":
        return None
    split = splits[0]
    if split.get("invert") or split.get("behavior") != "Isolated":
        return None
    pattern = split["pattern"].get("Regex")
    return None if pattern is None else str(pattern)


def _pairs(merges: Iterable[Any], alphabet: Mapping[str, int]) -> Iterable[tuple[bytes, bytes]]:
    for merge in merges:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        yield bytes(map(alphabet.__getitem__, left)), bytes(map(alphabet.__getitem__, right))
