// Light or dark, before the page is drawn. "auto" leaves it to the system.
"use strict";

(() => {
  const KEY = "lithify.theme";
  const put = (theme) => {
    document.documentElement.dataset.theme = theme;
  };
  const stored = () => {
    try {
      const theme = localStorage.getItem(KEY);
      return theme === "light" || theme === "dark" ? theme : "auto";
    } catch {
      return "auto"; // a browser may refuse storage
    }
  };
  put(stored());
  addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.value = stored();
    choice.addEventListener("change", () => {
      put(choice.value);
      try {
        localStorage.setItem(KEY, choice.value);
      } catch {
        // then it holds until the page is left
      }
    });
  });
})();
