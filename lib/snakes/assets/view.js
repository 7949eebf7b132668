// The parts that watching and playing share: score line, snakes, board, the card that covers it.
const BUTTON_REST_MS = 500;

class View extends Frame {
  constructor(host) {
    super(host);
    this.board = new Board(this.parts.board);
    this.chips = [0, 1, 2, 3, 4, 5].map((snake) => this.addChip(snake));
  }

  addChip(snake) {
    const chip = document.createElement("div");
    chip.className = snake < TEAM ? "snake left" : "snake right";
    const badge = document.createElement("b");
    badge.textContent = snake;
    badge.style.background = `var(--snake${snake})`;
    const text = document.createElement("span");
    chip.append(badge, text);
    this.parts.snakes.append(chip);
    return { chip, text };
  }

  // names of the teams, state, deaths so far of each snake, who died on this step, which snake a person steers
  showState(names, state, deathCounts, dead, chosen) {
    const [left, right] = teamScores(state);
    const clock = `step ${state.step} of ${STEPS}`;
    this.write({ leftName: names[0], rightName: names[1], leftScore: left, rightScore: right, clock });
    state.snakes.forEach((body, snake) => {
      const { chip, text } = this.chips[snake];
      const count = deathCounts[snake];
      const line = `${body.length} long\n${count} ${count === 1 ? "death" : "deaths"}`;
      if (text.textContent !== line) text.textContent = line;
      chip.classList.toggle("you", snake === chosen);
      chip.classList.toggle("dead", Boolean(dead[snake]));
    });
  }

  // place: "low" or "high" leaves the rest of the board to be seen.
  cover(headline, sub, buttons = [], place = "middle") {
    const { parts } = this;
    parts.cover.className = `cover ${place}`;
    parts.headline.textContent = headline;
    parts.sub.textContent = sub;
    parts.coverButtons.replaceChildren(
      ...buttons.map(([text, action], index) => {
        const button = document.createElement("button");
        button.textContent = text;
        button.className = index === 0 ? "main wide" : "wide";
        button.addEventListener("click", action);
        return button;
      }),
    );
    parts.cover.hidden = false;
    const first = parts.coverButtons.firstChild;
    // A space that was meant as a pause must not press a button that has only just appeared.
    if (first) setTimeout(() => first.isConnected && first.focus({ preventScroll: true }), BUTTON_REST_MS);
  }

  uncover() {
    this.parts.cover.hidden = true;
  }
}

function winnerText(names, [left, right]) {
  if (left === right) return `A draw, ${left} : ${right}`;
  return `${left > right ? names[0] : names[1]} wins ${left} : ${right}`;
}
