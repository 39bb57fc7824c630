// What all pages share: the worker, the controls, the lines, and how a picture is drawn in SVG.

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const inputs = [...document.querySelectorAll("#controls input[type=range]")];
const original = at("lines").value;

// The worker

const waiting = new Map();
let worker,
  number = 0,
  ready;

function start() {
  worker = new Worker("worker.js");
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message));
    worker.onmessage = ({ data: told }) => {
      if (told.ready) resolve();
      else if (told.failed) reject(new Error(told.failed));
      else settle(told);
    };
  });
}

function settle(told) {
  waiting.get(told.id)(told.found);
  waiting.delete(told.id);
}

/** Return what Python answers to the given settings and lines; null stands for the page's own. */
export async function ask(settings, lines = null) {
  await ready;
  const id = ++number;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    worker.postMessage({ id, question: { page: data.name, settings, lines } });
  });
}

// Controls

export function place(input) {
  const power = input.dataset.power === "1";
  const value = power ? 10 ** Number(input.value) : Number(input.value);
  return input.dataset.whole === "1" ? Math.round(value) : value;
}

/** Return the settings that the controls stand at. */
export function controls() {
  return Object.fromEntries(inputs.map((input) => [input.id, place(input)]));
}

export function show(input) {
  const shown = place(input).toLocaleString("en", { maximumFractionDigits: 2 });
  input.closest(".control").querySelector("output").textContent = shown;
  input.setAttribute("aria-valuetext", shown);
}

/** Move a control as a hand would. */
export function move(id, value) {
  at(id).value = value;
  at(id).dispatchEvent(new Event("input", { bubbles: true }));
}

// One question at a time: while Python works, only the newest wish is kept.

/** Start a page: `settings()` is what to ask, `draw(found, settings)` draws, `numbers` tells. */
export function begin({ settings = controls, draw, numbers }) {
  let busy = false,
    wanted = false;
  const edited = () => (at("lines").value === original ? null : at("lines").value);

  async function refresh() {
    wanted = true;
    if (busy) return;
    busy = true;
    while (wanted) {
      wanted = false;
      const asked = settings();
      tell(await ask(asked, edited()), asked);
    }
    busy = false;
  }

  let shown = null;
  new ResizeObserver(() => shown && tryDrawing(...shown)).observe(at("picture").parentElement);

  function tell(found, asked) {
    const sentence = at("sentence");
    sentence.hidden = !found.sentence;
    sentence.textContent = found.sentence ?? "";
    at("picture").classList.toggle("old", Boolean(found.sentence));
    at("numbers").classList.toggle("old", Boolean(found.sentence));
    if (!found.sentence) tryDrawing(...(shown = [found, asked]));
    at("picture").setAttribute("aria-busy", "false");
    play.drawn += 1;
  }

  function tryDrawing(found, asked) {
    try {
      draw(found, asked);
      list(numbers(found, asked));
    } catch (error) {
      at("sentence").hidden = false;
      at("sentence").textContent = `what the lines return cannot be drawn: ${error.message}`;
    }
  }

  inputs.forEach((input) => {
    show(input);
    input.addEventListener("input", () => {
      show(input);
      refresh();
    });
  });
  let later;
  at("lines").addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(refresh, 300);
  });
  at("undo").addEventListener("click", () => {
    at("lines").value = original;
    refresh();
  });
  ready = start();
  ready
    .then(() => {
      at("status").hidden = true;
      play.ready = true;
      return refresh();
    })
    .catch((error) => {
      at("status").textContent = error.message;
      play.failed = error.message;
    });
  return refresh;
}

/** Show pairs of a name and a number. */
export function list(pairs) {
  const parts = pairs.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)),
  );
  at("numbers").replaceChildren(...parts);
}

// Drawing

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== ""));
  return node;
}

const holder = at("picture");
/** Return how wide a picture may be, when `beside` of them share the row: one unit is one pixel. */
export const room = (beside = 1) => {
  const all = Math.max(300, holder.clientWidth);
  return beside === 1 || all < 560 ? all : (all - 16 * (beside - 1)) / beside;
};

/** Return a picture of a size, with a name for those who do not see it. */
export function picture(width, height, label, ...children) {
  const view = `0 0 ${width} ${height}`;
  return svg("svg", { viewBox: view, role: "img", "aria-label": label }, ...children);
}

export const linear = (from, to, low, high) => (x) =>
  low + ((x - from) / (to - from)) * (high - low);
export const logarithmic = (from, to, low, high) => {
  const line = linear(Math.log(from), Math.log(to), low, high);
  return (x) => line(Math.log(Math.max(x, from)));
};

export const path = (points) =>
  "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
export const text = (x, y, words, anchor = "middle", kind = "") =>
  svg("text", { x, y, "text-anchor": anchor, class: kind }, words);
export const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

/** Return the frame of a plot: ticks `[value, words]` on both axes, and their titles. */
export function frame({ x, y, across, up, left, right, top, bottom, titles }) {
  return svg(
    "g",
    { class: "frame" },
    across.map(([value, words]) => [
      line(x(value), bottom, x(value), bottom + 5, "axis"),
      text(x(value), bottom + 20, words),
    ]),
    up.map(([value, words]) => [
      line(left, y(value), right, y(value), "rule"),
      text(left - 8, y(value) + 4, words, "end"),
    ]),
    line(left, bottom, right, bottom, "axis"),
    text((left + right) / 2, bottom + 40, titles[0], "middle", "title"),
    text(left, top - 10, titles[1], "start", "title"),
  );
}

export const percent = (share, places = share > 0.995 && share < 1 ? 1 : 0) =>
  `${(100 * share).toFixed(places)} %`;
export const digits = (value, most = 3) =>
  value.toLocaleString("en", { maximumSignificantDigits: most, useGrouping: false });

export const play = { ready: false, failed: "", drawn: 0, ask, data };
window.play = play;
