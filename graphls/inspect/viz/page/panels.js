// What stands beside the graph: the selected item, source lines, states, what the pass changed, and time.

const PLACES_SHOWN = 3;
const MOST_STATES = 60;
const MOST_LINKS = 24;

function link(text, title, action, most = 80) {
  return element("button", { className: "link", type: "button", title, onclick: action }, named(short(text, most)));
}

class Panels {
  constructor(events) {
    this.events = events;
    this.details = document.getElementById("details");
    this.source = document.getElementById("source");
    this.states = document.getElementById("states");
    this.changes = document.getElementById("changes");
    this.time = document.getElementById("time");
    this.course = document.getElementById("course");
    this.values = document.getElementById("values");
  }

  show(stage) {
    this.stage = stage;
    this.stale = new Map([[this.source, this.showSource], [this.states, this.showStates], [this.changes, this.showChanges], [this.time, this.showTime], [this.course, this.showCourse], [this.values, this.showValues]]);
    for (const [id, is] of [["tab-time", stage.profile], ["tab-course", stage.course?.nodes.length], ["tab-values", stage.recorded]]) {
      const tab = document.getElementById(id);
      tab.hidden = !is;
      if (tab.hidden && tab.getAttribute("aria-selected") === "true") show("text-panel");
    }
    document.getElementById("tint").hidden = !stage.root.bad;
    this.fill();
    this.select(null);
  }

  // Makes what the panel in front shows, once for each stage.
  fill() {
    for (const [panel, make] of this.stale) {
      if (panel.hidden) continue;
      this.stale.delete(panel);
      make.call(this);
    }
  }

  row(label, ...content) {
    return element("tr", {}, element("th", { scope: "row", textContent: label }), element("td", {}, ...content));
  }

  valueLink(value) {
    const made = link(valueText(value), "Go to its definition", () => this.events.value(value));
    made.dataset.value = value;
    return element("span", { className: "value" }, made, ` ${typeText(value)} · ${bytesText(valueBytes(value))} `);
  }

  itemLink(item) {
    return element("span", { className: "value" }, ...(item.phase ? [badge(item.phase)] : []), " ", link(nameOf(item), "Show it", () => this.events.select(item), 40), " ");
  }

  select(item) {
    if (!item) return this.details.replaceChildren(element("p", { className: "hint", textContent: "Select a box or a line of the text. Hover a value to see where it is made and used." }));
    const rows = item.kind === "port" ? this.portRows(item) : item.node >= 0 ? this.nodeRows(item) : this.groupRows(item);
    const location = item.node >= 0 ? data.nodes[item.node].location : -1;
    this.details.replaceChildren(
      element("h2", {}, ...[...item.phases].map(badge), " ", named(short(nameOf(item), 200))),
      element("table", { className: "facts" }, ...rows),
      ...(location >= 0 ? [this.snippet(location)] : []),
    );
  }

  portRows(item) {
    const users = this.stage.users.get(item.value) ?? [];
    return [this.row(item.role, this.valueLink(item.value), valueCard(this.stage, item.value)), ...(users.length ? [this.row("used by", ...this.several(users))] : [])];
  }

  groupRows(item) {
    const rows = [this.row(item.group.kind, named(item.group.path || item.label))];
    rows.push(this.row("holds", `${counted(item.count, "node")}${item.added ? `, ${item.added} new` : ""}${item.changed ? `, ${item.changed} changed` : ""}`));
    for (const [label, values] of [["takes", item.incoming], ["gives", item.outgoing]]) {
      const plain = [...values].filter((value) => !isState(value));
      if (plain.length) rows.push(this.valuesRow(label, plain));
    }
    return [...rows, ...this.stateRows(item), ...this.timeRows(item)];
  }

  nodeRows(item) {
    const node = data.nodes[item.node], rows = [];
    rows.push(this.row("phase", node.phase + (item.inside ? ", inside the overflow window" : "")));
    if (node.scope) rows.push(this.row("cell", named(node.scope)));
    if (node.inputs.length) rows.push(this.valuesRow("reads", node.inputs));
    rows.push(...this.givesRows(node.outputs));
    if (node.after.length) rows.push(this.row("waits for", ...node.after.map((value) => this.valueLink(value))));
    if (node.attributes) rows.push(this.row("attributes", element("bdi", { className: "code", textContent: node.attributes })));
    const changed = this.stage.changed.get(item.node);
    if (changed) rows.push(this.row("was", ...changed.was.map((text) => element("bdi", { className: "code block", textContent: text }))));
    for (const window of this.stage.windows) {
      const inside = `the overflow window, which has ${counted(window.nodes.length, "node")} inside`;
      if (window.start === item.node) rows.push(this.row("opens", inside));
      if (window.get === item.node) rows.push(this.row("closes", inside));
    }
    return [...rows, ...this.stateRows(item), ...this.timeRows(item)];
  }

  // The states that a group reads, and those that an item writes.
  stateRows(item) {
    const rows = [[item.node < 0 ? "reads" : "reads inside", isGroup(item) ? item.reads : []], ["writes", item.writes]];
    return rows.filter(([, states]) => states.length).map(([label, states]) => this.valuesRow(label, states));
  }

  valuesRow(label, values) {
    return this.row(label, ...this.limited(values.map((value) => this.valueLink(value))));
  }

  // What a node gives, each with its uses unless there are many.
  givesRows(outputs) {
    if (outputs.length > MOST_LINKS) return [this.valuesRow("gives", outputs)];
    return outputs.map((value) => {
      const users = this.stage.users.get(value) ?? [], states = this.stage.statesOf.get(value) ?? [];
      const uses = users.length ? ["used by ", ...this.several(users)] : states.length ? [] : ["used by nothing"];
      if (states.length) uses.push("written to ", ...states.map((state) => this.valueLink(state)));
      return this.row("gives", this.valueLink(value), valueCard(this.stage, value), element("div", { className: "users" }, ...uses));
    });
  }

  timeRows(item) {
    return item.time ? [this.row("time", `${secondsText(item.time)} per step, ${shareText(item.share)}`)] : [];
  }

  memory({ peak, fixed, at, live }) {
    const item = this.stage.nodeItems.get(at);
    const rows = [...fixed.map(([name, bytes]) => [name, bytesText(bytes)]), ...live.slice(0, 30).map(([value, bytes]) => [this.valueLink(value), bytesText(bytes)])];
    if (live.length > 30) rows.push([`${live.length - 30} more values`, bytesText(live.slice(30).reduce((sum, [, bytes]) => sum + bytes, 0))]);
    return [element("h3", { textContent: `Memory: ${bytesText(peak)} at most, by liveness` }),
      ...(item ? [element("p", {}, "That is while ", this.itemLink(item), "runs, with these alive:")] : []), this.table(["value", "held"], rows)];
  }

  several(items) {
    return this.limited([...new Set(items)].map((item) => this.itemLink(item)));
  }

  limited(elements, most = MOST_LINKS) {
    if (elements.length <= most) return elements;
    const more = element("button", { className: "link", type: "button", textContent: `and ${elements.length - most} more` });
    more.addEventListener("click", () => more.replaceWith(...elements.slice(most)));
    return [...elements.slice(0, most), more];
  }

  // The user's line with its neighbours.
  snippet(location) {
    const [file, line] = data.locations[location], { name: fileName, before_line: beforeLine, lines } = data.files[file];
    const made = element("div", { className: "snippet" });
    const name = element("button", { className: "link", type: "button", title: "Show all lines that made nodes", onclick: () => this.events.location(location) },
      element("bdi", { textContent: fileName }), `${beforeLine}${line}`);
    made.append(name);
    for (let number = line - PLACES_SHOWN; number <= line + PLACES_SHOWN; number++) {
      if (lines[number] !== undefined) made.append(this.sourceLine(number, lines[number], number === line));
    }
    if (lines[line] === undefined) made.append(element("p", { className: "hint", textContent: "The lines of this file are not in the page." }));
    return made;
  }

  sourceLine(number, text, here) {
    return element("div", { className: `code source${here ? " here" : ""}` }, element("span", { className: "number", textContent: number }), element("bdi", { textContent: text || " " }));
  }

  showSource() {
    const made = new Map();
    for (const [number, item] of this.stage.nodeItems) {
      const location = data.nodes[number].location;
      if (location >= 0) made.has(location) ? made.get(location).push(item) : made.set(location, [item]);
    }
    const sections = data.files.map((file, number) => {
      const section = element("section", {}, element("h3", {}, element("bdi", { textContent: file.name })));
      const byLine = new Map([...made].filter(([location]) => data.locations[location][0] === number).map(([location, items]) => [data.locations[location][1], { location, items }]));
      const known = [...new Set([...Object.keys(file.lines).map(Number), ...byLine.keys()])].sort((a, b) => a - b);
      let last = 0;
      for (const line of known) {
        if (last && line > last + 1) section.append(element("div", { className: "gap", textContent: "⋯" }));
        last = line;
        const row = this.sourceLine(line, file.lines[line] ?? "", false);
        const entry = byLine.get(line);
        if (entry) {
          row.dataset.location = entry.location;
          row.append(element("button", { className: "link count", type: "button", textContent: counted(entry.items.length, "node"), onclick: () => this.listNodes(row, entry.items) }));
        }
        section.append(row);
      }
      return byLine.size ? section : "";
    });
    this.source.replaceChildren(...sections);
    if (!made.size) this.source.append(element("p", { className: "hint", textContent: "No node of this graph has a source line." }));
  }

  listNodes(row, items) {
    if (row.nextSibling?.className === "made") return row.nextSibling.remove();
    row.after(element("div", { className: "made" }, ...this.several(items)));
  }

  revealLocation(location) {
    for (const row of this.source.querySelectorAll(".here")) row.classList.remove("here");
    const row = this.source.querySelector(`[data-location="${location}"]`);
    if (!row) return;
    row.classList.add("here");
    row.scrollIntoView({ block: "center" });
    if (row.nextSibling?.className !== "made") row.querySelector(".count").click();
  }

  table(header, rows) {
    return element("table", { className: "grid" },
      element("thead", {}, element("tr", {}, ...header.map((text) => element("th", { scope: "col", textContent: text })))),
      element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, ...[cell].flat()))))));
  }

  showStates() {
    const states = [...this.stage.states.keys()], bytes = states.reduce((sum, value) => sum + valueBytes(value), 0);
    const table = (shown) => this.table(["state", "read by", "written by"], shown.map((value) => this.stateCells(value)));
    const rest = states.slice(MOST_STATES), more = link(`and ${rest.length} more`, "Show all states", () => more.replaceWith(table(rest)));
    this.states.replaceChildren(
      element("p", { textContent: `${counted(states.length, "state")} of ${bytesText(bytes)} outlive${states.length === 1 ? "s" : ""} the step.` }),
      table(states.slice(0, MOST_STATES)), ...(rest.length ? [more] : []));
  }

  stateCells(value) {
    const { readers, writer, newValue } = this.stage.states.get(value);
    return [
      this.valueLink(value),
      readers.length ? this.several(readers) : "nothing",
      newValue === null ? "not written" : writer ? this.itemLink(writer) : valueText(newValue),
    ];
  }

  showChanges() {
    const { added, removed, changed, others } = this.stage.difference, stage = this.stage;
    if (!stage.number) return this.changes.replaceChildren(element("p", { className: "hint", textContent: "This is the first stage." }));
    const before = data.stages[stage.number - 1].name;
    const list = (title, nodes, make) => nodes.length ? [element("h3", { textContent: `${title} (${nodes.length})` }), element("div", { className: "list" }, ...this.limited(nodes.map(make), 100))] : [];
    const sign = (name, text, ...after) => element("div", { className: `${name} code sign` }, element("span", { textContent: text }), element("div", {}, ...after));
    const text = (node) => link(nodeText(node), "Show it", () => this.events.select(stage.nodeItems.get(node)), 500);
    const isMoved = ([, , was]) => was.length === 1 && /^in (region|no region)/.test(was[0]);
    const moved = changed.filter(isMoved), rest = changed.filter((change) => !isMoved(change));
    this.changes.replaceChildren(
      element("p", { textContent: added.length + removed.length + changed.length + others.length ? `Compared with ${before}.` : `The same as ${before}, up to names and order.` }),
      ...list("Changed", rest, ([old, node, was]) => element("div", { className: "pair" },
        sign("removed", "−", element("bdi", { textContent: short(nodeText(old), 500) })), sign("added", "+", text(node)),
        ...was.map((each) => element("div", { className: "was", textContent: `was ${each}` })))),
      ...list("Moved", moved, ([, node, was]) => element("div", { className: "pair" },
        sign("changed", "~", text(node)), element("div", { className: "was", textContent: `was ${was[0]}` }))),
      ...list("New", added, (node) => sign("added", "+", text(node))),
      ...list("Gone", removed, (node) => sign("removed", "−", link(nodeText(node), `Show it in ${before}`, () => this.events.earlier(node), 500))),
      ...list("Also different", others, ([old, now]) => element("div", { className: "pair" },
        ...[["removed", "−", old], ["added", "+", now]].filter(([, , each]) => each).map(([name, mark, each]) => sign(name, mark, element("bdi", { textContent: short(each, 500) }))))),
    );
  }

  showTime() {
    const { seconds, stepSeconds, profile } = this.stage;
    if (!profile) return;
    const items = [...this.stage.nodeItems.values()].filter((item) => seconds.get(item.node));
    const own = (item) => seconds.get(item.node);
    const sums = (key) => {
      const totals = new Map();
      for (const item of items) totals.set(key(item), (totals.get(key(item)) ?? 0) + own(item));
      return [...totals].sort((a, b) => b[1] - a[1]).slice(0, 30).map(([name, sum]) => [named(name), secondsText(sum), shareText(sum / stepSeconds)]);
    };
    const dearest = items.sort((a, b) => own(b) - own(a)).slice(0, 30);
    this.time.replaceChildren(
      element("p", { textContent: `A step takes ${secondsText(profile.real)}. Under the profiler it is ${secondsText(stepSeconds)} per step, of which ${secondsText(profile.other)} are in no node: the call, and binding of inputs and outputs. The profiler itself takes ${secondsText(profile.profiler)} more, in no share.${profile.real < 1e-3 ? " In a step of less than 1 ms the profiler's own time for every kernel dominates: shares are the profiler's." : ""}` }),
      this.table(["phase", "time", "share"], sums((item) => data.nodes[item.node].phase)),
      this.table(["primitive", "time", "share"], sums((item) => data.nodes[item.node].primitive)),
      this.table(["cell", "time", "share"], sums((item) => data.nodes[item.node].scope || "(no cell)")),
      this.table(["node", "time", "share"], dearest.map((item) => [this.itemLink(item), secondsText(own(item)), shareText(own(item) / stepSeconds)])),
      ...this.memory(profile),
    );
  }
}

function nameOf(item) {
  if (item.kind === "port") return `${item.role} ${valueText(item.value)}`;
  if (item.node < 0) return item.group.path || item.label;
  return nodeName(item.node);
}
