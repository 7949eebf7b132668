// A recorded battle: who stands where in which state, and what was done in words. Units are numbered allies first;
// people read numbers of a side, from 1.
const MOVES = ["no-op", "stop", "north", "south", "east", "west"];
const FIRST_ATTACK = MOVES.length, NOBODY = -1;

class Battle {
  // data: see lib/omagd/page.py and replay.py.
  constructor(data) {
    Object.assign(this, data);
    this.last = data.actions.length;
    this.count = data.units.length;
    this.sides = [[0, data.agents], [data.agents, this.count]];
    this.deaths = this.deathsOf();
    // Health and shields of both sides in every state.
    this.strength = data.health.map((health, index) =>
      this.sides.map(([first, end]) => {
        let sum = 0;
        for (let unit = first; unit < end; unit += 1) sum += health[unit] + data.shield[index][unit];
        return sum;
      }));
  }

  // The state in which each unit is dead for the first time; null: it lives to the end.
  deathsOf() {
    return this.units.map((type, unit) => {
      const found = this.alive.findIndex((flags) => flags[unit] === "0");
      return found < 0 ? null : found;
    });
  }

  type(unit) {
    return this.types[this.units[unit]];
  }

  isAgent(unit) {
    return unit < this.agents;
  }

  number(unit) {
    return this.isAgent(unit) ? unit + 1 : unit - this.agents + 1;
  }

  name(unit) {
    return `${this.type(unit).name} ${this.number(unit)}`;
  }

  lives(index, unit) {
    return this.alive[index][unit] === "1";
  }

  livingOf(index, side) {
    const [first, end] = this.sides[side];
    return [...this.alive[index].slice(first, end)].filter((flag) => flag === "1").length;
  }

  sees(index, agent, unit) {
    return this.visible[index][agent][unit] === "1";
  }

  // Whether `unit` stood in reach of its target in a state.
  reaches(index, unit, target) {
    const away = Math.hypot(this.x[index][unit] - this.x[index][target], this.y[index][unit] - this.y[index][target]);
    return away <= this.type(unit).reach + this.type(target).radius;
  }

  // What a unit did in the step that led to a state.
  deed(index, unit) {
    const died = this.deaths[unit];
    if (died !== null && died < index) return `died in step ${died}`;
    if (index === 0) return "starts";
    const words = this.isAgent(unit) ? this.actionWords(unit, this.actions[index - 1][unit]) : this.aimWords(index, unit);
    return died === index ? `${words}, died` : words;
  }

  actionWords(agent, action) {
    if (action < FIRST_ATTACK) return MOVES[action];
    const slot = action - FIRST_ATTACK;
    return this.type(agent).heals ? `heal ${this.name(slot)}` : `attack ${this.name(this.agents + slot)}`;
  }

  // Enemies have no actions, they follow a script.
  aimWords(index, unit) {
    const target = this.targets[index][unit];
    if (target === NOBODY) return "has no target";
    return `${this.type(unit).heals ? "heals" : "attacks"} ${this.name(target)}`;
  }

  // Health and shield, rounded up so that the living never show 0; a healer's energy.
  leftWords(index, unit) {
    if (!this.lives(index, unit)) return "";
    const type = this.type(unit), health = Math.ceil(this.health[index][unit]);
    if (type.heals) return `${health}, energy ${Math.floor(this.cooldown[index][unit])}`;
    return type.shield ? `${health} + ${Math.ceil(this.shield[index][unit])}` : `${health}`;
  }
}
