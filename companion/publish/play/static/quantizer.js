import { begin, digits, line, linear, move, percent, picture, room, svg, text } from "./play.js";

const HEIGHT = 400,
  LEFT = 48,
  TOP = 40,
  BOTTOM = 300,
  EDGE = 5,
  BAR = 9;
const y = linear(0, 1, BOTTOM, TOP);
const holder = document.getElementById("picture");
let width = 720,
  x = linear(-EDGE, EDGE, LEFT, width - 12);

const bars = (points, shares, aside, kind) =>
  points.map((point, k) =>
    Math.abs(point) > EDGE
      ? null
      : svg("rect", {
          x: x(point) + aside,
          y: y(shares[k]),
          width: BAR,
          height: BOTTOM - y(shares[k]),
          class: kind,
        }),
  );

function grid({ step, dither }) {
  const found = [];
  for (let k = Math.ceil(-EDGE / step - dither); (k + dither) * step <= EDGE; k++)
    found.push((k + dither) * step);
  return found.map((point) => line(x(point), BOTTOM - 6, x(point), BOTTOM + 6, "tick"));
}

function handle(id, value, kind, words, tip) {
  const across = x(value);
  const node = svg(
    "g",
    { class: `handle ${kind}` },
    line(across, BOTTOM, across, tip, "stem"),
    svg("path", { d: `M${across} ${tip - 4}l13 22h-26z` }),
    text(across + 17, tip + 15, words, "start", kind),
  );
  node.addEventListener("pointerdown", (event) => grab(event, id));
  return node;
}

function grab(event, id) {
  event.preventDefault();
  const input = document.getElementById(id);
  const follow = (moved) => {
    const box = holder.querySelector("svg").getBoundingClientRect();
    const across = ((moved.clientX - box.left) / box.width) * width;
    const value = -EDGE + ((across - LEFT) / (width - 12 - LEFT)) * 2 * EDGE;
    move(id, Math.min(input.max, Math.max(input.min, value)));
  };
  const stop = () => {
    removeEventListener("pointermove", follow);
    removeEventListener("pointerup", stop);
  };
  addEventListener("pointermove", follow);
  addEventListener("pointerup", stop);
}

function label(found, { y: ours, other }) {
  const shares = found.points.map(
    (point, k) => `${digits(point)} with ${percent(found.ours[k])} and ${percent(found.theirs[k])}`,
  );
  return `Where y = ${digits(ours)} and y′ = ${digits(other)} can land: ${shares.join("; ")}`;
}

function draw(found, settings) {
  width = room();
  x = linear(-EDGE, EDGE, LEFT, width - 12);
  const shares = [0, 0.25, 0.5, 0.75, 1];
  holder.replaceChildren(
    picture(
      width,
      HEIGHT,
      label(found, settings),
      shares.map((value) => [
        line(LEFT, y(value), width - 12, y(value), "rule"),
        text(LEFT - 6, y(value) + 4, percent(value), "end"),
      ]),
      text(LEFT, TOP - 16, "probability of each grid point", "start", "title"),
      line(LEFT, BOTTOM, width - 12, BOTTOM, "axis"),
      grid(settings),
      [-4, -2, 0, 2, 4].map((value) =>
        text(x(value), BOTTOM + 22, String(value).replace("-", "−")),
      ),
      bars(found.points, found.ours, -BAR - 1, "ours"),
      bars(found.points, found.theirs, 1, "theirs"),
      handle("other", settings.other, "theirs", "y′", BOTTOM + 68),
      handle("y", settings.y, "ours", "y", BOTTOM + 38),
    ),
  );
}

const numbers = (found, { step }) => [
  ["mean of what is sent", digits(found.mean, 4)],
  ["variance", `${digits(found.variance)} = ${digits(found.variance / step ** 2)} d²`],
  ["δ: what one message tells", digits(found.delta)],
  ["the best guess is right in", percent(found.guess)],
];

begin({ draw, numbers });
