// Runs every audit of graphql-http against the address in argv[2]; prints the outcomes as JSON.
import { serverAudits } from 'graphql-http';

const outcomes = {};
for (const audit of serverAudits({ url: process.argv[2], fetchFn: fetch })) {
  const result = await audit.fn();
  outcomes[audit.id] = {
    name: audit.name,
    status: result.status,
    reason: result.status === 'ok' ? null : String(result.reason),
  };
}
console.log(JSON.stringify(outcomes));
