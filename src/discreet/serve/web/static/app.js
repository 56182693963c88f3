// What scripts add to pages that work without them: keys, and three buttons that fill in a field. No text of others is
// ever made into markup here.
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  const places = { t: "/", b: "/b", r: "/r", a: "/asks" };
  let last = "";

  const isTyping = (node) => node.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;

  document.addEventListener("keydown", (event) => {
    const ask = $("#ask-form");
    if (event.ctrlKey && event.key === "Enter" && ask) {
      event.preventDefault();
      if (event.shiftKey) $("#go")?.click();
      else ask.dispatchEvent(new Event("input", { bubbles: true }));
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const keys = $("#keys");
    if (event.key === "?" && keys) {
      event.preventDefault();
      if (!keys.open) keys.showModal();
    } else if (event.key === "/") {
      const search = $("input[type=search], #query");
      if (search) { event.preventDefault(); search.focus(); }
    } else if (last === "g" && places[event.key]) {
      location.href = places[event.key];
    } else if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll(".list a.main")];
      const at = links.indexOf(document.activeElement);
      const next = links[event.key === "j" ? at + 1 : Math.max(0, at - 1)];
      if (next) next.focus();
    } else if (event.key === "a") {
      $("#approve")?.focus();
    } else if (event.key === "d") {
      $("#decline")?.focus();
    }
    last = event.key;
  });

  document.addEventListener("click", (event) => {
    const grade = event.target.closest("button[data-error]");
    if (grade) {
      event.preventDefault();
      $("#error").value = grade.dataset.error;
      $("#epsilon").value = "";
      for (const each of document.querySelectorAll("button[data-error]")) each.setAttribute("aria-pressed", String(each === grade));
      $("#error").dispatchEvent(new Event("input", { bubbles: true }));
    }
    if (event.target.closest("[data-close]")) event.target.closest("dialog")?.close();
  });

  document.addEventListener("input", (event) => {
    if (event.target.id !== "error") return;
    for (const each of document.querySelectorAll("button[data-error]")) {
      each.setAttribute("aria-pressed", String(each.dataset.error === event.target.value.trim()));
    }
  });

  // A slider fills in the number field that it belongs to, and draws again when it is let go.
  for (const kind of ["input", "change"]) {
    document.addEventListener(kind, (event) => {
      const field = event.target.dataset.mirrors && document.getElementById(event.target.dataset.mirrors);
      if (!field) return;
      field.value = String(Number(Number(event.target.value).toPrecision(6)));
      if (kind === "change" && field.form.method === "get") field.form.requestSubmit();
    });
  }

  for (const each of document.querySelectorAll("[data-scripted]")) each.hidden = false;
})();
