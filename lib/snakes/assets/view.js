// The parts that watching and playing share: markup, score line, snakes, board, clock of animation frames.
const PLAY_ICON = "M4 2l10 6-10 6z", PAUSE_ICON = "M3 2h4v12H3zM9 2h4v12H9z";
const BUTTON_REST_MS = 500;

class View {
  constructor(host) {
    const root = host.attachShadow({ mode: "open" });
    root.append(host.querySelector("template").content.cloneNode(true));
    this.host = host;
    this.root = root.querySelector(".view");
    this.parts = {};
    for (const element of root.querySelectorAll("[data-part]")) this.parts[element.dataset.part] = element;
    this.board = new Board(this.parts.board);
    this.chips = [0, 1, 2, 3, 4, 5].map((snake) => this.addChip(snake));
    this.parts.speed.addEventListener("input", () => this.showSpeed());
    this.showSpeed();
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

  show(...names) {
    for (const name of names) this.parts[name].hidden = false;
  }

  hide(...names) {
    for (const name of names) this.parts[name].hidden = true;
  }

  get stepsPerSecond() {
    return Number(this.parts.speed.value);
  }

  set stepsPerSecond(value) {
    this.parts.speed.value = value;
    this.showSpeed();
  }

  showSpeed() {
    this.parts.speedText.textContent = `${this.parts.speed.value} steps/s`;
  }

  // names of the teams, state, deaths so far of each snake, who died on this step, which snake a person steers
  showState(names, state, deathCounts, dead, chosen) {
    const [left, right] = teamScores(state);
    const { parts } = this;
    const texts = { leftName: names[0], rightName: names[1], leftScore: left, rightScore: right };
    texts.clock = `step ${state.step} of ${STEPS}`;
    for (const [part, text] of Object.entries(texts)) {
      if (parts[part].textContent !== String(text)) parts[part].textContent = text;
    }
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

const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Calls tick(part of a step that has passed) on every frame, and step() whenever a whole step has; stop() ends it.
class Clock {
  constructor(stepsPerSecond, step, tick) {
    Object.assign(this, { stepsPerSecond, step, tick, running: false, passed: 0 });
  }

  start() {
    if (this.running) return;
    this.running = true;
    let last = null;
    const frame = (now) => {
      if (!this.running) return;
      // A tab that was hidden for an hour goes on where it was.
      const seconds = last === null ? 0 : Math.min((now - last) / 1000, 0.25);
      last = now;
      this.passed += seconds * this.stepsPerSecond();
      while (this.passed >= 1 && this.running) {
        this.passed -= 1;
        this.step();
      }
      if (!this.running) return;
      this.tick(reducedMotion() ? 1 : this.passed);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  stop() {
    this.running = false;
    this.passed = 0;
  }
}

function winnerText(names, [left, right]) {
  if (left === right) return `A draw, ${left} : ${right}`;
  return `${left > right ? names[0] : names[1]} wins ${left} : ${right}`;
}
