// Loads the script of the theme once a reader moves, scrolls, types or touches: a page that is only read needs none of it.
(() => {
  "use strict";

  const SIGNS = ["pointermove", "pointerdown", "touchstart", "wheel", "scroll", "keydown", "focusin"];
  const missed = [];

  // What is clicked or typed before the script is there is kept for it: a label would switch without its script.
  const LABEL = 'label[for^="__"]';
  const keep = (event) => {
    if (event.type === "keydown") {
      missed.push(() => event.target.dispatchEvent(new KeyboardEvent("keydown", event)));
    } else if (event.target.closest(LABEL)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      missed.push(() => event.target.closest(LABEL).click());
    }
  };

  // The theme begins at the event that a page sends once, which was before its script came.
  const finish = () => {
    document.dispatchEvent(new Event("DOMContentLoaded"));
    removeEventListener("click", keep, true);
    removeEventListener("keydown", keep, true);
    missed.forEach((again) => again());
  };

  const load = () => {
    SIGNS.forEach((sign) => removeEventListener(sign, load, true));
    const script = document.createElement("script");
    script.src = document.getElementById("later-scripts").content.querySelector("script").src;
    script.addEventListener("load", finish);
    script.addEventListener("error", finish);
    document.body.append(script);
  };

  // The theme shows its search once it runs; it is there to be clicked before, and does not move the header then.
  document.documentElement.classList.replace("no-js", "js");

  // The theme shows the button for the next scheme; it is there to be clicked before.
  const schemes = document.querySelectorAll('[data-md-component="palette"] label');
  schemes[__md_get("__palette")?.index ?? 0]?.removeAttribute("hidden");

  SIGNS.forEach((sign) => addEventListener(sign, load, { capture: true, passive: true }));
  addEventListener("click", keep, true);
  addEventListener("keydown", keep, true);
  // A link with a query is a search.
  if (new URLSearchParams(location.search).has("q")) {
    load();
  }
})();
