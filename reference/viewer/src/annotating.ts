/** The dialog in which people annotate runs, where the server was started with `--edit`. */

import { button, fill, html } from "../../typescript/page/elements.js";
import type { Annotation, Run } from "./protocol.js";
import type { Store } from "./store.js";
import { counted, plain } from "./text.js";

interface Field {
  row: HTMLElement;
  value(): string;
}

/** Opens the dialog for some runs; of several, what is left empty does not change. */
export function openAnnotations(store: Store, runs: readonly Run[]): void {
  const [only] = runs.length === 1 ? runs : [];
  const fields = only ? fieldsOf(only) : fieldsOfMany();
  const failure = html("p", { class: "message", role: "alert", hidden: true });
  const save = button("Save", { class: "button" }, () => {
    save.disabled = true;
    const said = fields.said();
    const done = Object.keys(said).length === 0 ? Promise.resolve() : store.annotate(runs, said);
    done.then(() => dialog.close(), (error: unknown) => {
      save.disabled = false;
      failure.hidden = false;
      fill(failure, plain((error as Error).message, 1000));
    });
  });
  const dialog = html(
    "dialog",
    { class: "help annotating", "aria-label": "Annotations" },
    html("div", { class: "help-head" }, html("h2", {}, only ? plain(only.name, 80) : counted(runs.length, "run")), button("Cancel", { class: "button" }, () => dialog.close())),
    html("p", { class: "count" }, "Written to annotations.jsonl beside the log, which does not change."),
    ...fields.rows, failure, save,
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function fieldsOf(run: Run): { rows: HTMLElement[]; said: () => Annotation } {
  const own = run.said ?? {};
  const before = { name: own.name === undefined ? "" : run.name, group: own.group === undefined ? "" : (run.group ?? ""), notes: own.notes === undefined ? "" : (run.notes ?? "") };
  const name = text("Name", before.name, own.name ?? run.name);
  const group = text("Group", before.group, own.group ?? run.group ?? "");
  const tags = text("Tags, separated by commas", run.tags.join(", "));
  const notes = text("Notes", before.notes, own.notes ?? run.notes ?? "", "textarea");
  const starred = check("Starred", run.starred);
  const hidden = check("Hidden from lists", run.hidden);
  const said = () => {
    const now = listed(tags.value());
    const changed: Annotation = {};
    for (const [key, field] of [["name", name], ["group", group], ["notes", notes]] as const) if (field.value() !== before[key]) changed[key] = field.value();
    // A tag with a comma is in the field as two: it stays unless the field was changed.
    if (tags.value() !== run.tags.join(", ")) Object.assign(changed, { add_tags: now.filter((tag) => !run.tags.includes(tag)), remove_tags: run.tags.filter((tag) => !now.includes(tag)) });
    if (starred.box.checked !== run.starred) changed.starred = starred.box.checked;
    if (hidden.box.checked !== run.hidden) changed.hidden = hidden.box.checked;
    return changed;
  };
  return { rows: [name.row, group.row, tags.row, notes.row, starred.row, hidden.row], said };
}

function fieldsOfMany(): { rows: HTMLElement[]; said: () => Annotation } {
  const group = text("Group", "", "unchanged");
  const added = text("Add tags, separated by commas", "");
  const removed = text("Remove tags", "");
  const star = choice("Star");
  const hide = choice("Hide from lists");
  const said = () => ({
    ...(group.value() !== "" && { group: group.value() }),
    ...(added.value() !== "" && { add_tags: listed(added.value()) }),
    ...(removed.value() !== "" && { remove_tags: listed(removed.value()) }),
    ...(star.value() !== "" && { starred: star.value() === "yes" }),
    ...(hide.value() !== "" && { hidden: hide.value() === "yes" }),
  });
  return { rows: [group.row, added.row, removed.row, star.row, hide.row], said };
}

function text(title: string, value: string, placeholder = "", kind: "input" | "textarea" = "input"): Field {
  const field = html(kind, { class: "field", placeholder: plain(placeholder, 200) });
  field.value = value;
  return { row: html("label", {}, title, field), value: () => field.value.trim() };
}

function check(title: string, isChecked: boolean): { row: HTMLElement; box: HTMLInputElement } {
  const box = html("input", { type: "checkbox" });
  box.checked = isChecked;
  return { row: html("label", { class: "check" }, box, title), box };
}

function choice(title: string): Field {
  const field = html("select", { class: "field" }, ...[["", "unchanged"], ["yes", "yes"], ["no", "no"]].map(([value, name]) => html("option", { value }, name)));
  return { row: html("label", {}, title, field), value: () => field.value };
}

function listed(tags: string): string[] {
  return [...new Set(tags.split(",").map((tag) => tag.trim()).filter(Boolean))];
}
