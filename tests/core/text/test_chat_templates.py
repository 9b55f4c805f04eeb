"""Chat templates against transformers' apply_chat_template."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import models

from modelhost.api import RequestError, TokenizerError
from modelhost.text import ChatTemplate, Tokenizer

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
CHATML = """{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n<tool_call>' + (call.function.arguments | tojson) + '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if message.role in ("tool", "ipython") %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson(ensure_ascii=True, separators=(",", ":"), sort_keys=true) }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- elif 'tool_calls' in message %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {{- '{"name": "' + message.tool_calls[0].function.name + '", ' }}
        {{- '"parameters": ' + message.tool_calls[0].function.arguments | tojson + "}<|eot_id|>" }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""
GEMMA = """{{ bos_token }}
{% if messages[0]['role'] == 'system' %}
    {% set prefix = messages[0]['content'] + '\\n\\n' %}
    {% set loop_messages = messages[1:] %}
{% else %}
    {% set prefix = "" %}
    {% set loop_messages = messages %}
{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception("Conversation roles must alternate user/assistant") }}
    {% endif %}
    {% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {% if message['content'] is string %}
        {{ message['content'] | trim }}
    {% elif message['content'] is iterable %}
        {% for item in message['content'] %}
            {% if item['type'] == 'image' %}{{ '<start_of_image>' }}{% else %}{{ item['text'] | trim }}{% endif %}
        {% endfor %}
    {% endif %}
    {{ '<end_of_turn>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""
MISTRAL = """{%- set ns = namespace(index=0, system=none) %}
{%- for message in messages %}
    {%- if message.role == "system" %}{%- set ns.system = message.content %}{%- continue %}{%- endif %}
    {%- if message.role == "user" %}
        {%- if tools and loop.last %}{{- "[AVAILABLE_TOOLS]" + tools | tojson + "[/AVAILABLE_TOOLS]" }}{%- endif %}
        {{- "[INST] " + (ns.system + "\\n\\n" if loop.last and ns.system else "") + message.content + "[/INST]" }}
    {%- elif message.role == "assistant" %}
        {{- " " + message.content + eos_token }}
    {%- else %}{%- break %}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}
{%- for document in documents or [] %}{{ document.title }}: {{ document.text }}{%- endfor %}
{{- dict(a=ns.index) | tojson }}"""
GENERATION = """{% for message in messages %}
{% if message.role == 'assistant' %}
<a>{% generation %}{{ message.content }}</a>
{% endgeneration %}
{% else %}
<u>{{ message.content }}</u>
{% endif %}
{% endfor %}"""
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "gemma": GEMMA, "mistral": MISTRAL, "generation": GENERATION}

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city <é & 'quotes'>",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}
CHATS: dict[str, list[dict[str, Any]]] = {
    "user": [{"role": "user", "content": " Hello <b>&</b> 'you' 你好\n"}],
    "system": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "turns": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "reasoning": "because"},
        {"role": "user", "content": "three"},
    ],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": " b"}]}],
    "tools": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": {"temperature": 21.5, "a": "é"}, "tool_call_id": "1", "name": None},
    ],
    "ends with the assistant": [{"role": "user", "content": "Count"}, {"role": "assistant", "content": "One, two, "}],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prompt": {"add_generation_prompt": True},
    "tools": {"tools": [TOOL], "add_generation_prompt": True, "date_string": "26 Jul 2024"},
    "thinking off": {"add_generation_prompt": True, "enable_thinking": False},
    "documents": {"documents": [{"title": "T", "text": "x"}], "bos_token": "<other>"},
    "continue": {"continue_final_message": True},
}


@pytest.fixture(scope="module")
def reference() -> Any:
    from transformers import PreTrainedTokenizerFast

    backend = tokenizers.Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1}, "<s>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


def outcome(render: Callable[[], str], errors: tuple[type[Exception], ...]) -> str:
    try:
        return render()
    except errors:
        return "an error"


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("options", OPTIONS)
def test_text_equals_transformers(template: str, chat: str, options: str, reference: Any) -> None:
    source, messages, settings = TEMPLATES[template], CHATS[chat], OPTIONS[options]
    import jinja2

    expected = outcome(
        lambda: reference.apply_chat_template(messages, chat_template=source, tokenize=False, **settings),
        (ValueError, TypeError, jinja2.TemplateError),
    )
    ours = outcome(lambda: ChatTemplate(source, SPECIAL).render(messages, **settings), (TokenizerError, RequestError))
    assert ours == expected


def test_few_of_the_compared_cases_are_errors() -> None:
    rendered = [
        outcome(lambda: ChatTemplate(source, SPECIAL).render(chat, **options), (TokenizerError, RequestError))  # noqa: B023
        for source in TEMPLATES.values()
        for chat in CHATS.values()
        for options in OPTIONS.values()
    ]
    assert rendered.count("an error") < len(rendered) / 4


@pytest.mark.parametrize("name", ["smollm2", "qwen2.5-coder"])
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("options", OPTIONS)
def test_templates_of_the_real_files(
    name: str, chat: str, options: str, real_tokenizer: Callable[[str], Tokenizer], reference: Any
) -> None:
    import jinja2

    tokenizer, messages, settings = real_tokenizer(name), CHATS[chat], OPTIONS[options]
    source = tokenizer.chat_template
    assert source is not None
    expected = outcome(
        lambda: reference.apply_chat_template(messages, chat_template=source, tokenize=False, **settings),
        (ValueError, TypeError, jinja2.TemplateError),
    )
    ours = outcome(lambda: tokenizer.apply_chat_template(messages, **settings), (TokenizerError, RequestError))
    assert ours == expected


def test_a_real_prompt(real_tokenizer: Callable[[str], Tokenizer]) -> None:
    tokenizer = real_tokenizer("smollm2")
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
    assert prompt == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.encode(prompt, add_special_tokens=False)[:2] == [1, 9690]


def test_generation_blocks_are_located() -> None:
    template = ChatTemplate(GENERATION)
    text, spans = template.render_with_spans(CHATS["turns"])
    assert text == template.render(CHATS["turns"]) == "<u>one</u>\n<a>two</a>\n<u>three</u>\n"
    assert [text[start:end] for start, end in spans] == ["two</a>\n"]


def test_rich_objects_reach_the_template_as_plain_data() -> None:
    @dataclasses.dataclass
    class Message:
        role: str
        content: Any

    class Model:
        def model_dump(self) -> dict[str, Any]:
            return {"role": "user", "content": np.float32(1.5), "n": np.int64(2), "tool_calls": None}

    template = ChatTemplate("{{ messages | tojson }}{{ extra }}")
    rendered = template.render([Message("user", (1, object())), Model()], extra=np.zeros(2))
    text, _, extra = rendered.rpartition("]")
    assert json.loads(text + "]") == [
        {"role": "user", "content": [1, "<object>"]},
        {"role": "user", "content": 1.5, "n": 2},
    ]
    assert extra == "<ndarray>"


def test_the_date_is_now() -> None:
    assert ChatTemplate("{{ strftime_now('%Y') }}").render([{}]) == str(datetime.now().year)


def test_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}], "name": None}]
    before = json.dumps(messages)
    ChatTemplate(CHATML).render(messages, continue_final_message=True)
    assert json.dumps(messages) == before


FAILURES = {
    "{{ messages[0].content }}\n{{ raise_exception('no system role') }}": "Chat template, line 2: no system role",
    "a\n{% if x %}\n": (
        "Chat template, line 2: Unexpected end of template. Jinja was looking for the following tags: 'elif' or 'else' "
        "or 'endif'. The innermost block that needs to be closed is 'if'."
    ),
    "\n\n{{ missing.field }}": "Chat template, line 3: 'missing' is undefined",
    "{{ messages[0].content + 1 }}": 'Chat template, line 1: can only concatenate str (not "int") to str',
    "{{ ''.__class__.__mro__ }}": "Chat template, line 1: access to attribute '__class__' of 'str' object is unsafe.",
    "{{ messages.append(1) }}": "Chat template, line 1: access to attribute 'append' of 'list' object is unsafe.",
    "{{ namespace(_x=1) }}": "Chat template, line 1: a namespace attribute may not start with an underscore: '_x'",
    "{{ 1 / 0 }}": "Chat template, line 1: division by zero",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "Chat template, line 1: maximum recursion depth exceeded",
    "{% for i in range(10**9) %}{% endfor %}": (
        "Chat template, line 1: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000)."
    ),
}


@pytest.mark.parametrize("source", FAILURES)
def test_a_failing_template(source: str) -> None:
    with pytest.raises(TokenizerError) as caught:
        ChatTemplate(source).render([{"role": "user", "content": "x"}])
    assert str(caught.value).startswith(FAILURES[source])


def test_a_checkpoint_without_a_usable_template(real_tokenizer: Callable[[str], Tokenizer]) -> None:
    with pytest.raises(TokenizerError) as caught:
        real_tokenizer("gemma3").apply_chat_template(CHATS["user"])
    assert str(caught.value) == (
        "This checkpoint has no chat template. Pass one with --chat-template, or use plain completion with a prompt."
    )
    backend = tokenizers.Tokenizer(models.WordLevel({}, ""))
    named = Tokenizer(backend, chat_templates={"rag": "r", "tool_use": "t"})
    with pytest.raises(TokenizerError) as caught:
        named.apply_chat_template(CHATS["user"])
    assert str(caught.value) == (
        "This checkpoint has several chat templates and none is the default: rag, tool_use. "
        "Name one with --chat-template."
    )
    assert named.apply_chat_template(CHATS["user"], chat_template="rag") == "r"
    assert named.apply_chat_template(CHATS["user"], tools=[TOOL]) == "t"
    assert named.apply_chat_template(CHATS["user"], chat_template="{{ 1 + 1 }}") == "2"


BAD_CHATS: list[tuple[Any, dict[str, Any], str]] = [
    ([], {}, "A chat needs at least one message."),
    (["hi"], {}, "messages[0] is a str; a mapping is expected."),
    (
        [{"role": "user", "content": "x"}],
        {"continue_final_message": True, "add_generation_prompt": True},
        "continue_final_message and add_generation_prompt exclude each other; set one of them.",
    ),
    (
        [{"role": "user"}],
        {"continue_final_message": True},
        "continue_final_message: the last message has no text to continue.",
    ),
]


@pytest.mark.parametrize(("messages", "options", "text"), BAD_CHATS)
def test_a_conversation_that_is_not_one(messages: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        ChatTemplate(CHATML).render(messages, **options)
    assert str(caught.value) == text


def test_a_template_that_drops_the_text_to_continue() -> None:
    with pytest.raises(TokenizerError, match=r"^continue_final_message: the chat template does not show the last"):
        ChatTemplate("{{ messages[0].role }}").render(CHATS["user"], continue_final_message=True)
