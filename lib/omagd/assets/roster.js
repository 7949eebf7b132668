// The list of all units: what is left of them and what they did last. Agents are buttons that choose them.
class Roster {
  constructor(element, battle, choose) {
    this.battle = battle;
    const list = document.createElement("div");
    list.className = "list";
    this.rows = battle.units.map((type, unit) => this.addRow(unit, choose));
    battle.sides.forEach(([first, end], side) => {
      const heading = document.createElement("p");
      heading.textContent = side === 0 ? "Team: click one for what it sees" : "Enemies, by their script";
      list.append(heading, ...this.rows.slice(first, end).map(({ row }) => row));
    });
    element.replaceChildren(list);
  }

  addRow(unit, choose) {
    const { battle } = this, agent = battle.isAgent(unit);
    const row = document.createElement(agent ? "button" : "div");
    row.dataset.unit = unit;
    const cells = {};
    for (const [name, tag] of [["badge", "i"], ["name", "span"], ["left", "span"], ["deed", "span"]]) {
      cells[name] = document.createElement(tag);
      cells[name].className = name;
      row.append(cells[name]);
    }
    cells.badge.textContent = `${battle.type(unit).letter}${battle.number(unit)}`;
    cells.name.textContent = battle.name(unit);
    if (agent) row.addEventListener("click", () => choose(unit));
    return { row, cells };
  }

  show(index, chosen) {
    const { battle } = this;
    this.rows.forEach(({ row, cells }, unit) => {
      const classes = ["unit", battle.isAgent(unit) ? "ally" : "enemy"];
      if (!battle.lives(index, unit)) classes.push("dead");
      else if (chosen >= 0 && !battle.sees(index, chosen, unit)) classes.push("unseen");
      if (unit === chosen) classes.push("chosen");
      if (row.className !== classes.join(" ")) row.className = classes.join(" ");
      if (battle.isAgent(unit)) row.setAttribute("aria-pressed", unit === chosen);
      const texts = { left: battle.leftWords(index, unit), deed: battle.deed(index, unit) };
      for (const [name, text] of Object.entries(texts)) {
        if (cells[name].textContent !== text) cells[name].textContent = text;
      }
    });
  }
}
