// The part of the map that a battle needs, and the ground on it. The map's y goes up, the canvas's down.
const AROUND = 1.6; // map units shown beyond the outermost units
const LEAST_WIDTH = 14, FLATTEST = 2.1, STEEPEST = 1.25;

class Ground {
  constructor(battle) {
    this.rows = battle.ground;
    this.size = battle.ground.length;
    this.box = this.boxOf(battle);
  }

  // The smallest box of a fair shape that holds every living unit of every state, moved onto the map where it fits.
  boxOf(battle) {
    const range = (places, wide) => {
      let low = Infinity, high = -Infinity;
      places.forEach((row, index) => row.forEach((place, unit) => {
        if (!battle.lives(index, unit)) return;
        low = Math.min(low, place - battle.type(unit).radius);
        high = Math.max(high, place + battle.type(unit).radius);
      }));
      return { middle: (low + high) / 2, length: Math.max(high - low + 2 * AROUND, wide) };
    };
    const across = range(battle.x, LEAST_WIDTH), up = range(battle.y, 0);
    across.length = Math.min(Math.max(across.length, STEEPEST * up.length), this.size);
    up.length = Math.max(up.length, across.length / FLATTEST);
    const start = ({ middle, length }) =>
      length >= this.size ? (this.size - length) / 2 : Math.min(Math.max(middle - length / 2, 0), this.size - length);
    return { left: start(across), bottom: start(up), width: across.length, height: up.length };
  }

  // From map to canvas: the transform for a canvas of this width in pixels.
  transform(width) {
    const scale = width / this.box.width;
    return [scale, 0, 0, -scale, -this.box.left * scale, (this.box.bottom + this.box.height) * scale];
  }

  isOpen(x, y) {
    return this.rows[y] !== undefined && this.rows[y][x] === "1";
  }

  draw(context, colours) {
    const { left, bottom, width, height } = this.box;
    context.fillStyle = colours.wall;
    context.fillRect(left, bottom, width, height);
    this.hatch(context, colours.wallLine);
    const edges = new Path2D(), lines = new Path2D();
    context.fillStyle = colours.open;
    for (let y = 0; y < this.size; y += 1) {
      for (let x = 0; x < this.size; x += 1) {
        if (!this.isOpen(x, y)) continue;
        // A little more than the cell: no seams between neighbours.
        context.fillRect(x - 0.01, y - 0.01, 1.02, 1.02);
        this.border(lines, edges, x, y);
      }
    }
    Object.assign(context, { strokeStyle: colours.grid, lineWidth: 0.03 });
    context.stroke(lines);
    Object.assign(context, { strokeStyle: colours.edge, lineWidth: 0.08 });
    context.stroke(edges);
  }

  // The sides of an open cell: a line of the grid where the next cell is open too, else an edge.
  border(lines, edges, x, y) {
    for (const [dx, dy, from, to] of [
      [1, 0, [1, 0], [1, 1]], [-1, 0, [0, 0], [0, 1]], [0, 1, [0, 1], [1, 1]], [0, -1, [0, 0], [1, 0]]]) {
      const path = this.isOpen(x + dx, y + dy) ? lines : edges;
      path.moveTo(x + from[0], y + from[1]);
      path.lineTo(x + to[0], y + to[1]);
    }
  }

  hatch(context, colour) {
    const { left, bottom, width, height } = this.box;
    Object.assign(context, { strokeStyle: colour, lineWidth: 0.05 });
    context.beginPath();
    for (let at = Math.floor(left - height); at < left + width; at += 0.7) {
      context.moveTo(at, bottom);
      context.lineTo(at + height, bottom + height);
    }
    context.stroke();
  }
}
