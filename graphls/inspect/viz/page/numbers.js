// What a step computes and holds while its nodes run, as a drawing, and what the values of a run were.

const COURSE = { width: 560, memory: 130, flops: 60, strip: 9, row: 7, gap: 16 };
const MOST_ALIVE = 24;
const LEAST_SHARE = 0.03;
const numberText = (number) => String(Number(number.toPrecision(4)));

function countText(count) {
  const power = count < 999.5 ? 0 : Math.min(5, Math.floor(Math.log10(count * 1.0005) / 3));
  return power ? `${digits(count / 1000 ** power)} ${["", "k", "M", "G", "T", "P"][power]}` : String(count);
}

// The nodes of a stage in the order in which they run, with what is known of each.
class Course {
  constructor(stage) {
    Object.assign(this, stage.course);
    this.stage = stage;
    this.count = this.nodes.length;
    this.peakAt = this.held.indexOf(this.peak);
    this.items = this.nodes.map((node) => stage.nodeItems.get(node));
    this.allFlops = this.flops.reduce((sum, flops) => sum + flops, 0);
    this.always = this.fixed.reduce((sum, [, bytes]) => sum + bytes, 0);
  }

  phase(tick) {
    return data.nodes[this.nodes[tick]]?.phase ?? "";
  }

  engine(tick) {
    let item = this.items[tick];
    while (item && !item.group?.engine) item = item.parent;
    return item?.group.engine ?? "";
  }

  aliveAt(tick) {
    return this.alive.filter(([, first, last]) => first <= tick && tick <= last).sort((a, b) => b[3] - a[3]);
  }

  // Columns of the drawing: for each the nodes that it stands for.
  columns() {
    const count = Math.min(this.count, COURSE.width), found = [];
    for (let i = 0; i < count; i++) found.push([Math.floor((i * this.count) / count), Math.floor(((i + 1) * this.count) / count)]);
    return found;
  }

  // Memory, FLOPs, phases and engines as bars over the step, and below them the largest values as long as they live.
  drawing() {
    const { width, memory, flops, strip, row, gap } = COURSE, engines = this.nodes.some((_, tick) => this.engine(tick));
    this.base = gap + memory;
    this.ground = this.base + gap + flops;
    this.below = this.ground + gap + (engines ? strip + 3 : 0) + 8;
    const largest = [...this.alive].sort((a, b) => b[3] - a[3]).slice(0, MOST_ALIVE).sort((a, b) => a[1] - b[1]);
    this.high = this.below + largest.length * row;
    this.cursor = shape("path", { class: "cursor", d: "" });
    const svg = shape("svg", { viewBox: `0 0 ${width} ${this.high}`, role: "img", class: "course", "aria-label": this.told() });
    svg.append(...this.bars(), ...this.marks(), ...largest.map((alive, i) => this.span(alive, this.below + i * row)), this.cursor);
    return svg;
  }

  x(tick) {
    return (tick / this.count) * COURSE.width;
  }

  // One path for all bars of a phase or of an engine.
  bars() {
    const { width, memory, flops, strip, gap } = COURSE, columns = this.columns(), wide = width / columns.length, paths = new Map();
    const sums = columns.map(([a, b]) => this.flops.slice(a, b).reduce((sum, each) => sum + each, 0)), dearest = Math.max(1, ...sums);
    const bar = (key, i, from, high) => paths.set(key, `${paths.get(key) ?? ""}M${(i * wide).toFixed(1)} ${from}v${-high.toFixed(1)}h${wide.toFixed(1)}v${high.toFixed(1)}z`);
    columns.forEach(([a, b], i) => {
      const phase = `class ${this.phase(a)}`, engine = this.engine(a);
      bar(phase, i, this.base, (memory * Math.max(...this.held.slice(a, b))) / Math.max(1, this.peak));
      if (sums[i]) bar(phase, i, this.ground, (flops * sums[i]) / dearest);
      bar(phase, i, this.ground + gap, strip);
      if (engine) bar(`data-engine ${engine}`, i, this.ground + gap + strip + 3, strip);
    });
    return [...paths].map(([key, d]) => {
      const space = key.indexOf(" ");
      return shape("path", { d, [key.slice(0, space)]: key.slice(space + 1) });
    });
  }

  // What is always there, where the most is there, and what the bars are.
  marks() {
    const { width, memory, gap } = COURSE, always = (memory * this.always) / Math.max(1, this.peak), at = this.x(this.peakAt + 0.5), isLeft = at > width / 2;
    const text = (x, y, content, anchor = "start") => Object.assign(shape("text", { x, y, "text-anchor": anchor }), { textContent: content });
    const top = this.base - always - 3;
    return [
      shape("path", { class: "always", d: `M0 ${this.base}v${-always}h${width}v${always}z` }),
      shape("path", { class: "peak", d: `M${at} ${gap}V${this.high}` }),
      shape("circle", { class: "peak", cx: at, cy: gap, r: 3.5 }),
      text(isLeft ? at - 7 : at + 7, gap - 4, `${bytesText(this.peak)} at most`, isLeft ? "end" : "start"),
      text(2, top < gap + 12 ? this.base - 4 : top, `${bytesText(this.always)} always there`),
      text(2, this.base + gap - 4, `FLOPs, ${countText(this.allFlops)}`),
    ];
  }

  // A value from where it is made to where it is used last.
  span([value, first, last, bytes], y) {
    const [from, to] = [this.x(first), this.x(last + 1)];
    const line = shape("path", { d: `M${from.toFixed(1)} ${y}h${Math.max(1.5, to - from).toFixed(1)}v${COURSE.row - 2}H${from.toFixed(1)}z`, class: this.stage.definer.get(value)?.phase ?? "" });
    const tip = shape("title", {});
    tip.textContent = `${valueText(value)}: ${typeText(value)}, ${bytesText(bytes)}`;
    line.append(tip);
    return line;
  }

  told() {
    return `Memory over the ${counted(this.count, "node")} of the step: ${bytesText(this.peak)} at most, while ${nodeName(this.nodes[this.peakAt])} runs; below it FLOPs, phases and the largest values from where they are made to where they are used last`;
  }

  mark(tick) {
    this.cursor.setAttribute("d", `M${this.x(tick + 0.5)} 0V${this.high}`);
  }

  // The tree of cells with FLOPs, the bytes of the states that it is the first to read, and what it holds at the peak.
  cells() {
    const root = { name: "(step)", depth: 0, flops: 0, states: 0, held: 0, inner: new Map() };
    const add = (node, what, amount) => {
      let cell = root;
      cell[what] += amount;
      for (const name of (data.nodes[node]?.scope ?? "").split(".").filter(Boolean)) {
        if (!cell.inner.has(name)) cell.inner.set(name, { name, depth: cell.depth + 1, flops: 0, states: 0, held: 0, inner: new Map() });
        cell = cell.inner.get(name);
        cell[what] += amount;
      }
    };
    this.nodes.forEach((node, tick) => add(node, "flops", this.flops[tick]));
    for (const [value, { readers }] of this.stage.states) {
      const reader = readers.find((item) => item.phase === "forward" && item.node >= 0);
      if (reader) add(reader.node, "states", valueBytes(value));
    }
    for (const [value, , , bytes] of this.aliveAt(this.peakAt)) add(this.stage.definer.get(value)?.node ?? -1, "held", bytes);
    const rows = [], walk = (cell) => {
      if (cell.depth && !["flops", "states", "held"].some((what) => cell[what] >= LEAST_SHARE * root[what] && cell[what])) return;
      rows.push(cell);
      cell.inner.forEach(walk);
    };
    walk(root);
    return [root, rows];
  }

  // FLOPs and the most memory by engine.
  engines() {
    const found = new Map();
    this.nodes.forEach((_, tick) => {
      const engine = this.engine(tick);
      if (!engine) return;
      const [flops, held] = found.get(engine) ?? [0, 0];
      found.set(engine, [flops + this.flops[tick], Math.max(held, this.held[tick])]);
    });
    return [...found];
  }
}

// The bytes of a value in memory, which may be more than its own.
function heldText(value, bytes) {
  const own = valueBytes(value);
  return bytes > own ? `${bytesText(bytes)}: ${bytesText(own)} and ${bytesText(bytes - own)} as float32` : bytesText(bytes);
}

function shareBar(share, text) {
  const bar = element("span", { className: "bar" });
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  return element("span", { className: "barred" }, bar, element("span", { textContent: text }));
}

Panels.prototype.showCourse = function () {
  if (!this.stage.course?.nodes.length) return;
  const course = new Course(this.stage), svg = course.drawing(), alive = element("div", { "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 0, max: course.count - 1, value: course.peakAt, "aria-label": "Node of the step" });
  const at = (tick) => {
    course.mark(tick);
    const item = course.items[tick], held = course.aliveAt(tick);
    alive.replaceChildren(element("p", {}, "While ", ...(item ? [this.itemLink(item)] : ["this"]), `runs: ${bytesText(course.held[tick])}, ${countText(course.flops[tick])} FLOPs, ${counted(held.length, "value")} alive.`),
      this.table(["value", "held"], held.slice(0, 8).map(([value, , , bytes]) => [this.valueLink(value), heldText(value, bytes)])));
  };
  slider.addEventListener("input", () => at(Number(slider.value)));
  svg.addEventListener("click", (event) => {
    const frame = svg.getBoundingClientRect();
    slider.value = Math.floor(((event.clientX - frame.left) / frame.width) * course.count);
    at(Number(slider.value));
    if (course.items[slider.value]) this.events.select(course.items[slider.value]);
  });
  const [root, cells] = course.cells(), share = (cell, what, text) => shareBar(root[what] ? cell[what] / root[what] : 0, cell[what] ? text(cell[what]) : "-");
  const engines = course.engines().map(([engine, [flops, held]]) => [element("span", {}, engineSign(engine), " ", element("bdi", { textContent: engine })), shareBar(course.allFlops ? flops / course.allFlops : 0, countText(flops)), bytesText(held)]);
  this.course.replaceChildren(
    element("p", { textContent: `${bytesText(course.peak)} at most by liveness, of which ${course.fixed.map(([name, bytes]) => `${name} ${bytesText(bytes)}`).join(", ")} are always there; ${countText(course.allFlops)} floating point operations.` }),
    element("p", { textContent: `${course.meaning} "Held at the peak" adds up the values that a cell computes.` }),
    svg, slider, alive,
    ...(engines.length ? [this.table(["engine", "FLOPs", "most memory"], engines)] : []),
    this.table(["cell, with those inside", "FLOPs", "parameters", "held at the peak"], cells.map((cell) => {
      const name = named(cell.name);
      name.style.paddingLeft = `${cell.depth * 0.7}em`;
      return [name, share(cell, "flops", countText), share(cell, "states", bytesText), share(cell, "held", bytesText)];
    })));
  at(course.peakAt);
};

// What a value was in the run that the page shows.
function valueCard(stage, value) {
  const found = stage.recorded?.get(value);
  if (!found) return "";
  const { minimum, maximum, mean, zeros, bad, histogram } = found, most = Math.max(1, ...histogram);
  const svg = shape("svg", { viewBox: "0 0 96 24", class: "histogram", role: "img", "aria-label": `Histogram of ${valueText(value)}: ${histogram.join(" ")}` });
  svg.append(shape("path", { d: histogram.map((count, i) => count ? `M${i * 6} 24v${-Math.max(1, (24 * count) / most)}h5V24z` : "").join("") }));
  const facts = bad ? [`not finite ${shareText(bad)}`] : [], card = element("div", { className: `card${bad ? " bad" : ""}` });
  if (minimum !== null) {
    facts.push(...[["min", minimum], ["max", maximum], ["mean", mean]].map(([name, number]) => `${name} ${numberText(number)}`), `zeros ${shareText(zeros)}`);
    card.append(svg);
  }
  card.append(element("span", { textContent: facts.join(" · ") || "no elements" }));
  return card;
}

Panels.prototype.showValues = function () {
  const recorded = [...this.stage.recorded ?? []].filter(([value]) => this.stage.definer.has(value) || isState(value));
  const size = ([, { minimum, maximum }]) => Math.max(Math.abs(minimum ?? 0), Math.abs(maximum ?? 0));
  const bad = recorded.filter(([, { bad }]) => bad), sparse = recorded.filter(([, { zeros }]) => zeros >= 0.5);
  const list = (title, values) => values.length ? [element("h3", { textContent: `${title} (${values.length})` }), ...this.limited(values.map(([value]) => element("div", { className: "pair" }, this.valueLink(value), valueCard(this.stage, value))), 20)] : [];
  this.values.replaceChildren(
    element("p", { textContent: `${counted(recorded.length, "float value")} of one run, ${bad.length ? `${bad.length} of them not finite everywhere` : "all of them finite"}.` }),
    ...list("Not finite", bad),
    ...list("The largest", [...recorded].sort((a, b) => size(b) - size(a)).slice(0, 40)),
    ...list("At least half zeros", sparse.sort((a, b) => b[1].zeros - a[1].zeros)));
};
