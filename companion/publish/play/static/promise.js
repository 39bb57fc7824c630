import {
  begin,
  digits,
  frame,
  line,
  linear,
  logarithmic,
  path,
  percent,
  picture,
  room,
  svg,
  text,
} from "./play.js";

const HEIGHT = 430,
  LEFT = 48,
  TOP = 36,
  BOTTOM = 290,
  FOREVER = 30000,
  STRIP = 385;
const y = linear(0, 1, BOTTOM, TOP);
const holder = document.getElementById("picture");

function certified(found, { target, iterations }, right) {
  const x = logarithmic(1, FOREVER, LEFT, right);
  const points = [
    ...found.times.map((t, k) => [x(t), y(found.curve[k])]),
    [right, y(found.for_ever)],
  ];
  const above = target > 0.85 ? 16 : -8;
  return [
    frame({
      x,
      y,
      across: [...[1, 10, 100, 1000].map((t) => [t, t.toLocaleString("en")]), [FOREVER, "∞"]],
      up: [0, 0.25, 0.5, 0.75, 1].map((value) => [value, String(value)]),
      left: LEFT,
      right,
      top: TOP,
      bottom: BOTTOM,
      titles: ["iterations that are heard", "δ at most"],
    }),
    line(LEFT, y(target), right, y(target), "target"),
    text(LEFT + 4, y(target) + above, "what you promise", "start"),
    line(x(iterations), TOP, x(iterations), BOTTOM, "mean"),
    text(x(iterations) + 5, TOP - 4, "training ends", "start"),
    svg("path", { d: path(points), class: "curve theirs" }),
    points.map(([cx, cy]) => svg("circle", { cx, cy, r: 4, class: "theirs" })),
  ];
}

function learnt(found, right) {
  const x = linear(0.5, found.best, LEFT, right);
  const mark = (share, kind) =>
    svg("circle", { cx: x(Math.max(0.5, share)), cy: STRIP, r: 8, class: kind });
  return [
    text(LEFT, STRIP - 24, "accuracy:", "start", "title"),
    text(LEFT + 78, STRIP - 24, "promised", "start", "theirs"),
    text(LEFT + 162, STRIP - 24, "nothing rounded", "start", "ours"),
    line(LEFT, STRIP, right, STRIP, "axis"),
    mark(found.twin, "ours"),
    mark(found.accuracy, "theirs"),
    text(LEFT, STRIP + 28, "guessing 50 %", "start"),
    text(right, STRIP + 28, `best possible ${percent(found.best)}`, "end"),
  ];
}

function draw(found, settings) {
  const width = room(),
    right = width - 16;
  const after = found.times.map((t, k) => `${digits(found.curve[k])} after ${t}`).join(", ");
  const forever = `${digits(found.for_ever)} for ever; accuracy ${percent(found.accuracy)}`;
  const label = `Certified delta: ${after}, ${forever}`;
  holder.replaceChildren(
    picture(width, HEIGHT, label, certified(found, settings, right), learnt(found, right)),
  );
}

const numbers = (found) => [
  ["kept for ever: δ at most", digits(found.for_ever)],
  ["so nobody guesses better than", percent((1 + found.for_ever) / 2, 1)],
  ["accuracy under the promise", percent(found.accuracy)],
  ["accuracy, nothing rounded", percent(found.twin)],
  ["bits a number, in place of 64", digits(found.bits, 2)],
  ["first steps d₀ of agents 0 to 4", found.d_0.map((step) => digits(step, 2)).join("  ")],
];

begin({ draw, numbers });
