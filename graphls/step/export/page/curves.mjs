// Curves of numbers over steps, as SVG.

const WIDTH = 600, HEIGHT = 110, MOST = 400;

/**
 * Draws points [step, number] into an SVG element; `stairs` keeps a number until the next, `marks` are steps in red.
 * @param {Element} svg @param {string} name @param {[number, number][]} points
 * @param {{colour: string, isLog?: boolean, stairs?: boolean, marks?: number[], show?: (n: number) => string}} settings
 */
export function drawCurve(svg, name, points, {colour, isLog = false, stairs = false, marks = [], show = short}) {
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  const kept = points.filter(([, value]) => Number.isFinite(value) && (value > 0 || !isLog));
  if (kept.length === 0) return svg.replaceChildren();
  const height = (/** @type {number} */ value) => isLog ? Math.log2(value) : value;
  const values = kept.map(([, value]) => height(value));
  const low = Math.min(...values), high = Math.max(...values), last = Math.max(1, points[points.length - 1][0]);
  const x = (/** @type {number} */ step) => (step / last * WIDTH).toFixed(1);
  const y = (/** @type {number} */ value) => (HEIGHT - 8 - (height(value) - low) / (high - low || 1) * (HEIGHT - 24)).toFixed(1);
  const every = Math.ceil(kept.length / MOST);
  const some = stairs ? kept.filter(([, value], i) => i === 0 || i === kept.length - 1 || value !== kept[i - 1][1])
    : kept.filter((_, i) => i % every === 0 || i === kept.length - 1);
  const path = some.map(([step, value], i) => i === 0 ? `M${x(step)} ${y(value)}` : stairs ? `H${x(step)}V${y(value)}` : `L${x(step)} ${y(value)}`);
  const first = kept[0][1], now = kept[kept.length - 1][1];
  svg.setAttribute('aria-label', `${name} after ${points[points.length - 1][0]} steps: from ${show(first)} to ${show(now)}`);
  svg.replaceChildren(
    shape('path', {d: path.join(''), stroke: colour}),
    shape('path', {d: marks.map((step) => `M${x(step)} ${HEIGHT}v-8`).join(''), stroke: 'var(--bad)'}),
  );
}

/** @param {string} kind @param {Record<string, string>} attributes */
function shape(kind, attributes) {
  const found = document.createElementNS('http://www.w3.org/2000/svg', kind);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  return found;
}

/** A number in few letters. @param {number} value */
export function short(value) {
  return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
}

/** Shows an image of [rows, columns] numbers on a canvas; `range` are those for black and white. */
export function drawImage(/** @type {HTMLCanvasElement} */ canvas, /** @type {ArrayLike<number>} */ numbers, /** @type {number} */ columns, /** @type {[number, number]} */ [low, high]) {
  const rows = numbers.length / columns;
  [canvas.width, canvas.height] = [columns, rows];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < numbers.length; i++) {
    const light = Math.round((numbers[i] - low) / (high - low || 1) * 255);
    image.data.set([light, light, light, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
