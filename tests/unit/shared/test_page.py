"""What pages for the browser share: blocks, data in scripts, files of assets."""

import re

import pytest

from lib.errors import UserError
from lib.page import SCRIPTS, asset, controls, fragment, script_json, scripts, write_page


def test_json_cannot_end_its_script():
    assert script_json({"name": "</script><!-- \u2028"}) == '{"name": "\\u003c/script>\\u003c!-- \\u2028"}'


def test_a_block_holds_what_it_is_given_and_nothing_is_replaced_in_it():
    parts = {
        "style": "i { color: red }",
        "markup": "<i>$5</i>",
        "program": "const a = `${b}`;",
        "start": "new A(data);",
    }
    block = fragment("thing", data={"cost": "$data"}, **parts)
    assert block.startswith('<div class="thing" data-mode="watch">') and all(text in block for text in parts.values())
    assert '{"cost": "$data"}' in block and block.count("<script") == 2 == block.count("</script>")
    # What extends a class comes after it.
    assert block.index("class Frame") < block.index("class Watching") < block.index(parts["program"])


def test_a_page_escapes_its_title(tmp_path):
    path = write_page(tmp_path / "a page.html", title="<b> & 'c'", body="<p>$1 body</p>")
    text = path.read_text(encoding="utf-8")
    assert text.count("&lt;b&gt; &amp; &#x27;c&#x27;") == 2 and "<p>$1 body</p>" in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy == "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    with pytest.raises(UserError, match="it is there and is no file"):
        write_page(tmp_path, title="a", body="b")


def test_assets_are_there_and_the_buttons_take_more():
    assert "class Clock" in scripts(SCRIPTS) and ":host" in asset("controls.css")
    assert "<button>more</button>" in controls("<button>more</button>") and "$" not in controls()
