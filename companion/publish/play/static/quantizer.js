import { begin, digits, frame, line, linear, move, path, percent, picture, svg, text } from "./play.js";

const WIDTH = 720, HEIGHT = 400, LEFT = 50, RIGHT = 700, TOP = 40, BOTTOM = 300, EDGE = 5;
const x = linear(-EDGE, EDGE, LEFT, RIGHT);
const y = linear(0, 1, BOTTOM, TOP);
const holder = document.getElementById("picture");

function bars(points, shares, side, kind) {
  const width = 9;
  return points.map((point, k) => Math.abs(point) > EDGE ? null : svg("rect", {
    x: x(point) + (side < 0 ? -width - 1 : 1), y: y(shares[k]), width,
    height: Math.max(0, BOTTOM - y(shares[k])), class: kind,
  }));
}

function grid({ step, dither }) {
  const found = [];
  for (let k = Math.ceil(-EDGE / step - dither); (k + dither) * step <= EDGE; k++) found.push((k + dither) * step);
  return found.map((point) => line(x(point), BOTTOM - 6, x(point), BOTTOM + 6, "tick"));
}

function handle(id, value, kind, words, low) {
  const tip = low ? BOTTOM + 8 : BOTTOM + 8, across = x(value);
  const shape = `M${across} ${tip}l13 22h-26z`;
  const node = svg("g", { class: `handle ${kind}`, "data-id": id },
    svg("path", { d: shape }), text(across, tip + 40, words));
  node.addEventListener("pointerdown", (event) => grab(event, id));
  return node;
}

function grab(event, id) {
  event.preventDefault();
  const input = document.getElementById(id);
  const follow = (moved) => {
    const box = holder.querySelector("svg").getBoundingClientRect();
    const across = ((moved.clientX - box.left) / box.width) * WIDTH;
    const value = -EDGE + ((across - LEFT) / (RIGHT - LEFT)) * 2 * EDGE;
    move(id, Math.min(input.max, Math.max(input.min, value)));
  };
  const stop = () => { removeEventListener("pointermove", follow); removeEventListener("pointerup", stop); };
  addEventListener("pointermove", follow);
  addEventListener("pointerup", stop);
}

function draw(found, settings) {
  const ticks = [-4, -2, 0, 2, 4].map((value) => [value, String(value)]);
  const shares = [0, 0.25, 0.5, 0.75, 1].map((value) => [value, percent(value)]);
  const label = `Where y = ${digits(settings.y)} and y′ = ${digits(settings.other)} can land: `
    + found.points.map((point, k) => `${digits(point)} with ${percent(found.ours[k])} and ${percent(found.theirs[k])}`).join("; ");
  holder.replaceChildren(picture(WIDTH, HEIGHT, label,
    shares.map(([value, words]) => [line(LEFT, y(value), RIGHT, y(value), "rule"), text(LEFT - 6, y(value) + 4, words, "end")]),
    text(LEFT, TOP - 16, "probability of each grid point", "start", "title"),
    line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis"), grid(settings),
    bars(found.points, found.ours, -1, "ours"), bars(found.points, found.theirs, 1, "theirs"),
    svg("path", { d: path([[x(found.mean), TOP], [x(found.mean), BOTTOM]]), class: "mean" }),
    handle("other", settings.other, "theirs", "y′"), handle("y", settings.y, "ours", "y"),
    ticks.map(([value, words]) => text(x(value), HEIGHT - 14, words))));
}

const numbers = (found, { step }) => [
  ["mean of what is sent", digits(found.mean, 4)],
  ["variance", `${digits(found.variance)} = ${digits(found.variance / step ** 2)} d²`],
  ["δ: what one message tells", digits(found.delta)],
  ["the best guess is right in", percent(found.guess)],
];

begin({ draw, numbers });
