"""The page's JavaScript in a browser tab, called from tests: rules, features and network without the page around."""

import json

from devtools import Page

from lib.snakes.page import program

# What tests ask for; arguments and answers are JSON.
CALLS = """
// Games of seed and game number, all actions given: the states, and the events of every step.
function replayGames(games) {
  return games.map(({ seed, game, episode, actions }) => {
    const random = new GameRandom(seed, game, episode);
    const state = newGame(random);
    const states = [copyState(state)], events = [];
    for (const each of actions) {
      events.push(play(state, each, random));
      states.push(copyState(state));
    }
    return { states, events };
  });
}
// One step from each of the given states.
function stepOnce(cases) {
  return cases.map(({ state, actions, seed }) => {
    const copy = copyState(state);
    const events = play(copy, actions, new GameRandom(seed));
    return { state: copy, events };
  });
}
const featuresOf = ({ layout, states }) =>
  states.map((state) => [0, 1, 2, 3, 4, 5].map((snake) => Array.from(FEATURES[layout](state, snake))));
const greedyOf = (states) => states.map((state) => [...greedyActions(state, 0), ...greedyActions(state, 1)]);
function logitsOf({ network, rows }) {
  const read = readNetwork(network);
  return rows.map((team) => networkLogits(read, team));
}
"""


def call(page: Page, name: str, argument):
    """The answer of one of CALLS to `argument`."""
    return page.evaluate(f"(() => {{ {program()}\n{CALLS}\nreturn {name}({json.dumps(argument)}); }})()")
