"""Names, addresses and dates of birth of people who do not exist."""

from lib.grpo.generation.draw import Draw

FIRST = (
    "Ada", "Bela", "Carmen", "Dario", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Leon", "Mara", "Nils",
    "Olga", "Pablo", "Quinn", "Rosa", "Samir", "Tessa", "Umar", "Vera", "Willem", "Ximena", "Yara", "Zoe", "Amara",
    "Boris", "Chloe", "Dmitri", "Esther", "Felix", "Gita", "Hana", "Ivan", "Jade", "Kofi", "Lina", "Mateo", "Nora",
)  # fmt: skip
LAST = (
    "Abbott", "Bauer", "Castro", "Dahl", "Eriksen", "Fischer", "Gomez", "Hoffman", "Ito", "Jansen", "Kaur", "Lindgren",
    "Moreno", "Nakamura", "Okafor", "Petrov", "Quiroga", "Rossi", "Santos", "Takeda", "Ueda", "Vargas", "Weber", "Xu",
    "Yilmaz", "Zhang", "Adeyemi", "Becker", "Costa", "Dubois", "Evans", "Foster", "Grant", "Haas", "Iqbal", "Jensen",
)  # fmt: skip
STREETS = (
    "Oak Street",
    "Maple Avenue",
    "Hill Road",
    "Lake Drive",
    "Cedar Lane",
    "Park Avenue",
    "Elm Street",
    "River Road",
)
PLACES = (
    ("Austin", "TX", "787"), ("Boston", "MA", "021"), ("Chicago", "IL", "606"), ("Denver", "CO", "802"),
    ("Miami", "FL", "331"), ("Phoenix", "AZ", "850"), ("Seattle", "WA", "981"), ("Portland", "OR", "972"),
)  # fmt: skip


def draw_name(draw: Draw) -> tuple[str, str]:
    """(first, last)."""
    return draw.pick(FIRST), draw.pick(LAST)


def draw_address(draw: Draw) -> dict:
    """The fields of airline and retail addresses."""
    city, state, zip_start = draw.pick(PLACES)
    return {
        "address1": f"{draw.between(100, 999)} {draw.pick(STREETS)}",
        "address2": f"Suite {draw.between(100, 999)}",
        "city": city,
        "country": "USA",
        "state": state,
        "zip": f"{zip_start}{draw.between(10, 99)}",
    }


def draw_birthday(draw: Draw) -> str:
    return f"{draw.between(1950, 2003)}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
