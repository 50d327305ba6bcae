// Coordinates, in pixels at zoom 1, for the groups that are open. The layers and the order in them are in the data; only
// sizes depend on what is open, so they are worked out here: a pass over the open groups, inner ones first.

const GAP = { x: 18, y: 30, side: 14, top: 30, bottom: 12, label: 12 };
const LONGEST = 260;
const WIDEST_ROW = 1500;
const MOST_LABELS = 3;
const MOST_CHIPS = 3;

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

function textWidth(text, font) {
  const key = `${font}|${text}`;
  if (!widths.has(key)) {
    ruler.font = font;
    widths.set(key, ruler.measureText(text.slice(0, 80)).width);
  }
  return widths.get(key);
}

const STRONG = "600 12px system-ui, sans-serif";
const SMALL = "11px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

const short = (text, most = 42) => (text.length > most ? `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…` : text);

function shortType(value) {
  return short(typeText(value), 30);
}

// The types that stand below a box: what goes from it to others.
function labelsOf(item) {
  if (item.kind === "port" && item.role !== "input" && item.role !== "parameter") return [];
  const values = valuesOf(item).filter((value) => !isState(value));
  if (values.length <= MOST_LABELS) return values.map(shortType);
  return [`${values.length} values, ${bytesText(values.reduce((sum, value) => sum + valueBytes(value), 0))}`];
}

function chipsOf(item) {
  const chips = [
    ...item.reads.map((state) => ({ state, text: short(valueText(state), 30), written: item.writes.includes(state) })),
    ...item.writes.filter((state) => !item.reads.includes(state)).map((state) => ({ state, text: short(valueText(state), 30), written: true })),
  ];
  return chips.length > MOST_CHIPS ? [...chips.slice(0, MOST_CHIPS - 1), { text: `+ ${chips.length - MOST_CHIPS + 1} states` }] : chips;
}

function subtitleOf(item) {
  if (item.kind === "port") return "";
  const share = item.share >= 0.001 ? ` · ${shareText(item.share)}` : "";
  if (isGroup(item)) return (item.count === 1 && item.node < 0 ? short(nodeName(item.first), 34) : counted(item.count, "node")) + share;
  return short(data.nodes[item.node].outputs.map(valueText).join(" "), 34) + share;
}

function titleOf(item) {
  if (item.kind === "port") return short(valueText(item.value), 34);
  return item.label.trim() ? short(item.label, 36) : `"${item.label}"`;
}

// The sign of a group, the badges and the marks that stand beside a title.
function headWidth(item) {
  const marks = [item.added, item.changed].filter(Boolean).map((count) => 16 + 7 * String(count).length);
  return (isGroup(item) ? 16 : 0) + (item.group?.engine ? 19 : 0) + 19 * item.phases.size + marks.reduce((sum, width) => sum + width, 0);
}

// A folded group, a node or a port: what is written in it, and how large that is.
function measuredLeaf(item) {
  const title = titleOf(item), subtitle = subtitleOf(item), labels = labelsOf(item), chips = chipsOf(item);
  const head = textWidth(title, STRONG) + (item.kind === "port" ? 20 : 22 + headWidth(item));
  const inner = Math.max(head, textWidth(subtitle, SMALL) + 20, ...chips.map((chip) => textWidth(chip.text, SMALL) + 34));
  const width = Math.round(Math.min(LONGEST, Math.max(64, inner)));
  const height = (subtitle ? 42 : 26) + chips.length * 17 + (chips.length ? 3 : 0);
  return { item, open: false, title, subtitle, labels, chips, width, height, boxes: [], wires: [] };
}

// An open group: its rows one below the other, each in lines that are not too wide.
function measuredGroup(item, isOpen) {
  const group = item.group, waypoints = new Map();
  const slots = item.children.map((child) => measured(child, isOpen));
  const lines = group.rows.flatMap((row) => wrapped(row.map((slot) => slot >= 0 ? slots[slot] : waypoint(waypoints, slot))));
  const links = group.edges.map(([source, target, values, flags, via]) => ({
    source: slots[source], target: slots[target], values, control: (flags & 1) > 0, broken: (flags & 2) > 0,
    via: via.map((slot) => waypoint(waypoints, slot)),
  }));
  align(lines, links);
  const left = Math.min(...lines.flat().map((box) => box.x), 0);
  let y = GAP.top;
  for (const line of lines) {
    const height = Math.max(...line.map((box) => box.height), 0);
    const labels = Math.max(...line.map((box) => box.labels?.length ?? 0), 0);
    for (const box of line) Object.assign(box, { x: box.x - left + GAP.side, y, lineHeight: height });
    y += height + labels * GAP.label + GAP.y;
  }
  const title = titleOf(item), subtitle = subtitleOf(item);
  const right = Math.max(...lines.flat().map((box) => box.x + slotWidth(box)), 0);
  const width = Math.max(right + GAP.side, textWidth(title, STRONG) + headWidth(item) + textWidth(subtitle, SMALL) + 50);
  const height = Math.max(y - GAP.y + GAP.bottom, GAP.top + 10);
  return { item, open: true, title, subtitle, labels: labelsOf(item), chips: [], width, height, boxes: slots, wires: links };
}

function measured(item, isOpen) {
  return isGroup(item) && isOpen(item) ? measuredGroup(item, isOpen) : measuredLeaf(item);
}

function waypoint(known, slot) {
  if (!known.has(slot)) known.set(slot, { waypoint: true, width: 6, height: 0, x: 0, y: 0 });
  return known.get(slot);
}

// A box with the labels that stand to the right of its middle, below it.
function slotWidth(box) {
  const label = Math.max(0, ...(box.labels ?? []).map((text) => textWidth(text, SMALL)));
  return Math.max(box.width, label ? box.width / 2 + label + 10 : 0);
}

function wrapped(row) {
  const lines = [[]];
  let width = 0;
  for (const box of row) {
    if (width + slotWidth(box) > WIDEST_ROW && lines.at(-1).length) {
      lines.push([]);
      width = 0;
    }
    lines.at(-1).push(box);
    width += slotWidth(box) + GAP.x;
  }
  return lines;
}

// Places the boxes of each line next to what they are wired to, in their order and without overlap: sweeps down and up, each
// of which is a least-squares fit by pooling neighbours that would overlap.
function align(lines, links) {
  const above = new Map(), below = new Map();
  const join = (map, from, to) => map.has(from) ? map.get(from).push(to) : map.set(from, [to]);
  for (const link of links) {
    if (link.broken) continue;
    const path = [link.source, ...link.via, link.target];
    for (let i = 1; i < path.length; i++) {
      join(above, path[i], path[i - 1]);
      join(below, path[i - 1], path[i]);
    }
  }
  for (const line of lines) {
    let x = 0;
    for (const box of line) [box.x, x] = [x, x + slotWidth(box) + GAP.x];
    const middle = (x - GAP.x) / 2;
    for (const box of line) box.x -= middle;
  }
  const sweeps = [[lines, above], [lines.slice().reverse(), below], [lines, above], [lines.slice().reverse(), below], [lines, above]];
  for (const [order, neighbours] of sweeps) order.forEach((line) => fit(line, neighbours));
}

const centre = (box) => box.x + box.width / 2;

function fit(line, neighbours) {
  const blocks = [];
  let offset = 0;
  for (const box of line) {
    const near = neighbours.get(box);
    const wish = near ? near.reduce((sum, other) => sum + centre(other), 0) / near.length - box.width / 2 : box.x;
    blocks.push({ sum: (wish - offset) * (near ? 1 : 0.2), weight: near ? 1 : 0.2, boxes: [[box, offset]] });
    offset += slotWidth(box) + GAP.x;
    while (blocks.length > 1 && blocks.at(-2).sum / blocks.at(-2).weight > blocks.at(-1).sum / blocks.at(-1).weight) {
      const last = blocks.pop(), block = blocks.at(-1);
      block.sum += last.sum;
      block.weight += last.weight;
      for (const pair of last.boxes) block.boxes.push(pair);
    }
  }
  for (const block of blocks) for (const [box, shift] of block.boxes) box.x = Math.round(block.sum / block.weight + shift);
}

// The drawing as flat lists in absolute coordinates.
function placed(stage, isOpen) {
  const root = measuredGroup(stage.root, (item) => isOpen(item));
  const drawing = { boxes: [], wires: [], byItem: new Map(), width: root.width, height: root.height };
  flatten(root, 0, 0, drawing);
  return drawing;
}

function flatten(box, x, y, drawing) {
  Object.assign(box, { left: x, top: y });
  drawing.boxes.push(box);
  drawing.byItem.set(box.item, box);
  for (const inner of box.boxes) flatten(inner, x + inner.x, y + inner.y, drawing);
  const points = ports(box.wires);
  for (const wire of box.wires) drawing.wires.push(routed(wire, points, x, y));
}

// Where on the borders of its two boxes a wire ends: one point for all wires of the same values, spread by the other end.
function ports(wires) {
  const points = new Map();
  for (const [side, other] of [["source", "target"], ["target", "source"]]) {
    const byBox = new Map();
    for (const wire of wires) {
      if (!byBox.has(wire[side])) byBox.set(wire[side], new Map());
      const name = `${wire.control}|${wire.values.join()}`;
      const ends = byBox.get(wire[side]);
      ends.has(name) ? ends.get(name).push(wire) : ends.set(name, [wire]);
    }
    for (const [box, ends] of byBox) {
      const mean = (list) => list.reduce((sum, wire) => sum + centre(wire[other]), 0) / list.length;
      const ordered = [...ends.values()].sort((a, b) => mean(a) - mean(b));
      const room = Math.min(box.width - 24, (ordered.length - 1) * 26);
      ordered.forEach((list, i) => {
        const at = box.width / 2 + (ordered.length > 1 ? room * (i / (ordered.length - 1) - 0.5) : 0);
        list.forEach((wire) => points.set(wire, { ...points.get(wire), [side]: at }));
      });
    }
  }
  return points;
}

// A wire goes straight down to the end of its row, past neighbours that are taller, and bends between the rows.
function routed(wire, points, x, y) {
  const ends = points.get(wire), { source, target } = wire;
  const start = [x + source.x + ends.source, y + source.y + source.height];
  const end = [x + target.x + ends.target, y + target.y];
  if (wire.broken) {
    const path = `M${start} v16 M${[end[0], end[1] - 16]} v16`;
    return { ...wire, path, span: [Math.min(start[0], end[0]), start[1], Math.max(start[0], end[0]), end[1]] };
  }
  let [px, py] = [start[0], y + source.y + source.lineHeight], path = `M${start} V${py}`;
  const bend = (tx, ty) => {
    const half = Math.max(10, (ty - py) / 2);
    path += ` C${px} ${py + half} ${tx} ${ty - half} ${tx} ${ty}`;
    [px, py] = [tx, ty];
  };
  let reach = [start[0], end[0]];
  for (const point of wire.via) {
    const px2 = x + point.x + 3;
    bend(px2, y + point.y);
    py = y + point.y + point.lineHeight;
    path += ` V${py}`;
    reach.push(px2);
  }
  bend(...end);
  return { ...wire, path, span: [Math.min(...reach), Math.min(start[1], end[1]), Math.max(...reach), Math.max(start[1], end[1])] };
}
