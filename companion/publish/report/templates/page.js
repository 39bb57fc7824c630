const all = (selector, place = document) => [...place.querySelectorAll(selector)];
for (const tool of all('[data-script]')) tool.hidden = false;

const filters = document.querySelector('.filters');
const choose = () => {
  const wanted = Object.fromEntries(new FormData(filters));
  for (const claim of all('.claim'))
    claim.hidden = Object.keys(wanted)
      .some(name => wanted[name] && claim.dataset[name] !== wanted[name]);
  const chosen = Object.values(wanted).some(Boolean);
  for (const block of all('[data-block]'))
    block.hidden = chosen && !block.querySelector('.claim:not([hidden])');
  filters.querySelector('output').textContent =
    `${all('.claim:not([hidden])').length} of ${all('.claim').length} verdicts`;
};
if (filters) { filters.reset(); filters.addEventListener('change', choose); choose(); }

for (const button of all('figure button')) button.addEventListener('click', () => {
  const large = button.closest('figure').parentElement.classList.toggle('large');
  button.setAttribute('aria-pressed', large);
});

const unfold = document.querySelector('#unfold');
if (unfold) unfold.addEventListener('click', () => {
  const open = unfold.getAttribute('aria-pressed') === 'false';
  unfold.setAttribute('aria-pressed', open);
  for (const details of all('details')) details.open = open;
});
addEventListener('beforeprint', () => {
  for (const details of all('details:not(.code)')) details.open = true;
});
