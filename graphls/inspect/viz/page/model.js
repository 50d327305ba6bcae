// The data of the page as objects: stages, and in each the tree of items that are drawn.

const data = JSON.parse(document.getElementById("data").textContent);
const PHASES = ["forward", "backward", "check", "update"];

const isGroup = (item) => item.kind === "group";
const valueText = (value) => data.values[value][0];
const valueType = (value) => data.types[data.values[value][1]];
const typeText = (value) => valueType(value)[0];
const valueBytes = (value) => valueType(value)[1];
const isState = (value) => valueText(value).startsWith("@");

const textOfNode = new Map();
for (const [text, node] of data.lines) if (node >= 0 && !textOfNode.has(node)) textOfNode.set(node, text.trim());
const nodeText = (node) => textOfNode.get(node) ?? data.nodes[node].primitive;

const nodeName = (node) => `${data.nodes[node].primitive} ${data.nodes[node].outputs.map(valueText).join(" ")}`;

// Three digits, and all of those before the point.
const digits = (number) => number >= 999.5 ? number.toFixed(0) : number.toPrecision(3);

function bytesText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return `${digits(bytes / 1024 ** power)} ${["", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

const secondsText = (seconds) => seconds < 1e-3 ? `${digits(seconds * 1e6)} µs` : `${digits(seconds * 1e3)} ms`;

const shareText = (share) => `${(share * 100).toFixed(1)} %`;
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

class Stage {
  constructor(number) {
    Object.assign(this, data.stages[number]);
    this.number = number;
    this.items = [];
    this.nodeItems = new Map();
    this.definer = new Map();
    this.users = new Map();
    this.seconds = new Map(this.profile?.nodes);
    this.stepSeconds = this.profile?.step;
    const named = ([value, minimum, maximum, mean, zeros, bad, histogram]) => [value, { minimum, maximum, mean, zeros, bad, histogram }];
    this.recorded = this.recorded && new Map(this.recorded.map(named));
    this.added = new Set(this.difference.added);
    this.changed = new Map(this.difference.changed.map(([before, after, was]) => [after, { before, was }]));
    this.window = new Set(this.windows.flatMap((window) => window.nodes));
    this.borders = new Set(this.windows.flatMap((window) => [window.start, window.get]));
    this.windows.forEach((window) => this.window.delete(window.get));
    this.states = new Map(this.states.map((value) => [value, { readers: [], writer: null, newValue: null }]));
    this.root = this.makeGroup(this.root, null, "");
    this.items.forEach((item) => this.connect(item));
    this.statesOf = new Map();
    for (const [state, value] of this.writes) {
      const record = this.states.get(state);
      record.newValue = value;
      this.statesOf.set(value, [...(this.statesOf.get(value) ?? []), state]);
      record.writer = this.outermost(this.definer.get(value)) ?? null;
      if (record.writer) record.writer.writes.push(state);
    }
    this.items.forEach((item) => this.cross(item));
    this.gather(this.root);
    this.share();
    this.linesOf = new Map();
    this.lines.forEach((line, number) => {
      const node = data.lines[line][1];
      if (node >= 0 && !this.linesOf.has(node)) this.linesOf.set(node, number);
    });
    this.lineOfState = new Map();
    this.lines.forEach((line, number) => {
      const [text, node, values] = data.lines[line];
      if (node < 0 && text.startsWith("  state ")) this.lineOfState.set(values[0], number);
    });
  }

  add(item, parent) {
    Object.assign(item, {
      parent, depth: parent ? parent.depth + 1 : 0, reads: [], writes: [], incoming: new Set(), outgoing: new Set(),
    });
    item.number = this.items.push(item) - 1;
    return item;
  }

  makeGroup(number, parent, key) {
    const group = data.groups[number];
    const item = this.add({ kind: "group", group, label: group.label, phase: group.phase, key, node: group.node }, parent);
    if (group.node >= 0) this.nodeItems.set(group.node, item);
    const seen = new Map();
    item.children = group.children.map((child) => {
      if (Array.isArray(child)) return this.add({ kind: "port", role: child[0], value: child[1], phase: "" }, item);
      if (child >= 0) return this.makeNode(child, item);
      const { kind, label } = data.groups[-1 - child];
      const name = `${kind} ${label}`;
      seen.set(name, (seen.get(name) ?? 0) + 1);
      return this.makeGroup(-1 - child, item, `${key}/${name} ${seen.get(name)}`);
    });
    return item;
  }

  makeNode(number, parent) {
    const node = data.nodes[number];
    const item = this.add({ kind: "node", node: number, label: node.primitive, phase: node.phase }, parent);
    this.nodeItems.set(number, item);
    return item;
  }

  // Who defines and who uses each value; the outputs of a node with regions are those of its group.
  connect(item) {
    const use = (value) => {
      if (!this.users.has(value)) this.users.set(value, []);
      this.users.get(value).push(item);
    };
    if (item.kind === "port") {
      if (item.role === "input" || item.role === "parameter") this.definer.set(item.value, item);
      else use(item.value);
    } else if (item.node >= 0) {
      const node = data.nodes[item.node];
      node.outputs.forEach((value) => this.definer.set(value, item));
      new Set(node.inputs).forEach(use);
    }
  }

  outermost(item) {
    while (item && item.parent && item.parent.group.kind === "region") item = item.parent.parent;
    return item;
  }

  // What an item takes from beyond its siblings, and what others beyond them take of it.
  cross(item) {
    for (const value of this.used(item)) {
      const source = this.definer.get(value);
      if (isState(value)) {
        item.reads.push(value);
        this.states.get(value)?.readers.push(item);
      }
      if (!source) continue;
      let [from, to] = [source, item];
      while (from.depth > to.depth) [from.outgoing, from] = [from.outgoing.add(value), from.parent];
      while (to.depth > from.depth) [to.incoming, to] = [to.incoming.add(value), to.parent];
      while (from.parent !== to.parent) {
        from.outgoing.add(value);
        to.incoming.add(value);
        [from, to] = [from.parent, to.parent];
      }
      if (from !== to) from.outgoing.add(value);
    }
  }

  used(item) {
    if (item.kind === "port") return item.role === "output" || item.role === "yield" ? [item.value] : [];
    return item.node >= 0 ? new Set(data.nodes[item.node].inputs) : [];
  }

  // Sums over an item and what is in it: nodes, time, marks, nodes inside a window, at its borders, and free to run at any
  // time, states, phases.
  gather(item) {
    const node = item.node ?? -1;
    Object.assign(item, {
      first: node, count: Number(node >= 0), time: this.seconds.get(node) ?? 0, added: Number(this.added.has(node)),
      changed: Number(this.changed.has(node)), inside: Number(this.window.has(node)), border: Number(this.borders.has(node)),
      free: Number(node >= 0 && !data.nodes[node].inputs.length && !data.nodes[node].after.length),
      phases: new Set(node >= 0 ? [item.phase] : []),
      bad: Math.max(0, ...(this.recorded && node >= 0 ? data.nodes[node].outputs.map((value) => this.recorded.get(value)?.bad ?? 0) : [])),
    });
    if (!isGroup(item)) return;
    const reads = new Set(item.reads), writes = new Set(item.writes);
    for (const child of item.children) {
      this.gather(child);
      for (const sum of ["count", "time", "added", "changed", "inside", "border", "free"]) item[sum] += child[sum];
      if (item.first < 0) item.first = child.first;
      item.bad = Math.max(item.bad, child.bad);
      child.phases.forEach((phase) => item.phases.add(phase));
      child.reads.forEach((state) => reads.add(state));
      child.writes.forEach((state) => writes.add(state));
    }
    Object.assign(item, { reads: [...reads], writes: [...writes] });
  }

  // The share of the step's time, once all times are summed.
  share() {
    for (const item of this.items) item.share = this.stepSeconds ? item.time / this.stepSeconds : 0;
  }
}

const stageCache = new Map();

function stageOf(number) {
  if (!stageCache.has(number)) stageCache.set(number, new Stage(number));
  return stageCache.get(number);
}
