"use strict";
(() => {
  const data = JSON.parse(document.getElementById("formation-data").textContent);
  const card = document.getElementById("formation");
  const [button, slider] = card.querySelectorAll("button, input");
  const readouts = card.querySelectorAll("dd");
  const stages = card.querySelectorAll(".stage");
  const last = data.marks.length - 1;
  let timer = 0;

  // As the page itself is written, for its last moment.
  const ellipse = ([x, y, a, b, turn, strength]) =>
    `<g transform="translate(${x} ${y}) rotate(${turn})" opacity="${strength}">` +
    `<ellipse class="two-sd" rx="${2 * a}" ry="${2 * b}"></ellipse><ellipse class="one-sd" rx="${a}" ry="${b}"></ellipse></g>`;
  const bell = ([x, sd, height, strength]) =>
    `<use href="#formation-bell" transform="translate(${x} 1000) scale(${sd} ${height})" opacity="${strength}"></use>`;
  const draw = ({ ellipses, ink, bells, curve }) =>
    ellipses
      ? `<g fill-opacity="${ink}">${ellipses.map(ellipse).join("")}</g>`
      : bells.map(bell).join("") + `<path class="curve" d="${curve}"></path>`;

  const show = (at) => {
    const marks = draw(data.marks[at]);
    stages.forEach((stage) => (stage.innerHTML = marks));
    data.readouts[at].forEach((text, i) => (readouts[i].textContent = text));
    slider.value = at;
    const [iteration, evals, elbo, components] = data.readouts[at];
    slider.setAttribute("aria-valuetext",
      `iteration ${iteration}, ${evals} evaluations, ELBO ${elbo}, components: ${components}`);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  };
  const step = () => {
    const next = Number(slider.value) + 1;
    show(Math.min(next, last));
    if (next >= last) stop();
  };
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === last) show(0);
    timer = setInterval(step, Math.min(400, Math.max(50, 6000 / data.marks.length)));
    button.textContent = "Pause";
  });
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  show(last);
  card.querySelector(".controls").hidden = false;
})();
