// Search the site as its pages do: node search.mjs WORKER INDEX < queries (JSON) > locations (JSON)
import { readFileSync } from "node:fs";
import vm from "node:vm";

const [worker, path] = process.argv.slice(2);
const index = JSON.parse(readFileSync(path, "utf8"));
const self = {};
vm.runInNewContext(readFileSync(worker, "utf8"), { self, Intl });

// The messages of the worker: 0 loads the index and 1 confirms it; 2 is a query and 3 its result.
const send = (message) =>
  new Promise((resolve) => {
    self.postMessage = resolve;
    self.onmessage({ data: message });
  });

const search = async (input) => {
  const data = { input, filter: { input: [], aggregation: { input: [] } } };
  const reply = await send({ type: 2, data });
  return reply.data.items.map((item) => index.items[item.id].location);
};

const loaded = await send({ type: 0, data: index });
if (loaded.type !== 1) throw new Error("the worker does not load the index");
const found = {};
for (const query of JSON.parse(readFileSync(0, "utf8"))) found[query] = await search(query);
console.log(JSON.stringify(found));
