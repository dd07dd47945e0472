/** Makes elements of a page. Text goes in as text: nothing of a log is ever read as HTML. */

export type Child = Node | string | null | undefined | false;
export type Attributes = { [name: string]: string | number | boolean | undefined };

const SVG = "http://www.w3.org/2000/svg";

/** Returns an HTML element; an attribute that is true is there without a value, one that is false or undefined is not. */
export function html<Name extends keyof HTMLElementTagNameMap>(name: Name, attributes: Attributes, ...children: Child[]): HTMLElementTagNameMap[Name] {
  return filled(document.createElement(name), attributes, children);
}

/** Returns an SVG element. */
export function svg<Name extends keyof SVGElementTagNameMap>(name: Name, attributes: Attributes, ...children: Child[]): SVGElementTagNameMap[Name] {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Returns a button that does something. */
export function button(text: string, attributes: Attributes, action: () => void): HTMLButtonElement {
  const made = html("button", { type: "button", class: "tc-button", ...attributes }, text);
  made.addEventListener("click", action);
  return made;
}

/** Puts children in the place of those that an element has. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...children.filter((child) => child instanceof Node || typeof child === "string") as (Node | string)[]);
}

function filled<Made extends Element>(element: Made, attributes: Attributes, children: readonly Child[]): Made {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  fill(element, ...children);
  return element;
}
