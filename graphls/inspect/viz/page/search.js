// Search by name, primitive and cell path; every word must be found.

const MOST_FOUND = 200;

class Search {
  constructor(events) {
    this.events = events;
    this.field = document.getElementById("search");
    this.list = document.getElementById("found");
    this.field.addEventListener("input", () => this.find());
    this.field.addEventListener("focus", () => this.find());
    this.field.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("#finder")) this.close();
    });
  }

  show(stage) {
    this.stage = stage;
    this.index = null;
    this.close();
  }

  entries() {
    this.index ??= this.stage.items.filter((item) => item.parent).map((item) => [item, wordsOf(item).toLowerCase()]);
    return this.index;
  }

  find() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return this.close();
    const found = this.entries().filter(([, text]) => words.every((word) => text.includes(word))).map(([item]) => item);
    const rows = found.slice(0, MOST_FOUND).map((item, number) => element("div", { className: "result", role: "option", id: `found-${number}`, "aria-selected": "false", onclick: () => this.go(item) },
      ...[...item.phases].map(badge), " ", element("bdi", { textContent: short(nameOf(item), 60) }), element("bdi", { className: "where", textContent: item.node >= 0 ? data.nodes[item.node].scope : isGroup(item) ? item.group.kind : "" })));
    rows.forEach((row, number) => { row.item = found[number]; });
    const total = found.length > MOST_FOUND ? `${found.length} found, the first ${MOST_FOUND} shown` : found.length ? `${found.length} found` : "Nothing found; search names, primitives and cell paths.";
    this.list.replaceChildren(element("div", { className: "total", role: "status", textContent: total }), ...rows);
    this.list.hidden = false;
    this.field.removeAttribute("aria-activedescendant");
    this.field.setAttribute("aria-expanded", "true");
    this.choose(rows[0]);
  }

  choose(row) {
    if (!row) return;
    this.chosen?.setAttribute("aria-selected", "false");
    this.chosen = row;
    row.setAttribute("aria-selected", "true");
    this.field.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const rows = [...this.list.querySelectorAll(".result")], at = rows.indexOf(this.chosen);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.choose(rows[(at + (event.key === "ArrowDown" ? 1 : -1) + rows.length) % rows.length]);
    } else if (event.key === "Enter" && !this.list.hidden && rows[at]) this.go(rows[at].item);
    else if (event.key === "Escape") this.close();
    else return;
    event.stopPropagation();
  }

  go(item) {
    this.close();
    this.events.select(item, true);
  }

  close() {
    this.list.hidden = true;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
    this.chosen = null;
  }
}

function wordsOf(item) {
  if (item.kind === "port") return `${item.role} ${valueText(item.value)}`;
  if (item.node < 0) return `${item.group.kind} ${item.label} ${item.group.path}`;
  const node = data.nodes[item.node];
  return `${node.primitive} ${[...node.outputs, ...item.reads, ...item.writes].map(valueText).join(" ")} ${node.scope}`;
}
