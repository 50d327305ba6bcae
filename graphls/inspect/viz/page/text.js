// The IR text: lines of one height, of which only the visible ones are in the document.

const LINE = 18;
const TOKEN = /[%@](?:[A-Za-z0-9_.]+|"(?:[^"\\]|\\.)*")|"(?:[^"\\]|\\.)*"/g;

class TextPane {
  constructor(events) {
    this.events = events;
    this.pane = document.getElementById("text");
    this.lines = document.getElementById("lines");
    this.pane.addEventListener("scroll", () => this.refresh(), { passive: true });
    new ResizeObserver(() => this.refresh()).observe(this.pane);
    this.pane.addEventListener("click", (event) => {
      const token = event.target.closest("[data-value]"), line = event.target.closest("[data-line]");
      if (token) this.events.value(Number(token.dataset.value));
      else if (line) this.events.line(Number(line.dataset.line));
    });
  }

  show(stage) {
    this.stage = stage;
    this.range = null;
    this.lines.style.height = `${stage.lines.length * LINE}px`;
    const longest = stage.lines.reduce((most, line) => Math.max(most, data.lines[line][0].length), 0);
    this.lines.style.width = `${Math.min(longest, 4000) + 8}ch`;
    this.refresh();
  }

  // For paper: all lines.
  print(on) {
    this.whole = on;
    this.refresh();
  }

  refresh() {
    if (!this.stage) return;
    const first = this.whole ? 0 : Math.max(0, Math.floor(this.pane.scrollTop / LINE) - 20);
    const last = this.whole ? this.stage.lines.length : Math.min(this.stage.lines.length, first + Math.ceil(this.pane.clientHeight / LINE) + 40);
    if (this.range && this.range[0] === first && this.range[1] === last) return;
    this.range = [first, last];
    this.lines.replaceChildren(...Array.from({ length: last - first }, (_, i) => this.line(first + i)));
    this.mark();
  }

  line(number) {
    const [text, node, values] = data.lines[this.stage.lines[number]];
    const made = element("div", { className: "line", dataset: { line: number } });
    made.style.top = `${number * LINE}px`;
    if (node >= 0) {
      made.classList.add(data.nodes[node].phase);
      if (this.stage.added.has(node)) made.classList.add("added");
      if (this.stage.changed.has(node)) made.classList.add("changed");
      if (this.stage.window.has(node)) made.classList.add("inside");
    }
    const known = new Map((node >= 0 ? valuesNear(data.nodes[node]) : values).map((value) => [valueText(value), value]));
    let from = 0;
    for (const match of text.matchAll(TOKEN)) {
      const value = known.get(match[0]);
      if (value === undefined) continue;
      made.append(text.slice(from, match.index), element("bdi", { className: "token", textContent: match[0], dataset: { value } }));
      from = match.index + match[0].length;
    }
    made.append(text.slice(from));
    return made;
  }

  mark() {
    const { selected, line, lit } = this.events.state();
    for (const made of this.lines.children) {
      const node = data.lines[this.stage.lines[made.dataset.line]][1];
      made.classList.toggle("selected", Number(made.dataset.line) === line || Boolean(selected) && node >= 0 && selected.node === node);
      for (const token of made.querySelectorAll("[data-value]")) token.classList.toggle("lit", lit.values.has(Number(token.dataset.value)));
    }
  }

  reveal(number) {
    if (number === undefined) return;
    const top = number * LINE;
    if (top < this.pane.scrollTop || top + LINE > this.pane.scrollTop + this.pane.clientHeight) this.pane.scrollTop = top - this.pane.clientHeight / 3;
    this.refresh();
    this.mark();
  }
}

function valuesNear(node) {
  return [...node.outputs, ...node.inputs, ...node.after, ...(node.parameters ?? [])];
}
