// A square of few pixels that a person draws on, by pointer or by keyboard.

/** A drawing of `size` by `size` numbers from 0 to 1. */
export class Pad {
  /** @param {HTMLCanvasElement} canvas @param {number} size @param {() => void} changed */
  constructor(canvas, size, changed) {
    this.canvas = canvas;
    this.size = size;
    this.changed = changed;
    this.pixels = new Float32Array(size * size);
    this.at = [0, 0];
    canvas.addEventListener('pointerdown', (event) => { canvas.setPointerCapture(event.pointerId); this.brush(event); });
    canvas.addEventListener('pointermove', (event) => { if (event.buttons) this.brush(event); });
    canvas.addEventListener('keydown', (event) => this.key(event));
    for (const kind of ['focus', 'blur']) canvas.addEventListener(kind, () => this.draw());
    this.draw();
  }

  clear() {
    this.pixels.fill(0);
    this.show();
  }

  /** Fills what lies under the pointer, and a part of what lies beside it. @param {PointerEvent} event */
  brush(event) {
    const {left, top, width, height} = this.canvas.getBoundingClientRect();
    const column = (event.clientX - left) / width * this.size - 0.5, row = (event.clientY - top) / height * this.size - 0.5;
    for (let y = 0; y < this.size; y++) {
      for (let x = 0; x < this.size; x++) {
        const ink = Math.max(0, 1.2 - Math.hypot(x - column, y - row));
        this.pixels[y * this.size + x] = Math.max(this.pixels[y * this.size + x], Math.min(1, ink));
      }
    }
    this.show();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[event.key];
    if (move === undefined && event.key !== ' ') return;
    event.preventDefault();
    if (move !== undefined) this.at = this.at.map((n, i) => Math.min(this.size - 1, Math.max(0, n + move[i])));
    else this.pixels[this.at[1] * this.size + this.at[0]] = this.pixels[this.at[1] * this.size + this.at[0]] > 0.5 ? 0 : 1;
    this.show();
  }

  show() {
    this.draw();
    this.changed();
  }

  draw() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d')), side = this.canvas.width / this.size;
    let filled = 0;
    this.pixels.forEach((ink, i) => {
      filled += ink > 0.5 ? 1 : 0;
      context.fillStyle = `rgb(${ink * 255} ${ink * 255} ${ink * 255})`;
      context.fillRect(i % this.size * side, Math.floor(i / this.size) * side, side, side);
    });
    if (document.activeElement === this.canvas) {
      context.strokeStyle = '#f0b429';
      context.lineWidth = 2;
      context.strokeRect(this.at[0] * side + 1, this.at[1] * side + 1, side - 2, side - 2);
    }
    const where = `row ${this.at[1] + 1}, column ${this.at[0] + 1}`;
    this.canvas.setAttribute('aria-label', `Drawing of ${this.size} by ${this.size} squares, ${filled} filled; at ${where}`);
  }
}
