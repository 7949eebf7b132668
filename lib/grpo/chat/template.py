"""The chat template that ships: the ChatML form and tool calls of Qwen3, with everything the model wrote kept.

Qwen3's own template leaves the thoughts of earlier turns out, so that what a model sampled would no longer be what it
reads; a trainer that keeps its tokens needs a template under which a dialogue only ever grows.
"""

IM_START, IM_END = "<|im_start|>", "<|im_end|>"

TRAINING_TEMPLATE = """\
{%- set rest = messages -%}
{%- if tools or (messages and messages[0].role == 'system') -%}
{{- '<|im_start|>system\\n' -}}
{%- if messages and messages[0].role == 'system' -%}
{{- messages[0].content -}}{%- set rest = messages[1:] -%}{{- '\\n\\n' if tools else '' -}}
{%- endif -%}
{%- if tools -%}
{{- '# Tools\\n\\nThe functions that can be called, one JSON object a line:\\n<tools>' -}}
{%- for tool in tools -%}{{- '\\n' -}}{{- tool | tojson -}}{%- endfor -%}
{{- '\\n</tools>\\n\\nA call is written as\\n<tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call>' -}}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in rest -%}
{%- if message.role == 'tool' -%}
{%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\\n<tool_response>\\n' -}}{{- message.content -}}{{- '\\n</tool_response>' -}}
{%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
{%- else -%}
{{- '<|im_start|>' + message.role + '\\n' -}}{{- message.content or '' -}}
{%- for call in message.tool_calls or [] -%}
{%- set function = call.function or call -%}
{{- '\\n' if message.content or not loop.first else '' -}}
{{- '<tool_call>\\n{"name": "' + function.name + '", "arguments": ' -}}
{{- function.arguments if function.arguments is string else function.arguments | tojson -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
