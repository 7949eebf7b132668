// The counter-based random numbers of lib/warp_noise.py: every draw is a function of seed, game, episode, stream,
// step and counter, so that a game in the page is the game that the kernel plays with the same numbers.
const STREAM_RESET = 0, STREAM_BEANS = 1, STREAM_REVERSAL = 2;
const WORD = 2 ** 32;

function mix(word) {
  let x = word >>> 0;
  x ^= x >>> 16;
  x = Math.imul(x, 0x21f0aaad);
  x ^= x >>> 15;
  x = Math.imul(x, 0xd35a2d97);
  x ^= x >>> 15;
  return x >>> 0;
}

// The two key words of a game; seed is a whole number below 2^53.
function gameKey(seed, game, episode) {
  const low = seed % WORD, high = Math.floor(seed / WORD);
  let first = mix(mix((low ^ 0x243f6a88) >>> 0) + high), second = mix(mix((high ^ 0x85a308d3) >>> 0) + low);
  let a = game >>> 0, b = episode >>> 0;
  for (let round = 0; round < 4; round += 1) {
    a = (a ^ mix(b + first)) >>> 0;
    b = (b ^ mix(a + second)) >>> 0;
    first = (first + 0x9e3779b9) >>> 0;
    second = (second + 0x85ebca6b) >>> 0;
  }
  return [a, b];
}

const bounded = (word, count) => Math.floor((word * count) / WORD);

// The draws that the rules ask for. `step` is the number of steps made; startStep(step) begins a step's counters.
class GameRandom {
  constructor(seed, game = 0, episode = 0) {
    this.key = gameKey(seed, game, episode);
    this.step = 0;
    this.counter = 0;
    this.stream = STREAM_RESET;
  }

  draw(stream, step, counter) {
    const [a, b] = this.key;
    return mix(mix((a ^ ((step << 16) | (stream << 12) | counter)) >>> 0) + b);
  }

  next(count) {
    const word = this.draw(this.stream, this.step, this.counter);
    this.counter += 1;
    return bounded(word, count);
  }

  startStep(step) {
    Object.assign(this, { step, counter: 0, stream: STREAM_BEANS });
  }

  place() {
    const direction = this.next(4), row = this.next(HEIGHT), column = this.next(WIDTH);
    return { direction, cell: row * WIDTH + column };
  }

  bean(free) {
    return this.next(free);
  }

  reversal(snake) {
    const word = this.draw(STREAM_REVERSAL, this.step, 0);
    return bounded(Math.imul(word, 3 ** snake) >>> 0, 3);
  }
}
