/**
 * Answers the search of the site in place of the theme's worker, which weighs a title a thousand times its text and
 * finds only pages that have every word. MiniSearch finds and weighs; this gives it the fields of a page.
 *
 * The theme asks {type: 0, data: index} once and {type: 2, data: question} as one types; it is answered {type: 1} and {type: 3}.
 */

import MiniSearch from "minisearch";
import { stemmer } from "stemmer";

/** A page or one of its sections, as MkDocs writes them. */
interface Doc {
  location: string;
  title: string;
  text: string;
  tags?: string[];
  boost?: number;
  description?: string;
}

interface Section {
  location: string;
  title: string;
  text: string;
  stems: Set<string>;
  titleStems: Set<string>;
}

interface Page {
  id: string;
  title: string;
  headings: string;
  keywords: string;
  description: string;
  lead: string;
  text: string;
  boost: number;
  sections: Section[];
}

interface Port {
  onmessage: ((event: MessageEvent<{ type: number; data: unknown }>) => void) | null;
  postMessage(message: { type: number; data?: unknown }): void;
  location: Location;
}

// What says what a page is for weighs more than what it says on the way.
const WEIGHTS = { keywords: 14, title: 4, description: 4, headings: 3, lead: 2, text: 1 };
const BM25 = { k: 1.2, b: 0.4, d: 0.5 };

// Pages that are looked up rather than read: a question leads to one of them if no page for people answers it as well.
const LOOKED_UP = /^(changelog|conformance|downloads|implementations|requirements|spec|reference\/(conformance|formats|registry))\//;
const LOOKED_UP_WEIGHT = 0.7;
const SHOWN = 20;
const SHOWN_SECTIONS = 4;
const EXTRACT_WORDS = 32;

// Words of questions that say nothing about their subject.
const COMMON = new Set(
  (
    "a about after again all also am an and any are as at be been but by can could did do does doing for from get gets go got had has have how i if in into is it its just like " +
    "may me might more most much must my need no not now of on one only or other our out over own please really should so some such take than that the their them then there " +
    "these they thing this those through to too toyspec up us use used using very want wants was we were what when where which while who why will with without would you your"
  ).split(" "),
);

const port = self as unknown as Port;

/** Returns the words of a text in lower case; the parts of `a_b` count beside it. */
function wordsOf(text: string): string[] {
  const found = text.toLowerCase().replaceAll("c++", "cpp").match(/[\p{L}\p{N}_]+(?:[-.][\p{L}\p{N}_]+)*/gu) ?? [];
  return found.flatMap((word) => (/[-._]/.test(word) ? [word, ...word.split(/[-._]/).filter(Boolean)] : [word]));
}

const termOf = (word: string): string | null => (COMMON.has(word) ? null : stemmer(word));

const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
const plain = (html: string): string => html.replace(/<[^>]*>/g, " ").replace(/&(lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? entity);
const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const index = new MiniSearch<Page>({
  fields: Object.keys(WEIGHTS),
  tokenize: wordsOf,
  processTerm: termOf,
  searchOptions: {
    boost: WEIGHTS,
    bm25: BM25,
    boostDocument: (id) => (pages.get(String(id))?.boost ?? 1) * (LOOKED_UP.test(String(id)) ? LOOKED_UP_WEIGHT : 1),
  },
});
const pages = new Map<string, Page>();

function read(docs: Doc[]): void {
  for (const doc of docs) {
    const [id = "", section] = doc.location.split("#");
    const [title, text] = [plain(doc.title), plain(doc.text)];
    let page = pages.get(id);
    if (!page) {
      page = { id, title, headings: "", keywords: "", description: "", lead: "", text: "", boost: 1, sections: [] };
      pages.set(id, page);
    }
    if (section === undefined) {
      page.keywords = (doc.tags ?? []).join(" ");
      page.description = doc.description ?? "";
      page.lead = plain(/<p>[^]*?<\/p>/.exec(doc.text)?.[0] ?? "");
      page.boost = doc.boost ?? 1;
    } else {
      page.headings += ` ${title}`;
    }
    page.text += ` ${text}`;
    page.sections.push({ location: doc.location, title, text, stems: new Set(), titleStems: new Set() });
  }
  index.addAll([...pages.values()]);
}

/** Returns the pages that answer, best first. A word that no page has stands for those that start with it or differ by a letter. */
function found(question: string) {
  const words = wordsOf(question);
  const term = words.every((word) => COMMON.has(word)) ? stemmer : termOf;
  const exact = index.search(question, { processTerm: term });
  const known = new Set(exact.flatMap(({ queryTerms }) => queryTerms));
  const asked = [...new Set(words.map(term).filter((one) => one !== null))];
  if (asked.every((one) => known.has(one))) return exact;
  return index.search(question, {
    processTerm: term,
    prefix: (one, at, all) => !known.has(one) && at === all.length - 1,
    fuzzy: (one) => (!known.has(one) && one.length > 3 ? 1 : false),
  });
}

/** Returns the sections of a page that have the most of what was found, those first that name it; else the page. */
function sectionsOf(page: Page, terms: string[]): Section[] {
  for (const section of page.sections) {
    if (section.stems.size) continue;
    section.titleStems = new Set(wordsOf(section.title).map(stemmer));
    section.stems = new Set([...section.titleStems, ...wordsOf(section.text).map(stemmer)]);
  }
  const rarity = new Map(terms.map((term) => [term, 1 / (1 + page.sections.filter(({ stems }) => stems.has(term)).length)]));
  const worth = ({ stems, titleStems }: Section): number =>
    terms.reduce((sum, term) => sum + (rarity.get(term) ?? 0) * (titleStems.has(term) ? 3 : stems.has(term) ? 1 : 0), 0);
  const ranked = page.sections.map((section) => ({ section, own: worth(section) })).sort((one, other) => other.own - one.own);
  return ranked.filter(({ own }, at) => at === 0 || (own > 0 && at < SHOWN_SECTIONS)).map(({ section }) => section);
}

function marked(text: string, isFound: (word: string) => boolean): string {
  const pieces = text.split(/([\p{L}\p{N}_]+)/u);
  return pieces.map((piece, at) => (at % 2 && isFound(piece) ? `<mark data-md-highlight>${escaped(piece)}</mark>` : escaped(piece))).join("");
}

/** Returns the stretch of a text that has the most of what was found. */
function extract(text: string, isFound: (word: string) => boolean): string {
  const words = text.trim().split(/\s+/);
  const hits = words.map((word) => wordsOf(word).some(isFound));
  const count = (start: number): number => hits.slice(start, start + EXTRACT_WORDS).filter(Boolean).length;
  const start = hits.reduce((best, hit, at) => (hit && count(at) > count(best) ? at : best), 0);
  const cut = marked(words.slice(start, start + EXTRACT_WORDS).join(" "), isFound);
  return `<p>${start ? "… " : ""}${cut}${start + EXTRACT_WORDS < words.length ? " …" : ""}</p>`;
}

function answer(question: string) {
  const asked = wordsOf(question).filter((word) => !COMMON.has(word));
  const all = found(question);
  // The name of a kind or a page leads to it, whatever others say about it: "step" to "step (toy/v1)".
  const isNamed = (id: string): boolean => pages.get(id)?.title.toLowerCase().split(" (")[0] === question.toLowerCase();
  const items = [...all.filter(({ id }) => isNamed(String(id))), ...all.filter(({ id }) => !isNamed(String(id)))]
    .slice(0, SHOWN)
    .flatMap(({ id, score, terms }) => {
      const page = pages.get(String(id));
      const isFound = (word: string): boolean => terms.includes(stemmer(word.toLowerCase()));
      const shown = page ? sectionsOf(page, terms) : [];
      return [
        shown.map(({ location, title, text }) => ({
          location,
          title: marked(title, isFound),
          text: extract(text, isFound),
          score,
          terms: Object.fromEntries(asked.map((word) => [word, isFound(word)])),
        })),
      ];
    });
  const last = wordsOf(question).at(-1) ?? "";
  const names = [...pages.values()].flatMap(({ title, headings }) => wordsOf(title + headings));
  return { items, suggest: names.filter((name) => last && name.startsWith(last)).slice(0, 1) };
}

// The pages come with the first question: who only reads does not load them.
let reading: Promise<void> | undefined;
function ready(): Promise<void> {
  reading ??= fetch(new URL("../../search/pages.json", port.location.href))
    .then((response) => response.json())
    .then((written: { docs: Doc[] }) => read(written.docs));
  return reading;
}

async function take({ type, data }: { type: number; data: unknown }): Promise<void> {
  if (type === 0) {
    const { docs } = data as { docs: Doc[] };
    if (docs.length) {
      read(docs);
      reading = Promise.resolve();
    }
    port.postMessage({ type: 1 });
  } else if (type === 2) {
    const question = String(data).trim();
    if (question) await ready();
    port.postMessage({ type: 3, data: question ? answer(question) : { items: [] } });
  }
}

port.onmessage = (event) => void take(event.data);
