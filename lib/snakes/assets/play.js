// Playing: a person steers one snake, the network or the greedy script all others. A game is its number (the seed) and
// the list of actions, so that a game that was left can be rebuilt, and a finished one watched and saved.
const STEER_KEYS = {
  ArrowUp: UP, ArrowDown: DOWN, ArrowLeft: LEFT, ArrowRight: RIGHT,
  w: UP, s: DOWN, a: LEFT, d: RIGHT, W: UP, S: DOWN, A: LEFT, D: RIGHT,
};
// Two quick presses make a turn round a corner; more would steer from the past.
const WAITING_PRESSES = 2;
const SWIPE_PIXELS = 24;

class Play {
  // setup: {title, network, networkName, seed, chosen, storageKey}
  constructor(view, setup) {
    Object.assign(this, { view, setup, watch: null, presses: [], phase: "ready" });
    this.network = setup.network === null ? null : readNetwork(setup.network);
    this.clock = new Clock(() => view.stepsPerSecond, () => this.tick(), (part) => this.draw(part));
    view.show("settings", "pad", "playButtons");
    view.stepsPerSecond = 5;
    view.parts.help.textContent =
      "Arrow keys or W A S D steer, on a touch screen the buttons or a swipe. A press against your own direction is " +
      "ignored (for other players the rules draw one of the three other directions). Space: pause. Plus and minus: " +
      "speed. The edges of the board are joined; the frame shows what lies on the other side. A dead snake starts " +
      "again with length 3; the team with more growth after 200 steps wins.";
    this.fillSettings();
    this.listen();
    const kept = this.readKept();
    if (kept === null) this.newGame();
    else this.rebuild(kept);
  }

  fillSettings() {
    const { parts } = this.view;
    const choices = this.network === null ? [["greedy", "greedy script"]] : [
      ["network", this.setup.networkName], ["greedy", "greedy script"]];
    for (const part of ["mates", "enemies"]) {
      parts[part].replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
      parts[part].addEventListener("change", () => this.settingsChanged());
    }
    parts.chosen.value = this.setup.chosen;
    parts.chosen.addEventListener("change", () => this.settingsChanged());
    if (this.setup.seed !== null) parts.seed.value = this.setup.seed;
  }

  listen() {
    const { view } = this;
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("visibilitychange", () => document.hidden && this.pause());
    window.addEventListener("blur", () => this.pause());
    view.parts.settings.addEventListener("focusin", () => this.pause());
    for (const button of view.root.querySelectorAll("[data-steer]")) {
      button.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.steer(Number(button.dataset.steer));
      });
    }
    for (const button of view.root.querySelectorAll("[data-part=playButtons] [data-do]")) {
      button.addEventListener("click", () => (button.dataset.do === "again" ? this.askAgain() : this.toggle()));
    }
    this.listenSwipes(view.parts.board);
  }

  listenSwipes(board) {
    let start = null;
    board.style.touchAction = "none";
    board.addEventListener("pointerdown", (event) => (start = [event.clientX, event.clientY]));
    board.addEventListener("pointerup", (event) => {
      if (start === null || this.watch !== null) return;
      const right = event.clientX - start[0], down = event.clientY - start[1];
      start = null;
      if (Math.max(Math.abs(right), Math.abs(down)) < SWIPE_PIXELS) return;
      if (Math.abs(right) > Math.abs(down)) this.steer(right > 0 ? RIGHT : LEFT);
      else this.steer(down > 0 ? DOWN : UP);
    });
  }

  onKey(event) {
    const target = event.composedPath()[0];
    const typing = ["INPUT", "SELECT"].includes(target.tagName);
    if (this.watch !== null || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = STEER_KEYS[event.key];
    const onButton = target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key);
    if (direction !== undefined) this.steer(direction);
    else if (event.key === " " && !onButton) this.toggle();
    else if (event.key === "Enter" && !onButton && this.phase !== "running") this.toggle();
    else if (["+", "="].includes(event.key)) this.view.stepsPerSecond += 1;
    else if (event.key === "-") this.view.stepsPerSecond -= 1;
    else if (["n", "N"].includes(event.key) && this.phase !== "running") this.again();
    else return;
    event.preventDefault();
  }

  get chosen() {
    return Number(this.view.parts.chosen.value);
  }

  // The team of the person; the left one when nobody steers.
  get ownTeam() {
    return this.chosen < TEAM ? 0 : 1;
  }

  get names() {
    const { parts } = this.view;
    const name = (part) => parts[part].selectedOptions[0].textContent;
    const own = this.chosen < 0 ? name("mates") : `You with ${name("mates")}`;
    return this.ownTeam === 0 ? [own, name("enemies")] : [name("enemies"), own];
  }

  settingsChanged() {
    this.presses = [];
    this.show(1);
    if (this.phase === "ready") this.showReady();
  }

  newGame(seed = this.drawSeed()) {
    this.begin(seed);
    this.setPhase("ready");
    this.show(1);
    this.showReady();
  }

  begin(seed) {
    this.seed = seed;
    this.random = new GameRandom(seed);
    this.state = newGame(this.random);
    this.replay = { names: this.names, states: [copyState(this.state)], actions: [], deaths: [], rewards: [], crashes: [] };
    this.counts = [0, 0, 0, 0, 0, 0];
    this.presses = [];
  }

  drawSeed() {
    const text = this.view.parts.seed.value.trim();
    if (/^[0-9]{1,15}$/.test(text)) return Number(text);
    return crypto.getRandomValues(new Uint32Array(1))[0];
  }

  showReady() {
    const steers = this.chosen >= 0;
    const headline = steers ? `You steer snake ${this.chosen}, the one with a ring` : "Nobody steers, you only watch";
    const sub = steers ? "Press an arrow key to start" : "Press space to start";
    const row = steers ? rowOf(this.state.snakes[this.chosen][0]) : 0;
    this.view.cover(headline, sub, [["Start", () => this.resume()]], row < 5 ? "low" : "high");
  }

  again() {
    this.closeWatch();
    this.newGame();
  }

  // A slip of the finger must not end a running game: it pauses, and the pause offers a new one.
  askAgain() {
    if (this.phase === "running") this.pause();
    else this.again();
  }

  closeWatch() {
    if (this.watch === null) return;
    this.watch.close();
    this.watch = null;
    this.view.show("settings", "pad", "pauseButton");
  }

  steer(direction) {
    if (this.watch !== null || this.chosen < 0 || this.phase === "over") return;
    const facing = this.presses.length ? this.presses[this.presses.length - 1] : this.state.directions[this.chosen];
    if (direction !== facing && direction !== REVERSE[facing] && this.presses.length < WAITING_PRESSES) {
      this.presses.push(direction);
    }
    this.resume();
  }

  toggle() {
    if (this.phase === "running") this.pause();
    else this.resume();
  }

  resume() {
    if (this.phase === "running" || this.phase === "over") return;
    this.view.uncover();
    this.view.root.focus({ preventScroll: true });
    this.setPhase("running");
    this.clock.start();
  }

  pause() {
    if (this.phase !== "running") return;
    this.clock.stop();
    this.setPhase("paused");
    this.show(1);
    this.view.cover("Paused", `Step ${this.state.step} of ${STEPS}`, [["Continue", () => this.resume()],
      ["New game", () => this.again()]]);
  }

  setPhase(phase) {
    this.phase = phase;
    this.view.host.dataset.phase = phase;
    this.view.parts.toggleText.textContent = phase === "running" ? "Pause" : phase === "paused" ? "Continue" : "Start";
    this.view.parts.pauseButton.hidden = phase === "over";
  }

  tick() {
    const actions = this.chooseActions();
    this.advance(actions);
    this.keep();
    this.show(0);
    if (this.state.over) this.finish();
  }

  chooseActions() {
    const { parts } = this.view;
    const policy = (part) => (parts[part].value === "network" ? this.network : null);
    const own = this.ownTeam;
    const teams = [0, 1].map((team) => teamActions(policy(team === own ? "mates" : "enemies"), this.state, team));
    const actions = [...teams[0], ...teams[1]];
    if (this.chosen >= 0) actions[this.chosen] = this.personsAction();
    return actions;
  }

  // The oldest press that still makes sense, else straight on.
  personsAction() {
    const facing = this.state.directions[this.chosen];
    while (this.presses.length) {
      const press = this.presses.shift();
      if (press !== REVERSE[facing]) return press;
    }
    return facing;
  }

  advance(actions) {
    const events = play(this.state, actions, this.random);
    const { replay } = this;
    replay.states.push(copyState(this.state));
    replay.actions.push(actions);
    for (const name of ["deaths", "rewards", "crashes"]) replay[name].push(events[name]);
    this.counts = this.counts.map((count, snake) => count + events.deaths[snake]);
    if (this.chosen >= 0 && events.deaths[this.chosen]) this.presses = [];
  }

  show(part) {
    this.replay.names = this.names;
    const { view, replay } = this;
    const dead = replay.deaths.length ? replay.deaths[replay.deaths.length - 1] : [];
    view.showState(this.names, this.state, this.counts, dead, this.chosen);
    Object.assign(view.host.dataset, { step: this.state.step, directions: this.state.directions.join("") });
    this.draw(part);
  }

  draw(part) {
    this.view.board.draw(momentOf(this.replay, this.replay.states.length - 1, part, this.chosen));
  }

  finish() {
    this.clock.stop();
    this.setPhase("over");
    this.forget();
    this.draw(1);
    const points = teamScores(this.state);
    const own = points[this.ownTeam], other = points[1 - this.ownTeam];
    const result = own > other ? "You win" : own < other ? "You lose" : "A draw";
    const headline = this.chosen < 0 ? winnerText(this.names, points) : `${result}, ${points[0]} : ${points[1]}`;
    const yours = this.chosen < 0 ? "" :
      `Your snake: length ${this.state.snakes[this.chosen].length}, deaths ${this.counts[this.chosen]}. `;
    this.view.cover(headline, `${yours}Game number ${this.seed}, ${this.state.step} steps.`, [
      ["Play again", () => this.again()],
      ["Watch this game", () => this.openWatch()],
      ["Save it", () => this.save()],
    ]);
  }

  openWatch() {
    this.view.hide("settings", "pad", "pauseButton");
    this.view.root.focus({ preventScroll: true });
    this.watch = new Watch(this.view, this.replay, { keys: document, chosen: this.chosen });
    this.watch.start();
  }

  // The form that watch_snakes.py --replay reads.
  save() {
    const { replay } = this;
    const column = (name) => replay.states.map((state) => state[name]);
    const stored = { format: "quartet-snakes-replay", version: 1, names: replay.names, seed: this.seed, started: null,
      episode: 0, first_step: 0, last_directions: null, snakes: column("snakes"), beans: column("beans"),
      directions: column("directions"), actions: replay.actions, deaths: replay.deaths, rewards: replay.rewards };
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(stored)], { type: "application/json" }));
    link.download = `snakes-${this.seed}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // A game that is left half way waits in the browser's storage. Storage may be switched off: the page then says so.
  keep() {
    const { parts } = this.view;
    const stored = { seed: this.seed, chosen: this.chosen, mates: parts.mates.value, enemies: parts.enemies.value,
      actions: this.replay.actions.map((actions) => actions.join("")).join("") };
    this.withStorage((storage) => storage.setItem(this.setup.storageKey, JSON.stringify(stored)));
  }

  forget() {
    this.withStorage((storage) => storage.removeItem(this.setup.storageKey));
  }

  withStorage(use) {
    try {
      return use(window.localStorage);
    } catch (error) {
      this.view.parts.note.textContent = "This browser stores nothing for this page: a game ends when it is closed.";
      this.view.show("note");
      return null;
    }
  }

  readKept() {
    const text = this.withStorage((storage) => storage.getItem(this.setup.storageKey));
    if (text === null) return null;
    let kept = null;
    try {
      kept = JSON.parse(text);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    const sound = kept !== null && Number.isSafeInteger(kept.seed) && /^([0-3]{6})+$/.test(kept.actions);
    // What this page did not write itself is worth nothing to anyone.
    if (!sound) this.forget();
    return sound ? kept : null;
  }

  rebuild(kept) {
    const { parts } = this.view;
    for (const name of ["chosen", "mates", "enemies"]) {
      if ([...parts[name].options].some((option) => option.value === String(kept[name]))) parts[name].value = kept[name];
    }
    this.begin(kept.seed);
    for (const text of kept.actions.match(/.{6}/g)) {
      if (this.state.over) break;
      this.advance(Array.from(text, Number));
    }
    this.setPhase("paused");
    this.show(1);
    if (this.state.over) this.finish();
    else {
      this.view.cover("Your last game is still here", `Step ${this.state.step} of ${STEPS}`, [
        ["Continue", () => this.resume()], ["New game", () => this.again()]]);
    }
  }
}
