"""An episode as one self-contained HTML page: everything a model or a person wrote is escaped, nothing can run."""

import html
import json
from pathlib import Path

from lib.files import atomic_write_text
from lib.grpo.environment import Environment
from lib.grpo.show import brief_lines, call_text, difference_lines, reward_lines, writable

STYLE = """
:root { color-scheme: light dark; --line: #8886; --agent: #2b6cb022; --user: #38a16922; --tool: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.message { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .8rem; margin: .5rem 0; }
.assistant { background: var(--agent); margin-right: 4rem; } .user { background: var(--user); margin-left: 4rem; }
.tool { background: var(--tool); margin-right: 4rem; font-size: .9em; } .role { font-size: .8em; opacity: .7; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; font: 13px/1.45 ui-monospace, monospace; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; } .error { color: #c53030; } summary { cursor: pointer; }
"""


def write_dialogue(environment: Environment, path: str | Path) -> Path:
    """Write the episode of `environment` to `path`; raises UserError when that cannot be done."""
    task = environment.task
    title = f"{task.domain}: {task.id}"
    reward = environment.reward()
    policy = environment.messages[0]["content"]
    parts = [
        f"<h1>{_text(title)}</h1><p>Reward <b>{reward.total:g}</b></p>",
        f"<details><summary>Policy</summary><pre>{_text(policy)}</pre></details>",
        f"<h2>The user</h2><pre>{_text(chr(10).join(brief_lines(task)))}</pre>",
        "<h2>Dialogue</h2>",
        *(_message(message) for message in environment.messages[1:]),
        f"<h2>Changes of the database</h2><pre>{_text(chr(10).join(difference_lines(environment)))}</pre>",
        f"<h2>Reward</h2><pre>{_text(chr(10).join(reward_lines(reward)))}</pre>",
    ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )
    atomic_write_text(path, page)
    return Path(path)


def _message(message: dict) -> str:
    role = message["role"]
    content = message.get("content") or ""
    inner = f'<div class="role">{_text({"assistant": "agent"}.get(role, role))}</div>'
    if role == "tool":
        wrong = " error" if content.startswith("Error") else ""
        inner += f'<pre class="{wrong.strip()}">{_text(_pretty(content))}</pre>'
    elif content:
        inner += f'<div class="text">{_text(content)}</div>'
    for call in message.get("tool_calls") or []:
        inner += f"<pre>{_text(call_text(call))}</pre>"
    kind = role if role in ("assistant", "user", "tool") else "other"
    return f'<div class="message {kind}">{inner}</div>'


def _pretty(content: str) -> str:
    """JSON results with line breaks where they help."""
    try:
        return json.dumps(json.loads(content), indent=1)
    except ValueError:
        return content


def _text(text: str) -> str:
    return html.escape(writable(text))
