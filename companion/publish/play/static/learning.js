import { begin, digits, element, frame, linear, logarithmic, path, picture, svg, text } from "./play.js";

const SIZE = 400, EDGE = 5;
const across = linear(-EDGE, EDGE, 10, SIZE - 10), up = linear(-EDGE, EDGE, SIZE - 10, 10);
const holder = document.getElementById("picture");
const still = matchMedia("(prefers-reduced-motion: reduce)");
let found = null, sweep = 0;

const places = (run, agent, until) => run.path.slice(0, until + 1).map((all) => [across(all[agent][0]), up(all[agent][1])]);

function map(until) {
  const agents = found.towns.map((_, agent) => agent);
  const [mx, my] = found.middle;
  const dot = (run, agent, kind) => {
    const [cx, cy] = places(run, agent, until).at(-1);
    return svg("circle", { cx, cy, r: 5, class: kind });
  };
  const label = `A map: after ${until} iterations the rounded agents are ${digits(found.rounded.error[until])} from the middle`;
  return picture(SIZE, SIZE, label,
    svg("rect", { x: 1, y: 1, width: SIZE - 2, height: SIZE - 2, class: "paper" }),
    found.towns.map(([x, y]) => svg("rect", { x: across(x - 1), y: up(y + 1), width: across(2) - across(0),
      height: across(2) - across(0), class: "town" })),
    agents.map((agent) => svg("path", { d: path(places(found.rounded, agent, until)), class: "way theirs" })),
    agents.map((agent) => svg("path", { d: path(places(found.twin, agent, until)), class: "way ours" })),
    svg("path", { d: `M${across(mx) - 9} ${up(my)}h18M${across(mx)} ${up(my) - 9}v18`, class: "cross" }),
    agents.map((agent) => [dot(found.twin, agent, "ours"), dot(found.rounded, agent, "theirs")]));
}

function curve(until) {
  const last = found.rounded.error.length - 1;
  const x = linear(0, last, 60, 385), y = logarithmic(0.003, 30, 340, 50);
  const follow = (run) => path(run.error.slice(0, until + 1).map((error, t) => [x(t), y(Math.min(30, error))]));
  const ticks = [0, last / 2, last].map((t) => [t, String(Math.round(t))]);
  return picture(SIZE, SIZE, "Distance of the agents from the middle over time, on a logarithmic axis",
    frame({ x, y, across: ticks, up: [0.01, 0.1, 1, 10].map((value) => [value, String(value)]), left: 60, right: 385,
      top: 40, bottom: 340, titles: ["iteration", "distance from the middle"] }),
    svg("path", { d: follow(found.rounded), class: "curve theirs" }),
    svg("path", { d: follow(found.twin), class: "curve ours" }),
    text(385, y(Math.min(30, found.rounded.error[last])) - 10, "rounded", "end", "theirs"),
    text(385, y(found.twin.error[last]) - 10, "not rounded", "end", "ours"));
}

function drawAt(until) {
  holder.replaceChildren(element("div", { class: "pair" }, map(until), curve(until)));
}

function draw(numbers) {
  cancelAnimationFrame(sweep);
  found = numbers;
  drawAt(found.rounded.error.length - 1);
}

function watch() {
  cancelAnimationFrame(sweep);
  const last = found.rounded.error.length - 1, begun = performance.now();
  const frameAt = (now) => {
    const t = Math.min(last, Math.floor(((now - begun) / 6000) * last));
    drawAt(still.matches ? last : t);
    if (t < last && !still.matches) sweep = requestAnimationFrame(frameAt);
  };
  frameAt(begun);
}

const numbers = (all) => {
  const last = all.rounded.error.length - 1;
  return [
    ["rounded: distance at the end", digits(all.rounded.error[last])],
    ["not rounded", digits(all.twin.error[last])],
    ["step of the grid at the end", digits(all.step.at(-1))],
  ];
};

const button = element("button", { type: "button" }, "Watch it move");
button.addEventListener("click", () => found && watch());
document.getElementById("more").append(button);
begin({ draw, numbers });
