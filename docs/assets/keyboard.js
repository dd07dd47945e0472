// Lets the keyboard reach what the theme leaves to the pointer: the menu of a narrow window, tables and code that scroll;
// and gives the search a name.
(() => {
  "use strict";

  function reachMenu() {
    const button = document.querySelector('.md-header__button[for="__drawer"]');
    const drawer = document.getElementById("__drawer");
    if (!button || !drawer) {
      return;
    }
    // The theme clicks a label that has the focus when Enter is pressed.
    button.tabIndex = 0;
    button.setAttribute("role", "button");
    button.setAttribute("aria-label", "Menu");
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
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
      if (box.scrollWidth > box.clientWidth) {
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", box.tagName === "CODE" ? "Code" : "Table");
      } else {
        box.removeAttribute("tabindex");
        box.removeAttribute("role");
        box.removeAttribute("aria-label");
      }
    }
  }

  // The theme calls the search a dialog, and gives it no name.
  function nameSearch() {
    document.querySelector('.md-search[role="dialog"]')?.setAttribute("aria-label", "Search");
  }

  // The theme puts the boxes around the tables before the page is loaded.
  const start = () => {
    reachMenu();
    nameSearch();
    reachBoxes();
    addEventListener("resize", reachBoxes);
  };
  if (document.readyState === "complete") {
    start();
  } else {
    addEventListener("load", start);
  }
})();
