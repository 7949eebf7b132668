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

class Watch extends Watching {
  // replay as unpackReplay gives it. keys: the element whose key presses steer (document: the whole page).
  constructor(view, replay, { keys, chosen = -1 }) {
    super(view, replay.states.length - 1, keys);
    Object.assign(this, { replay, chosen, points: replay.states.map(teamScores), counts: deathCounts(replay.deaths) });
    view.uncover();
    view.parts.help.textContent = WATCH_HELP +
      "The edges of the board are joined; the frame shows what lies on the other side. A cross marks a death.";
    this.show(0);
  }

  start() {
    this.view.uncover();
    super.start();
  }

  stepOf(index) {
    return this.replay.states[index].step;
  }

  showState(index) {
    const { view, replay } = this;
    const dead = index ? replay.deaths[index - 1] : [];
    view.showState(replay.names, replay.states[index], this.counts[index], dead, this.chosen);
    if (index === this.last) view.parts.clock.textContent += `: ${winnerText(replay.names, this.points[index])}`;
  }

  draw(part) {
    this.view.board.draw(momentOf(this.replay, this.index, part, this.chosen));
  }

  drawChart() {
    drawScores(this.view.parts.chart, this.points, this.replay.deaths, this.index);
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
function drawScores(canvas, points, deaths, index) {
  const colours = readColours(canvas, ["left", "right"]);
  const lines = [colours.left, colours.right].map((colour, team) => {
    return { values: points.map((both) => both[team]), colour, dash: team === 1 };
  });
  const marks = deaths.flatMap((dead, step) =>
    [0, 1].filter((team) => dead.slice(TEAM * team, TEAM * team + TEAM).some(Boolean))
      .map((team) => ({ at: step + 1, colour: lines[team].colour, top: team === 0 })));
  drawTimeline(canvas, { lines, marks, index, bounds: [0, 5] });
}
