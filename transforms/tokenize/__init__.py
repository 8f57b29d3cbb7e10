"""Exact text to token ids: sentencepiece, Hugging Face and tiktoken vocabularies."""
