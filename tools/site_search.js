// Appended to the search worker of the site by tools/site.py. The worker finds only sections that
// have all words as they are typed, and users ask in words of their own. So this ranks the sections
// itself (BM25 over title, page and text): words count by their stems, rare words count more, and a
// section without one of them is found, too.
(() => {
  const SHOWN = 10;
  const SATURATION = 1.2; // of a word that a section repeats
  const LENGTH = 0.4; // how much a long section loses
  const WEIGHTS = { title: 4, path: 2, text: 1 };
  const ELSEWHERE = 0.4; // of a word that another section of the page has
  const HEADING = 0.5; // added for a heading that is what was typed
  const AS_TYPED = 0.25; // of "windows" besides "window"
  const AS_PREFIX = 0.6; // of "configuration" for "config"
  const AS_SYNONYM = 0.5;
  const ADJACENT = 0.35; // of two words that follow each other in a title or a text as they were typed
  const REPEATED = 0.7; // of a further section of the same page
  const FOR_DEVELOPERS =
    /^(ARCHITECTURE|CHANGELOG|CONTRIBUTING|bench|tests|docs\/explanation\/(console|decisions|dependencies|freshness|glossary|native-lane|reliability))\b/;
  const EXAMPLES = /^examples\//; // code, which pages explain
  const LISTS = /^docs\/index/; // they have the words of all pages, and no answers
  const FILLERS = new Set(
    "a about all am an and any are as at be been but by can can't cannot could did do does doesn't don't for from get gets getting give has have how i if in into is it its me my not of on or our please set should so some such than that the their them then there they this to up us use using want was way we what when where which while who why will with without work works would you your".split(" "),
  );
  // What users call it: a word finds the others of its line, too.
  const SYNONYMS = `
    administrator admin root superuser
    aggregate aggregation pipeline
    anonymous public unauthenticated guest
    append push
    authentication auth login signin
    change modify edit
    collection table
    column field property attribute key
    bulk many multiple batch
    comparison compare difference versus vs alternative
    connection econnrefused connect
    contains substring includes like ilike regex wildcard
    count total number
    crash unavailable
    database db
    debug verbose explain trace
    delete remove drop
    document row record item entity
    endpoint path uri url
    environment env
    error fault failure
    expired expiry
    hide exclude mask conceal
    insert create add
    geo near nearby location radius distance
    join relation relationship populate embed
    kubernetes k8s helm
    limit maximum max
    notification notify webhook event
    option setting configuration config
    order sort
    password credentials
    permission rule acl policy authorization access
    realtime live subscription
    rename alias
    stream watch listen
    timestamp date datetime
    typescript codegen
    websocket ws socket`;

  const search = self.onmessage;
  let sections = [];
  let sectionsOfWords = new Map(); // of each stem: how often each section has it
  let pagesOfWords = new Map();
  let meanLength = 1;

  const split = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+(?:'(?=[a-z])[a-z]+)?/gu) ?? [];
  const cut = (word, end, least) => {
    const short = word.replace(end, "");
    return short.length < least ? word : short;
  };
  const stem = (word) => {
    let short = cut(word, /(?:ies|y)$/, 3);
    short = cut(short, /(?:ations?|at(?:e|es|ed|ing|ors?))$/, 4);
    short = cut(short, /(?:ions?|ings?|ed|es|e|(?<![su])s)$/, 3);
    return short.replace(/([bdgmnprt])\1$/, "$1");
  };

  // Stems, and pairs of stems; "back up" in a title is also "backup".
  const splitStems = (html) => {
    const words = split(withoutTags(html));
    const stems = words.map(stem);
    const pairs = stems.slice(1).map((second, at) => `${stems[at]} ${second}`);
    const compounds = words.slice(1).map((second, at) => stem(words[at] + second));
    return [...stems, ...words.map((word) => `=${word}`), ...pairs, ...compounds];
  };

  const synonyms = new Map();
  for (const line of SYNONYMS.trim().split("\n")) {
    const words = line.trim().split(" ").map(stem);
    for (const word of words) synonyms.set(word, words.filter((other) => other !== word));
  }

  const withoutTags = (html) => html.replace(/<[^>]*>|&\w+;/g, (tag) => " ".repeat(tag.length));

  const readIndex = ({ items }) => {
    sectionsOfWords = new Map();
    pagesOfWords = new Map();
    sections = items.map(({ location, title, path, text }, id) => {
      const page = location.split("#")[0];
      const parts = { title, path: path?.at(-1) ?? "", text };
      let length = 0;
      for (const [name, part] of Object.entries(parts))
        for (const word of splitStems(part)) {
          const counts = getOrAdd(sectionsOfWords, word, () => new Map());
          counts.set(id, (counts.get(id) ?? 0) + WEIGHTS[name]);
          if (!/[ =]/.test(word)) getOrAdd(pagesOfWords, word, () => new Set()).add(page);
          length += name === "text";
        }
      const heading = split(withoutTags(title)).filter((word) => !FILLERS.has(word));
      return { page, isPage: !location.includes("#"), length, heading, path: path ?? [], title, text };
    });
    meanLength = sections.reduce((sum, { length }) => sum + length, 0) / sections.length || 1;
  };

  const getOrAdd = (map, key, make) => map.get(key) ?? map.set(key, make()).get(key);

  // The words of the index that a typed word means, each with its weight.
  const expand = (word) => {
    const stemmed = stem(word);
    const meant = new Map([[stemmed, 1]]);
    if (stemmed.length > 2)
      for (const other of sectionsOfWords.keys())
        if (other !== stemmed && other.startsWith(stemmed) && !other.includes(" ")) meant.set(other, AS_PREFIX);
    for (const other of synonyms.get(stemmed) ?? []) meant.set(other, AS_SYNONYM);
    return meant;
  };

  // Of each section, how well it fits one typed word, from 0 to 1.
  const rate = (meant) => {
    const counts = new Map();
    const pages = new Map();
    for (const [word, weight] of meant) {
      for (const [id, count] of sectionsOfWords.get(word) ?? [])
        counts.set(id, (counts.get(id) ?? 0) + count * weight);
      for (const page of pagesOfWords.get(word) ?? [])
        pages.set(page, Math.max(pages.get(page) ?? 0, weight));
    }
    const [[typed]] = meant;
    const common = sectionsOfWords.get(typed)?.size ?? counts.size;
    const rarity = Math.log(1 + sections.length / (1 + common));
    return sections.map(({ page, length }, id) => {
      const count = (counts.get(id) ?? 0) / (1 - LENGTH + (LENGTH * length) / meanLength);
      const inSection = count / (count + SATURATION);
      return rarity * Math.max(inSection, ELSEWHERE * (pages.get(page) ?? 0));
    });
  };

  const rateHeading = (heading, typed, meant) =>
    Math.max(0, ...heading.map((word) => (word === typed ? 1 : 0.8 * (meant.get(stem(word)) ?? 0))));

  const weigh = (rating, weight) => rating.map((value) => value * weight);

  const rank = (words) => {
    const meanings = words.map(expand);
    const ratings = meanings.map(rate);
    for (const word of words) ratings.push(weigh(rate(new Map([[`=${word}`, 1]])), AS_TYPED));
    for (let at = 1; at < words.length; at++) {
      const pair = new Map([[`${stem(words[at - 1])} ${stem(words[at])}`, 1]]);
      ratings.push(weigh(rate(pair), ADJACENT));
    }
    const scores = sections.map(({ page, heading, isPage }, id) => {
      const inHeading = words.map((word, at) => rateHeading(heading, word, meanings[at]));
      const total = inHeading.reduce((sum, rating) => sum + rating, 0);
      // A page is about more than its first word: "Logging: format, levels, events".
      const length = isPage ? Math.min(heading.length, words.length + 1) : heading.length;
      const likeness = ((isPage ? 3 : 2) * total) / (length + words.length);
      const sum = ratings.reduce((total, rating) => total + rating[id], 0) * (1 + HEADING * likeness);
      if (FOR_DEVELOPERS.test(page) || LISTS.test(page)) return sum / 2;
      return EXAMPLES.test(page) ? sum * 0.7 : sum;
    });
    const ids = [...scores.keys()].filter((id) => scores[id] > 0);
    ids.sort((one, other) => scores[other] - scores[one]);
    const pages = new Map();
    for (const id of ids.slice(0, 5 * SHOWN)) {
      const before = pages.get(sections[id].page) ?? 0;
      scores[id] *= REPEATED ** before;
      pages.set(sections[id].page, before + 1);
    }
    return ids.slice(0, 5 * SHOWN).sort((one, other) => scores[other] - scores[one]).slice(0, SHOWN);
  };

  // The places that the page marks; `value` is how many characters were typed.
  const mark = (field, text, stems) => {
    const ranges = [];
    for (const { 0: word, index } of withoutTags(text).matchAll(/[\p{L}\p{N}]+/gu))
      if (stems.some((one) => stem(word.toLowerCase()).startsWith(one)))
        ranges.push({ start: index, end: index + word.length, value: word.length });
    return { field, value: { highlight: { ranges } } };
  };

  const describe = (id, stems) => {
    const { title, path, text } = sections[id];
    const matches = [
      mark("title", title, stems),
      mark("path", path.join(""), stems),
      mark("text", text, stems),
    ];
    return { id, matches: matches.filter(({ value }) => value.highlight.ranges.length) };
  };

  const answer = (input, reply) => {
    const typed = split(input.replace(/\d+(?:\.\d+){3}/g, "")); // addresses are everyone's own
    const words = typed.filter((word) => !FILLERS.has(word));
    if (reply.type !== 3 || !typed.length) return reply;
    const chosen = words.length ? words : typed;
    const items = rank(chosen).map((id) => describe(id, chosen.map(stem)));
    return { ...reply, data: { ...reply.data, items, pagination: { total: items.length } } };
  };

  const ask = (data) =>
    new Promise((resolve) => {
      const post = self.postMessage;
      self.postMessage = (reply) => {
        self.postMessage = post;
        resolve(reply);
      };
      search({ data });
    });

  // One message after the other: the worker replies to each by `postMessage`.
  let pending = Promise.resolve();
  self.onmessage = ({ data }) => {
    pending = pending.then(async () => {
      if (data.type === 0) readIndex(data.data);
      const input = data.type === 2 ? String(data.data.input) : "";
      const reply = await ask(data);
      self.postMessage(input.trim() ? answer(input, reply) : reply);
    });
  };
})();
