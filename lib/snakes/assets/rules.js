// The rules of the 3v3 game on plain arrays: the same numbers, the same order of events and, with random.js, the same
// random draws as the kernel. A state is {snakes, beans, directions, lastDirections, step, over}: six lists of cells
// (head first, cell = row * WIDTH + column), an ordered list of beans, directions 0..3 = up, down, left, right.
const HEIGHT = 10, WIDTH = 20, CELLS = HEIGHT * WIDTH, SNAKES = 6, TEAM = 3, BEANS = 5, STEPS = 200;
const UP = 0, DOWN = 1, LEFT = 2, RIGHT = 3;
const MOVES = [[-1, 0], [1, 0], [0, -1], [0, 1]];
const REVERSE = [DOWN, UP, RIGHT, LEFT];
const START_LENGTH = 3;

const rowOf = (cell) => Math.floor(cell / WIDTH);
const columnOf = (cell) => cell % WIDTH;

function moved(cell, direction) {
  const row = (rowOf(cell) + MOVES[direction][0] + HEIGHT) % HEIGHT;
  const column = (columnOf(cell) + MOVES[direction][1] + WIDTH) % WIDTH;
  return row * WIDTH + column;
}

const copyState = (state) => ({
  ...state,
  snakes: state.snakes.map((body) => body.slice()),
  beans: state.beans.slice(),
  directions: state.directions.slice(),
  lastDirections: state.lastDirections === null ? null : state.lastDirections.slice(),
});

const scores = (state) => state.snakes.map((body) => body.length - START_LENGTH);

function teamScores(state) {
  const each = scores(state);
  return [each[0] + each[1] + each[2], each[3] + each[4] + each[5]];
}

// How many snakes hold each cell (a living snake never lies on another between steps; heads may meet within one).
function occupancy(snakes) {
  const held = new Uint8Array(CELLS);
  for (const body of snakes) for (const cell of body) held[cell] += 1;
  return held;
}

// Snakes in order: direction, row and column are drawn, three cells laid forward from the drawn one, which is the tail.
function newGame(random) {
  const state = { snakes: [], beans: [], directions: [], lastDirections: null, step: 0, over: false };
  const held = new Uint8Array(CELLS);
  while (state.snakes.length < SNAKES) {
    const { direction, cell } = random.place();
    const neck = moved(cell, direction);
    const body = [moved(neck, direction), neck, cell];
    if (body.some((part) => held[part])) continue;
    for (const part of body) held[part] = 1;
    state.snakes.push(body);
    state.directions.push(direction);
  }
  refillBeans(state, random);
  return state;
}

// Each new bean lies on the k-th free cell in scan order, k drawn uniformly; it is appended to the ordered list.
function refillBeans(state, random) {
  const held = occupancy(state.snakes);
  for (const bean of state.beans) held[bean] = 1;
  let free = 0;
  for (let cell = 0; cell < CELLS; cell += 1) if (!held[cell]) free += 1;
  for (; state.beans.length < BEANS && free > 0; free -= 1) {
    let skip = random.bean(free);
    let cell = 0;
    while (held[cell] || skip > 0) {
      if (!held[cell]) skip -= 1;
      cell += 1;
    }
    held[cell] = 1;
    state.beans.push(cell);
  }
}

// One step in place. Returns {rewards, deaths, ate, crashes}: crashes holds the cell where each dead snake died, else -1.
function play(state, actions, random) {
  random.startStep(state.step);
  state.lastDirections = state.directions.slice();
  const rewards = new Array(SNAKES).fill(0), deaths = new Array(SNAKES).fill(0);
  const ate = new Array(SNAKES).fill(0), crashes = new Array(SNAKES).fill(-1);
  for (let snake = 0; snake < SNAKES; snake += 1) ate[snake] = moveSnake(state, snake, actions[snake], random);
  const held = occupancy(state.snakes);
  for (let snake = 0; snake < SNAKES; snake += 1) {
    const head = state.snakes[snake][0];
    rewards[snake] = ate[snake];
    if (held[head] < 2) continue;
    deaths[snake] = 1;
    crashes[snake] = head;
    rewards[snake] += START_LENGTH - state.snakes[snake].length;
  }
  for (let snake = 0; snake < SNAKES; snake += 1) if (deaths[snake]) state.snakes[snake] = [];
  let placed = true;
  for (let snake = 0; snake < SNAKES; snake += 1) if (deaths[snake]) placed = respawn(state, snake) && placed;
  refillBeans(state, random);
  state.step += 1;
  const total = state.snakes.reduce((sum, body) => sum + body.length, 0);
  state.over = !placed || state.step >= STEPS || BEANS + total > CELLS;
  return { rewards, deaths, ate, crashes };
}

// An exact reversal becomes one of the three other directions at random. Returns 1 when a bean was eaten.
function moveSnake(state, snake, action, random) {
  let direction = action;
  if (action === REVERSE[state.directions[snake]]) {
    direction = [UP, DOWN, LEFT, RIGHT].filter((other) => other !== action)[random.reversal(snake)];
  }
  const body = state.snakes[snake];
  const head = moved(body[0], direction);
  state.directions[snake] = direction;
  body.unshift(head);
  const bean = state.beans.indexOf(head);
  if (bean < 0) {
    body.pop();
    return 0;
  }
  state.beans.splice(bean, 1);
  return 1;
}

// The first three cells of a breadth-first search over free cells from the top-left, with the game's quirks: opposite
// neighbours give a broken body, and across the seam the direction points into the neck. False when there is no place.
function respawn(state, snake) {
  const held = occupancy(state.snakes);
  for (const bean of state.beans) held[bean] = 1;
  for (let first = 0; first < CELLS; first += 1) {
    if (held[first]) continue;
    const body = threeFree(held, first);
    if (body === null) continue;
    const [s0, s1, s2] = body;
    const corners = [rowOf(s1) * WIDTH + columnOf(s2), rowOf(s2) * WIDTH + columnOf(s1)];
    if (corners.includes(s0)) [body[0], body[1]] = [s1, s0];
    state.snakes[snake] = body;
    state.directions[snake] = facing(body[0], body[1]);
    return true;
  }
  return false;
}

function threeFree(held, first) {
  const freeAround = (cell) => [RIGHT, DOWN, UP, LEFT].map((side) => moved(cell, side)).filter((near) => !held[near]);
  const near = freeAround(first);
  if (near.length >= 2) return [first, near[0], near[1]];
  if (near.length === 0) return null;
  const beyond = freeAround(near[0]).filter((cell) => cell !== first);
  return beyond.length ? [first, near[0], beyond[0]] : null;
}

function facing(head, neck) {
  if (rowOf(head) === rowOf(neck)) return columnOf(head) > columnOf(neck) ? RIGHT : LEFT;
  return rowOf(head) > rowOf(neck) ? DOWN : UP;
}
