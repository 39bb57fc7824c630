import {
  begin,
  digits,
  element,
  frame,
  linear,
  logarithmic,
  path,
  picture,
  room,
  svg,
  text,
} from "./play.js";

const EDGE = 5,
  LEFT = 52,
  MOST = 30,
  LEAST = 0.003,
  SWEEP = 6000; // milliseconds of the film
const holder = document.getElementById("picture");
const still = matchMedia("(prefers-reduced-motion: reduce)");
let found = null,
  film = 0,
  size = 400;

const across = (x) => linear(-EDGE, EDGE, 6, size - 6)(x);
const up = (y) => linear(-EDGE, EDGE, size - 6, 6)(y);
const places = (run, agent, until) =>
  run.path.slice(0, until + 1).map((all) => [across(all[agent][0]), up(all[agent][1])]);

function town([x, y]) {
  const side = across(2) - across(0);
  return svg("rect", { x: across(x - 1), y: up(y + 1), width: side, height: side, class: "town" });
}

function agents(run, until, kind) {
  const ways = found.towns.map((_, agent) => places(run, agent, until));
  const dots = ways.map((way) =>
    svg("circle", { cx: way.at(-1)[0], cy: way.at(-1)[1], r: 4, class: kind }),
  );
  return [ways.map((way) => svg("path", { d: path(way), class: `way ${kind}` })), dots];
}

function map(until) {
  const [x, y] = found.middle.map((place, k) => (k ? up(place) : across(place)));
  const distance = digits(found.rounded.error[until]);
  const label = `A map: after ${until} iterations rounded agents are ${distance} from the middle`;
  return picture(
    size,
    size,
    label,
    svg("rect", { x: 1, y: 1, width: size - 2, height: size - 2, class: "paper" }),
    found.towns.map(town),
    agents(found.rounded, until, "theirs"),
    agents(found.twin, until, "ours"),
    svg("path", { d: `M${x - 9} ${y}h18M${x} ${y - 9}v18`, class: "cross" }),
  );
}

function curve(until) {
  const last = found.rounded.error.length - 1,
    bottom = size - 50,
    right = size - 14;
  const x = linear(0, last, LEFT, right),
    y = logarithmic(LEAST, MOST, bottom, 40);
  const follow = (run) =>
    path(run.error.slice(0, until + 1).map((error, t) => [x(t), y(Math.min(MOST, error))]));
  const ticks = {
    across: [0, last / 2, last].map((t) => [t, String(t)]),
    up: [0.01, 0.1, 1, 10].map((value) => [value, String(value)]),
  };
  return picture(
    size,
    size,
    "Distance of the agents from the middle over time, on a logarithmic axis",
    frame({
      x,
      y,
      ...ticks,
      left: LEFT,
      right,
      top: 32,
      bottom,
      titles: ["iteration", "distance from the middle"],
    }),
    svg("path", { d: follow(found.rounded), class: "curve theirs" }),
    svg("path", { d: follow(found.twin), class: "curve ours" }),
    text(right, 58, "rounded", "end", "theirs"),
    text(right, 78, "not rounded", "end", "ours"),
  );
}

function drawAt(until) {
  size = room(2);
  holder.replaceChildren(element("div", { class: "pair" }, map(until), curve(until)));
}

function draw(numbers) {
  cancelAnimationFrame(film);
  found = numbers;
  drawAt(found.rounded.error.length - 1);
}

function watch() {
  cancelAnimationFrame(film);
  const last = found.rounded.error.length - 1,
    begun = performance.now();
  const frameAt = (now) => {
    const t = still.matches ? last : Math.min(last, Math.floor(((now - begun) / SWEEP) * last));
    drawAt(Math.max(0, t));
    if (t < last) film = requestAnimationFrame(frameAt);
  };
  frameAt(begun);
}

const numbers = (all) => [
  ["rounded: distance at the end", digits(all.rounded.error.at(-1))],
  ["not rounded", digits(all.twin.error.at(-1))],
  ["step of the grid at the end", digits(all.step.at(-1))],
];

const button = element("button", { type: "button" }, "Watch it move");
button.addEventListener("click", () => found && watch());
document.getElementById("more").append(button);
begin({ draw, numbers });
