"""Which tokens of a GGUF vocabulary end generation.

A GGUF file names one end-of-sequence token; chat models end their turns with others. The texts and the rules are those
of llama.cpp (`src/llama-vocab.cpp`, the end-of-generation list).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

END_OF_TURN = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<end_of_utterance>",
)
END_OF_MESSAGE = ("<|eom_id|>",)
_OTHERS = ("<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "[EOS]", "<eos>", "<turn|>", "<|tool_response>", "[e~[")
# Infilling tokens after which the text of another file begins.
_INFILL_PADDING = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]")
_INFILL_REPOSITORY = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
_INFILL_FILE = ("<|file_sep|>",)

_ID_FIELDS = {
    "tokenizer.ggml.eot_token_id": (),
    "tokenizer.ggml.eom_token_id": (),
    "tokenizer.ggml.fim_pad_token_id": _INFILL_PADDING,
    "tokenizer.ggml.fim_rep_token_id": _INFILL_REPOSITORY,
    "tokenizer.ggml.fim_sep_token_id": _INFILL_FILE,
}


def end_of_generation_ids(
    metadata: Mapping[str, object], token_ids: Mapping[str, int], control: Iterable[int], eos: int | None
) -> tuple[int, ...]:
    """The ids that end generation: the end-of-sequence token first, the others in ascending order.

    `</s>` counts only where it is a control token: Gemma's vocabulary has it as the end of HTML strike-through text.
    """
    found = {token_ids[text] for text in (*END_OF_TURN, *END_OF_MESSAGE, *_OTHERS) if text in token_ids}
    if "</s>" in token_ids and token_ids["</s>"] in set(control):
        found.add(token_ids["</s>"])
    for field, texts in _ID_FIELDS.items():
        given = metadata.get(field)
        if isinstance(given, int):
            found.add(given)
        else:
            found.update([token_ids[text] for text in texts if text in token_ids][:1])
    found -= _mid_turn_ids(token_ids, found)
    found.discard(-1 if eos is None else eos)
    return (() if eos is None else (eos,)) + tuple(sorted(found))


def _mid_turn_ids(token_ids: Mapping[str, int], found: set[int]) -> set[int]:
    """Tokens that end a message and not the turn: `<|end|>` in the harmony and Solar formats, `</s>` in Gemma 4."""

    def has(text: str) -> bool:
        return token_ids.get(text) in found

    removed: set[int] = set()
    calls = has("<|call|>") or has("<|calls|>")
    if calls and (has("<|return|>") or has("<|flush|>")) and has("<|end|>"):
        removed.add(token_ids["<|end|>"])
    if has("<|tool_response>") and has("</s>"):
        removed.add(token_ids["</s>"])
    return removed
