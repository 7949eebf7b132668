// Watching a recording: any of its states by buttons, keys or the chart. An extending class says what a state looks
// like: showState(index), draw(part of the step to the state that has passed), drawChart(); and calls show(0) when it
// is ready.
const WATCH_KEYS = { " ": "toggle", ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last",
  "+": "faster", "=": "faster", "-": "slower" };
const WATCH_HELP = "Space: play or pause. Left and right arrow: one step. Home and End: start and end. " +
  "Plus and minus: speed. ";

class Watching {
  // last: index of the last state. keys: the element whose key presses steer (document: the whole page).
  constructor(view, last, keys) {
    Object.assign(this, { view, last, index: 0, listeners: new AbortController() });
    this.clock = new Clock(() => view.stepsPerSecond, () => this.tick(), (part) => this.draw(part));
    const { parts } = view;
    view.show("timeline", "watchButtons");
    parts.scrubber.max = last;
    const signal = { signal: this.listeners.signal };
    parts.scrubber.addEventListener("input", () => this.pauseAt(Number(parts.scrubber.value)), signal);
    for (const button of view.root.querySelectorAll("[data-part=watchButtons] [data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do), signal);
    }
    keys.addEventListener("keydown", (event) => this.onKey(event), signal);
    const chart = new ResizeObserver(() => this.drawChart());
    chart.observe(parts.chart);
    this.listeners.signal.addEventListener("abort", () => chart.disconnect());
  }

  close() {
    this.clock.stop();
    this.listeners.abort();
    this.view.hide("timeline", "watchButtons");
  }

  // What a key does; undefined: nothing.
  actionOf(key) {
    return WATCH_KEYS[key];
  }

  // The number of a state as it is told.
  stepOf(index) {
    return index;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = this.actionOf(event.key), source = event.composedPath()[0];
    const onButton = event.key === " " && source.tagName === "BUTTON";
    if (action === undefined || onButton || source === this.view.parts.speed) return;
    event.preventDefault();
    this.act(action);
  }

  act(action) {
    const { view } = this;
    const speeds = { faster: 1.3, slower: 1 / 1.3 };
    if (action in speeds) {
      const changed = view.stepsPerSecond * speeds[action];
      view.stepsPerSecond = action === "faster" ? Math.ceil(changed) : Math.max(Math.floor(changed), 1);
    } else if (action === "toggle") {
      if (this.clock.running) this.pauseAt(this.index);
      else this.start();
    } else {
      const targets = { first: 0, back: this.index - 1, forward: this.index + 1, last: this.last };
      this.pauseAt(Math.min(Math.max(targets[action], 0), this.last));
    }
  }

  start() {
    if (this.index === this.last) this.show(0);
    this.clock.start();
    this.showToggle();
  }

  pauseAt(index) {
    this.clock.stop();
    this.showToggle();
    this.show(index);
  }

  showToggle() {
    this.view.parts.toggleIcon.setAttribute("d", this.clock.running ? PAUSE_ICON : PLAY_ICON);
  }

  tick() {
    this.show(this.index + 1, 0);
    if (this.index < this.last) return;
    this.clock.stop();
    this.showToggle();
    this.draw(1);
  }

  show(index, part = 1) {
    this.index = index;
    const { view } = this, step = this.stepOf(index);
    this.showState(index);
    view.parts.scrubber.value = index;
    view.parts.scrubber.setAttribute("aria-valuetext", `step ${step}`);
    view.host.dataset.step = step;
    this.draw(part);
    this.drawChart();
  }
}
