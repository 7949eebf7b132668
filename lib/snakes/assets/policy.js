// What a team sees (the 140 numbers of the layout "team") and how it decides: the trained network, or the greedy script.
const TEAM_FEATURES = 140;
const SIGHT = 3; // cells that a snake sees up, down, left and right of its head
const WINDOW_START = 68, TARGET_START = 116, POCKETS_START = 124, RACES_START = 136;
const RACE_LENGTH = 6, RACE_STEPS = 12;
const FAR_AWAY = 31; // how far an empty body is from every bean
const NO_BEAN = 100; // what a missing bean costs as a target
const SIDES = [UP, DOWN, LEFT, RIGHT];
const wrapRows = (rows) => ((((rows + 5) % HEIGHT) + HEIGHT) % HEIGHT) - 5;
const wrapColumns = (columns) => ((((columns + 10) % WIDTH) + WIDTH) % WIDTH) - 10;

function torusDelta(from, to) {
  return [wrapRows(rowOf(to) - rowOf(from)), wrapColumns(columnOf(to) - columnOf(from))];
}

function torusDistance(from, to) {
  const [rows, columns] = torusDelta(from, to);
  return Math.abs(rows) + Math.abs(columns);
}

// Mates before enemies, each in ascending order; the snake itself is left out.
function othersOf(snake) {
  const team = Math.floor(snake / TEAM);
  const all = [0, 1, 2, 3, 4, 5].filter((other) => other !== snake);
  const isMate = (other) => Math.floor(other / TEAM) === team;
  return [...all.filter(isMate), ...all.filter((other) => !isMate(other))];
}

// Float32Array of 140; all zero for an empty body.
function teamFeatures(state, snake) {
  const seen = new Float32Array(TEAM_FEATURES);
  const body = state.snakes[snake];
  if (body.length === 0) return seen;
  const head = body[0], others = othersOf(snake);
  const lengths = teamScores(state);
  const team = Math.floor(snake / TEAM);
  seen[state.directions[snake]] = 1;
  seen[4] = body.length / 20;
  seen[5] = state.step / STEPS;
  seen[6] = (lengths[team] - lengths[1 - team]) / 20;
  seen[7] = (body.length - START_LENGTH) / 10;
  const heads = (from, to) =>
    others.slice(from, to).filter((other) => state.snakes[other].length).map((other) => state.snakes[other][0]);
  const mateHeads = heads(0, 2), enemyHeads = heads(2, 5);
  const held = occupancy(state.snakes);
  fillMoves(seen, state, held, head, mateHeads, enemyHeads);
  fillBeans(seen, state.beans, head, mateHeads, enemyHeads);
  others.forEach((other, index) => {
    const its = state.snakes[other];
    if (its.length === 0) return;
    const [rows, columns] = torusDelta(head, its[0]);
    seen.set([rows / 5, columns / 10, its.length / 20], 53 + 3 * index);
  });
  fillWindow(seen, held, head);
  fillTarget(seen, state, snake);
  const closed = closedCells(state, held);
  fillPockets(seen, state, closed, snake);
  if (body.length >= RACE_LENGTH) fillRaces(seen, state, closed, snake);
  return seen;
}

function fillMoves(seen, state, held, head, mateHeads, enemyHeads) {
  const tails = new Uint8Array(CELLS);
  for (const body of state.snakes) if (body.length >= 2) tails[body[body.length - 1]] += 1;
  for (let move = 0; move < 4; move += 1) {
    const cell = moved(head, move);
    const only = held[cell] > 0 && held[cell] === tails[cell];
    const free = [UP, DOWN, LEFT, RIGHT].filter((side) => !held[moved(cell, side)]).length;
    const near = (heads) => heads.filter((other) => torusDistance(other, cell) === 1).length;
    seen[8 + 5 * move] = only ? 0.5 : held[cell] ? 1 : 0;
    seen[9 + 5 * move] = state.beans.includes(cell) ? 1 : 0;
    seen[10 + 5 * move] = free / 4;
    seen[11 + 5 * move] = near(enemyHeads);
    seen[12 + 5 * move] = near(mateHeads);
  }
}

function fillBeans(seen, beans, head, mateHeads, enemyHeads) {
  const sorted = beans
    .map((cell, index) => ({ cell, index, distance: torusDistance(head, cell) }))
    .sort((one, other) => one.distance - other.distance || one.index - other.index);
  for (let place = 0; place < BEANS; place += 1) {
    if (place >= sorted.length) {
      seen[28 + 5 * place + 2] = 1;
      continue;
    }
    const { cell, distance } = sorted[place];
    const [rows, columns] = torusDelta(head, cell);
    const mateNearer = mateHeads.some((other) => torusDistance(other, cell) < distance);
    const enemyNearer = enemyHeads.some((other) => torusDistance(other, cell) <= distance);
    seen.set([rows / 5, columns / 10, distance / 15, mateNearer ? 1 : 0, enemyNearer ? 1 : 0], 28 + 5 * place);
  }
}

// The 7 x 7 cells around the head without the head itself, row by row: 1 where any segment lies.
function fillWindow(seen, held, head) {
  let place = WINDOW_START;
  for (let rows = -SIGHT; rows <= SIGHT; rows += 1) {
    for (let columns = -SIGHT; columns <= SIGHT; columns += 1) {
      if (rows === 0 && columns === 0) continue;
      const row = (rowOf(head) + rows + HEIGHT) % HEIGHT, column = (columnOf(head) + columns + WIDTH) % WIDTH;
      seen[place] = held[row * WIDTH + column] ? 1 : 0;
      place += 1;
    }
  }
}

// The places in the list of beans of a team's targets: the least sum of costs, of equal ones the first in order.
function targetsOf(state, team) {
  const away = state.snakes.map((body) =>
    state.beans.map((bean) => (body.length ? torusDistance(body[0], bean) : FAR_AWAY)),
  );
  const enemies = [0, 1, 2].map((index) => TEAM * (1 - team) + index);
  const cost = (snake, place) => {
    if (place >= state.beans.length) return NO_BEAN;
    const own = away[snake][place], enemy = Math.min(...enemies.map((other) => away[other][place]));
    return own + (enemy < own ? 8 : enemy === own ? 4 : 0);
  };
  const costs = [0, 1, 2].map((index) => [0, 1, 2, 3, 4].map((place) => cost(TEAM * team + index, place)));
  let best = [0, 1, 2], least = Infinity;
  for (let one = 0; one < BEANS; one += 1) {
    for (let two = 0; two < BEANS; two += 1) {
      for (let three = 0; three < BEANS; three += 1) {
        if (one === two || one === three || two === three) continue;
        const total = costs[0][one] + costs[1][two] + costs[2][three];
        if (total < least) [best, least] = [[one, two, three], total];
      }
    }
  }
  return best;
}

function fillTarget(seen, state, snake) {
  const team = Math.floor(snake / TEAM), head = state.snakes[snake][0];
  const place = targetsOf(state, team)[snake % TEAM];
  if (place >= state.beans.length) {
    seen[TARGET_START + 6] = 1;
    return;
  }
  const bean = state.beans[place], distance = torusDistance(head, bean);
  SIDES.forEach((side) => {
    seen[TARGET_START + side] = torusDistance(moved(head, side), bean) < distance ? 1 : 0;
  });
  const [rows, columns] = torusDelta(head, bean);
  const contested = state.snakes.some(
    (body, other) => Math.floor(other / TEAM) !== team && body.length && torusDistance(body[0], bean) <= distance,
  );
  seen.set([rows / 5, columns / 10, distance / 15, contested ? 1 : 0], TARGET_START + 4);
}

// Whether the tail of a snake may stay: there is a bean beside its head.
const stays = (state, body) => SIDES.some((side) => state.beans.includes(moved(body[0], side)));

// The cells with a segment but for tails that leave: those of snakes that cannot eat.
function closedCells(state, held) {
  const closed = held.slice();
  for (const body of state.snakes) if (body.length && !stays(state, body)) closed[body[body.length - 1]] = 0;
  return closed;
}

// For each move the missing share of the room wanted behind it, own tail at that pocket, any tail at it.
function fillPockets(seen, state, closed, snake) {
  const body = state.snakes[snake], wanted = body.length + 2;
  for (const side of SIDES) {
    const start = moved(body[0], side);
    if (closed[start]) {
      seen[POCKETS_START + side] = 1;
      continue;
    }
    const pocket = pocketOf(closed, start, wanted);
    if (pocket.size >= wanted) continue;
    const touches = (cell) => pocket.has(cell) || SIDES.some((onward) => pocket.has(moved(cell, onward)));
    const tails = state.snakes.filter((other) => other.length).map((other) => other[other.length - 1]);
    seen[POCKETS_START + side] = (wanted - pocket.size) / wanted;
    seen[POCKETS_START + 4 + side] = touches(body[body.length - 1]) ? 1 : 0;
    seen[POCKETS_START + 8 + side] = tails.some(touches) ? 1 : 0;
  }
}

// The open cells connected with start, until there are as many as wanted.
function pocketOf(closed, start, wanted) {
  const pocket = new Set([start]);
  for (const cell of pocket) {
    if (pocket.size >= wanted) break;
    for (const side of SIDES) if (!closed[moved(cell, side)]) pocket.add(moved(cell, side));
  }
  return pocket;
}

// For each move how soon the snake may be shut in: all heads spread over the open cells, the others first, while the
// bodies leave a cell a step.
function fillRaces(seen, state, closedNow, snake) {
  const late = state.snakes.map((body) => (body.length && stays(state, body) ? 1 : 0));
  const heads = state.snakes.filter((body, other) => other !== snake && body.length).map((body) => body[0]);
  for (const side of SIDES) {
    const start = moved(state.snakes[snake][0], side), closed = closedNow.slice();
    const others = spread(new Set(heads), (cell) => !closed[cell]), own = new Set([start]);
    if (closed[start]) seen[RACES_START + side] = 1;
    for (let step = 2; step <= RACE_STEPS && !closed[start]; step += 1) {
      state.snakes.forEach((body, other) => {
        const left = step - late[other];
        if (left < body.length) closed[body[body.length - left]] = 0;
      });
      spread(others, (cell) => !closed[cell]);
      spread(own, (cell) => !closed[cell] && !others.has(cell));
      if (own.size >= step) continue;
      seen[RACES_START + side] = (RACE_STEPS + 1 - step) / RACE_STEPS;
      break;
    }
  }
}

// Adds to a set of cells those of their neighbours that are open.
function spread(cells, open) {
  for (const cell of [...cells]) for (const side of SIDES) if (open(moved(cell, side))) cells.add(moved(cell, side));
  return cells;
}

// The original's 26 numbers, unscaled. Snakes of the right team see the ids of the teams exchanged.
function jidiFeatures(state, snake) {
  const seen = new Float32Array(26);
  const body = state.snakes[snake];
  if (body.length === 0) return seen;
  const order = snake < TEAM ? [0, 1, 2, 3, 4, 5] : [3, 4, 5, 0, 1, 2];
  const grid = new Uint8Array(CELLS);
  for (const bean of state.beans) grid[bean] = 1;
  order.forEach((index, place) => {
    for (const cell of state.snakes[index]) grid[cell] = place + 2;
  });
  const position = (cell) => [rowOf(cell), columnOf(cell)];
  seen.set(position(body[0]), 0);
  for (let move = 0; move < 4; move += 1) seen[2 + move] = grid[moved(body[0], move)];
  state.beans.forEach((bean, index) => seen.set(position(bean), 6 + 2 * index));
  order.filter((other) => other !== snake).forEach((other, index) => {
    if (state.snakes[other].length) seen.set(position(state.snakes[other][0]), 16 + 2 * index);
  });
  return seen;
}

const FEATURES = { team: teamFeatures, jidi26: jidiFeatures };

function floatsOf(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// {config, tensors: {name: {shape, data}}} with data = little-endian float32 in base64, as page_network.py writes it.
function readNetwork(stored) {
  const tensors = {};
  for (const [name, { shape, data }] of Object.entries(stored.tensors)) tensors[name] = { shape, data: floatsOf(data) };
  return { config: stored.config, tensors };
}

function linear(network, name, input) {
  const { shape, data } = network.tensors[`${name}.weight`];
  const bias = network.tensors[`${name}.bias`].data;
  const output = new Float64Array(shape[0]);
  for (let row = 0; row < shape[0]; row += 1) {
    let sum = bias[row];
    for (let column = 0, at = row * shape[1]; column < shape[1]; column += 1, at += 1) sum += data[at] * input[column];
    output[row] = sum;
  }
  return output;
}

const relu = (values) => values.map((value) => Math.max(value, 0));
const sigmoid = (value) => 1 / (1 + Math.exp(-value));

// One direction of torch's LSTM (gates i, f, g, o) over the inputs in the given order; hidden states in that order.
function lstmPass(network, suffix, inputs) {
  const read = (kind) => network.tensors[`lstm.${kind}_l0${suffix}`].data;
  const inWeights = read("weight_ih"), ownWeights = read("weight_hh"), inBias = read("bias_ih"), ownBias = read("bias_hh");
  const size = inWeights.length / inBias.length, hiddenSize = ownWeights.length / ownBias.length;
  let hidden = new Float64Array(hiddenSize), memory = new Float64Array(hiddenSize);
  return inputs.map((input) => {
    const gates = new Float64Array(4 * hiddenSize);
    for (let row = 0; row < gates.length; row += 1) {
      let sum = inBias[row] + ownBias[row];
      for (let column = 0; column < size; column += 1) sum += inWeights[row * size + column] * input[column];
      for (let column = 0; column < hiddenSize; column += 1) {
        sum += ownWeights[row * hiddenSize + column] * hidden[column];
      }
      gates[row] = sum;
    }
    const gate = (kind, unit) => gates[kind * hiddenSize + unit];
    memory = memory.map((old, unit) => sigmoid(gate(1, unit)) * old + sigmoid(gate(0, unit)) * Math.tanh(gate(2, unit)));
    hidden = memory.map((value, unit) => sigmoid(gate(3, unit)) * Math.tanh(value));
    return hidden;
  });
}

// Logits of the three snakes of one team from their three feature rows, the mask included.
function networkLogits(network, rows) {
  const { config } = network;
  const outputs = config.comm === "lstm" ? talking(network, rows) : rows.map((row) => alone(network, row));
  return outputs.map((raw, snake) =>
    Array.from(raw, (value, move) => {
      const logit = config.output === "tanh" ? 5 * Math.tanh(value) : value;
      const masked = config.mask && config.features === "team" && rows[snake][8 + 5 * move] >= 0.9;
      return masked ? logit - 4096 : logit;
    }),
  );
}

function alone(network, row) {
  const last = network.config.hidden.length;
  let values = row;
  for (let layer = 0; layer < last; layer += 1) values = relu(linear(network, `layers.${layer}`, values));
  return linear(network, `layers.${last}`, values);
}

function talking(network, rows) {
  const inputs = rows.map((row) => relu(linear(network, "layers.0", row)));
  const forward = lstmPass(network, "", inputs);
  const backward = lstmPass(network, "_reverse", inputs.slice().reverse()).reverse();
  return forward.map((hidden, snake) => linear(network, "layers.1", [...hidden, ...backward[snake]]));
}

const bestMove = (logits) => logits.indexOf(Math.max(...logits));

function networkActions(network, state, team) {
  const rows = [0, 1, 2].map((index) => FEATURES[network.config.features](state, TEAM * team + index));
  return networkLogits(network, rows).map(bestMove);
}

// The original's "greedy": the nearest bean that no earlier mate has taken, by distances that do not wrap.
function greedyActions(state, team) {
  const held = occupancy(state.snakes);
  const beans = state.beans.slice();
  const apart = (one, other) => (rowOf(one) - rowOf(other)) ** 2 + (columnOf(one) - columnOf(other)) ** 2;
  return [0, 1, 2].map((index) => {
    const body = state.snakes[TEAM * team + index];
    if (body.length === 0) return UP;
    const distances = beans.map((bean) => apart(body[0], bean));
    const [goal = body[0]] = beans.splice(Math.max(distances.indexOf(Math.min(...distances)), 0), 1);
    const costs = [UP, DOWN, LEFT, RIGHT].map((move) => {
      const cell = moved(body[0], move);
      return held[cell] ? Infinity : apart(cell, goal);
    });
    return costs.indexOf(Math.min(...costs));
  });
}

const teamActions = (network, state, team) =>
  network === null ? greedyActions(state, team) : networkActions(network, state, team);
