"""`--user scripted|none|hf|openai`: from a name to what makes the users of an environment."""

from lib.errors import UserError
from lib.grpo.users.language import Complete, LanguageUser
from lib.grpo.users.scripted import scripted_user
from lib.grpo.users.ticket import nobody

KINDS = ("scripted", "none", "hf", "openai")


def user_factory(kind: str, complete: Complete | None = None):
    """What `Environment(user=...)` takes; `hf` and `openai` speak through a `LocalModel` or an `Endpoint`.

    Raises UserError for an unknown kind.
    """
    if kind == "scripted":
        return scripted_user
    if kind == "none":
        return nobody
    if kind not in KINDS:
        raise UserError(f"--user is {kind!r}: expected one of {', '.join(KINDS)}")
    assert complete is not None, kind
    return lambda task, world: LanguageUser(task, world, complete)
