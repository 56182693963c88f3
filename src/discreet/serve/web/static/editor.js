// The field of the query: names that are inserted at the cursor, by a button or while typing. The names stand on the page as
// lists that can be read without this script. Every text goes into the page as text, never as markup.
"use strict";
(() => {
  const MOST = 8;
  const field = () => document.querySelector("#query");
  const list = document.querySelector("#options");
  const said = document.querySelector("#options-said");
  if (!list || !said) return;

  const names = new Map(); // by what is inserted, so that none stands there twice
  for (const node of document.querySelectorAll("[data-insert]")) {
    const inserted = node.dataset.insert;
    if (!names.has(inserted)) names.set(inserted, node.textContent);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "name";
    button.dataset.insert = inserted;
    button.textContent = node.textContent;
    node.replaceWith(button);
  }

  const insert = (text, start, end) => {
    const query = field();
    const joins = start === end && /[\p{L}\p{N}_)'"]$/u.test(query.value.slice(0, start));
    query.setRangeText(joins ? ` ${text}` : text, start, end, "end");
    const hole = text.search(/\(,? ?\)|\(, |(?<=DISTINCT )\)/);
    if (hole >= 0) {
      const at = query.selectionEnd - text.length + hole + (text[hole] === "(" ? 1 : 0);
      query.setSelectionRange(at, at);
    }
    query.focus();
    query.dispatchEvent(new Event("input", { bubbles: true }));
  };

  // The list that completes a word

  const typed = () => {
    const query = field();
    const end = query.selectionStart;
    const before = query.value.slice(0, end);
    const isOpen = before.split("'").length % 2 === 0; // inside a literal a key is typed, with all its letters
    const word = before.match(isOpen ? /'[^']*$/ : /[\p{L}\p{N}_]*$/u)[0];
    return { word, start: end - word.length, end };
  };

  let replaces = true; // whether a name takes the place of the word before the cursor

  const close = () => {
    list.hidden = true;
    list.replaceChildren();
    said.textContent = "";
    field()?.removeAttribute("aria-activedescendant");
  };

  const open = (all) => {
    const { word } = typed();
    const isKey = word.startsWith("'");
    const begun = word.replace("'", "").toLowerCase();
    if (!all && begun.length < (isKey ? 1 : 2)) return close();
    const find = (begun) => [...names].filter(([inserted, text]) =>
      text.toLowerCase().startsWith(begun) && text.toLowerCase() !== begun && (!isKey || inserted.startsWith("'")));
    let fitting = find(begun);
    close();
    replaces = fitting.length > 0;
    if (all && !fitting.length) fitting = find(""); // nothing begins so: a new word follows
    if (!fitting.length) return;
    list.replaceChildren(...fitting.slice(0, MOST).map(([inserted, text], i) => {
      const option = document.createElement("li");
      option.id = `option-${i}`;
      option.role = "option";
      option.ariaSelected = "false";
      option.dataset.completes = inserted;
      option.textContent = text;
      return option;
    }));
    list.hidden = false;
    said.textContent = `${Math.min(fitting.length, MOST)} names fit. Arrow down chooses, Enter inserts, Escape closes.`;
  };

  const move = (by) => {
    const options = [...list.children];
    const now = options.findIndex((each) => each.ariaSelected === "true");
    const next = (now + by + options.length + (now < 0 && by < 0 ? 1 : 0)) % options.length;
    options.forEach((each, i) => { each.ariaSelected = String(i === next); });
    field().setAttribute("aria-activedescendant", options[next].id);
    options[next].scrollIntoView({ block: "nearest" });
  };

  const take = (option) => {
    const { start, end } = typed();
    close();
    insert(option.dataset.completes, replaces ? start : end, end);
  };

  document.addEventListener("input", (event) => {
    if (event.target.id === "query") event.inputType?.startsWith("insertText") ? open(false) : close();
  });

  document.addEventListener("keydown", (event) => {
    if (event.target.id !== "query") return;
    if (event.ctrlKey && event.key === " ") {
      event.preventDefault();
      open(true);
    }
    if (list.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    const chosen = list.querySelector("[aria-selected=true]");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && chosen) {
      event.preventDefault();
      take(chosen);
    } else if (event.key === "Escape") {
      event.preventDefault();
      close();
    } else if (event.key === "Enter") close();
  });

  list.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the field keeps the focus
    const option = event.target.closest("[role=option]");
    if (option) take(option);
  });

  document.addEventListener("focusout", (event) => { if (event.target.id === "query") close(); });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-insert]");
    if (button) insert(button.dataset.insert, field().selectionStart, field().selectionEnd);
  });
})();
