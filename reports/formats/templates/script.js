(() => {
  "use strict";
  const form = document.getElementById("filters");
  const rows = [...document.querySelectorAll("details.req[data-area]")];
  const folds = [...document.querySelectorAll("details")];
  const groups = [...document.querySelectorAll("section.area")];
  const nothing = document.getElementById("nothing");
  const texts = new WeakMap();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };

  const apply = () => {
    const area = form.elements.area.value;
    const level = form.elements.level.value;
    const words = form.elements.q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = new Set([...form.querySelectorAll("input[name=verdict]:checked")].map((box) => box.value));
    let shown = 0;
    for (const row of rows) {
      const match =
        (!area || row.dataset.area === area) &&
        (!level || row.dataset.level === level) &&
        (!verdicts.size || verdicts.has(row.dataset.verdict)) &&
        words.every((word) => text(row).includes(word));
      row.hidden = !match;
      shown += match ? 1 : 0;
    }
    for (const group of groups) group.hidden = !group.querySelector("details.req:not([hidden])");
    nothing.hidden = shown > 0 || rows.length === 0;
    form.elements.shown.value = `${shown} of ${rows.length} shown`;
  };

  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const group = target.closest("section.area");
    if (group && (group.hidden || target.hidden)) {
      form.reset();
      apply();
    }
    if (target.matches("details.req")) target.open = true;
    target.scrollIntoView();
  };

  if (form) {
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => queueMicrotask(apply));
    form.addEventListener("click", (event) => {
      const action = event.target.dataset.do;
      if (action === "expand") for (const row of rows) if (!row.hidden) row.open = true;
      if (action === "collapse") for (const row of rows) row.open = false;
    });
    form.hidden = rows.length === 0;
    apply();
  }
  addEventListener("hashchange", follow);

  const selected = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return document.execCommand("copy");
  };
  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    let done = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      done = selected(code);
    }
    button.firstChild.data = done ? "Copied" : "Selected";
    document.getElementById("copied").textContent = done ? "Command copied" : "Command selected";
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }

  // What paper shows is open on it: experiments and their words, what was not judged. Requirements are told under "attention".
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folds.filter((row) => !row.open && !row.closest("#requirements, #matrix, #comparison, #policy, .further, .unjudged"));
    for (const row of closed) row.open = true;
  });
  addEventListener("afterprint", () => {
    for (const row of closed) row.open = false;
  });

  if (location.hash) follow();
})();
