// Questions: a token, and whether something is really to be done.

import { token } from "./api.js";
import { h } from "./dom.js";

const dialog = document.getElementById("dialog");
let asking = null; // a question for a token that is open

export function tell(text) {
  const told = document.getElementById("told");
  told.replaceChildren(text);
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => told.replaceChildren(), 10_000);
}

function opened(title, content) {
  if (dialog.open) dialog.close();
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), content);
  dialog.showModal();
}

// Resolves when it is closed, with whether it was done. `work` does it; if it fails, the dialog says why and stays.
export function confirmed({ title, text, verb, danger = false, content = null, work }) {
  return new Promise((resolve) => {
    let done = false;
    const problem = h("p", { class: "problem", role: "alert" });
    const doing = h("button", { type: "submit", class: danger ? "danger" : "primary" }, verb);
    const leave = h("button", { type: "button", click: () => dialog.close() }, "Leave it");
    const submit = async (event) => {
      event.preventDefault();
      problem.replaceChildren();
      doing.disabled = true;
      try {
        const said = await work();
        done = true;
        dialog.close();
        if (said) tell(said);
      } catch (error) {
        problem.replaceChildren(error.message);
      } finally {
        doing.disabled = false;
      }
    };
    const paragraphs = [text].flat().map((each) => h("p", {}, each));
    opened(title, h("form", { submit }, paragraphs, content, problem, h("div", { class: "row" }, doing, leave)));
    leave.focus();
    dialog.addEventListener("close", () => resolve(done), { once: true });
  });
}

// Resolves with whether there is a token now.
export function askForToken(why) {
  asking ??= new Promise((resolve) => {
    const input = h("input", {
      ...{ type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true },
      "aria-describedby": "token-why",
    });
    const submit = (event) => {
      event.preventDefault();
      token.set(input.value.trim());
      dialog.close();
    };
    const form = h(
      "form",
      { submit },
      h("p", { id: "token-why" }, `The server says: ${why}. The token is kept in this tab until it is closed.`),
      h("label", { for: "token" }, "Token"),
      input,
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: "primary" }, "Use it"),
        h("button", { type: "button", click: () => dialog.close() }, "Not now"),
      ),
    );
    token.set("");
    opened("This server asks for a token", form);
    input.focus();
    dialog.addEventListener("close", () => resolve(Boolean(token.get())), { once: true });
  }).finally(() => {
    asking = null;
  });
  return asking;
}
