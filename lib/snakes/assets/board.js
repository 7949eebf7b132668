// Draws one moment of a game on a canvas. The board is a torus: a faded frame of one cell repeats the opposite side.
const FRAME = 1;
const BODY_WIDTH = 0.66;
// A crash stays marked for a few steps, fading.
const CRASH_STEPS = 3;

// Runs of neighbouring cells in unwrapped (row, column) coordinates, head first. After a respawn at a quirk the third
// cell may touch the head instead of the neck: it is then joined to the head.
function bodyRuns(cells) {
  const runs = [];
  let places = [];
  const touches = (from, to) => {
    const delta = torusDelta(from, to);
    return Math.abs(delta[0]) + Math.abs(delta[1]) === 1 ? delta : null;
  };
  cells.forEach((cell, index) => {
    for (const back of [1, 2]) {
      const delta = index >= back ? touches(cells[index - back], cell) : null;
      if (delta === null) continue;
      const from = places[index - back];
      places.push([from[0] + delta[0], from[1] + delta[1]]);
      if (back === 1) runs[runs.length - 1].push(places[index]);
      else runs.push([from, places[index]]);
      return;
    }
    places.push([rowOf(cell), columnOf(cell)]);
    runs.push([places[index]]);
  });
  return runs;
}

// Between two steps: the head and the tail are on their way. `part` in 0..1 is how much of the step has passed.
function runsBetween(before, after, part) {
  const runs = bodyRuns(before);
  const delta = torusDelta(before[0], after[0]);
  runs[0].unshift([runs[0][0][0] + delta[0] * part, runs[0][0][1] + delta[1] * part]);
  if (after.length > before.length) return runs;
  const last = runs[runs.length - 1];
  const tail = last.pop(), end = last[last.length - 1];
  if (end) {
    last.push([end[0] + (tail[0] - end[0]) * (1 - part), end[1] + (tail[1] - end[1]) * (1 - part)]);
  }
  if (last.length === 0) runs.pop();
  return runs;
}

class Board {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.last = null;
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // moment: {state, before, part, crashes: [{cell, snake, age}], ghosts: [{cells, snake}], chosen, labels}
  draw(moment) {
    this.last = moment;
    const { canvas, context } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio);
    if (width === 0) return;
    const cell = width / (WIDTH + 2 * FRAME);
    const height = Math.round(cell * (HEIGHT + 2 * FRAME));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    this.colours = boardColours(canvas);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colours.field;
    context.fillRect(0, 0, width, height);
    context.setTransform(cell, 0, 0, cell, FRAME * cell, FRAME * cell);
    this.grid();
    this.everywhere(moment);
    this.frame();
  }

  redraw() {
    if (this.last !== null) this.draw(this.last);
  }

  grid() {
    const { context, colours } = this;
    context.strokeStyle = colours.grid;
    context.lineWidth = 0.03;
    context.beginPath();
    for (let row = 1; row < HEIGHT; row += 1) context.moveTo(0, row), context.lineTo(WIDTH, row);
    for (let column = 1; column < WIDTH; column += 1) context.moveTo(column, 0), context.lineTo(column, HEIGHT);
    context.stroke();
  }

  everywhere(moment) {
    const { state, before = null, part = 1 } = moment;
    for (const { cells, snake } of moment.ghosts || []) {
      this.context.globalAlpha = 0.3 * (1 - 0.6 * part);
      this.body(bodyRuns(cells), snake);
      this.context.globalAlpha = 1;
    }
    for (const bean of state.beans) this.wrapped([rowOf(bean), columnOf(bean)], () => this.bean());
    const dead = moment.dead || [];
    state.snakes.forEach((cells, snake) => {
      if (cells.length === 0) return;
      const moving = before !== null && part < 1 && !dead[snake] && before.snakes[snake].length > 0;
      const runs = moving ? runsBetween(before.snakes[snake], cells, part) : bodyRuns(cells);
      this.body(runs, snake);
      const look = moving ? headingOf(before.snakes[snake][0], cells[0], state.directions[snake]) : state.directions[snake];
      this.wrapped(runs[0][0], () => this.head(snake, look, moment.chosen === snake));
    });
    for (const { cell, age } of moment.crashes || []) {
      this.context.globalAlpha = 1 - age / CRASH_STEPS;
      this.wrapped([rowOf(cell), columnOf(cell)], () => this.cross());
      this.context.globalAlpha = 1;
    }
  }

  // Calls paint with the origin at the middle of each copy of a place that shows on the board or its frame.
  wrapped([row, column], paint) {
    for (const top of copies(row, row, HEIGHT)) {
      for (const left of copies(column, column, WIDTH)) {
        this.context.save();
        this.context.translate(column + left + 0.5, row + top + 0.5);
        paint();
        this.context.restore();
      }
    }
  }

  body(runs, snake) {
    const { context, colours } = this;
    const rows = runs.flat().map((place) => place[0]), columns = runs.flat().map((place) => place[1]);
    for (const top of copies(Math.min(...rows), Math.max(...rows), HEIGHT)) {
      for (const left of copies(Math.min(...columns), Math.max(...columns), WIDTH)) {
        context.save();
        context.translate(left + 0.5, top + 0.5);
        this.stroke(runs, colours.snakes[snake], BODY_WIDTH, "round");
        // The right team carries a stripe, so that teams differ without colour too.
        if (snake >= TEAM) this.stroke(runs, colours.stripe, 0.14, "round");
        context.restore();
      }
    }
  }

  stroke(runs, colour, width, cap) {
    const { context } = this;
    Object.assign(context, { strokeStyle: colour, lineWidth: width, lineCap: cap, lineJoin: "round" });
    for (const run of runs) {
      context.beginPath();
      context.moveTo(run[0][1], run[0][0]);
      // A single place still shows: a line to itself has round ends.
      for (const [row, column] of run) context.lineTo(column, row);
      context.stroke();
    }
  }

  head(snake, direction, chosen) {
    const { context, colours } = this;
    const [down, right] = MOVES[direction];
    if (chosen) {
      Object.assign(context, { strokeStyle: colours.ink, lineWidth: 0.1 });
      context.beginPath();
      context.arc(0, 0, 0.62, 0, 2 * Math.PI);
      context.stroke();
    }
    context.fillStyle = colours.snakes[snake];
    context.beginPath();
    if (snake < TEAM) context.arc(0, 0, 0.45, 0, 2 * Math.PI);
    else context.roundRect(-0.43, -0.43, 0.86, 0.86, 0.12);
    context.fill();
    // A nose shows where it is heading.
    context.beginPath();
    context.moveTo(right * 0.6, down * 0.6);
    context.lineTo(right * 0.36 - down * 0.24, down * 0.36 + right * 0.24);
    context.lineTo(right * 0.36 + down * 0.24, down * 0.36 - right * 0.24);
    context.fill();
    Object.assign(context, { fillStyle: colours.label, textAlign: "center", textBaseline: "middle" });
    // Canvas text below one pixel is not drawn: write it large and scale it down.
    context.scale(0.01, 0.01);
    context.font = "700 60px system-ui, sans-serif";
    context.fillText(String(snake), 0, 4);
  }

  bean() {
    const { context, colours } = this;
    Object.assign(context, { fillStyle: colours.bean, strokeStyle: colours.field, lineWidth: 0.06 });
    context.rotate(Math.PI / 4);
    context.beginPath();
    context.roundRect(-0.23, -0.23, 0.46, 0.46, 0.08);
    context.fill();
    context.stroke();
  }

  cross() {
    const { context, colours } = this;
    for (const [colour, width] of [[colours.field, 0.3], [colours.crash, 0.15]]) {
      Object.assign(context, { strokeStyle: colour, lineWidth: width, lineCap: "round" });
      context.beginPath();
      for (const slope of [-1, 1]) context.moveTo(-0.34, -0.34 * slope), context.lineTo(0.34, 0.34 * slope);
      context.stroke();
    }
  }

  frame() {
    const { context, colours } = this;
    context.fillStyle = colours.veil;
    context.fillRect(-FRAME, -FRAME, WIDTH + 2 * FRAME, FRAME);
    context.fillRect(-FRAME, HEIGHT, WIDTH + 2 * FRAME, FRAME);
    context.fillRect(-FRAME, 0, FRAME, HEIGHT);
    context.fillRect(WIDTH, 0, FRAME, HEIGHT);
    Object.assign(context, { strokeStyle: colours.edge, lineWidth: 0.06 });
    context.strokeRect(0, 0, WIDTH, HEIGHT);
  }
}

// Shifts by whole boards that bring any of low..high onto the board or its frame.
function copies(low, high, size) {
  const shifts = [];
  for (let shift = Math.ceil((-1.7 - high) / size); shift <= Math.floor((size + 0.7 - low) / size); shift += 1) {
    shifts.push(shift * size);
  }
  return shifts;
}

function headingOf(from, to, otherwise) {
  const found = [UP, DOWN, LEFT, RIGHT].find((direction) => moved(from, direction) === to);
  return found === undefined ? otherwise : found;
}

function boardColours(element) {
  const snakes = [0, 1, 2, 3, 4, 5].map((snake) => `snake${snake}`);
  const colours = readColours(element, [
    "field", "grid", "edge", "veil", "ink", "label", "stripe", "bean", "crash", ...snakes]);
  return { ...colours, snakes: snakes.map((name) => colours[name]) };
}
