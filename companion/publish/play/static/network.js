import { begin, controls, digits, element, picture, play, svg, text } from "./play.js";

const SIZE = 330,
  CENTRE = SIZE / 2,
  RING = 112;
const edges = {
  R: play.data.R_EDGES.map((edge) => [...edge]),
  C: play.data.C_EDGES.map((edge) => [...edge]),
};
const titles = { R: "R: models are pulled", C: "C: trackers are pushed" };
const chosen = { R: null, C: null };
const holder = document.getElementById("picture");
const more = document.getElementById("more");
let last = { u: Array(play.data.AGENTS).fill(1), v: Array(play.data.AGENTS).fill(1) };

function spot(agent) {
  const angle = (2 * Math.PI * agent) / play.data.AGENTS - Math.PI / 2;
  return [CENTRE + RING * Math.cos(angle), CENTRE + RING * Math.sin(angle)];
}

const radius = (voice) => 13 + 13 * Math.sqrt(Math.max(0, Math.min(voice, 3)));

function arrow(graph, [from, to, weight], voices) {
  const [[x1, y1], [x2, y2]] = [spot(from), spot(to)];
  const length = Math.hypot(x2 - x1, y2 - y1),
    [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  const start = radius(voices[from]) + 2,
    end = length - radius(voices[to]) - 9;
  const bend = 14,
    middle = (start + end) / 2;
  const point = (along, aside) =>
    `${(x1 + dx * along - dy * aside).toFixed(1)} ${(y1 + dy * along + dx * aside).toFixed(1)}`;
  return svg("path", {
    d: `M${point(start, 3)}Q${point(middle, bend)} ${point(end, 3)}`,
    class: `arrow ${graph}`,
    "stroke-width": 1 + 6 * weight,
    "marker-end": `url(#tip${graph})`,
  });
}

function agent(graph, index, voice) {
  const [cx, cy] = spot(index),
    picked = chosen[graph] === index;
  const label = `agent ${index} of ${graph}, voice ${digits(voice)}`;
  const node = svg(
    "g",
    {
      role: "button",
      tabindex: 0,
      "aria-pressed": picked,
      "aria-label": label,
      class: `agent ${graph}${picked ? " picked" : ""}`,
      "data-agent": `${graph}${index}`,
    },
    svg("circle", { cx, cy, r: radius(voice) }),
    text(cx, cy + 5, String(index)),
  );
  node.addEventListener("click", () => pick(graph, index));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick(graph, index);
    }
  });
  return node;
}

function pick(graph, index) {
  const from = chosen[graph];
  chosen[graph] = from === null ? index : null;
  if (from !== null && from !== index) toggle(graph, from, index);
  drawAll();
  holder.querySelector(`[data-agent=${graph}${index}]`).focus();
}

function toggle(graph, from, to) {
  const found = edges[graph].findIndex(([j, i]) => j === from && i === to);
  if (found >= 0) edges[graph].splice(found, 1);
  else edges[graph].push([from, to, controls().weight]);
  listEdges();
  refresh();
}

function graphPicture(graph, voices) {
  const tip = svg(
    "marker",
    {
      id: `tip${graph}`,
      viewBox: "0 0 10 10",
      refX: 3,
      refY: 5,
      markerWidth: 11,
      markerHeight: 11,
      orient: "auto",
      markerUnits: "userSpaceOnUse",
    },
    svg("path", { d: "M0 0L10 5L0 10z", class: `tip ${graph}` }),
  );
  const node = picture(
    SIZE,
    SIZE,
    titles[graph],
    svg("defs", {}, tip),
    edges[graph].map((edge) => arrow(graph, edge, voices)),
    voices.map((voice, index) => agent(graph, index, voice)),
  );
  node.setAttribute("role", "group");
  return element("figure", {}, element("figcaption", {}, titles[graph]), node);
}

/** Draw both graphs; an agent that had the focus keeps it, for Python may answer at any time. */
function drawAll() {
  const focused = document.activeElement.dataset.agent;
  holder.replaceChildren(
    element("div", { class: "pair" }, graphPicture("R", last.u), graphPicture("C", last.v)),
  );
  if (focused) holder.querySelector(`[data-agent=${focused}]`).focus();
}

function listEdges() {
  more.replaceChildren(
    ...["R", "C"].map((graph) =>
      element(
        "fieldset",
        { class: "edges" },
        element("legend", {}, `Arrows of ${graph} and their weights`),
        ...edges[graph].map((edge) => entry(graph, edge)),
      ),
    ),
  );
}

function entry(graph, edge) {
  const words = `${edge[0]} → ${edge[1]}`;
  const input = element("input", {
    type: "number",
    min: 0.05,
    max: 1,
    step: 0.05,
    value: edge[2],
    autocomplete: "off",
  });
  input.addEventListener("input", () => {
    edge[2] = Number(input.value);
    refresh();
    drawAll();
  });
  const away = element(
    "button",
    { type: "button", "aria-label": `take away ${words} in ${graph}` },
    "×",
  );
  away.addEventListener("click", () => {
    toggle(graph, edge[0], edge[1]);
    drawAll();
  });
  return element("span", { class: "edge" }, element("label", {}, `${words} `, input), away);
}

function draw(found) {
  last = found;
  drawAll();
}

const list = (values) => values.map((value) => digits(value)).join("  ");
const numbers = (found) => [
  ["u: voices in R, agents 0 to 4", list(found.u)],
  ["v: voices in C", list(found.v)],
  ["R: disagreement", `× ${digits(found.R.rate)} a step, halved in ${digits(found.R.half, 2)}`],
  ["C: disagreement", `× ${digits(found.C.rate)} a step, halved in ${digits(found.C.half, 2)}`],
];

listEdges();
drawAll();
const refresh = begin({ settings: () => ({ R_edges: edges.R, C_edges: edges.C }), draw, numbers });
