// Which view is shown (by what follows "#" in the address), and when it asks again.

import { token } from "./api.js";
import { compactionsView } from "./compactions.js";
import { askForToken, tell } from "./dialogs.js";
import { h, morph } from "./dom.js";
import { garbageView } from "./garbage.js";
import { glanceView } from "./glance.js";
import { keyView } from "./key.js";
import { partitionView } from "./partition.js";
import { Poll } from "./poll.js";
import { topicView } from "./topic.js";
import { span, time } from "./words.js";

const main = document.getElementById("main");
const heard = document.getElementById("heard");
const again = document.getElementById("again");
const forget = document.getElementById("forget");

let poll = null;
let state = { heardAt: 0, error: null, nextAt: 0 };
let current = null;
let declined = false; // the user does not want to give a token now

const ROUTES = [
  [/^$/, glanceView],
  [/^topic\/([^/]+)$/, topicView],
  [/^topic\/([^/]+)\/(\d+)$/, partitionView],
  [/^compactions$/, compactionsView],
  [/^garbage$/, garbageView],
  [/^key(?:\/([^/]+))?$/, keyView],
];

function viewOf(route) {
  for (const [pattern, make] of ROUTES) {
    const found = pattern.exec(route);
    if (found) return make(...found.slice(1).map((part) => part && decoded(part)));
  }
  return { title: "Not found", draw: () => [h("p", {}, "There is no such view.")] };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// `view`: { title, asking, load(signal), draw(data, ui), wait(data), end() }. Without `load` nothing is asked before the
// user does.
function show() {
  poll?.end();
  poll = null;
  current?.end?.();
  const route = location.hash.replace(/^#\/?/, "");
  const view = viewOf(route);
  current = view;
  document.title = `${view.title} · lithify`;
  markNavigation(route);
  let data;
  const ui = {
    again: () => poll?.look(),
    redraw: () => current === view && draw(view, data, ui),
    guarded: (work) => guarded(work),
  };
  state = { heardAt: 0, error: null, nextAt: 0 };
  main.replaceChildren(
    heading(view),
    ...(view.load ? [h("p", { class: "quiet" }, view.asking ?? "Asking the server…")] : []),
  );
  if (!view.load) ui.redraw();
  if (show.again) main.querySelector("h1").focus();
  show.again = true;
  if (view.load) {
    poll = new Poll(
      async (signal) => {
        data = await guarded(() => view.load(signal));
        if (current === view) draw(view, data, ui);
        return view.wait?.(data);
      },
      (next) => {
        if (next.error && !state.error) tell(`No answer: ${next.error.message}`);
        if (!next.error && state.error) tell("The server answers again");
        state = next;
        if (next.error && !data) main.replaceChildren(heading(view), problem(next.error));
        pulse();
      },
    );
    poll.look();
  }
  pulse();
}

const heading = (view) => h("h1", { tabindex: "-1", key: "title" }, view.title);

const problem = (error) => h("p", { class: "problem" }, error.message);

function draw(view, data, ui) {
  const fresh = document.createElement("main");
  for (const { name, value } of main.attributes) fresh.setAttribute(name, value);
  fresh.append(heading(view), ...view.draw(data, ui).flat(Infinity).filter(Boolean));
  morph(main, fresh);
}

// Asks for a token where the server wants one, and then once more.
async function guarded(work) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (error.status !== 401 || declined) throw error;
      declined = !(await askForToken(error.message));
      if (declined) throw error;
    } finally {
      forget.hidden = !token.get();
    }
  }
}

function markNavigation(route) {
  for (const anchor of document.querySelectorAll("#views a")) {
    const place = anchor.getAttribute("href").slice(2);
    const here = place === "" ? route === "" || route.startsWith("topic") : route.startsWith(place);
    if (here) anchor.setAttribute("aria-current", place === route ? "page" : "true");
    else anchor.removeAttribute("aria-current");
  }
}

function pulse() {
  const now = Date.now();
  again.hidden = !state.error;
  heard.parentElement.classList.toggle("lost", Boolean(state.error));
  if (!poll) {
    heard.textContent = "This view asks when you do.";
  } else if (state.error) {
    const last = state.heardAt
      ? `Last answer ${time(state.heardAt)}, ${span(now - state.heardAt)} ago.`
      : "No answer yet.";
    const next = `Next try in ${span(Math.max(state.nextAt - now, 0))}.`;
    heard.textContent = `✕ ${state.error.message}. ${last} ${next}`;
  } else if (state.heardAt) {
    const past = now - state.heardAt;
    heard.textContent = `Last answer ${time(state.heardAt)}${past < 3000 ? "" : `, ${span(past)} ago`}`;
  } else {
    heard.textContent = "Asking the server…";
  }
}

addEventListener("hashchange", show);
addEventListener("resize", () => {
  clearTimeout(pulse.resized);
  pulse.resized = setTimeout(() => poll?.look(), 200);
});
again.addEventListener("click", () => {
  declined = false;
  poll?.look();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address tells the view
  main.focus();
});
forget.addEventListener("click", () => {
  token.set("");
  forget.hidden = true;
  tell("The token is forgotten");
  show();
});
setInterval(() => {
  if (!document.hidden) pulse();
}, 1000);
show();
