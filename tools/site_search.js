// Appended to the search worker of the site by tools/site.py. The worker finds only sections that
// contain all words as they are typed. If these are few, this adds sections that contain the stems
// of all words, then of all words but one, and so on. Pages for developers come after the others.
(() => {
  const ENOUGH = 10; // results of one page of the worker
  const MOST_WORDS = 6;
  const FOR_DEVELOPERS =
    /^(ARCHITECTURE|CHANGELOG|CONTRIBUTING|bench|tests|docs\/explanation\/(decisions|dependencies|glossary))\b/;
  const FILLERS = new Set(
    "a an and are as at be by can do does for from get has have how i if in is it me my not of on once or set so the to use using want what when where which who why will with you your".split(" "),
  );
  const search = self.onmessage;
  let pending = Promise.resolve();
  let locations = [];

  const ask = (data) =>
    new Promise((resolve) => {
      const post = self.postMessage;
      self.postMessage = (reply) => {
        self.postMessage = post;
        resolve(reply);
      };
      search({ data });
    });

  // Words are searched as prefixes, so a shorter word finds more.
  const stem = (word) =>
    [/(?:ies|y)$/, /(?:ing|ed|es|e|s)$/].reduce(
      (stem, end) => (stem.replace(end, "").length > 2 ? stem.replace(end, "") : stem),
      word,
    );

  const leaveOut = (words, count) =>
    count === 0
      ? [words]
      : words.flatMap((_, at) =>
          leaveOut(words.slice(at + 1), count - 1).map((rest) => [...words.slice(0, at), ...rest]),
        );

  const isForDevelopers = ({ id }) => FOR_DEVELOPERS.test(locations[id]);

  const order = (items) => [
    ...items.filter((item) => !isForDevelopers(item)),
    ...items.filter(isForDevelopers),
  ];

  // Sections that several of the queries find come first, and those of a query that finds few.
  const merge = (replies) => {
    const found = new Map();
    for (const { items, pagination } of replies)
      items.forEach((item, rank) => {
        const entry = found.get(item.id) ?? { item, score: 0 };
        entry.score += 1 / (rank + 2) / Math.log(pagination.total + 2);
        found.set(item.id, entry);
      });
    const sorted = [...found.values()].sort((one, other) => other.score - one.score);
    return order(sorted.map(({ item }) => item));
  };

  // "how to hide a field" is "hide field"; a query of such words only stays as it is.
  const dropFillers = (input) => {
    const words = input.split(/\s+/).filter((word) => !FILLERS.has(word.toLowerCase()));
    return words.join(" ").trim() ? words.join(" ") : input;
  };

  const query = (data, input) => ask({ type: 2, data: { ...JSON.parse(data), input } });

  const relax = async (data, reply) => {
    const typed = dropFillers(JSON.parse(data).input).toLowerCase();
    const words = typed.split(/[\s\-_,:!=[\]()\\"`/?]+|\.(?!\d)/).filter(Boolean).slice(0, MOST_WORDS).map(stem);
    const items = new Map(order(reply.data.items).map((item) => [item.id, item]));
    for (let count = 0; count < words.length && items.size < ENOUGH; count++) {
      const replies = [];
      for (const rest of leaveOut(words, count))
        replies.push((await query(data, rest.join(" "))).data);
      for (const item of merge(replies)) if (!items.has(item.id)) items.set(item.id, item);
    }
    const shown = [...items.values()].slice(0, ENOUGH);
    return { ...reply, data: { ...reply.data, items: shown, pagination: { total: shown.length } } };
  };

  const answer = async (message) => {
    if (message.type === 0) locations = message.data.items.map(({ location }) => location);
    if (message.type !== 2 || !String(message.data.input).trim())
      return self.postMessage(await ask(message));
    const data = JSON.stringify(message.data); // the worker changes the query
    const reply = await query(data, dropFillers(message.data.input));
    const isComplete = reply.type !== 3 || reply.data.pagination.total >= ENOUGH;
    if (isComplete && reply.data) reply.data.items = order(reply.data.items);
    self.postMessage(isComplete ? reply : await relax(data, reply));
  };

  self.onmessage = ({ data }) => {
    pending = pending.then(() => answer(data));
  };
})();
