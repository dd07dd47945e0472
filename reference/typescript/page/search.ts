/**
 * Answers the search of the site in place of the theme's worker, which weighs a title a thousand times its text and
 * finds only pages that have every word. MiniSearch finds and weighs; this gives it the fields of a page, the phrases of
 * `docs/search.toml`, and its synonyms.
 *
 * The theme asks {type: 0, data: index} once and {type: 2, data: question} as one types; it is answered {type: 1} and {type: 3}.
 */

import MiniSearch from "minisearch";
import { stemmer } from "stemmer";

/** A page or one of its sections, as MkDocs writes them, with what `docs/search.toml` says people do there. */
interface Doc {
  location: string;
  title: string;
  text: string;
  boost?: number;
  description?: string;
  tasks?: string[];
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
  tasks: string;
  description: string;
  lead: string;
  text: string;
  boost: number;
  sections: Section[];
}

/** A title, a heading or a task: what a question may be about, as a whole. */
interface Phrase {
  id: number;
  page: string;
  location: string;
  words: string;
  weight: number;
}

interface Port {
  onmessage: ((event: MessageEvent<{ type: number; data: unknown }>) => void) | null;
  postMessage(message: { type: number; data?: unknown }): void;
  location: Location;
}

// What says what a page is for weighs more than what it says on the way.
const WEIGHTS = { tasks: 4, title: 2, description: 3, headings: 1, lead: 0.5, text: 0.5 };
const BM25 = { k: 0.8, b: 0.3, d: 0.5 };
// A page with a hundred tasks has every word. So the phrase that fits best counts too, and less the less of it is in the question.
const PHRASE_WEIGHT = 8;
const PHRASE_BM25 = { k: 1.2, b: 0, d: 0.2 };
const PHRASE_SHARE = 1.5;
const HEADING_WEIGHT = 0.85;
const HEADING_USES = 3;
const SYNONYM_WEIGHT = 0.35;

// Pages that are looked up rather than read: a question leads to one of them if no page for people answers it as well.
const LOOKED_UP = /^(changelog|conformance|downloads|implementations|requirements|spec|reference\/(conformance|formats|registry))\//;
const LOOKED_UP_WEIGHT = 0.8;
// A word is written in one or two only if the pages write it so several times.
const OFTEN = 4;
const SHOWN = 20;
const SHOWN_SECTIONS = 3;
const BEST_SECTIONS = 2;
const EXTRACT_WORDS = 32;

// Words of questions that say nothing about their subject.
const COMMON = new Set(
  (
    "a about after again all also am an and any are as at be been but by can could did do does doing for from get gets go got had has have how i if in into is it its just like " +
    "may me might more most much must my need no not now of on one only or other our out over own please really should so some such take than that the their them then there " +
    "anything give given gives going happen happened happens let make makes made someone something things way wo " +
    "able actually already always bug ca cannot cant correctly didnt doesnt dont easily else ever feature idea isnt issue know maybe never nice possible possibly problem " +
    "properly question request seem seems simple simply still though tried try trying unable wont work working works " +
    "these they thing this those through to too toyspec up us use used using very want wants was we were what when which while who will with without would you your"
  ).split(" "),
);

// Names that are written with other signs than letters, and contractions: "can't" is "cannot", not "can" and "t".
const SPELLINGS: [RegExp, string][] = [
  [/c\+\+/g, "cpp"],
  [/w&b|weights?(?: &| and|-and-) ?biases/g, "wandb"],
  [/n['’]t\b|['’](?:s|re|ve|ll|d|m)\b/g, ""],
];

const port = self as unknown as Port;

/** Returns the words of a text in lower case; the parts of `a_b` count beside it. */
function wordsOf(text: string): string[] {
  const spelled = SPELLINGS.reduce((so, [pattern, word]) => so.replaceAll(pattern, word), text.toLowerCase());
  const found = spelled.match(/[\p{L}\p{N}_]+(?:[-.][\p{L}\p{N}_]+)*/gu) ?? [];
  return found.flatMap((word) => (/[-._]/.test(word) ? [word, ...word.split(/[-._]/).filter(Boolean)] : [word]));
}

/** The stems of irregular forms, with the stem that each counts as. */
const forms = new Map<string, string>();

/** Returns the stem of a word, in one spelling: "visualised" and "visualizing" have the same. */
function stemOf(word: string): string {
  const american = word
    .replace(/(?<=...)our/, "or")
    .replace(/(?<=...)is(e[drs]?|ing|ation|er)$/, "iz$1")
    .replace(/ys(e[drs]?|ing)$/, "yz$1");
  const stem = stemmer(american);
  return forms.get(stem) ?? stem;
}

/** The numbers of the groups of synonyms that a stem is in, as terms of the index. */
const groups = new Map<string, string[]>();
const withGroups = (stem: string): string[] => [stem, ...(groups.get(stem) ?? [])];
const termsOf = (word: string): string[] | null => (COMMON.has(word) ? null : withGroups(stemOf(word)));

const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&" };
const plain = (html: string): string => html.replace(/<[^>]*>/g, " ").replace(/&(lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? entity);
const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const indexing = { tokenize: wordsOf, processTerm: termsOf };
const index = new MiniSearch<Page>({ ...indexing, fields: Object.keys(WEIGHTS) });
const phraseIndex = new MiniSearch<Phrase>({ ...indexing, fields: ["words"] });
const pages = new Map<string, Page>();
const phrases: Phrase[] = [];
/** How often each stem occurs. */
const known = new Map<string, number>();

function addPhrase(location: string, words: string, weight: number): void {
  phrases.push({ id: phrases.length, page: location.split("#")[0] ?? "", location, words, weight });
}

/** What `make docs` writes: pages, and the words of `docs/search.toml`. */
interface Written {
  docs: Doc[];
  forms?: string[];
  synonyms?: string[];
}

function read({ docs, forms: irregular = [], synonyms = [] }: Written): void {
  for (const [base = "", ...others] of irregular.map((line) => line.split(" ").map(stemOf))) for (const other of others) forms.set(other, base);
  synonyms.forEach((group, number) => {
    for (const stem of new Set(group.split(" ").map(stemOf))) groups.set(stem, [...(groups.get(stem) ?? []), `=${number}`]);
  });
  for (const doc of docs) {
    const [id = "", section] = doc.location.split("#");
    const [title, text] = [plain(doc.title), plain(doc.text)];
    let page = pages.get(id);
    if (!page) {
      page = { id, title, headings: "", tasks: "", description: "", lead: "", text: "", boost: 1, sections: [] };
      pages.set(id, page);
    }
    if (section === undefined) {
      page.description = doc.description ?? "";
      page.lead = plain(/<p>[^]*?<\/p>/.exec(doc.text)?.[0] ?? "");
      page.boost = doc.boost ?? 1;
    } else {
      page.headings += ` ${title}`;
    }
    for (const task of doc.tasks ?? []) addPhrase(doc.location, task, 1);
    page.tasks += ` ${(doc.tasks ?? []).join(" ")}`;
    page.text += ` ${text}`;
    page.sections.push({ location: doc.location, title, text, stems: new Set(), titleStems: new Set() });
  }
  // A heading of many pages, such as "Example", names none of them.
  const uses = new Map<string, number>();
  for (const { title } of docs) uses.set(title, (uses.get(title) ?? 0) + 1);
  for (const { location, title } of docs) if ((uses.get(title) ?? 0) <= HEADING_USES) addPhrase(location, plain(title), HEADING_WEIGHT);
  index.addAll([...pages.values()]);
  phraseIndex.addAll(phrases);
  for (const { title, headings, tasks, description, text } of pages.values())
    for (const word of wordsOf([title, headings, tasks, description, text].join(" "))) {
      const stem = stemOf(word);
      known.set(stem, (known.get(stem) ?? 0) + 1);
    }
}

/** Whether two words differ by one letter that is added, left out, wrong, or in the other order with its neighbour. */
function isSlip(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > 1) return false;
  let start = 0;
  while (start < one.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < Math.min(one.length, other.length) - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  const [left, right] = [one.slice(start, one.length - end), other.slice(start, other.length - end)];
  return (left.length <= 1 && right.length <= 1) || (left.length === 2 && left === [...right].reverse().join(""));
}

/** Returns the stem that a stem of no page was meant to be, the most frequent one; else the same. */
function corrected(stem: string): string {
  if (stem.length < 4 || known.has(stem) || groups.has(stem)) return stem;
  const meant = [...known].filter(([other]) => isSlip(stem, other));
  return meant.reduce((best, one) => (one[1] > best[1] ? one : best), [stem, 0] as [string, number])[0];
}

/** Whether a word of a question says what it is about: the numbers of a message that was pasted are those of one log. */
const isTelling = (word: string): boolean => !COMMON.has(word) && !/^\d{3,}$/.test(word);

/** Returns the words of a question as the pages spell them: "data frame" as one word, and "lossspike" as two. */
function respelled(words: string[]): string[] {
  const isKnown = (word: string): boolean => (known.get(stemOf(word)) ?? 0) >= OFTEN;
  const joined: string[] = [];
  for (const word of words) {
    const pair = `${joined.at(-1) ?? ""}${word}`;
    if (pair.length > word.length + 2 && word.length > 2 && isKnown(pair)) joined.splice(-1, 1, pair);
    else joined.push(word);
  }
  return joined.flatMap((word) => {
    if (word.length < 7 || known.has(stemOf(word)) || groups.has(stemOf(word))) return [word];
    const ends = Array.from({ length: word.length - 5 }, (_, at) => at + 3);
    const at = ends.find((end) => isKnown(word.slice(0, end)) && isKnown(word.slice(end)));
    return at === undefined ? [word] : [word.slice(0, at), word.slice(at)];
  });
}

/** Returns what is asked for as stems. Of a question of common words only, these are all there is. */
function asked(question: string): { stems: string[]; unfinished: string } {
  const words = wordsOf(question);
  const telling = words.filter(isTelling);
  const stems = respelled(telling.length ? telling : words).map(stemOf);
  const last = stems.at(-1) ?? "";
  const isUnfinished = !known.has(last) && [...known.keys()].some((stem) => stem.startsWith(last));
  const right = stems.map((stem, at) => (isUnfinished && at === stems.length - 1 ? stem : corrected(stem)));
  return { stems: [...new Set(right)], unfinished: isUnfinished ? last : "" };
}

/** A page that answers, the stems of it that were found, what they were found by, and the place on it that fits best. */
interface Found {
  page: Page;
  score: number;
  terms: string[];
  queryTerms: string[];
  place: string;
}

/** Returns the pages that answer, best first. */
function found(question: string): Found[] {
  const { stems, unfinished } = asked(question);
  const options = {
    tokenize: (text: string) => text.split(" "),
    processTerm: withGroups,
    boostTerm: (term: string) => (term.startsWith("=") ? SYNONYM_WEIGHT : 1),
    prefix: (term: string) => term === unfinished,
  };
  const has = (terms: string[]) => (stem: string) => withGroups(stem).some((term) => terms.includes(term));
  const best = new Map<string, { score: number; location: string }>();
  for (const { id, score, queryTerms } of phraseIndex.search(stems.join(" "), { ...options, bm25: PHRASE_BM25 })) {
    const phrase = phrases[id as number];
    if (!phrase) continue;
    const size = new Set(wordsOf(phrase.words).filter((word) => !COMMON.has(word)).map(stemOf)).size;
    const share = Math.min(1, stems.filter(has(queryTerms)).length / Math.max(1, size));
    const own = score * share ** PHRASE_SHARE * phrase.weight;
    if (own > (best.get(phrase.page)?.score ?? 0)) best.set(phrase.page, { score: own, location: phrase.location });
  }
  const name = question.toLowerCase();
  return index
    .search(stems.join(" "), { ...options, boost: WEIGHTS, bm25: BM25 })
    .flatMap(({ id, score, queryTerms, terms }) => {
      const page = pages.get(String(id));
      if (!page) return [];
      const phrase = best.get(page.id) ?? { score: 0, location: page.id };
      const cover = stems.filter(has(queryTerms)).length / stems.length;
      const weight = page.boost * (LOOKED_UP.test(page.id) ? LOOKED_UP_WEIGHT : 1) * cover;
      // The name of a kind or a page leads to it, whatever others say about it: "step" to "step (toy/v1)".
      const isNamed = page.title.toLowerCase().split(" (")[0] === name;
      const whole = isNamed ? Infinity : (score + PHRASE_WEIGHT * phrase.score) * weight;
      return [{ page, score: whole, terms, queryTerms, place: phrase.location }];
    })
    .sort((one, other) => (other.score > one.score ? 1 : other.score < one.score ? -1 : 0));
}

/** Returns the sections of a page that have the most of what was found: first the one of the phrase that fits best, then those that name it. */
function sectionsOf(page: Page, terms: string[], place: string): Section[] {
  for (const section of page.sections) {
    if (section.stems.size) continue;
    section.titleStems = new Set(wordsOf(section.title).map(stemOf));
    section.stems = new Set([...section.titleStems, ...wordsOf(section.text).map(stemOf)]);
  }
  const rarity = new Map(terms.map((term) => [term, 1 / (1 + page.sections.filter(({ stems }) => stems.has(term)).length)]));
  const worth = ({ location, stems, titleStems }: Section): number =>
    location === place
      ? Infinity
      : terms.reduce((sum, term) => sum + (rarity.get(term) ?? 0) * (titleStems.has(term) ? 3 : stems.has(term) ? 1 : 0), 0);
  return page.sections
    .filter(({ location }) => location.includes("#"))
    .map((section) => ({ section, own: worth(section) }))
    .filter(({ own }) => own > 0)
    .sort((one, other) => (other.own > one.own ? 1 : other.own < one.own ? -1 : 0))
    .slice(0, SHOWN_SECTIONS)
    .map(({ section }) => section);
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
  const telling = wordsOf(question).filter(isTelling);
  // The theme lists a result by its page, and below it the sections of the same score; the others are behind "more on this page".
  const items = found(question)
    .slice(0, SHOWN)
    .map(({ page, terms, queryTerms, place }, rank) => {
      const isFound = (word: string): boolean => terms.includes(stemOf(word.toLowerCase()));
      const isMet = (word: string): boolean => withGroups(corrected(stemOf(word))).some((term) => queryTerms.includes(term));
      const sections = sectionsOf(page, terms, place);
      const lead = page.description ? `<p>${marked(page.description, isFound)}</p>` : extract(page.text, isFound);
      return [{ location: page.id, title: page.title, text: "" }, ...sections].map(({ location, title, text }, at) => ({
        location,
        title: marked(title, isFound),
        text: at ? extract(text, isFound) : lead,
        score: SHOWN - rank - (at > BEST_SECTIONS ? 0.5 : 0),
        terms: Object.fromEntries(telling.map((word) => [word, isMet(word) || isFound(word)])),
      }));
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
    .then(read);
  return reading;
}

async function take({ type, data }: { type: number; data: unknown }): Promise<void> {
  if (type === 0) {
    const { docs } = data as { docs: Doc[] };
    if (docs.length) {
      read({ docs });
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
