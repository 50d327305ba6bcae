// The drawing: boxes are HTML, wires SVG. Only what is near the visible part of the drawing is in the document.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 700;
const TRAIL = 34;
const PAPER = 900;
const TOP = 14;
const BESIDE = 100;
const LONG = 26;
const BELOW = 62;
const FAR = { height: 17, beside: 10, longest: 40, near: 30, zoom: 0.12 };
const BADGES = { forward: "F", backward: "B", check: "C", update: "U" };

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "dataset") Object.assign(made.dataset, value);
    else if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// A name; a long one may go on in the next line behind a dot or a slash and before a capital letter, where it has to.
function named(text, properties = {}) {
  const parts = text.length < LONG || text.includes(" ") ? [text] : text.split(/(?<=[./])(?=.)|(?<=[a-z])(?=[A-Z])/u);
  return element("bdi", properties, ...parts.flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]));
}

// Lines of a text, one below the other.
const stacked = (lines, properties) => element("bdi", properties, ...lines.flatMap((line, i) => i ? [document.createElement("br"), line] : [line]));

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function badge(phase) {
  return element("span", { className: `badge ${phase}`, textContent: BADGES[phase], title: phase });
}

function engineSign(engine) {
  return element("span", { className: "engine", dataset: { engine }, title: `runs on ${engine}` });
}

// The legend names the engines of the segments that a stage has.
function showEngines(stage) {
  const legend = document.getElementById("legend");
  for (const old of legend.querySelectorAll("li.of-engine")) old.remove();
  const engines = new Set(stage.items.map((item) => item.group?.engine).filter(Boolean));
  for (const engine of engines) legend.append(element("li", { className: "of-engine" }, engineSign(engine), " ", element("bdi", { textContent: engine })));
}

class Drawing {
  constructor(events) {
    this.events = events;
    this.scroller = document.getElementById("graph");
    this.canvas = document.getElementById("canvas");
    this.sizer = document.getElementById("sizer");
    this.trail = document.getElementById("trail");
    this.around = [];
    this.layers = Object.fromEntries(["frames", "shade", "wires", "boxes", "names", "overlay"].map((id) => [id, document.getElementById(id)]));
    this.zoom = 1;
    this.whole = false;
    this.tinted = false;
    this.listen();
  }

  listen() {
    const { scroller } = this;
    scroller.addEventListener("scroll", () => this.refresh(), { passive: true });
    new ResizeObserver(() => {
      if (!this.drawing) return;
      this.resize();
      this.refresh();
    }).observe(scroller);
    scroller.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomTo(this.zoom * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
    }, { passive: false });
    let grip = null, dragged = false;
    scroller.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      grip = { x: event.clientX, y: event.clientY, left: scroller.scrollLeft, top: scroller.scrollTop };
      dragged = false;
    });
    addEventListener("pointermove", (event) => {
      if (!grip) return;
      const [dx, dy] = [event.clientX - grip.x, event.clientY - grip.y];
      dragged ||= Math.hypot(dx, dy) > 4;
      if (dragged) scroller.scrollTo({ left: grip.left - dx, top: grip.top - dy, behavior: "instant" });
    });
    addEventListener("pointerup", () => { grip = null; });
    this.canvas.addEventListener("click", (event) => {
      const box = this.boxAt(event.target);
      if (!box || dragged) return;
      const fold = isGroup(box.item) && (event.target.closest(".fold") || event.detail === 2), chip = event.target.closest(".chip[data-value]");
      if (fold) this.events.toggle(box.item);
      else if (chip) this.events.value(Number(chip.dataset.value));
      else this.events.select(box.item);
      if (event.target.closest(".far-name")) this.approach(box);
    });
    this.canvas.addEventListener("pointerover", (event) => this.hover(event.target));
    this.canvas.addEventListener("focusin", (event) => this.hover(event.target));
    this.canvas.addEventListener("pointerleave", () => this.events.light([]));
  }

  boxAt(target) {
    const made = target.closest?.("[data-item]");
    return made ? this.drawing.byItem.get(this.stage.items[made.dataset.item]) : null;
  }

  hover(target) {
    const chip = target.closest(".chip[data-value]"), wire = target.closest("[data-wire]");
    if (chip) return this.events.light([Number(chip.dataset.value)]);
    if (wire) return this.events.light(this.drawing.wires[wire.dataset.wire].values);
    const box = this.boxAt(target);
    this.events.light(box && !box.open ? valuesOf(box.item) : []);
  }

  show(stage, isOpen) {
    this.stage = stage;
    this.drawing = placed(stage, isOpen);
    this.drop();
    this.resize();
    this.refresh();
  }

  resize() {
    const { width, height } = this.drawing, zoom = this.whole ? Math.min(1, PAPER / width) : this.zoom;
    this.left = Math.max(20, (this.scroller.clientWidth - width * this.zoom) / 2);
    this.canvas.style.zoom = zoom;
    this.canvas.style.left = `${this.whole ? 0 : this.left / zoom}px`;
    this.canvas.style.top = `${TOP / zoom}px`;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.sizer.style.width = `${width * zoom + (this.whole ? 0 : 40)}px`;
    this.sizer.style.height = `${height * zoom + 40}px`;
    for (const svg of this.canvas.querySelectorAll(":scope > svg")) {
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
    }
  }

  // So far away nothing can be read but titles, and nothing else is made.
  get isFar() {
    return this.zoom < 0.45 && !this.whole;
  }

  // Forgets what was made, so that it is made again.
  drop() {
    Object.values(this.layers).forEach((layer) => layer.replaceChildren());
    this.made = new Map();
    this.rendered = null;
  }

  visible() {
    const { scroller, zoom } = this;
    if (this.whole) return [0, 0, this.drawing.width, this.drawing.height];
    const [left, top] = [(scroller.scrollLeft - this.left) / zoom, (scroller.scrollTop - TOP) / zoom];
    return [left, top, left + scroller.clientWidth / zoom, top + scroller.clientHeight / zoom];
  }

  // Draws what has come near and drops what has gone far, once the visible part leaves what was last drawn.
  refresh(force = false) {
    if (!this.drawing) return;
    this.follow();
    const [left, top, right, bottom] = this.visible(), done = this.rendered;
    if (!force && done && left >= done[0] && top >= done[1] && right <= done[2] && bottom <= done[3]) return;
    const margin = MARGIN / Math.max(this.zoom, 0.3);
    const area = [left - margin, top - margin, right + margin, bottom + margin];
    this.rendered = area;
    const near = (a, b, c, d) => c >= area[0] && a <= area[2] && d >= area[1] && b <= area[3];
    const kept = new Map(), { selected } = this.events.state();
    const keep = (key, make) => {
      kept.set(key, this.made.get(key) ?? make());
      this.made.delete(key);
    };
    for (const box of this.drawing.boxes) {
      const isNear = near(box.left - 10, box.top - 10, box.left + slotWidth(box) + 10, box.top + box.height + 60);
      if (isNear || box.item === selected) keep(box, () => this.box(box));
    }
    this.drawing.wires.forEach((wire, number) => {
      if (near(...wire.span)) keep(wire, () => this.wire(wire, number));
    });
    this.made.forEach((made) => made.forEach((each) => each.remove()));
    this.made = kept;
    this.canvas.classList.toggle("far", this.isFar);
    this.layers.names.replaceChildren(...(this.isFar ? this.farNames([...kept.keys()].filter((box) => box.item)) : []));
    this.mark();
  }

  // Names in a size that can be read from far away, as on a map, where there is room for them. Groups that begin at the
  // same corner share one line, the outer ones first.
  farNames(boxes) {
    const unit = 1 / this.zoom, high = FAR.height * unit, taken = [];
    const meets = (a) => (b) => a.box !== b.box && a.left < b.right && a.right > b.left && a.top < b.top + high && a.top + high > b.top;
    for (const box of boxes.filter(({ item }) => item.parent && item.kind !== "port")) {
      const text = short(box.title.join(""), FAR.longest), right = box.left + (textWidth(text, STRONG) + FAR.beside) * unit;
      if (right > box.left + box.width || high > box.height + 2 * unit) continue;
      const name = { box, text, left: box.left, right, top: box.top }, other = taken.find(meets(name));
      if (!other) taken.push(name);
      else if (isGroup(box.item) && box.left < other.left + FAR.near * unit) {
        const text = `${other.text} / ${name.text}`, right = other.left + (textWidth(text, STRONG) + FAR.beside) * unit;
        if (right < box.left + box.width && !taken.some(meets({ ...other, right }))) Object.assign(other, { text, right });
      }
    }
    return taken.map(({ box, text, left, top }) => {
      const name = element("bdi", { className: `far-name ${box.item.phases.size === 1 ? [...box.item.phases][0] : ""}`, textContent: text, dataset: { item: box.item.number }, "aria-hidden": "true" });
      Object.assign(name.style, { left: `${left}px`, top: `${top}px`, font: `600 ${12 * unit}px/${high}px system-ui, sans-serif`, padding: `0 ${4 * unit}px` });
      return name;
    });
  }

  // From a name on the map to the box, in full size.
  approach(box) {
    this.zoomTo(1);
    this.reveal(box.item, false);
  }

  // Names the open groups around the middle whose titles are out of sight.
  follow() {
    const [left, top, right, bottom] = this.visible(), x = (left + right) / 2, y = (top + bottom) / 2;
    const around = this.drawing.boxes.filter((box) => box.open && box.left <= x && box.top <= y && box.left + box.width >= x && box.top + box.height >= y);
    const hidden = this.whole ? [] : around.filter((box) => box.top < top || box.left < left).map((box) => box.item);
    if (hidden.length === this.around.length && hidden.every((item, i) => item === this.around[i])) return;
    this.around = hidden;
    this.trail.hidden = !hidden.length;
    this.trail.replaceChildren(...hidden.map((item) => element("button", { className: "link", type: "button", title: `Go to ${item.group.path || item.label}`, onclick: () => this.events.select(item, true) },
      ...[...item.phases].map(badge), " ", element("bdi", { textContent: short(item.label || "(unnamed)", 60) }))));
  }

  box(box) {
    const { item } = box, made = [];
    const body = item.kind === "port" ? this.port(box) : this.body(box);
    Object.assign(body.style, { left: `${box.left}px`, top: `${box.top}px`, width: `${box.width}px`, height: `${box.height}px` });
    body.dataset.item = item.number;
    this.layers[box.open ? "frames" : "boxes"].append(body);
    made.push(body);
    if (isShaded(box)) {
      const pad = 7;
      const shade = shape("rect", { x: box.left - pad, y: box.top - pad, width: box.width + 2 * pad, height: box.height + 2 * pad, rx: 10 });
      this.layers.shade.append(shade);
      made.push(shade);
    }
    if (box.labels.length && !this.isFar) {
      const labels = element("div", { className: "labels" }, ...box.labels.map((text) => element("div", { textContent: text })));
      Object.assign(labels.style, { left: `${box.left + box.width / 2 + 6}px`, top: `${box.top + box.height + 2}px` });
      this.layers.boxes.append(labels);
      made.push(labels);
    }
    return made;
  }

  port(box) {
    const { item } = box;
    return element("div", { className: `box port ${item.role}`, tabIndex: -1, role: "button", title: `${item.role} ${valueText(item.value)}: ${typeText(item.value)}`, "aria-label": `${item.role} ${valueText(item.value)}` },
      stacked(box.title, { className: "title" }));
  }

  body(box) {
    const { item, open } = box, group = isGroup(item);
    const kind = group ? item.group.kind : "leaf";
    const head = element("div", { className: "head" });
    if (group) head.append(element("span", { className: "fold", textContent: open ? "▾" : "▸", title: open ? "Fold (Enter)" : "Open (Enter)" }));
    for (const phase of PHASES) if (item.phases.has(phase)) head.append(badge(phase));
    if (item.group?.engine) head.append(engineSign(item.group.engine));
    head.append(stacked(open ? [box.title.join("")] : box.title, { className: "title" }));
    if (item.added) head.append(element("span", { className: "mark added", textContent: group ? `+${item.added}` : "+", title: "new in this stage" }));
    if (item.changed) head.append(element("span", { className: "mark changed", textContent: group ? `~${item.changed}` : "~", title: "changed in this stage" }));
    if (open) head.append(element("span", { className: "subtitle", textContent: box.subtitle.join("") }));
    const phases = item.phases.size === 1 ? [...item.phases][0] : "mixed";
    const body = element("div", { className: `box ${group ? "group" : "node"} ${kind} ${phases}${open ? " open" : ""}${item.border && !open ? " border" : ""}`, tabIndex: -1, role: "button", title: titleTip(item), "aria-label": spoken(item) }, head);
    if (item.group?.engine) body.dataset.engine = item.group.engine;
    if (group) body.setAttribute("aria-expanded", String(open));
    if (!open && box.subtitle.length && !this.isFar) body.append(stacked(box.subtitle, { className: "subtitle" }));
    for (const chip of this.isFar ? [] : box.chips) body.append(this.chip(chip));
    if (item.bad && this.tinted) {
      body.classList.add("bad");
      body.style.setProperty("--share", `${Math.round(15 + 30 * item.bad)}%`);
      body.title += `\n${shareText(item.bad)} not finite`;
    }
    if (item.share > 0 && !open) {
      const bar = element("div", { className: "share", title: `${shareText(item.share)} of the step` });
      bar.style.width = `${Math.min(100, Math.max(1, item.share * 100))}%`;
      body.append(bar);
    }
    return body;
  }

  chip(chip) {
    const made = stacked(chip.lines, { className: `chip${chip.written ? " written" : ""}` });
    if (chip.written) made.prepend("✎ ");
    if (chip.state !== undefined) {
      made.dataset.value = chip.state;
      made.title = `${chip.written ? "writes" : "reads"} ${valueText(chip.state)}: ${typeText(chip.state)}`;
    }
    return made;
  }

  wire(wire, number) {
    const bytes = wire.values.reduce((sum, value) => sum + valueBytes(value), 0);
    const width = wire.control ? 1.2 : Math.min(5, 1 + Math.log2(1 + bytes / 4096) / 4);
    const path = shape("path", { d: wire.path, class: `wire${wire.control ? " control" : ""}${wire.broken ? " broken" : ""}`, "stroke-width": width.toFixed(2) });
    if (this.isFar) {
      this.layers.wires.append(path);
      return [path, ...this.shadedWire(wire)];
    }
    const hit = shape("path", { d: wire.path, class: "hit", "data-wire": number });
    const tip = shape("title", {});
    tip.textContent = wire.control
      ? `${wire.target.title.join("")} waits for ${wire.source.title.join("")}`
      : wire.values.slice(0, 12).map((value) => `${valueText(value)}: ${typeText(value)}, ${bytesText(valueBytes(value))}`).join("\n");
    hit.append(tip);
    this.layers.wires.append(path, hit);
    return [path, hit, ...this.shadedWire(wire)];
  }

  shadedWire(wire) {
    if (!isWithin(wire.source) || !isWithin(wire.target) || wire.broken) return [];
    const shade = shape("path", { d: wire.path, class: "shaded" });
    this.layers.shade.append(shade);
    return [shade];
  }

  // Shows what is selected and what is lit on the elements that are in the document.
  mark() {
    const { selected, lit } = this.events.state(), reached = this.elementOf(selected) ? selected : this.stage.root;
    for (const [box, made] of this.made) {
      if (!box.item) continue;
      const body = made[0], chosen = box.item === selected;
      body.classList.toggle("selected", chosen);
      body.tabIndex = box.item === reached ? 0 : -1;
      body.classList.toggle("definer", lit.definers.has(box));
      body.classList.toggle("user", lit.users.has(box));
    }
    this.layers.overlay.replaceChildren(...lit.curves.map((d) => shape("path", { d })));
  }

  // The box that shows an item: its own, or that of the folded group which holds it.
  shown(item) {
    while (item && !this.drawing.byItem.has(item)) item = item.parent;
    return item ? this.drawing.byItem.get(item) : null;
  }

  elementOf(item) {
    return this.made.get(this.drawing.byItem.get(item))?.[0];
  }

  reveal(item, focus) {
    const box = this.drawing.byItem.get(item), { scroller, zoom } = this;
    if (!box) return;
    const around = [];
    for (let outer = item.parent; outer; outer = outer.parent) around.push(this.drawing.byItem.get(outer));
    // What is out of sight comes into the middle, or nearer to the borders around it, so that no paper beside them is seen.
    const look = (at, length, from, room, before) => {
      const start = before + at(box) * zoom, end = start + Math.min(length * zoom, room - 2 * TRAIL);
      if (start - TRAIL >= from && end <= from + room) return from;
      const borders = around.map((outer) => before + at(outer) * zoom - TRAIL);
      return Math.max((start + end - room) / 2, borders.findLast((border) => border > borders[0] - BESIDE) ?? 0);
    };
    const left = look((each) => each.left, box.width, scroller.scrollLeft, scroller.clientWidth, this.left);
    const top = look((each) => each.top, box.height, scroller.scrollTop, scroller.clientHeight, TOP);
    scroller.scrollTo(left, top);
    this.refresh();
    if (focus) this.elementOf(item)?.focus({ preventScroll: true });
  }

  zoomTo(zoom, x, y) {
    const { scroller } = this, frame = scroller.getBoundingClientRect();
    const [dx, dy] = [(x ?? frame.left + frame.width / 2) - frame.left, (y ?? frame.top + frame.height / 2) - frame.top];
    const [px, py] = [(scroller.scrollLeft + dx - this.left) / this.zoom, (scroller.scrollTop + dy - TOP) / this.zoom];
    const wasFar = this.isFar;
    this.zoom = Math.min(2.5, Math.max(0.08, zoom));
    if (wasFar !== this.isFar) this.drop();
    this.resize();
    scroller.scrollTo(px * this.zoom - dx + this.left, py * this.zoom - dy + TOP);
    this.rendered = null;
    this.refresh();
  }

  // The zoom at which all of a drawing can be seen, at most full size.
  fitting({ width, height }) {
    const { clientWidth, clientHeight } = this.scroller;
    return Math.min(1, (clientWidth - 50) / width, (clientHeight - BELOW) / height);
  }

  fit() {
    this.zoomTo(this.fitting(this.drawing));
    this.scroller.scrollTo(0, 0);
  }

  // The first view: all of it if that can be read, else its top with the first box in the middle.
  begin(isFirst = (box) => box.item.depth === 1) {
    this.fit();
    if (this.zoom >= READABLE) return;
    this.zoomTo(1);
    const first = this.drawing.boxes.find(isFirst) ?? this.drawing.boxes[0];
    this.scroller.scrollTo(this.left + first.left + first.width / 2 - this.scroller.clientWidth / 2, 0);
    this.refresh();
  }

  // With all groups open: everything, or as much as a map with names can show.
  survey() {
    this.zoomTo(Math.max(FAR.zoom, this.fitting(this.drawing)));
    this.scroller.scrollTo(0, 0);
  }

  // For paper: everything, at most as wide as a page.
  print(on) {
    this.whole = on;
    if (!this.drawing) return;
    this.drop();
    this.resize();
    this.refresh(true);
  }
}

// An open group is in the window with all of its nodes that wait for anything, a folded one with most of them.
function isShaded({ item, open }) {
  return item.parent !== null && item.inside > 0 && item.inside >= (item.count - item.free) * (open ? 1 : 0.5);
}

// The start and the get of a window stand at its borders.
const isWithin = (box) => isShaded(box) || box.item.border > 0;

// What an item gives to others.
function valuesOf(item) {
  if (item.kind === "port") return [item.value];
  if (item.node >= 0) return data.nodes[item.node].outputs;
  return [...item.outgoing];
}

function titleTip(item) {
  const share = item.time ? `\n${secondsText(item.time)} per step` : "";
  if (isGroup(item)) return `${item.group.path || item.label}\n${counted(item.count, "node")}${share}`;
  const node = data.nodes[item.node];
  const outputs = node.outputs.map((value) => `${valueText(value)}: ${typeText(value)}, ${bytesText(valueBytes(value))}`);
  return [item.label, ...outputs].join("\n") + share;
}

function spoken(item) {
  const marks = `${item.added ? ", new in this stage" : ""}${item.changed ? ", changed in this stage" : ""}${item.inside ? (item.inside === item.count ? ", inside the overflow window" : ", partly inside the overflow window") : ""}`;
  if (isGroup(item)) return `${item.group.kind} ${item.label}, ${counted(item.count, "node")}, ${[...item.phases].join(" and ")}${marks}`;
  return `${item.label} ${data.nodes[item.node].outputs.map(valueText).join(" ")}, ${item.phase}${marks}`;
}
