// Watching: any step of a recorded game, by buttons, keys or the curve of both scores.
function unpackReplay(stored) {
  const count = stored.snakes.length;
  const states = [];
  for (let index = 0; index < count; index += 1) {
    states.push({
      snakes: stored.snakes[index],
      beans: stored.beans[index],
      directions: stored.directions[index],
      lastDirections: index ? stored.directions[index - 1] : stored.last_directions,
      step: stored.first_step + index,
      over: index === count - 1,
    });
  }
  const replay = { names: stored.names, states, actions: stored.actions, deaths: stored.deaths };
  replay.crashes = replay.deaths.map((dead, index) =>
    dead.map((died, snake) => (died ? crashCell(states[index], stored.actions[index][snake], snake) : -1)),
  );
  return replay;
}

// Where a snake died: the cell it moved to. After a reversal the drawn direction is unknown: the cell it left.
function crashCell(before, action, snake) {
  const head = before.snakes[snake][0];
  return action === REVERSE[before.directions[snake]] ? head : moved(head, action);
}

class Watch {
  // replay as unpackReplay gives it. keys: the element whose key presses steer (document: the whole page).
  constructor(view, replay, { keys, chosen = -1, onClose = null }) {
    Object.assign(this, { view, replay, chosen, onClose, index: 0, listeners: new AbortController() });
    this.last = replay.states.length - 1;
    this.points = replay.states.map(teamScores);
    this.counts = deathCounts(replay.deaths);
    this.clock = new Clock(() => view.stepsPerSecond, () => this.tick(), (part) => this.draw(part));
    const { parts } = view;
    view.show("timeline", "watchButtons");
    view.uncover();
    parts.scrubber.max = this.last;
    parts.help.textContent =
      "Space: play or pause. Left and right arrow: one step. Home and End: start and end. Plus and minus: speed. " +
      "The edges of the board are joined; the frame shows what lies on the other side. A cross marks a death.";
    const signal = { signal: this.listeners.signal };
    parts.scrubber.addEventListener("input", () => this.pauseAt(Number(parts.scrubber.value)), signal);
    for (const button of view.root.querySelectorAll("[data-part=watchButtons] [data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do), signal);
    }
    keys.addEventListener("keydown", (event) => this.onKey(event), signal);
    const chart = new ResizeObserver(() => this.drawChart());
    chart.observe(parts.chart);
    this.listeners.signal.addEventListener("abort", () => chart.disconnect());
    this.show(0);
  }

  close() {
    this.clock.stop();
    this.listeners.abort();
    this.view.hide("timeline", "watchButtons");
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = { " ": "toggle", ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last" };
    Object.assign(actions, { "+": "faster", "=": "faster", "-": "slower" });
    const action = actions[event.key];
    const onButton = event.key === " " && event.composedPath()[0].tagName === "BUTTON";
    if (action === undefined || onButton || event.composedPath()[0] === this.view.parts.speed) return;
    event.preventDefault();
    this.act(action);
  }

  act(action) {
    const { view } = this;
    const speeds = { faster: 1.3, slower: 1 / 1.3 };
    if (action in speeds) {
      const changed = view.stepsPerSecond * speeds[action];
      view.stepsPerSecond = action === "faster" ? Math.ceil(changed) : Math.max(Math.floor(changed), 1);
    } else if (action === "toggle") {
      if (this.clock.running) this.pauseAt(this.index);
      else this.start();
    } else {
      const targets = { first: 0, back: this.index - 1, forward: this.index + 1, last: this.last };
      this.pauseAt(Math.min(Math.max(targets[action], 0), this.last));
    }
  }

  start() {
    if (this.index === this.last) this.show(0);
    this.view.uncover();
    this.clock.start();
    this.showToggle();
  }

  pauseAt(index) {
    this.clock.stop();
    this.showToggle();
    this.show(index);
  }

  showToggle() {
    this.view.parts.toggleIcon.setAttribute("d", this.clock.running ? PAUSE_ICON : PLAY_ICON);
  }

  tick() {
    this.show(this.index + 1, 0);
    if (this.index < this.last) return;
    this.clock.stop();
    this.showToggle();
    this.draw(1);
  }

  show(index, part = 1) {
    this.index = index;
    const { view, replay } = this;
    const state = replay.states[index];
    const dead = index ? replay.deaths[index - 1] : [];
    view.showState(replay.names, state, this.counts[index], dead, this.chosen);
    if (index === this.last) view.parts.clock.textContent += `: ${winnerText(replay.names, this.points[index])}`;
    view.parts.scrubber.value = index;
    view.parts.scrubber.setAttribute("aria-valuetext", `step ${state.step}`);
    view.host.dataset.step = state.step;
    this.draw(part);
    this.drawChart();
  }

  draw(part) {
    this.view.board.draw(momentOf(this.replay, this.index, part, this.chosen));
  }

  drawChart() {
    drawChart(this.view.parts.chart, this.points, this.replay.deaths, this.index);
  }
}

// Deaths of each snake up to each state.
function deathCounts(deaths) {
  const counts = [[0, 0, 0, 0, 0, 0]];
  for (const dead of deaths) counts.push(counts[counts.length - 1].map((count, snake) => count + dead[snake]));
  return counts;
}

function momentOf(replay, index, part, chosen) {
  const moment = { state: replay.states[index], part, chosen, crashes: [], ghosts: [], before: null, dead: [] };
  if (index > 0) {
    moment.before = replay.states[index - 1];
    moment.dead = replay.deaths[index - 1];
    moment.ghosts = moment.before.snakes.flatMap((cells, snake) => (moment.dead[snake] ? [{ cells, snake }] : []));
  }
  for (let age = 0; age < CRASH_STEPS && index - 1 - age >= 0; age += 1) {
    for (const cell of replay.crashes[index - 1 - age]) if (cell >= 0) moment.crashes.push({ cell, age });
  }
  return moment;
}

// Scores of both teams over the game, the deaths as ticks at the top (left team) and bottom (right team).
function drawChart(canvas, points, deaths, index) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (width === 0 || points.length < 2) return;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const all = points.flat(), low = Math.min(...all, 0), high = Math.max(...all, 5);
  const margin = 9 * ratio;
  const x = (step) => (step / (points.length - 1)) * (width - 4 * ratio) + 2 * ratio;
  const y = (value) => height - margin - ((value - low) / (high - low)) * (height - 2 * margin);
  context.lineJoin = "round";
  for (const [team, name] of [[0, "left"], [1, "right"]]) {
    Object.assign(context, { strokeStyle: colour(name), fillStyle: colour(name), lineWidth: 2 * ratio });
    context.setLineDash(team ? [5 * ratio, 3 * ratio] : []);
    context.beginPath();
    points.forEach((value, step) => context.lineTo(x(step), y(value[team])));
    context.stroke();
    deaths.forEach((dead, step) => {
      const count = dead.slice(TEAM * team, TEAM * team + TEAM).reduce((sum, one) => sum + one, 0);
      if (count) context.fillRect(x(step + 1) - ratio, team ? height - 5 * ratio : 0, 2 * ratio, 5 * ratio);
    });
  }
  context.setLineDash([]);
  Object.assign(context, { strokeStyle: colour("ink"), lineWidth: 1.5 * ratio });
  context.beginPath();
  context.moveTo(x(index), 0);
  context.lineTo(x(index), height);
  context.stroke();
}
