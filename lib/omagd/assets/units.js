// Draws one moment of a battle: ground, dead, aims, units with their bars, and what a chosen agent sees.
// Allies are filled discs, enemies rings, so that sides differ without colour too.
const COLOURS = ["open", "wall", "wallLine", "grid", "edge", "ink", "paper", "label", "crash", "left", "right", "health",
  "shield", "empty"];
const UNSEEN = 0.16; // how much of what the chosen agent does not see is left
const FRESH_STEPS = 3; // a death stands out for so long
const LEAST_LETTER = 6; // pixels of a radius that has room for a letter, and
const LEAST_NUMBER = 11; // for letter and number
const CLICK_PIXELS = 16;

class UnitMap {
  constructor(canvas, battle) {
    Object.assign(this, { canvas, battle, ground: new Ground(battle), context: canvas.getContext("2d"), moment: null });
    const { box } = this.ground;
    canvas.style.aspectRatio = `${box.width} / ${box.height}`;
    canvas.dataset.box = [box.left, box.bottom, box.width, box.height].join(" ");
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  // moment: {index, part, chosen}: `part` of the step that led to state `index` has passed; chosen: an agent or -1.
  draw(moment) {
    this.moment = moment;
    const { canvas, context, ground } = this;
    const width = Math.round(canvas.clientWidth * (window.devicePixelRatio || 1));
    if (width === 0) return;
    const height = Math.round((width * ground.box.height) / ground.box.width);
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    this.scale = width / ground.box.width;
    this.colours = readColours(canvas, COLOURS);
    context.setTransform(...ground.transform(width));
    context.globalAlpha = 1;
    ground.draw(context, this.colours);
    this.everything();
  }

  redraw() {
    if (this.moment !== null) this.draw(this.moment);
  }

  // A length of at least so many pixels of the screen.
  atLeast(length, pixels) {
    return Math.max(length, (pixels * (window.devicePixelRatio || 1)) / this.scale);
  }

  // A number of a unit between the former state and this one.
  between(rows, unit) {
    const { index, part } = this.moment, to = rows[index][unit];
    return index === 0 ? to : rows[index - 1][unit] * (1 - part) + to * part;
  }

  place(unit) {
    return [this.between(this.battle.x, unit), this.between(this.battle.y, unit)];
  }

  // How much of a unit is to be seen: less of what the chosen agent does not see, ever less of one that dies.
  alpha(unit) {
    const { index, part, chosen } = this.moment, { battle } = this;
    const seen = chosen < 0 || battle.sees(index, chosen, unit) ? 1 : UNSEEN;
    if (battle.lives(index, unit)) return seen;
    return index > 0 && battle.lives(index - 1, unit) ? seen * (1 - part) : 0;
  }

  everything() {
    const { battle, context } = this, { chosen } = this.moment;
    const order = battle.units.map((type, unit) => unit);
    // Flyers are above the others.
    order.sort((one, other) => battle.type(one).flies - battle.type(other).flies);
    for (const unit of order) this.death(unit);
    if (chosen >= 0) this.sight(chosen);
    for (const unit of order) this.aim(unit);
    for (const unit of order) {
      context.globalAlpha = this.alpha(unit);
      if (context.globalAlpha > 0) this.unit(unit);
    }
    for (const unit of order) {
      context.globalAlpha = this.alpha(unit);
      if (context.globalAlpha > 0) this.bars(unit);
    }
    context.globalAlpha = 1;
  }

  sideColour(unit) {
    return this.battle.isAgent(unit) ? this.colours.left : this.colours.right;
  }

  circle(x, y, radius) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
  }

  unit(unit) {
    const { context, colours, battle } = this, type = battle.type(unit), [x, y] = this.place(unit);
    const ring = this.atLeast(0.13 * type.radius + 0.03, 2), colour = this.sideColour(unit);
    if (battle.isAgent(unit)) {
      context.fillStyle = colour;
      this.circle(x, y, type.radius);
      context.fill();
    } else {
      Object.assign(context, { fillStyle: colours.paper, strokeStyle: colour, lineWidth: ring });
      this.circle(x, y, type.radius - ring / 2);
      context.fill();
      context.stroke();
    }
    if (type.flies) this.wings(x, y, type.radius, colour);
    if (unit === this.moment.chosen) {
      Object.assign(context, { strokeStyle: colours.ink, lineWidth: this.atLeast(0.08, 2) });
      this.circle(x, y, type.radius + this.atLeast(0.12, 3));
      context.stroke();
    }
    this.letter(unit, x, y, type, battle.isAgent(unit) ? colours.label : colour);
  }

  // A dashed circle around what flies.
  wings(x, y, radius, colour) {
    const { context } = this, dash = this.atLeast(0.16, 3);
    Object.assign(context, { strokeStyle: colour, lineWidth: this.atLeast(0.05, 1.2) });
    context.setLineDash([dash, dash]);
    this.circle(x, y, radius + this.atLeast(0.14, 3));
    context.stroke();
    context.setLineDash([]);
  }

  letter(unit, x, y, type, colour) {
    const { context } = this, pixels = (type.radius * this.scale) / (window.devicePixelRatio || 1);
    if (pixels < LEAST_LETTER) return;
    const text = pixels < LEAST_NUMBER ? type.letter : `${type.letter}${this.battle.number(unit)}`;
    const size = type.radius * [0, 1.25, 1.02, 0.7][text.length];
    context.save();
    context.translate(x, y);
    // Canvas text below one pixel is not drawn: write it large and scale it down; upwards is y on the map.
    context.scale(0.01, -0.01);
    Object.assign(context, { fillStyle: colour, textAlign: "center", textBaseline: "middle" });
    context.font = `700 ${100 * size}px system-ui, sans-serif`;
    context.fillText(text, 0, 5 * size);
    context.restore();
  }

  // Health, and above it the shield of those who have one.
  bars(unit) {
    const { battle, colours } = this, type = battle.type(unit), [x, y] = this.place(unit);
    // Close to the unit: bars must not lie on the letter of a neighbour.
    const width = Math.max(2 * type.radius, 0.9), height = this.atLeast(0.1, 3), gap = this.atLeast(0.03, 1);
    let bottom = y + type.radius + gap;
    const shown = [["health", this.between(battle.health, unit) / type.health]];
    if (type.shield) shown.push(["shield", this.between(battle.shield, unit) / type.shield]);
    for (const [name, part] of shown) {
      this.context.fillStyle = colours.empty;
      this.context.fillRect(x - width / 2, bottom, width, height);
      this.context.fillStyle = colours[name];
      this.context.fillRect(x - width / 2, bottom, width * Math.min(Math.max(part, 0), 1), height);
      bottom += height + gap;
    }
  }

  // From a unit to its target, solid in reach and dashed on the way there. Each line keeps to its right, so that two
  // units that aim at each other have two lines.
  aim(unit) {
    const { battle, context } = this, { index, chosen } = this.moment, target = battle.targets[index][unit];
    if (target < 0 || index === 0 || !battle.lives(index - 1, target)) return;
    const [x, y] = this.place(unit), [aimX, aimY] = this.place(target);
    const away = Math.hypot(aimX - x, aimY - y), aside = this.atLeast(0.09, 2);
    const start = battle.type(unit).radius, end = away - battle.type(target).radius - 0.06;
    const heals = battle.type(unit).heals, reaches = battle.reaches(index, unit, target);
    const known = chosen < 0 || (battle.sees(index, chosen, unit) && battle.sees(index, chosen, target));
    context.save();
    context.globalAlpha = (known ? 0.85 : UNSEEN) * (battle.lives(index, unit) ? 1 : 1 - this.moment.part);
    context.translate(x, y);
    context.rotate(Math.atan2(aimY - y, aimX - x));
    Object.assign(context, { strokeStyle: heals ? this.colours.health : this.sideColour(unit), lineCap: "butt" });
    context.lineWidth = this.atLeast(reaches ? 0.07 : 0.045, reaches ? 1.6 : 1);
    if (!reaches) context.setLineDash([this.atLeast(0.22, 5), this.atLeast(0.22, 5)]);
    context.beginPath();
    if (end > start) {
      context.moveTo(start, -aside);
      context.lineTo(end, -aside);
      context.stroke();
    }
    this.tip(Math.max(end, start), -aside, heals);
    context.restore();
  }

  // An arrow's head; healing has a plus.
  tip(x, y, heals) {
    const { context } = this, size = this.atLeast(0.2, 5);
    context.setLineDash([]);
    context.beginPath();
    if (heals) {
      context.moveTo(x - size, y);
      context.lineTo(x, y);
      context.moveTo(x - size / 2, y - size / 2);
      context.lineTo(x - size / 2, y + size / 2);
    } else {
      context.moveTo(x - size, y - 0.6 * size);
      context.lineTo(x, y);
      context.lineTo(x - size, y + 0.6 * size);
    }
    context.stroke();
  }

  // A cross where a unit died, strong while it is fresh.
  death(unit) {
    const { battle, context, colours } = this, { index, part, chosen } = this.moment, died = battle.deaths[unit];
    if (died === null || died > index) return;
    const fresh = index - died < FRESH_STEPS;
    const x = battle.x[died][unit], y = battle.y[died][unit], size = Math.min(battle.type(unit).radius, 0.5) * 0.8;
    context.globalAlpha = (died === index ? part : 1) * (fresh ? 1 : 0.45) * (chosen < 0 ? 1 : 0.4);
    for (const [colour, width] of [[colours.open, 0.24], [fresh ? colours.crash : this.sideColour(unit), 0.11]]) {
      Object.assign(context, { strokeStyle: colour, lineWidth: this.atLeast(width, 20 * width), lineCap: "round" });
      context.beginPath();
      for (const slope of [-1, 1]) {
        context.moveTo(x - size, y - slope * size);
        context.lineTo(x + size, y + slope * size);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  // How far the chosen agent sees.
  sight(agent) {
    const { battle, context, colours } = this;
    if (!battle.lives(this.moment.index, agent)) return;
    const [x, y] = this.place(agent), dash = this.atLeast(0.3, 6);
    this.circle(x, y, battle.options.sight);
    context.globalAlpha = 0.07;
    context.fillStyle = colours.left;
    context.fill();
    context.globalAlpha = 0.9;
    Object.assign(context, { strokeStyle: colours.left, lineWidth: this.atLeast(0.07, 1.6) });
    context.setLineDash([dash, dash]);
    context.stroke();
    context.setLineDash([]);
  }

  // The living agent at a place of the canvas in pixels of the screen; -1: none.
  agentAt(left, top) {
    const { box } = this.ground, scale = this.canvas.clientWidth / box.width;
    const x = box.left + left / scale, y = box.bottom + box.height - top / scale;
    let found = -1, nearest = Infinity;
    for (let unit = 0; unit < this.battle.agents; unit += 1) {
      const [atX, atY] = this.place(unit), away = Math.hypot(atX - x, atY - y);
      const near = away * scale <= Math.max(this.battle.type(unit).radius * scale, CLICK_PIXELS);
      if (near && away < nearest && this.battle.lives(this.moment.index, unit)) [found, nearest] = [unit, away];
    }
    return found;
  }
}
