// One state (stage, open groups, selection, what is lit) and everything that changes it.

const FIRST_BOXES = 30;
const READABLE = 0.85;
const MOST_CURVES = 80;
const NOTHING = { values: new Set(), definers: new Set(), users: new Set(), curves: [] };
const page = { stage: null, selected: null, line: null, lit: NOTHING, open: new Map() };

const events = {
  state: () => page,
  select: (item, focus = false) => select(item, focus),
  toggle: (item) => toggle(item),
  light: (values) => light(values),
  value(value) {
    const item = page.stage.definer.get(value);
    if (item) return select(item, false);
    show("text-panel");
    page.line = page.stage.lineOfState.get(value);
    text.reveal(page.line);
  },
  line(number) {
    const node = data.lines[page.stage.lines[number]][1];
    const item = page.stage.nodeItems.get(node);
    if (item) select(item, false);
  },
  location(location) {
    show("source");
    panels.revealLocation(location);
  },
  earlier(node) {
    change(page.stage.number - 1);
    select(page.stage.nodeItems.get(node), true);
  },
};

const drawing = new Drawing(events), text = new TextPane(events), panels = new Panels(events), search = new Search(events);

const isOpen = (item) => page.open.get(item.key) ?? false;

// Opens the outer groups first, while all of the drawing can be read at once.
function openFirst(stage) {
  let boxes = 1, level = [stage.root];
  page.open.set(stage.root.key, true);
  while (level.length) {
    const next = [];
    for (const item of level) {
      if (item.depth > 0) {
        if (boxes + item.children.length > FIRST_BOXES || item.children.length < 2) continue;
        page.open.set(item.key, true);
        if (drawing.fitting(placed(stage, isOpen)) < READABLE) {
          page.open.delete(item.key);
          continue;
        }
      }
      boxes += item.children.length;
      next.push(...item.children.filter(isGroup));
    }
    level = next.sort((a, b) => a.children.length - b.children.length);
  }
}

function change(number) {
  if (number < 0 || number >= data.stages.length) return;
  const before = page.selected;
  page.stage = stageOf(number);
  page.selected = page.line = null;
  page.lit = NOTHING;
  if (!page.open.has(page.stage.root.key) || page.untouched) {
    page.open.clear();
    openFirst(page.stage);
    page.untouched = true;
  }
  for (const tab of document.querySelectorAll("#stages [role=tab]")) {
    const chosen = Number(tab.dataset.stage) === number;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  document.getElementById("graph").setAttribute("aria-label", `Graph of ${page.stage.name}`);
  showEngines(page.stage);
  text.show(page.stage);
  panels.show(page.stage);
  search.show(page.stage);
  drawing.show(page.stage, isOpen);
  if (page.untouched) drawing.begin();
  document.getElementById("marks").hidden = number === 0;
  const again = before && (before.node >= 0 ? page.stage.nodeItems.get(before.node) : page.stage.items.find((item) => item.key === before.key && isGroup(item)));
  if (again) select(again, false);
}

function toggle(item, wanted = !isOpen(item)) {
  if (!item.parent || !isGroup(item)) return;
  const box = drawing.drawing.byItem.get(item);
  const [left, top] = [box.left, box.top];
  page.open.set(item.key, wanted);
  page.untouched = false;
  redraw();
  const now = drawing.drawing.byItem.get(item), { scroller, zoom } = drawing;
  scroller.scrollBy({ left: (now.left - left) * zoom, top: (now.top - top) * zoom, behavior: "instant" });
  select(item, document.activeElement === document.body || scroller.contains(document.activeElement), false);
}

function redraw() {
  page.lit = NOTHING;
  drawing.show(page.stage, isOpen);
}

function everyGroup(open) {
  for (const item of page.stage.items) if (isGroup(item) && item.parent) page.open.set(item.key, open);
  page.untouched = false;
  redraw();
  if (open) drawing.survey();
  if (page.selected) select(drawing.shown(page.selected).item, false);
}

function select(item, focus, scroll = true) {
  if (!item) return;
  let hidden = false;
  for (let outer = item.parent; outer; outer = outer.parent) {
    if (isOpen(outer)) continue;
    page.open.set(outer.key, true);
    hidden = true;
  }
  page.selected = item;
  page.line = null;
  if (hidden) {
    page.untouched = false;
    redraw();
  }
  panels.select(item);
  if (scroll || focus) drawing.reveal(item, focus);
  drawing.mark();
  text.reveal(page.stage.linesOf.get(item.first));
  text.mark();
}

// Lights the value that is shown under the pointer or has the focus, beside the graph.
function lightUnder(target) {
  const token = target.closest("[data-value]");
  light(token ? [Number(token.dataset.value)] : []);
}

// Lights the definition and the uses of values, in the graph and in the text.
function light(values) {
  if (!values.length && page.lit === NOTHING) return;
  page.lit = values.length ? litBy(values) : NOTHING;
  drawing.mark();
  text.mark();
}

function litBy(values) {
  const lit = { values: new Set(values), definers: new Set(), users: new Set(), curves: [] };
  for (const value of values) {
    const source = drawing.shown(page.stage.definer.get(value));
    if (source) lit.definers.add(source);
    for (const user of page.stage.users.get(value) ?? []) {
      const target = drawing.shown(user);
      if (!target || target === source) continue;
      lit.users.add(target);
      if (source && !target.open && lit.curves.length < MOST_CURVES) lit.curves.push(curve(source, target));
    }
    const state = page.stage.states.get(value);
    if (state?.writer) lit.definers.add(drawing.shown(state.writer));
  }
  return lit;
}

function curve(source, target) {
  const [x1, y1, x2, y2] = [source.left + source.width / 2, source.top + source.height, target.left + target.width / 2, target.top];
  const bend = Math.max(30, Math.abs(y2 - y1) / 3);
  return `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

function show(id) {
  for (const tab of document.querySelectorAll("#panels [role=tab]")) {
    const chosen = tab.getAttribute("aria-controls") === id;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (id === "text-panel") {
    text.refresh();
    text.reveal(page.line ?? page.stage.linesOf.get(page.selected?.first));
  }
  panels.fill();
}

// The nearest box in the direction of an arrow key, boxes straight ahead first.
function neighbour(key) {
  const here = drawing.drawing.byItem.get(page.selected ?? page.stage.root);
  if (!here) return null;
  const sideways = key === "ArrowLeft" || key === "ArrowRight", sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  const middle = (box) => [box.left + box.width / 2, box.top + (box.open ? 12 : box.height / 2)];
  const [x, y] = middle(here);
  let best = null, least = Infinity;
  for (const box of drawing.drawing.boxes) {
    if (box === here || !box.item.parent) continue;
    const [dx, dy] = [middle(box)[0] - x, middle(box)[1] - y];
    const [ahead, aside] = sideways ? [dx * sign, Math.abs(dy)] : [dy * sign, Math.abs(dx)];
    const cost = ahead + 3 * aside;
    if (ahead > 4 && cost < least) [best, least] = [box.item, cost];
  }
  return best;
}

const KEYS = {
  "/": () => document.getElementById("search").select(),
  "[": () => change(page.stage.number - 1),
  "]": () => change(page.stage.number + 1),
  "?": () => document.getElementById("help").showModal(),
  "+": () => drawing.zoomTo(drawing.zoom * 1.25),
  "=": () => drawing.zoomTo(drawing.zoom * 1.25),
  "-": () => drawing.zoomTo(drawing.zoom / 1.25),
  "0": () => drawing.zoomTo(1),
  "f": () => drawing.fit(),
};

const GRAPH_KEYS = {
  Enter: () => page.selected && isGroup(page.selected) ? toggle(page.selected) : undefined,
  " ": () => page.selected && isGroup(page.selected) ? toggle(page.selected) : undefined,
  Backspace: () => page.selected?.parent && select(page.selected.parent, true),
  Escape: () => page.selected?.parent && select(page.selected.parent, true),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, dialog")) return;
  const inGraph = event.target.closest("#graph");
  if (inGraph && event.key.startsWith("Arrow")) {
    const item = neighbour(event.key);
    if (item) select(item, true);
  } else if (inGraph && GRAPH_KEYS[event.key]) GRAPH_KEYS[event.key]();
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
}

function tabList(list, choose) {
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.querySelectorAll("[role=tab]:not([hidden])")], at = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: tabs[at + 1] ?? tabs[0], ArrowLeft: tabs.at(at - 1), Home: tabs[0], End: tabs.at(-1) }[event.key];
    if (!next) return;
    choose(next);
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
}

function stageTab({ name, difference }, number) {
  const counts = [["+", difference.added.length], ["−", difference.removed.length], ["~", difference.changed.length]];
  const marks = number ? counts.filter(([, count]) => count).map(([sign, count]) => `${sign}${count}`).join(" ") || (difference.others.length ? "" : "=") : "";
  return element("button", { type: "button", role: "tab", dataset: { stage: number }, "aria-controls": "graph", "aria-selected": "false" },
    element("bdi", { textContent: name }), element("span", { className: "counts", textContent: marks }));
}

// Arrows lead to the stages for which there is no room; tabs that are only partly in sight are not shown.
function scrollStages(list) {
  const seen = new IntersectionObserver((entries) => entries.forEach(({ target, intersectionRatio }) => target.classList.toggle("cut", intersectionRatio < 0.98)), { root: list, threshold: [0.5, 0.98, 1] });
  for (const tab of list.children) seen.observe(tab);
  const arrows = [[document.getElementById("earlier"), -1], [document.getElementById("later"), 1]];
  const look = () => {
    const taken = arrows.reduce((sum, [arrow]) => sum + (arrow.hidden ? 0 : arrow.offsetWidth + 10), 0), most = list.scrollWidth - list.clientWidth;
    for (const [arrow, sign] of arrows) {
      arrow.hidden = most <= taken + 1;
      arrow.disabled = sign < 0 ? list.scrollLeft < 2 : list.scrollLeft > most - 2;
    }
  };
  for (const [arrow, sign] of arrows) arrow.addEventListener("click", () => list.scrollBy({ left: sign * 0.8 * list.clientWidth }));
  list.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(() => {
    list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    look();
  }).observe(list);
  look();
}

function theme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

function divide() {
  const divider = document.getElementById("divider"), side = document.getElementById("side");
  const widen = (width) => {
    side.style.width = `${Math.min(innerWidth - 300, Math.max(260, width))}px`;
    divider.setAttribute("aria-valuenow", Math.round(100 * side.offsetWidth / innerWidth));
  };
  divider.addEventListener("pointerdown", (event) => {
    divider.setPointerCapture(event.pointerId);
    divider.onpointermove = (move) => widen(innerWidth - move.clientX);
  });
  divider.addEventListener("pointerup", () => { divider.onpointermove = null; });
  divider.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 40, ArrowRight: -40 }[event.key];
    if (step) widen(side.offsetWidth + step);
  });
}

function start() {
  document.getElementById("title").replaceWith(named(data.title, { id: "title" }));
  document.getElementById("stages").append(...data.stages.map(stageTab));
  tabList(document.getElementById("stages"), (tab) => change(Number(tab.dataset.stage)));
  scrollStages(document.getElementById("stages"));
  tabList(document.getElementById("panels"), (tab) => show(tab.getAttribute("aria-controls")));
  const tint = (event) => {
    drawing.tinted = !drawing.tinted;
    event.currentTarget.setAttribute("aria-pressed", String(drawing.tinted));
    redraw();
  };
  const actions = {
    tint,
    theme, help: KEYS["?"], "zoom-in": KEYS["+"], "zoom-out": KEYS["-"], fit: KEYS.f,
    "fold-all": () => everyGroup(false), "open-all": () => everyGroup(true),
  };
  for (const button of document.querySelectorAll("[data-action]")) button.addEventListener("click", actions[button.dataset.action]);
  document.addEventListener("keydown", pressed);
  const side = document.getElementById("side");
  side.addEventListener("pointerover", (event) => lightUnder(event.target));
  side.addEventListener("focusin", (event) => lightUnder(event.target));
  side.addEventListener("pointerleave", () => light([]));
  for (const [name, on] of [["beforeprint", true], ["afterprint", false]]) addEventListener(name, () => { drawing.print(on); text.print(on); });
  divide();
  change(data.stages.length - 1);
  document.documentElement.dataset.ready = "true";
}

start();
