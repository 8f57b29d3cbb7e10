"""Chat templates: named ones, a tokenizer's own, and what they are rendered with."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from transforms.record import RecordError
from transforms.tokenize.settings import TokenizerSettings


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A template and the names that it may use."""

    source: str
    """Text of the Jinja template."""
    where: str
    """Where it was found, for messages."""
    variables: dict[str, str] = field(default_factory=dict)
    """Special tokens by their names in templates, e.g. ``bos_token``."""
    needs: tuple[str, ...] = ()
    """Special tokens that the tokenizer must have."""


def find_template(settings: TokenizerSettings) -> ChatTemplate:
    """Find the template that the settings ask for.

    ``tokenizer.chat_template`` names a file or one of the known templates. Without it the
    tokenizer's own is taken: ``chat_template.jinja`` or ``tokenizer_config.json`` beside its file,
    or a ``chat_template`` inside it. A tokenizer trained by the run has the special tokens of
    :data:`DEFAULT_TEMPLATE`.

    Raises:
        RecordError: there is none, or a file cannot be read.
    """
    named = settings.chat_template
    if named is None and settings.trains:
        named = DEFAULT_TEMPLATE
    folder = Path(settings.model).parent if settings.model else None
    config = _config(folder / "tokenizer_config.json") if folder is not None else {}
    variables = _special_names(config, settings)
    if named in NAMED_TEMPLATES:
        source, needs = NAMED_TEMPLATES[named]
        return ChatTemplate(source, f"chat template {named!r}", variables, needs)
    if named is not None:
        return ChatTemplate(_text(Path(named), "tokenizer.chat_template"), named, variables)
    if settings.model is None or folder is None:
        raise RecordError("a tokenizer without a file has no chat template of its own")
    own = folder / "chat_template.jinja"
    if own.is_file():
        return ChatTemplate(_text(own, "tokenizer.chat_template"), str(own), variables)
    inside = _config(Path(settings.model)) if settings.kind == "hf" else {}
    for found, where in ((config, folder / "tokenizer_config.json"), (inside, settings.model)):
        default = _default(found.get("chat_template"))
        if default is not None:
            return ChatTemplate(default, str(where), variables)
    raise RecordError(
        f"a source has messages, but {settings.model} has no chat template (neither "
        f"chat_template.jinja nor tokenizer_config.json in {folder} has one); set "
        f"tokenizer.chat_template to a file or one of {', '.join(sorted(NAMED_TEMPLATES))}"
    )


def compile_template(template: ChatTemplate) -> Callable[..., str]:
    """Return a function that renders the template; it sees nothing but its arguments.

    The environment is that of Hugging Face's tokenizers: blocks trimmed, loop controls,
    ``tojson`` without HTML escapes, ``raise_exception``. ``strftime_now`` is not defined, because
    the same conversation must give the same tokens on every day.

    Raises:
        RecordError: the template is no Jinja.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    try:
        compiled = environment.from_string(template.source)
    except jinja2.TemplateSyntaxError as error:
        raise RecordError(
            f"{template.where}, line {error.lineno}: not a Jinja template ({error.message}); mend it"
        ) from error
    return compiled.render


class _Generation(jinja2.ext.Extension):
    """``{% generation %}``: marks what the assistant says, and renders its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _text(path: Path, key: str) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(sorted(NAMED_TEMPLATES))
        raise RecordError(
            f"{key}: {path} cannot be read ({error}); give a file of UTF-8 text or one of {known}"
        ) from error


def _config(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not a JSON file ({error}); restore or remove it") from error
    return value if isinstance(value, dict) else {}


def _default(found: Any) -> str | None:
    """Return a configuration's template; of several the one named ``default``."""
    if isinstance(found, list):
        found = {item.get("name"): item.get("template") for item in found if isinstance(item, dict)}
    if isinstance(found, dict):
        found = found.get("default")
    return found if isinstance(found, str) else None


def _special_names(config: dict[str, Any], settings: TokenizerSettings) -> dict[str, str]:
    names = {}
    for kind in ("bos_token", "eos_token", "pad_token", "unk_token"):
        token = config.get(kind)
        token = token.get("content") if isinstance(token, dict) else token
        token = getattr(settings, kind, None) or token
        if isinstance(token, str):
            names[kind] = token
    return names


_CHATML = """
{%- if tools or (messages and messages[0].role == 'system') %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages and messages[0].role == 'system' %}
        {{- messages[0].content }}
    {%- endif %}
    {%- if tools %}
        {{- '\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}
        {%- for tool in tools %}
            {{- '\\n' + tool | tojson }}
        {%- endfor %}
        {{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call>' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for call in message.tool_calls %}
            {%- set call = call.function if call.function else call %}
            {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments | tojson + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif not (loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

_HERMES = """
{%- if tools %}
    {{- '<|im_start|>system\\nYou are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags. You may call one or more functions to assist with the user query. Here are the available tools: <tools> ' }}
    {%- for tool in tools %}
        {{- tool | tojson + ('' if loop.last else '\\n') }}
    {%- endfor %}
    {{- ' </tools>\\nFor each function call return a json object with function name and arguments within <tool_call></tool_call> XML tags as follows:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-dict>}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for call in message.tool_calls %}
            {%- set call = call.function if call.function else call %}
            {{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments | tojson + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>tool\\n' }}
        {%- endif %}
        {{- '<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- else %}
            {{- '\\n' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

_LLAMA3 = """
{{- '<|begin_of_text|>' }}
{%- if tools or (messages and messages[0].role == 'system') %}
    {{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
    {%- if tools %}
        {{- 'Environment: ipython\\nYou have access to the following functions. To call a function, respond with JSON of the form {"name": function name, "parameters": dictionary of argument name and its value}. Do not use variables.\\n\\n' }}
        {%- for tool in tools %}
            {{- tool | tojson(indent=4) + '\\n\\n' }}
        {%- endfor %}
    {%- endif %}
    {%- if messages and messages[0].role == 'system' %}
        {{- messages[0].content | trim }}
    {%- endif %}
    {{- '<|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and message.tool_calls %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('one tool call at a time') }}
        {%- endif %}
        {%- set call = message.tool_calls[0] %}
        {%- set call = call.function if call.function else call %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}<|eot_id|>' }}
    {%- elif not (loop.first and message.role == 'system') %}
        {%- set role = 'ipython' if message.role == 'tool' else message.role %}
        {{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

_IM = ("<|im_start|>", "<|im_end|>")
_HEADERS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")

NAMED_TEMPLATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "chatml": (_CHATML, _IM),
    "hermes": (_HERMES, _IM),
    "llama3": (_LLAMA3, _HEADERS),
}
"""Templates by name, with the special tokens that each needs."""

DEFAULT_TEMPLATE = "hermes"
"""Template of tokenizers that the run trains: they have its special tokens."""
