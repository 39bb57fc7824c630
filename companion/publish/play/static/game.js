import {
  ask,
  begin,
  controls,
  digits,
  element,
  line,
  linear,
  list,
  path,
  percent,
  picture,
  room,
  svg,
  text,
} from "./play.js";

const LEFT = 4,
  TOP = 34;
const NAMES = ["blue", "orange"],
  KINDS = ["ours", "theirs"];
const holder = document.getElementById("picture");
const asked = new URLSearchParams(location.search).get("seed"); // the same rounds again
let seed = asked ? Number(asked) : crypto.getRandomValues(new Uint32Array(1))[0],
  found = null,
  guess = null,
  nextRound = false,
  key = "";
let score = { rounds: 0, you: 0, best: 0 };

function panel(title, index) {
  const width = room(2),
    bottom = Math.min(400, 0.9 * width) - 55;
  const values = [...found.blue, ...found.orange].map((state) => state[index]);
  const low = Math.min(...values) - found.step[0],
    high = Math.max(...values) + found.step[0];
  const times = found.step.map((_, t) => t);
  const x = linear(-0.5, times.length - 0.5, LEFT, width - 4),
    y = linear(low, high, bottom, TOP);
  const track = (paths) => path(paths.map((state, t) => [x(t), y(state[index])]));
  const label = `${title}: heard ${found.heard.map((pair) => digits(pair[index])).join(", ")}`;
  return picture(
    width,
    bottom + 55,
    label,
    text(LEFT, TOP - 18, title, "start", "title"),
    times.map((t) => rungs(x(t), y, low, high, found.step[t])),
    svg("path", { d: track(found.blue), class: "curve ours" }),
    svg("path", { d: track(found.orange), class: "curve theirs" }),
    times.map((t) =>
      svg("circle", { cx: x(t), cy: y(found.heard[t][index]), r: 8, class: `dot ${dotKind()}` }),
    ),
    times.map((t) => text(x(t), bottom + 24, String(t))),
    text(width / 2, bottom + 46, "message", "middle", "title"),
  );
}

function rungs(across, y, low, high, step) {
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++)
    found.push(line(across - 12, y(k * step), across + 12, y(k * step), "tick"));
  return found;
}

const dotKind = () => (guess === null ? "" : KINDS[found.truth[0]]);

function told() {
  if (guess === null) return "Which data did the agent have?";
  const truth = NAMES[found.truth[0]],
    right = guess === found.truth[0];
  const best = found.best[0] === found.truth[0] ? "was right" : "was wrong";
  const attacker = `The best attacker said ${NAMES[found.best[0]]}, and ${best}.`;
  return `${right ? "Right" : "Wrong"}: it was ${truth}. ${attacker} ${evidence()}`;
}

function evidence() {
  const strongest = found.evidence.reduce(
    (most, value, t) => (Math.abs(value) > Math.abs(found.evidence[most]) ? t : most),
    0,
  );
  const weight = found.evidence[strongest];
  if (weight === 0) return "No message told anything.";
  const towards = NAMES[weight > 0 ? 1 : 0];
  const odds =
    Math.abs(weight) > 30
      ? "proved it"
      : `spoke ${digits(Math.exp(Math.abs(weight)), 2)} : 1 for ${towards}`;
  return `Message ${strongest} ${odds}.`;
}

const result = element("p", { class: "told", "aria-live": "polite" });
const choices = NAMES.map((name, index) => {
  const button = element("button", { type: "button", class: KINDS[index] }, `It was ${name}`);
  button.addEventListener("click", () => say(index));
  return button;
});
const next = element("button", { type: "button" }, "Next round");
next.addEventListener("click", () => {
  guess = null;
  seed += 1;
  nextRound = true; // its choices can be focused when it has come
  refresh();
});
const many = element("button", { type: "button" }, "Let the best attacker play 1000 rounds");
many.addEventListener("click", playMany);
const manyTold = element("p", { class: "told", "aria-live": "polite" });
holder.after(result, element("p", { class: "row" }, ...choices, next, many), manyTold);

function say(index) {
  if (guess !== null || !found) return;
  guess = index;
  score = {
    rounds: score.rounds + 1,
    you: score.you + (guess === found.truth[0]),
    best: score.best + (found.best[0] === found.truth[0]),
  };
  again();
  next.focus();
}

async function playMany() {
  const all = await ask({ ...controls(), seed: seed + 1_000_000, rounds: 1000 });
  const right = all.truth.filter((truth, k) => truth === all.best[k]).length;
  const limit = `the limit is ${percent(all.limit, 1)}`;
  manyTold.textContent = `The best attacker was right in ${right} of 1000 rounds; ${limit}.`;
}

function settings() {
  const turned = JSON.stringify(controls());
  if (key && turned !== key) {
    score = { rounds: 0, you: 0, best: 0 };
    guess = null;
    manyTold.textContent = "";
  }
  key = turned;
  return { ...controls(), seed, rounds: 1 };
}

function draw(numbers) {
  found = numbers;
  again();
  if (nextRound) choices[0].focus();
  nextRound = false;
}

function again() {
  result.textContent = told();
  choices.forEach((button) => {
    button.disabled = guess !== null;
  });
  next.disabled = guess === null;
  holder.replaceChildren(
    element(
      "div",
      { class: "pair" },
      panel("what is sent of the model θ", 0),
      panel("what is sent of the tracker ψ", 1),
    ),
  );
  list(numbers(found));
}

const share = (hits) =>
  score.rounds ? `${hits} of ${score.rounds} (${percent(hits / score.rounds)})` : "–";
const numbers = (all) => [
  ["you were right in", share(score.you)],
  ["the best attacker", share(score.best)],
  ["the best anybody can do, (1 + δ)/2", percent(all.limit, 1)],
  ["δ of all messages", digits(all.delta)],
];

const refresh = begin({ settings, draw, numbers });
