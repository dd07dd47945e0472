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

  const finish = () => {
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

  SIGNS.forEach((sign) => addEventListener(sign, load, { capture: true, passive: true }));
  addEventListener("click", keep, true);
  addEventListener("keydown", keep, true);
})();
