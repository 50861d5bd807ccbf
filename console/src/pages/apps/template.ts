/** What a new app begins with. */

import type { Version } from "./work.js";

const schema = `# What clients can ask. Each field of Query is one question.
type Query {
  "The newest things first"
  things(first: Int = 10): [Thing]
  "One thing by its id"
  thing(id: ID!): Thing
}

# What they get. A field reads the property of its own name,
# unless the mappings say something else.
type Thing {
  _id: ID
  name: String
}
`;

const mappings = `# Where the values come from. Comments in here are not stored.
Query:
  things:
    db: docgraph
    collection: things
    sort: {_id: -1}
    limit: {$arg: first}
  thing:
    db: docgraph
    collection: things
    find: {_id: {$arg: id}}

# Thing:
#   name: title            a property of another name
#   owner:                 a document of another collection
#     db: docgraph
#     collection: people
#     find: {_id: {$fk: ownerId}}
`;

const descriptor = `description: What this app is about
enabled: true
# uri: /v1/things          where it is served; without it, at its name
`;

export const newVersion: Version = { etag: null, texts: { schema, mappings, descriptor }, others: [] };
