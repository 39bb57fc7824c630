import { begin, digits, element, frame, line, linear, logarithmic, path, percent, picture, svg, text } from "./play.js";

const WIDTH = 720, HEIGHT = 400, LEFT = 60, RIGHT = 690, TOP = 40, BOTTOM = 340, FOREVER = 30000;
const x = logarithmic(1, FOREVER, LEFT, RIGHT), y = linear(0, 1, BOTTOM, TOP);
const holder = document.getElementById("picture");

function draw(found, { target, iterations }) {
  const points = found.times.map((t, k) => [x(t), y(found.curve[k])]);
  const forever = [x(FOREVER), y(found.for_ever)];
  const ticks = [1, 10, 100, 1000].map((t) => [t, t.toLocaleString("en")]);
  const label = `Certified delta: ${found.times.map((t, k) => `${digits(found.curve[k])} after ${t}`).join(", ")}, ${digits(found.for_ever)} for ever`;
  holder.replaceChildren(picture(WIDTH, HEIGHT, label,
    frame({ x, y, across: [...ticks, [FOREVER, "for ever"]], up: [0, 0.25, 0.5, 0.75, 1].map((value) => [value, String(value)]),
      left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM, titles: ["iterations that are heard", "δ at most"] }),
    line(LEFT, y(target), RIGHT, y(target), "target"),
    text(LEFT + 6, y(target) - 8, "what you promise", "start"),
    line(x(iterations), TOP, x(iterations), BOTTOM, "mean"),
    text(x(iterations) + 6, TOP + 12, "training ends", "start"),
    svg("path", { d: path([...points, forever]), class: "curve theirs" }),
    [...points, forever].map(([cx, cy]) => svg("circle", { cx, cy, r: 4, class: "theirs" }))));
}

const numbers = (found) => [
  ["kept for ever: δ at most", digits(found.for_ever)],
  ["so nobody guesses better than", percent((1 + found.for_ever) / 2)],
  ["accuracy under the promise", percent(found.accuracy)],
  ["the same, nothing rounded", percent(found.twin)],
  ["best possible; guessing", `${percent(found.best)}; ${percent(0.5)}`],
  ["bits a number, in place of 64", digits(found.bits, 2)],
  ["first steps d₀ of the agents", found.d_0.map((step) => digits(step, 2)).join("  ")],
];

begin({ draw, numbers });
