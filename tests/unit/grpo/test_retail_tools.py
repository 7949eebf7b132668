"""The shop's tools on a tiny shop, every refusal without a trace, and the gold actions of the benchmark's tasks."""

import hashlib
import json

import pytest
from episode_samples import real_data
from retail_samples import address, payment, shop

from lib.grpo.worlds.records import DataError
from lib.grpo.worlds.retail_data import read_retail
from lib.grpo.worlds.retail_tools import RetailTools
from lib.grpo.worlds.store import canonical
from lib.grpo.worlds.world import ASSISTANT, Domain, World

DOMAIN = Domain("retail", RetailTools, read_retail)
# Tasks of the benchmark in which the tools refuse a gold action.
REFUSED_GOLD = {"2", "3", "4", "35", "37", "46", "47", "54", "67", "105"}
# Computed with the benchmark's own code: of the database, and of all its hashes after the gold actions of a task.
DIGEST = "b25c9cb211f5efcaee5dd646054a73c4a9f43f4f5acc32c10713cd9f9ac20e9c"
GOLD_DIGEST = "4dcd1990afa395088051a33c97b6287e36446b50419dff9b8ba1159bbcc651e4"
BASE = read_retail(shop())
CONTENT = canonical(BASE.tables)


@pytest.fixture
def world():
    world = World(DOMAIN, BASE)
    yield world
    assert not world.faults
    assert canonical(BASE.tables) == CONTENT, "a tool changed the base"


def call(world: World, name: str, **arguments):
    """The result of a call that must succeed, as the agent reads it."""
    done = world.call(ASSISTANT, name, arguments)
    assert not done.error, done.text
    return done.text if name.startswith("find_") else json.loads(done.text)


def balance(world: World, method: str) -> float:
    return call(world, "get_user_details", user_id="ann")["payment_methods"][method]["balance"]


# Reading files.


def test_reader_casts_numbers_and_completes_orders():
    tables = BASE.tables
    assert repr(tables["users"]["ann"]["payment_methods"]["gift_1"]["balance"]) == "20.1"
    assert repr(tables["products"]["8"]["variants"]["83"]["price"]) == "90.0"
    assert repr(tables["orders"]["#W1"]["items"][2]["price"]) == "100.0"
    assert list(tables["users"]["ann"]["address"]) == ["address1", "address2", "city", "country", "state", "zip"]
    assert list(tables["orders"]["#W1"]) == [
        "order_id",
        "user_id",
        "address",
        "items",
        "status",
        "fulfillments",
        "payment_history",
        "cancel_reason",
        "exchange_items",
        "exchange_new_items",
        "exchange_payment_method_id",
        "exchange_price_difference",
        "return_items",
        "return_payment_method_id",
    ]
    assert list(tables["orders"]["#W1"].values())[7:] == [None] * 7


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("orders", "#W1", "status"), "lost", "db.orders.#W1.status"),
        (("orders", "#W1", "cancel_reason"), "whim", "db.orders.#W1.cancel_reason"),
        (("products", "7", "variants", "71", "price"), "dear", "db.products.7.variants.71.price"),
        (("users", "ann", "payment_methods", "gift_1", "source"), "bitcoin", "gift_1.source"),
        (("shelves",), {}, "unknown field 'shelves'"),
    ],
)
def test_reader_names_the_wrong_place(path, value, said):
    data = place = shop()
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(DataError, match=said):
        read_retail(data)


# Looking up.


def test_toolkit_has_the_tools_of_the_benchmark():
    kinds = {
        kind: {name for name, tool in RetailTools.tools.items() if tool.kind == kind} for kind in ("read", "write")
    }
    assert len(RetailTools.tools) == 16 and len(kinds["read"]) == 7 and len(kinds["write"]) == 7
    assert all(
        tool.description and len(tool.description) < 120
        for tool in RetailTools.tools.values()
        if tool.kind != "generic"
    )
    for tool in RetailTools.tools.values():
        assert all("description" in entry for entry in tool.parameters["properties"].values()), tool.name


def test_reads(world):
    assert call(world, "get_order_details", order_id="#W3")["status"] == "delivered"
    assert call(world, "get_product_details", product_id="7")["name"] == "Cup"
    assert call(world, "get_item_details", item_id="82")["price"] == 130.3
    assert call(world, "get_user_details", user_id="bob")["email"] == "bob@Example.com"
    assert world.call(ASSISTANT, "list_all_product_types", {}).text == '{"Cup": "7", "Lamp": "8"}'
    assert world.call(ASSISTANT, "calculate", {"expression": "2 * 1.255"}).text == "2.51"
    assert world.call(ASSISTANT, "transfer_to_human_agents", {"summary": "x"}).text == "Transfer successful"
    assert world.state() == World(DOMAIN, BASE).state()


def test_users_are_found_in_any_letters(world):
    assert call(world, "find_user_id_by_email", email="BOB@example.COM") == "bob"
    assert call(world, "find_user_id_by_name_zip", first_name="ann", last_name="LEE", zip="20002") == "bob"


def test_users_are_found_by_their_present_address(world):
    for zip_code in ("10001", "20002"):
        call(world, "find_user_id_by_name_zip", first_name="Ann", last_name="Lee", zip=zip_code)
    call(world, "modify_user_address", user_id="ann", **address("3 New St", "20002"))
    # Both live there now: the first of the table is meant.
    assert call(world, "find_user_id_by_name_zip", first_name="Ann", last_name="Lee", zip="20002") == "ann"
    assert call(world, "find_user_id_by_email", email="ann@example.com") == "ann"
    left = world.call(ASSISTANT, "find_user_id_by_name_zip", {"first_name": "Ann", "last_name": "Lee", "zip": "10001"})
    assert left.error
    other = World(DOMAIN, BASE)
    assert call(other, "find_user_id_by_name_zip", first_name="Ann", last_name="Lee", zip="20002") == "bob"


# Changing orders.


def test_cancel_refunds_every_entry(world):
    row = call(world, "cancel_pending_order", order_id="#W2", reason="ordered by mistake")
    assert (row["status"], row["cancel_reason"]) == ("cancelled", "ordered by mistake")
    # As in the benchmark: a refund is "refunded" too.
    assert row["payment_history"][2:] == [payment("refund", 120.2, "gift_1"), payment("refund", 20.25, "gift_1")]
    assert balance(world, "gift_1") == 160.55
    row = call(world, "cancel_pending_order", order_id="#W1", reason="no longer needed")
    assert row["payment_history"][1:] == [payment("refund", 120.2, "paypal_1")]


def test_replaced_items_get_price_and_options_of_the_last_one(world):
    row = call(
        world,
        "modify_pending_order_items",
        order_id="#W1",
        item_ids=["71", "81", "71"],
        new_item_ids=["72", "83", "73"],
        payment_method_id="gift_1",
    )
    assert [item["item_id"] for item in row["items"]] == ["72", "73", "83"]
    assert {(item["price"], item["options"]["size"]) for item in row["items"]} == {(10.4, "73")}
    difference = 12.35 - 10.1 + (90.0 - 100.0) + (10.4 - 10.1)
    assert difference != round(difference, 2)
    assert row["payment_history"][1:] == [payment("refund", abs(difference), "gift_1")]
    assert balance(world, "gift_1") == 27.55
    assert row["status"] == "pending (item modified)"
    assert call(world, "get_item_details", item_id="73")["options"] == {"size": "73"}


def test_replacement_is_paid(world):
    arguments = {"order_id": "#W1", "item_ids": ["71"], "new_item_ids": ["72"]}
    row = call(world, "modify_pending_order_items", **arguments, payment_method_id="card_1")
    assert row["payment_history"][1:] == [payment("payment", 12.35 - 10.1, "card_1")]
    assert [item["item_id"] for item in row["items"]] == ["72", "71", "81"]


def test_empty_lists_pass_as_in_the_benchmark(world):
    nothing = {"item_ids": [], "new_item_ids": [], "payment_method_id": "paypal_1"}
    row = call(world, "modify_pending_order_items", order_id="#W1", **nothing)
    assert repr(row["payment_history"][1]["amount"]) == "0.0"
    row = call(world, "exchange_delivered_order_items", order_id="#W3", **nothing)
    assert row["exchange_items"] == [] and repr(row["exchange_price_difference"]) == "0"


def test_address_may_change_after_the_items(world):
    before = call(world, "get_order_details", order_id="#W1")
    arguments = {"order_id": "#W1", "item_ids": ["71"], "new_item_ids": ["72"], "payment_method_id": "card_1"}
    call(world, "modify_pending_order_items", **arguments)
    row = call(world, "modify_pending_order_address", order_id="#W1", **address("4 New St"))
    assert row["address"] == {**before["address"], "address1": "4 New St"}
    assert list(row["address"]) == list(before["address"])
    assert row["status"] == "pending (item modified)"
    assert world.call(ASSISTANT, "modify_pending_order_items", arguments).error


def test_payment_moves_between_gift_cards(world):
    row = call(world, "modify_pending_order_payment", order_id="#W7", payment_method_id="gift_1")
    assert row["payment_history"] == [
        payment("payment", 15.33, "gift_2"),
        payment("payment", 15.33, "gift_1"),
        payment("refund", 15.33, "gift_2"),
    ]
    assert (balance(world, "gift_1"), balance(world, "gift_2"), row["status"]) == (4.77, 515.83, "pending")


def test_user_address_leaves_orders_alone(world):
    row = call(world, "modify_user_address", user_id="ann", **address("3 New St", "30003"))
    assert row["address"]["zip"] == "30003"
    assert call(world, "get_order_details", order_id="#W1")["address"]["address1"] == "2 Side St"


def test_exchange_sorts_both_lists_and_moves_no_money(world):
    arguments = {"order_id": "#W3", "item_ids": ["81", "71", "71"], "new_item_ids": ["82", "72", "71"]}
    done = world.call(ASSISTANT, "exchange_delivered_order_items", {**arguments, "payment_method_id": "gift_1"})
    assert done.error and "Balance" in done.text
    row = call(world, "exchange_delivered_order_items", **arguments, payment_method_id="gift_2")
    assert (row["status"], row["exchange_payment_method_id"]) == ("exchange requested", "gift_2")
    assert (row["exchange_items"], row["exchange_new_items"]) == (["71", "71", "81"], ["71", "72", "82"])
    assert row["exchange_price_difference"] == 32.55
    assert balance(world, "gift_2") == 500.5
    assert row["items"] == call(world, "get_order_details", order_id="#W4")["items"]
    assert len(row["payment_history"]) == 1


@pytest.mark.parametrize("method", ["card_1", "gift_2"])
def test_return_to_the_first_method_or_a_gift_card(world, method):
    arguments = {"order_id": "#W3", "item_ids": ["81", "71"], "payment_method_id": method}
    row = call(world, "return_delivered_order_items", **arguments)
    assert (row["status"], row["return_items"], row["return_payment_method_id"]) == (
        "return requested",
        ["71", "81"],
        method,
    )
    assert world.call(ASSISTANT, "return_delivered_order_items", arguments).error


# Refusals.

EXCHANGE = {"order_id": "#W3", "item_ids": ["71"], "new_item_ids": ["72"], "payment_method_id": "card_1"}
RETURN = {"order_id": "#W3", "item_ids": ["71"], "payment_method_id": "card_1"}
PLACE = address("1 A St")
REFUSALS = [
    ("find_user_id_by_email", {"email": "nobody@example.com"}, "User not found"),
    ("find_user_id_by_name_zip", {"first_name": "Ann", "last_name": "Lee", "zip": "1"}, "User not found"),
    ("find_user_id_by_name_zip", {"first_name": "Ann", "last_name": "Lee", "zip": 10001}, "must be a string"),
    ("get_order_details", {"order_id": "W1"}, "W1 not found in orders"),
    ("get_product_details", {"product_id": "71"}, "71 not found in products"),
    ("get_item_details", {"item_id": "7"}, "7 not found"),
    ("get_user_details", {"user_id": "Ann"}, "Ann not found in users"),
    ("calculate", {"expression": "ann"}, "Invalid characters"),
    ("cancel_pending_order", {"order_id": "#W", "reason": "no longer needed"}, "not found"),
    ("cancel_pending_order", {"order_id": "#W4", "reason": "no longer needed"}, "is processed"),
    ("cancel_pending_order", {"order_id": "#W1", "reason": "bored"}, "must be one of"),
    ("cancel_pending_order", {"order_id": "#W6", "reason": "no longer needed"}, "lost_1 not found"),
    ("modify_pending_order_address", {"order_id": "#W", **PLACE}, "not found"),
    ("modify_pending_order_address", {"order_id": "#W4", **PLACE}, "is processed"),
    ("modify_user_address", {"user_id": "eve", **PLACE}, "eve not found"),
    ("modify_pending_order_payment", {"order_id": "#W", "payment_method_id": "card_1"}, "not found"),
    ("modify_pending_order_payment", {"order_id": "#W3", "payment_method_id": "paypal_1"}, "is delivered"),
    ("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "card_2"}, "card_2 not found"),
    ("modify_pending_order_payment", {"order_id": "#W2", "payment_method_id": "card_1"}, "exactly one payment"),
    ("modify_pending_order_payment", {"order_id": "#W9", "payment_method_id": "paypal_1"}, "exactly one payment"),
    ("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "paypal_1"}, "already paid"),
    ("modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "gift_1"}, "Balance of gift_1"),
    ("modify_pending_order_payment", {"order_id": "#W6", "payment_method_id": "gift_2"}, "lost_1 not found"),
    ("exchange_delivered_order_items", {**EXCHANGE, "order_id": "#W1"}, "is pending"),
    ("return_delivered_order_items", {**RETURN, "order_id": "#W"}, "not found"),
    ("return_delivered_order_items", {**RETURN, "order_id": "#W1"}, "is pending"),
    ("return_delivered_order_items", {**RETURN, "payment_method_id": "card_2"}, "card_2 not found"),
    ("return_delivered_order_items", {**RETURN, "payment_method_id": "paypal_1"}, "not to paypal_1"),
    ("return_delivered_order_items", {**RETURN, "order_id": "#W5"}, "not to card_1"),
    ("return_delivered_order_items", {**RETURN, "order_id": "#W8", "payment_method_id": "paypal_1"}, "not to paypal_1"),
    ("return_delivered_order_items", {**RETURN, "item_ids": ["71"] * 3}, "Item 71 not found"),
    ("return_delivered_order_items", {**RETURN, "item_ids": "71"}, "must be a list"),
    ("modify_pending_order_items", {**EXCHANGE, "order_id": "#W3"}, "is delivered"),
    ("modify_pending_order_items", {**EXCHANGE, "order_id": "#W1", "new_item_ids": ["71"]}, "by itself"),
    (
        "modify_pending_order_items",
        {"order_id": "#W1", "item_ids": ["81"], "new_item_ids": ["82"], "payment_method_id": "gift_1"},
        "Balance of gift_1",
    ),
    (
        "modify_pending_order_items",
        {"order_id": "#W7", "item_ids": ["91"], "new_item_ids": ["92"], "payment_method_id": "gift_1"},
        "9 not found in products",
    ),
]
for name, order_id in (("exchange_delivered_order_items", "#W3"), ("modify_pending_order_items", "#W1")):
    swap = {**EXCHANGE, "order_id": order_id}
    REFUSALS += [
        (name, {**swap, "order_id": "#W"}, "not found in orders"),
        (name, {**swap, "item_ids": ["71"] * 3, "new_item_ids": ["72"] * 3}, "Item 71 not found"),
        (name, {**swap, "item_ids": ["72"], "new_item_ids": ["71"]}, "Item 72 not found"),
        (name, {**swap, "new_item_ids": []}, "1 items cannot be exchanged for 0 items"),
        (name, {**swap, "new_item_ids": ["82"]}, "not of the product"),
        (name, {**swap, "new_item_ids": ["74"]}, "not available"),
        (name, {**swap, "payment_method_id": "card_2"}, "card_2 not found"),
        (name, {**swap, "new_item_ids": [72]}, "must be a string"),
    ]


@pytest.mark.parametrize(("name", "arguments", "said"), REFUSALS)
def test_refusals_change_nothing(world, name, arguments, said):
    call(world, "modify_user_address", user_id="bob", **address("5 New St"))
    before = world.state()
    done = world.call(ASSISTANT, name, arguments)
    assert done.error and done.text.startswith("Error: ") and said in done.text, done.text
    assert world.state() == before


# The benchmark's data.


@pytest.mark.shared_data
def test_gold_actions_of_the_benchmark():
    folder = real_data("retail/tasks.json") / "retail"
    base = read_retail(json.loads((folder / "db.json").read_text()))
    assert {name: len(rows) for name, rows in base.tables.items()} == {"products": 50, "users": 500, "orders": 1000}
    assert base.digest() == DIGEST
    refused, unchanged, hashes = set(), 0, hashlib.sha256()
    tasks = json.loads((folder / "tasks.json").read_text())
    for task in tasks:
        world = World(DOMAIN, base)
        untouched = world.state()
        for action in task["evaluation_criteria"]["actions"]:
            if world.call(ASSISTANT, action["name"], action["arguments"]).error:
                refused.add(task["id"])
        unchanged += world.state() == untouched
        hashes.update(world.agent.db.full_hash().encode())
        assert not world.faults
    assert (len(tasks), refused, unchanged) == (74, REFUSED_GOLD, 7)
    assert hashes.hexdigest() == GOLD_DIGEST
