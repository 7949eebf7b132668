// What every block shares: its markup in a shadow root, its named parts, the speed, and the clock of animation frames.
const PLAY_ICON = "M4 2l10 6-10 6z", PAUSE_ICON = "M3 2h4v12H3zM9 2h4v12H9z";

class Frame {
  constructor(host) {
    const root = host.attachShadow({ mode: "open" });
    root.append(host.querySelector("template").content.cloneNode(true));
    this.host = host;
    this.root = root.querySelector(".view");
    this.parts = {};
    for (const element of root.querySelectorAll("[data-part]")) this.parts[element.dataset.part] = element;
    this.parts.speed.addEventListener("input", () => this.showSpeed());
    this.showSpeed();
  }

  show(...names) {
    for (const name of names) this.parts[name].hidden = false;
  }

  hide(...names) {
    for (const name of names) this.parts[name].hidden = true;
  }

  // texts: by the names of parts. What has not changed is left alone.
  write(texts) {
    for (const [name, text] of Object.entries(texts)) {
      if (this.parts[name].textContent !== String(text)) this.parts[name].textContent = text;
    }
  }

  get stepsPerSecond() {
    return Number(this.parts.speed.value);
  }

  set stepsPerSecond(value) {
    this.parts.speed.value = value;
    this.showSpeed();
  }

  showSpeed() {
    this.write({ speedText: `${this.parts.speed.value} steps/s` });
  }
}

const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// The values of custom properties of CSS, by their names without the dashes.
function readColours(element, names) {
  const style = getComputedStyle(element);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

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
