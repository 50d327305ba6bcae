// Coordinates, in pixels at zoom 1, for the groups that are open. The layers and the order in them are in the data; only
// sizes depend on what is open, so they are worked out here: a pass over the open groups, inner ones first.

const GAP = { x: 18, y: 30, across: 44, side: 14, top: 30, bottom: 12, label: 12 };
const LONGEST = 300;
const LONGEST_NAME = 200;
const COLUMNS = 36;
const WIDEST_ROW = 1500;
const TALL = 1600;
const ASPECT = 1.3;
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

const widest = (lines, font) => Math.max(0, ...lines.map((line) => textWidth(line, font)));

const STRONG = "600 12px system-ui, sans-serif";
const SMALL = `11px ${getComputedStyle(document.documentElement).getPropertyValue("--mono")}`;

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…` : text);

// Where a name or a list of them may go on in the next line, the best places first.
const BREAKS = [/(?<=\.|, )(?=.)/u, /(?<=[\/_ :-])(?=.)/u, /(?<=[a-z0-9])(?=[A-Z])/u, /(?=.)/u];

// A text in lines of so many characters.
function broken(text, most = COLUMNS, breaks = BREAKS) {
  if (text.length <= most || !breaks.length) return [text];
  const found = [];
  for (const part of text.split(breaks[0])) {
    if (found.length && found.at(-1).length + part.length <= most) found[found.length - 1] += part;
    else found.push(...broken(part, most, breaks.slice(1)));
  }
  return found;
}

// A name in lines; only what is longer than any name is ends in an ellipsis.
const linesOf = (name) => broken(short(name, LONGEST_NAME));

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
    ...item.reads.map((state) => ({ state, lines: linesOf(valueText(state)), written: item.writes.includes(state) })),
    ...item.writes.filter((state) => !item.reads.includes(state)).map((state) => ({ state, lines: linesOf(valueText(state)), written: true })),
  ];
  return chips.length > MOST_CHIPS ? [...chips.slice(0, MOST_CHIPS - 1), { lines: [`+ ${chips.length - MOST_CHIPS + 1} states`] }] : chips;
}

// The lines below a title.
function subtitleOf(item) {
  if (item.kind === "port") return [];
  const share = item.share >= 0.001 ? ` · ${shareText(item.share)}` : "";
  const text = !isGroup(item) ? data.nodes[item.node].outputs.map(valueText).join(" ") : item.count === 1 && item.node < 0 ? nodeName(item.first) : counted(item.count, "node");
  return broken(short(text, LONGEST_NAME) + share);
}

// The lines of a title.
function titleOf(item) {
  if (item.kind === "port") return linesOf(valueText(item.value));
  return item.label.trim() ? linesOf(item.label) : [`"${item.label}"`];
}

// The sign of a group, the badges and the marks that stand beside a title.
function headWidth(item) {
  const marks = [item.added, item.changed].filter(Boolean).map((count) => 16 + 7 * String(count).length);
  return (isGroup(item) ? 16 : 0) + (item.group?.engine ? 19 : 0) + 19 * item.phases.size + marks.reduce((sum, width) => sum + width, 0);
}

// A folded group, a node or a port: what is written in it, and how large that is.
function measuredLeaf(item) {
  const title = titleOf(item), subtitle = subtitleOf(item), labels = labelsOf(item), chips = chipsOf(item);
  const head = widest(title, STRONG) + (item.kind === "port" ? 20 : 22 + headWidth(item));
  const inner = Math.max(head, widest(subtitle, SMALL) + 20, ...chips.map((chip) => widest(chip.lines, SMALL) + 34));
  const width = Math.round(Math.min(LONGEST, Math.max(64, inner)));
  const more = 17 * (title.length - 1) + 16 * subtitle.length + chips.reduce((sum, chip) => sum + 3 + 14 * chip.lines.length, chips.length ? 3 : 0);
  return { item, open: false, title, subtitle, labels, chips, width, height: 26 + more, boxes: [], wires: [] };
}

// The two ways in which rows may follow each other: downwards with the boxes of a row side by side, or from left to right
// with the boxes of a row one below the other. `beside` is where a box stands in its row, `along` where its row stands. Wires end at most `near` pixels from the
// corner of a large group, so that what stands beside it is where it begins.
const DOWN = {
  beside: "x", breadth: "width", along: "y", depth: "height", slot: slotWidth, length: (box) => box.height, gap: GAP.x, between: GAP.y, most: WIDEST_ROW, near: WIDEST_ROW / 2,
  start: GAP.top, labels: (line) => Math.max(...line.map((box) => box.labels?.length ?? 0), 0) * GAP.label,
};
const ACROSS = {
  beside: "y", breadth: "height", along: "x", depth: "width", slot: slotHeight, length: slotWidth, gap: GAP.x, between: GAP.across, most: TALL, near: 60,
  start: GAP.side, labels: () => 0,
};

// An open group: its rows one below the other or, where that is many screens high, side by side, whichever is nearer to the
// shape of a window.
function measuredGroup(item, isOpen) {
  const group = item.group, waypoints = new Map();
  const slots = item.children.map((child) => measured(child, isOpen));
  const slotOf = (slot) => slot >= 0 ? slots[slot] : waypoint(waypoints, slot);
  const rows = group.rows.map((row) => row.map(slotOf));
  const wires = group.edges.map(([source, target, values, flags, via]) => ({
    source: slots[source], target: slots[target], values, control: (flags & 1) > 0, broken: (flags & 2) > 0, via: via.map(slotOf),
  }));
  const title = titleOf(item), subtitle = subtitleOf(item);
  const least = textWidth(title.join(""), STRONG) + headWidth(item) + textWidth(subtitle.join(""), SMALL) + 50;
  let flow = DOWN, size = arranged(rows, wires, flow, least);
  if (size.height > TALL && isFlatter(rows, size)) [flow, size] = [ACROSS, arranged(rows, wires, ACROSS, least)];
  return { item, open: true, title, subtitle, labels: labelsOf(item), chips: [], ...size, boxes: slots, wires, flow };
}

// Whether a tall group would have a better shape if its rows stood side by side, estimated without placing them.
function isFlatter(rows, { width, height }) {
  const boxes = rows.map((row) => row.filter((box) => !box.waypoint));
  const across = boxes.reduce((sum, row) => sum + GAP.across + Math.max(0, ...row.map(slotWidth)), 0);
  const high = Math.max(1, ...boxes.map((row) => row.reduce((sum, box) => sum + GAP.x + slotHeight(box), 0)));
  const distance = (shape) => Math.abs(Math.log(shape / ASPECT));
  return distance(across / high) < distance(width / height);
}

// Gives every box its place in the group, and tells the size of the group.
function arranged(rows, wires, flow, least) {
  const lines = rows.flatMap((row) => wrapped(row, flow));
  align(lines, wires, flow);
  const first = Math.min(...lines.flat().map((box) => box[flow.beside]), 0), before = flow === DOWN ? GAP.side : GAP.top;
  let at = flow.start;
  for (const line of lines) {
    const depth = Math.max(...line.map(flow.length), 0);
    for (const box of line) Object.assign(box, { [flow.beside]: box[flow.beside] - first + before, [flow.along]: at, lineDepth: depth });
    at += depth + flow.labels(line) + flow.between;
  }
  const end = Math.max(...lines.flat().map((box) => box[flow.beside] + flow.slot(box)), 0);
  const length = at - flow.between;
  const [width, height] = flow === DOWN ? [end + GAP.side, length + GAP.bottom] : [length + GAP.side, end + GAP.bottom];
  return { width: Math.max(width, least), height: Math.max(height, GAP.top + 10) };
}

function measured(item, isOpen) {
  return isGroup(item) && isOpen(item) ? measuredGroup(item, isOpen) : measuredLeaf(item);
}

function waypoint(known, slot) {
  if (!known.has(slot)) known.set(slot, { waypoint: true, width: 6, height: 6, x: 0, y: 0 });
  return known.get(slot);
}

// A box with the labels that stand to the right of its middle, below it.
function slotWidth(box) {
  const label = Math.max(0, ...(box.labels ?? []).map((text) => textWidth(text, SMALL)));
  return Math.max(box.width, label ? box.width / 2 + label + 10 : 0);
}

// A box with the labels below it.
function slotHeight(box) {
  return box.height + (box.labels ?? []).length * GAP.label;
}

function wrapped(row, flow) {
  const lines = [[]];
  let length = 0;
  for (const box of row) {
    if (length + flow.slot(box) > flow.most && lines.at(-1).length) {
      lines.push([]);
      length = 0;
    }
    lines.at(-1).push(box);
    length += flow.slot(box) + flow.gap;
  }
  return lines;
}

// Places the boxes of each line next to what they are wired to, in their order and without overlap: sweeps down and up, each
// of which is a least-squares fit by pooling neighbours that would overlap.
function align(lines, links, flow) {
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
    let at = 0;
    for (const box of line) [box[flow.beside], at] = [at, at + flow.slot(box) + flow.gap];
    const middle = (at - flow.gap) / 2;
    for (const box of line) box[flow.beside] -= middle;
  }
  const sweeps = [[lines, above], [lines.slice().reverse(), below], [lines, above], [lines.slice().reverse(), below], [lines, above]];
  for (const [order, neighbours] of sweeps) order.forEach((line) => fit(line, neighbours, flow));
}

const anchor = (box, flow) => box.open ? Math.min(box[flow.breadth] / 2, flow.near) : box[flow.breadth] / 2;

const centre = (box, flow) => box[flow.beside] + anchor(box, flow);

function fit(line, neighbours, flow) {
  const blocks = [];
  let offset = 0;
  for (const box of line) {
    const near = neighbours.get(box);
    const wish = near ? near.reduce((sum, other) => sum + centre(other, flow), 0) / near.length - anchor(box, flow) : box[flow.beside];
    blocks.push({ sum: (wish - offset) * (near ? 1 : 0.2), weight: near ? 1 : 0.2, boxes: [[box, offset]] });
    offset += flow.slot(box) + flow.gap;
    while (blocks.length > 1 && blocks.at(-2).sum / blocks.at(-2).weight > blocks.at(-1).sum / blocks.at(-1).weight) {
      const last = blocks.pop(), block = blocks.at(-1);
      block.sum += last.sum;
      block.weight += last.weight;
      for (const pair of last.boxes) block.boxes.push(pair);
    }
  }
  for (const block of blocks) for (const [box, shift] of block.boxes) box[flow.beside] = Math.round(block.sum / block.weight + shift);
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
  const points = ports(box.wires, box.flow);
  for (const wire of box.wires) drawing.wires.push(routed(wire, points, [x, y], box.flow));
}

// Where on the borders of its two boxes a wire ends: one point for all wires of the same values, spread by the other end.
function ports(wires, flow) {
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
      const mean = (list) => list.reduce((sum, wire) => sum + centre(wire[other], flow), 0) / list.length;
      const ordered = [...ends.values()].sort((a, b) => mean(a) - mean(b));
      const middle = anchor(box, flow), room = Math.min(Math.max(0, 2 * middle - 24), (ordered.length - 1) * 26);
      ordered.forEach((list, i) => {
        const at = middle + (ordered.length > 1 ? room * (i / (ordered.length - 1) - 0.5) : 0);
        list.forEach((wire) => points.set(wire, { ...points.get(wire), [side]: at }));
      });
    }
  }
  return points;
}

// A wire goes straight on to the end of its row, past neighbours that are longer, and bends between the rows. It is worked out
// as [beside, along], from the corner of the group.
function routed(wire, points, corner, flow) {
  const ends = points.get(wire), { source, target } = wire, [side, far] = flow === DOWN ? corner : corner.toReversed();
  const xy = (beside, along) => flow === DOWN ? [beside, along] : [along, beside], straight = flow === DOWN ? "V" : "H";
  const start = [side + source[flow.beside] + ends.source, far + source[flow.along] + source[flow.depth]];
  const end = [side + target[flow.beside] + ends.target, far + target[flow.along]];
  if (wire.broken) {
    const stub = straight.toLowerCase(), path = `M${xy(...start)} ${stub}16 M${xy(end[0], end[1] - 16)} ${stub}16`;
    return { ...wire, path, span: spanned([xy(...start), xy(...end)]) };
  }
  let [at, along] = [start[0], far + source[flow.along] + source.lineDepth], path = `M${xy(...start)} ${straight}${along}`;
  const reach = [xy(...start), xy(...end)];
  const bend = (to, line) => {
    const half = Math.max(10, (line - along) / 2);
    path += ` C${[xy(at, along + half), xy(to, line - half), xy(to, line)].flat().join(" ")}`;
    [at, along] = [to, line];
  };
  for (const point of wire.via) {
    bend(side + point[flow.beside] + 3, far + point[flow.along]);
    along = far + point[flow.along] + point.lineDepth;
    path += ` ${straight}${along}`;
    reach.push(xy(at, along));
  }
  bend(...end);
  return { ...wire, path, span: spanned(reach) };
}

// Left, top, right and bottom of what holds these points.
function spanned(points) {
  const [x, y] = [points.map((point) => point[0]), points.map((point) => point[1])];
  return [Math.min(...x), Math.min(...y), Math.max(...x), Math.max(...y)];
}
