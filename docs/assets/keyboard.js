// Lets the keyboard reach what the theme leaves to the pointer: the menu of a narrow window, tables and code that scroll;
// gives the search a name, and takes what is typed after / from the first letter on.
(() => {
  "use strict";

  function reachMenu() {
    const label = document.querySelector('.md-header__button[for="__drawer"]');
    const drawer = document.getElementById("__drawer");
    if (!label || !drawer) {
      return;
    }
    // A label that acts as a button is none to assistive technology. The theme finds it by `for`, and hides it in a wide window.
    const button = document.createElement("button");
    button.type = "button";
    button.className = label.className;
    button.setAttribute("for", "__drawer");
    button.setAttribute("aria-label", "Menu");
    button.append(...label.childNodes);
    label.replaceWith(button);
    button.addEventListener("click", () => drawer.click());
    const tell = () => button.setAttribute("aria-expanded", String(drawer.checked));
    drawer.addEventListener("change", tell);
    tell();
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && drawer.checked) {
        drawer.click();
        button.focus();
      }
    });
  }

  // A stop only while there is something to scroll, so that a wide window has no stops without use.
  function reachBoxes() {
    const boxes = document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code");
    for (const [index, box] of boxes.entries()) {
      if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", `${box.tagName === "CODE" ? "Code" : "Table"} ${index + 1}`);
      } else {
        box.removeAttribute("tabindex");
        box.removeAttribute("role");
        box.removeAttribute("aria-label");
      }
    }
  }

  // The theme makes a landmark of the copy button of each example, and of each section of the menu, two of which can share a name.
  function nameLandmarks() {
    for (const box of document.querySelectorAll(".md-code__nav")) {
      box.setAttribute("role", "none");
    }
    const seen = new Set();
    for (const part of document.querySelectorAll("nav[aria-label], nav[aria-labelledby]")) {
      const labels = [document.getElementById(part.getAttribute("aria-labelledby"))?.textContent, part.getAttribute("aria-label")];
      let name = (labels.find(Boolean) ?? "").trim().replace(/\s+/g, " ");
      while (seen.has(name)) {
        name += " (more)";
        part.removeAttribute("aria-labelledby");
        part.setAttribute("aria-label", name);
      }
      seen.add(name);
    }
  }

  // The theme calls the search a dialog, and gives it no name.
  function nameSearch() {
    document.querySelector('.md-search[role="dialog"]')?.setAttribute("aria-label", "Search");
  }

  // The theme does this too, once its scripts are there; letters that are typed before would be lost.
  document.addEventListener("keydown", (event) => {
    const isTyped = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyped) {
      event.preventDefault();
      document.querySelector(".md-search__input")?.focus();
    }
  });

  // The theme puts the boxes around the tables before the page is loaded.
  const start = () => {
    reachMenu();
    nameSearch();
    nameLandmarks();
    reachBoxes();
    addEventListener("resize", reachBoxes);
    // The theme adds the copy buttons later, where its scripts come with the first use of a page.
    new MutationObserver(nameLandmarks).observe(document.querySelector("article"), { childList: true, subtree: true });
  };
  if (document.readyState === "complete") {
    start();
  } else {
    addEventListener("load", start);
  }
})();
