// Answers the search of the site in place of the theme's worker: whole questions, by the words in them that say something.
// The theme asks {type: 0, data: index} once and {type: 2, data: question} as one types; it is answered {type: 1} and {type: 3}.
(() => {
  "use strict";

  // Words of questions that say nothing about their subject.
  const FILLING = new Set(
    (
      "a about actually after again all already also always am an and another anything any are as at be because been before being best but by can could did do does doing done else " +
      "each easily either enough ever every everything exactly few finally for from get gets getting give going good got had has have having he help how i if in into is it its just keep know let like " +
      "made make makes making many may me mean means might more most much must my need needs no not now of off on one " +
      "once only or other our out over own please possible problem properly put quickly really right seem seems several simple simply somehow someone something sometimes soon specific still sure same see should show since so some such take tell than that the their " +
      "them then there thing these they thing things this those through to too toyspec up us use used useful user usually uses using very want wants was way " +
      "we were what when where which while who whose why will with without work works would you your"
    ).split(" "),
  );

  // What people write for one thing. A page has its own in `tags`; these hold for every page.
  const ALIKE = [
    "account login signup register",
    "alert notification notify warn",
    "average mean",
    "bucket cloud s3 gcs azure",
    "chart plot graph curve draw visualize visualise",
    "checksum hash sha256 digest",
    "colour color",
    "comment note annotation annotate",
    "compare versus vs difference differ",
    "config setting hyperparameter parameter hparam",
    "continue resume restart",
    "corrupt broken damage invalid",
    "crash kill die",
    "dashboard viewer ui gui",
    "dataframe pandas",
    "delete remove erase",
    "error failure fail",
    "experiment run",
    "gpu cuda",
    "hang stall stuck freeze frozen",
    "image picture photo",
    "internet network offline online",
    "live realtime",
    "metric scalar",
    "notebook jupyter colab",
    "preempt evict interrupt",
    "rank worker",
    "rename relabel",
    "speed fast slow overhead performance latency",
    "upload push send publish",
    "validate check verify lint",
  ].map((line) => line.split(" ").map(stem));

  const ALIKE_WEIGHT = 0.5; // of a word beside the one that was written
  const FIELDS = { title: 6, heading: 2, text: 1 };
  const SATURATION = 1.2; // a word counts hardly more for being repeated: BM25
  const LENGTH = 0.6;
  const TITLE = 2; // what a title and the tags of a page weigh beside its text
  const TAG = 8;
  const SHOWN = 30;

  // Pages that are looked up rather than read: a question leads to one of them if no page for people answers it as well.
  const LOOKED_UP = /^(changelog|conformance|downloads|implementations|requirements|spec|reference\/(conformance|formats|registry))\//;
  const LOOKED_UP_WEIGHT = 0.7;

  /** Returns what a word has in common with its other forms: logs, logging and logger become log. */
  function stem(word) {
    let found = word;
    if (found.length > 3) found = found.replace(/ies$/, "y").replace(/(ss|sh|ch|x)es$/, "$1").replace(/([^su])s$/, "$1");
    if (found.length > 5) found = found.replace(/(ation|ition|ption|tion|sion|ing|ment|ed|er|or|ly)$/, (end) => ({ ption: "p", tion: "t" })[end] ?? "");
    if (found.length > 3) found = found.replace(/e$/, "").replace(/([^aeiouls])\1$/, "$1");
    return found.length < 3 ? word : found;
  }

  /** Returns the words of a text in lower case; the parts of `a_b` count beside it. */
  function wordsOf(text) {
    const found = text.toLowerCase().replaceAll("c++", "cpp").match(/[\p{L}\p{N}_]+(?:\.[\p{L}\p{N}_]+)*/gu) ?? [];
    return found.flatMap((word) => (/[._]/.test(word) ? [word, ...word.split(/[._]/).filter(Boolean)] : [word]));
  }

  const plain = (html) =>
    html
      .replace(/<[^>]*>/g, " ")
      .replace(/&lt;/g, "<")
      .replace(/&gt;/g, ">")
      .replace(/&quot;/g, '"')
      .replace(/&#39;/g, "'")
      .replace(/&amp;/g, "&");
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  /** Returns the words that have to be asked for; of "see runs" both, since "runs" alone would be half of all questions. */
  function tagOf(tag) {
    const words = wordsOf(tag);
    const telling = words.filter((word) => !FILLING.has(word));
    return [...new Set((telling.length > 1 || words.length === 1 ? telling : words).map(stem))];
  }

  /** Counts the words of a text into a map. */
  function count(counts, text, weight) {
    for (const word of wordsOf(text)) {
      const name = stem(word);
      counts.set(name, (counts.get(name) ?? 0) + weight);
    }
  }

  let pages = []; // {location, parts: [{doc, counts}], counts, size, tags, boost, title}
  let rarity = new Map(); // by stem: how much it says
  let names = []; // words of titles, for what is typed half
  let middle = 1; // size of a page, and of a part of it
  let middlePart = 1;

  function read(docs) {
    const byPage = new Map();
    for (const doc of docs) {
      const location = doc.location.split("#")[0];
      let page = byPage.get(location);
      if (!page) byPage.set(location, (page = { location, parts: [], counts: new Map(), tags: [], boost: doc.boost ?? 1, title: "" }));
      const part = { doc, title: plain(doc.title), text: plain(doc.text), counts: new Map() };
      const isPage = !doc.location.includes("#");
      count(part.counts, part.title, isPage ? FIELDS.title : FIELDS.heading);
      count(part.counts, part.text, FIELDS.text);
      if (isPage) {
        page.title = part.title;
        page.tags = (doc.tags ?? []).map(tagOf);
      }
      for (const [word, times] of part.counts) page.counts.set(word, (page.counts.get(word) ?? 0) + times);
      page.parts.push(part);
    }
    pages = [...byPage.values()];
    const found = new Map();
    for (const page of pages) {
      page.size = sizeOf(page.counts);
      for (const part of page.parts) part.size = sizeOf(part.counts);
      for (const word of new Set([...page.counts.keys(), ...page.tags.flat()])) found.set(word, (found.get(word) ?? 0) + 1);
    }
    middle = pages.reduce((sum, page) => sum + page.size, 0) / (pages.length || 1);
    const parts = pages.flatMap((page) => page.parts);
    middlePart = parts.reduce((sum, part) => sum + part.size, 0) / (parts.length || 1);
    rarity = new Map([...found].map(([word, times]) => [word, Math.log(1 + (pages.length - times + 0.5) / (times + 0.5))]));
    names = [...new Set(pages.flatMap((page) => wordsOf(page.parts.map((part) => part.title).join(" "))))].sort();
  }

  const sizeOf = (counts) => [...counts.values()].reduce((sum, times) => sum + times, 0);

  /** Tells whether two words differ by one letter, or by two that changed places. */
  function isNear(one, other) {
    if (Math.abs(one.length - other.length) > 1) return false;
    let from = 0;
    while (from < one.length && one[from] === other[from]) from++;
    let end = 0;
    while (end < Math.min(one.length, other.length) - from && one.at(-1 - end) === other.at(-1 - end)) end++;
    const [left, right] = [one.slice(from, one.length - end), other.slice(from, other.length - end)];
    return Math.max(left.length, right.length) <= 1 || (left.length === 2 && left[0] === right[1] && left[1] === right[0]);
  }

  /** Returns the words of the index that stand for a word of a question, with their weights; the last is typed half. */
  function meant(word, isLast) {
    const name = stem(word);
    const found = new Map();
    if (rarity.has(name)) found.set(name, 1);
    for (const group of ALIKE) {
      if (group.includes(name)) for (const other of group) if (!found.has(other) && rarity.has(other)) found.set(other, ALIKE_WEIGHT);
    }
    if (isLast && word.length > 1 && !found.has(name)) {
      for (const other of rarity.keys()) if (!found.has(other) && other.startsWith(name)) found.set(other, 0.8);
    }
    if (found.size === 0 && name.length > 3) {
      for (const other of rarity.keys()) if (isNear(name, other)) found.set(other, 0.7);
    }
    return found;
  }

  /** Returns how well counted words answer what was meant by a question, with the share of it that they answer. */
  function scored(terms, counts, length) {
    let score = 0;
    let covered = 0;
    for (const { found, rare } of terms) {
      let best = 0;
      for (const [word, weight] of found) {
        const times = counts.get(word);
        if (times) {
          const value = (times * (SATURATION + 1)) / (times + SATURATION * (1 - LENGTH + LENGTH * length));
          best = Math.max(best, weight * value * rarity.get(word));
        }
      }
      score += best;
      covered += best > 0 ? rare : 0;
    }
    return [score, covered];
  }

  /** Returns the worth of the tags of a page: one counts if all its words are asked for, fully if nothing else is. */
  function tagged(page, terms, whole, fillings) {
    let best = 0;
    for (const tag of page.tags) {
      let sum = 0;
      for (const word of tag) {
        const term = terms.find(({ found }) => found.has(word));
        if (!term && !fillings.has(word)) {
          sum = 0;
          break;
        }
        sum += term ? term.rare * term.found.get(word) : 0;
      }
      best = Math.max(best, sum * (0.4 + 0.6 * (sum / whole)));
    }
    return best;
  }

  function answer(question) {
    const words = [...new Set(wordsOf(question))];
    const telling = words.filter((word) => !FILLING.has(word));
    const asked = telling.length ? telling : words;
    const terms = asked
      .map((word, at) => ({ word, found: meant(word, at === asked.length - 1 && /\S$/.test(question)) }))
      .filter(({ found }) => found.size)
      .map((term) => ({ ...term, rare: Math.max(...[...term.found].map(([word, weight]) => weight * rarity.get(word))) }));
    const whole = terms.reduce((sum, { rare }) => sum + rare, 0);
    if (!whole) return { items: [] };
    const fillings = new Set(words.filter((word) => FILLING.has(word)).map(stem));
    const typed = question.trim().toLowerCase();
    const missing = Object.fromEntries(asked.map((word) => [word, false]));
    const found = [];
    for (const page of pages) {
      const [score, covered] = scored(terms, page.counts, page.size / middle);
      const [named, inTitle] = scored(terms, titleOf(page), 1);
      const together = Math.max(...page.parts.map((part) => worthOf(part, terms, whole)));
      const worth = tagged(page, terms, whole, fillings);
      if (!score && !worth) continue;
      const isNamed = page.title.toLowerCase().split(" (")[0] === typed;
      const boost = page.boost * (LOOKED_UP.test(page.location) ? LOOKED_UP_WEIGHT : 1);
      const read = boost * (score * (covered / whole) ** 2 + together);
      const meantFor = page.boost * (TITLE * named * (inTitle / whole) + TAG * worth);
      found.push({ page, score: read + meantFor + (isNamed ? 1000 : 0) });
    }
    found.sort((one, other) => other.score - one.score);
    return {
      items: found.slice(0, SHOWN).map(({ page, score }) => shown(page, score, terms, missing)),
      suggest: completed(words.at(-1)),
    };
  }

  /** Returns how well one part of a page answers all that was asked. */
  function worthOf(part, terms, whole) {
    const [score, covered] = scored(terms, part.counts, part.size / middlePart);
    return score * (covered / whole) ** 2;
  }

  function titleOf(page) {
    if (!page.titleCounts) count((page.titleCounts = new Map()), page.title, 1);
    return page.titleCounts;
  }

  function completed(last) {
    const name = last && names.find((one) => one.startsWith(last));
    return name ? [name] : [];
  }

  /** Returns a page and its sections that answer, as the theme shows them: the best part first, at most three others. */
  function shown(page, score, terms, missing) {
    const parts = page.parts
      .map((part) => ({ part, own: scored(terms, part.counts, part.size / middlePart)[0] }))
      .sort((one, other) => other.own - one.own);
    const whole = page.parts.find(({ doc }) => !doc.location.includes("#")) ?? page.parts[0];
    const kept = parts.filter(({ part, own }, at) => part === whole || (own > 0 && at < 5));
    return kept.map(({ part }, at) => ({
      location: part.doc.location,
      title: marked(part.title, terms),
      text: extract(part.text, terms),
      score: score / (1 + Math.floor(at / 4)),
      terms: { ...missing, ...Object.fromEntries(terms.map(({ word, found }) => [word, [...found.keys()].some((one) => page.counts.has(one)) || page.tags.some((tag) => tag.some((one) => found.has(one)))])) },
    }));
  }

  const isMeant = (word, terms) => terms.some(({ found }) => found.has(stem(word.toLowerCase())));

  function marked(text, terms) {
    return text
      .split(/([\p{L}\p{N}_]+)/u)
      .map((piece, at) => (at % 2 && isMeant(piece, terms) ? `<mark data-md-highlight>${escaped(piece)}</mark>` : escaped(piece)))
      .join("");
  }

  /** Returns the stretch of a text that has the most of what was meant. */
  function extract(text, terms) {
    const pieces = text.trim().split(/\s+/);
    const width = 32;
    const hits = pieces.map((piece) => (isMeant(piece.replace(/[^\p{L}\p{N}_]/gu, ""), terms) ? 1 : 0));
    let [best, most, sum] = [0, -1, 0];
    for (let at = 0; at < pieces.length; at++) {
      sum += hits[at] - (hits[at - width] ?? 0);
      if (sum > most) [best, most] = [Math.max(0, at - width + 1), sum];
    }
    const start = Math.min(best, Math.max(0, pieces.length - width));
    const cut = marked(pieces.slice(start, start + width).join(" "), terms);
    return `<p>${start ? "… " : ""}${cut}${start + width < pieces.length ? " …" : ""}</p>`;
  }

  // The pages come with the first question: who only reads does not load them.
  let reading;
  function ready() {
    reading ??= fetch(new URL("../search/pages.json", self.location.href))
      .then((response) => response.json())
      .then(({ docs }) => read(docs));
    return reading;
  }

  self.addEventListener("message", async ({ data: { type, data } }) => {
    if (type === 0) {
      if (data.docs.length) {
        read(data.docs);
        reading = Promise.resolve();
      }
      self.postMessage({ type: 1 });
    } else if (type === 2 && data.trim()) {
      await ready();
      self.postMessage({ type: 3, data: answer(data) });
    } else if (type === 2) {
      self.postMessage({ type: 3, data: { items: [] } });
    }
  });
})();
