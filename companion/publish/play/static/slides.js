// One slide at a time: arrows turn them, n shows the notes. A page starts one slide early.
const slides = [...document.querySelectorAll(".slide")];
const at = (id) => document.getElementById(id);
let shown = 0;

function start(slide) {
  const frame = slide?.querySelector("iframe");
  if (frame && !frame.src) frame.src = frame.dataset.source;
}

function show(number) {
  shown = Math.max(0, Math.min(slides.length - 1, number));
  slides.forEach((slide, k) => slide.classList.toggle("now", k === shown));
  start(slides[shown]);
  start(slides[shown + 1]);
  at("where").textContent = `${shown + 1} of ${slides.length}`;
  at("back").disabled = shown === 0;
  at("on").disabled = shown === slides.length - 1;
  history.replaceState(null, "", `#${shown + 1}`);
}

function notes() {
  const told = document.body.classList.toggle("told-notes");
  at("notes").setAttribute("aria-pressed", told);
}

const KEYS = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 };
addEventListener("keydown", (event) => {
  if (event.key in KEYS) show(shown + KEYS[event.key]);
  if (event.key === "n") notes();
});
at("back").addEventListener("click", () => show(shown - 1));
at("on").addEventListener("click", () => show(shown + 1));
at("notes").addEventListener("click", notes);
document.body.classList.add("deck");
show((Number(location.hash.slice(1)) || 1) - 1);
