// Watching a battle: any state of it, and what a chosen agent sees there.
const START_SPEED = 4;

class WatchBattle extends Watching {
  constructor(view, battle, keys) {
    super(view, battle.last, keys);
    const { parts } = view;
    Object.assign(this, { battle, chosen: -1, map: new UnitMap(parts.map, battle) });
    this.roster = new Roster(parts.roster, battle, (unit) => this.choose(unit));
    view.stepsPerSecond = START_SPEED;
    view.write({ leftName: battle.player, rightName: "the enemies", help: this.helpText() });
    parts.map.addEventListener("click", (event) => this.choose(this.map.agentAt(event.offsetX, event.offsetY)));
    this.show(0);
  }

  helpText() {
    const letters = this.battle.types.map((type) => `${type.letter} ${type.name}`).join(", ");
    return `${WATCH_HELP}1 to 9, or a click: what that agent sees; Escape: all.\n` +
      `Discs: the team; rings: the enemies (${letters}). Lower bar: health, upper bar: shield. ` +
      "Lines lead to targets: solid in reach, dashed on the way, with a plus where one heals. A cross marks a death. " +
      "The curves: health and shields of the team (solid) and the enemies (dashed).\n" +
      `${this.battle.title}, sight ${this.battle.options.sight}.`;
  }

  actionOf(key) {
    if (/^[1-9]$/.test(key)) return `agent ${key}`;
    return key === "Escape" ? "agent 0" : super.actionOf(key);
  }

  act(action) {
    if (action.startsWith("agent ")) this.choose(Number(action.slice(6)) - 1);
    else super.act(action);
  }

  // An agent, or -1 for none; the same one once more: none.
  choose(agent) {
    if (agent >= this.battle.agents) return;
    this.chosen = agent === this.chosen ? -1 : agent;
    this.roster.show(this.index, this.chosen);
    this.showChosen();
    if (!this.clock.running) this.draw(1);
  }

  showChosen() {
    this.view.host.dataset.agent = this.chosen < 0 ? "" : this.chosen + 1;
  }

  showState(index) {
    const { battle, view } = this;
    const [own, other] = battle.strength[index].map((sum) => Math.ceil(sum)), over = index === this.last;
    const [reward, sum] = [battle.rewards, battle.returns].map((values) => (index ? values[index - 1] : 0).toFixed(2));
    view.write({
      leftAlive: battle.livingOf(index, 0),
      rightAlive: battle.livingOf(index, 1),
      when: over ? battle.outcome : `step ${index} of at most ${battle.limit}`,
      clock: `health ${own} : ${other}, reward ${reward}, return ${sum}`,
    });
    view.parts.when.classList.toggle("over", over);
    this.roster.show(index, this.chosen);
    this.showChosen();
  }

  draw(part) {
    this.map.draw({ index: this.index, part, chosen: this.chosen });
  }

  drawChart() {
    const { battle } = this, canvas = this.view.parts.chart, colours = readColours(canvas, ["left", "right"]);
    const lines = [colours.left, colours.right].map((colour, side) => {
      return { values: battle.strength.map((both) => both[side]), colour, dash: side === 1 };
    });
    const marks = battle.deaths.flatMap((at, unit) => {
      const side = battle.isAgent(unit) ? 0 : 1;
      return at === null ? [] : [{ at, colour: lines[side].colour, top: side === 0 }];
    });
    drawTimeline(canvas, { lines, marks, index: this.index, bounds: [0, 1] });
  }
}
